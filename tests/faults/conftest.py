"""A server to harm, and joins over a table of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.bench.mariadb import PrivateMariaDB
from semistream.stores.mysql import MySQLStore, Password, Patience

MASTER = pa.table({"k": np.arange(0, 6000, 2), "v": np.arange(3000) * 7})
STREAM = pa.table({"k": np.random.default_rng(4).permutation(6000)[:3000], "id": np.arange(3000)})
# Short, so that a frozen server is noticed soon; long enough for a busy test machine.
QUICK = Patience(connect_timeout_s=5, read_timeout_s=1)


@pytest.fixture(scope="session")
def harmed(private_mariadb: type[PrivateMariaDB]) -> Iterator[PrivateMariaDB]:
    """One server for all tests of a worker, with the master in the table `products`."""
    with private_mariadb() as server:
        with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE products (k BIGINT PRIMARY KEY, v BIGINT NOT NULL)")
            rows = list(zip(*MASTER.to_pydict().values(), strict=True))
            cursor.executemany("INSERT INTO products VALUES (%s, %s)", rows)
            cursor.execute("CREATE TABLE loose (k BIGINT, v BIGINT)")
        yield server


@pytest.fixture
def server(harmed: PrivateMariaDB) -> Iterator[PrivateMariaDB]:
    """That server, running when the test begins and when it ends."""
    yield harmed
    if harmed.is_running:
        harmed.resume()
    else:
        harmed.restart()


class Waits:
    """Stands in for `time.sleep` between attempts: counts them, and `then` heals the server."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.count, self._then = 0, then

    def __call__(self, seconds: float) -> None:
        self.count += 1
        if self.count == 1:
            self._then()


@pytest.fixture
def opened(server: PrivateMariaDB) -> Iterator[Callable[..., MySQLStore]]:
    """Opens a table of the server in partitions of 50 rows; closed after the test."""
    stores: list[MySQLStore] = []

    def open_store(table: str = "products", port: int = 0, **options: Any) -> MySQLStore:
        url = f"mysql://{server.user}@{server.host}:{port or server.port}/{server.database}/{table}"
        options = {
            "password": Password(server.password),
            "partition_rows": 50,
            "patience": QUICK,
            **options,
        }
        stores.append(MySQLStore.open(url, ["k"], **options))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()
