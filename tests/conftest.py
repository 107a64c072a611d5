"""Fixtures and settings for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from semistream.bench.mariadb import PrivateMariaDB, find_programs
from semistream.errors import InputError

IN_CI = os.environ.get("CI") == "true"

# No deadline: the first example of a test may compile a kernel.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if IN_CI else "dev"))

MARIADB_FIXTURES = {"mariadb", "own_mariadb", "private_mariadb"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a server, so that `-m 'not mariadb'` cannot miss a test."""
    for item in items:
        if MARIADB_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.mariadb)


def _require_mariadb() -> None:
    try:
        find_programs()
    except InputError as error:
        if IN_CI:
            pytest.fail(f"CI=true must run the MariaDB tests: {error}", pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def private_mariadb() -> type[PrivateMariaDB]:
    """Makes servers, for fixtures that need one of their own."""
    _require_mariadb()
    return PrivateMariaDB


@pytest.fixture(scope="session")
def mariadb() -> Iterator[PrivateMariaDB]:
    """A server shared by the tests of one worker: leave it running, use your own tables."""
    _require_mariadb()
    with PrivateMariaDB() as server:
        yield server


@pytest.fixture
def own_mariadb() -> Iterator[PrivateMariaDB]:
    """A server for one test, to stop, kill or pause as it likes."""
    _require_mariadb()
    with PrivateMariaDB() as server:
        yield server
