"""Every law runs over every kind of store and every algorithm there is.

A store is added by one class in `stores.STORES`; an algorithm by registering it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from semistream import algorithms, open_join
from semistream.joins.core import SemiStreamJoin
from semistream.stores.protocol import MasterStore
from tests.conformance.oracle import Given, Pairs, assert_same, collect, split, wanted
from tests.conformance.stores import STORES, MySQLTables, Stores

_NEEDS_SERVER = {"mysql": [pytest.mark.mariadb]}


@pytest.fixture(scope="session")
def mysql_tables(mariadb) -> Iterator[MySQLTables]:
    tables = MySQLTables(mariadb)
    yield tables
    tables.close()


@pytest.fixture(params=[pytest.param(name, marks=_NEEDS_SERVER.get(name, ())) for name in STORES])
def stores(request: pytest.FixtureRequest) -> Stores:
    """One kind of store."""
    return STORES[request.param](request)


@pytest.fixture(params=algorithms())
def algorithm(request: pytest.FixtureRequest) -> str:
    return request.param


class Joiner:
    """Runs one algorithm over one kind of store."""

    def __init__(self, stores: Stores, algorithm: str) -> None:
        self.stores, self.algorithm = stores, algorithm
        self._made: list[MasterStore] = []
        self._joins: list[SemiStreamJoin] = []

    def make_store(
        self, master: pa.Table, key: Sequence[str], partition_bytes: int = 2048
    ) -> MasterStore:
        self._made.append(self.stores.make(master, key, partition_bytes))
        return self._made[-1]

    def open(
        self, store: MasterStore, stream: pa.Schema, on: Pairs, **options: Any
    ) -> SemiStreamJoin:
        options = {"memory": "1MB", **options}
        self._joins.append(open_join(store, stream, on, algorithm=self.algorithm, **options))
        return self._joins[-1]

    def close(self) -> None:
        for each in (*self._joins, *self._made):
            each.close()

    def run(
        self,
        master: pa.Table | MasterStore,
        stream: pa.Table,
        on: Pairs = (("k", "k"),),
        *,
        sizes: Sequence[int] = (97,),
        partition_bytes: int = 2048,
        **options: Any,
    ) -> Given:
        store = master
        if isinstance(master, pa.Table):
            store = self.make_store(master, [theirs for _, theirs in on], partition_bytes)
        join = self.open(store, stream.schema, on, **options)
        return collect(join, join.run(split(stream, sizes)))

    def check(
        self, master: pa.Table, stream: pa.Table, on: Pairs = (("k", "k"),), **options: Any
    ) -> Given:
        """Run and compare with DuckDB, both modes."""
        for how in ("left", "inner"):
            given = self.run(master, stream, on, how=how, **options)
            assert_same(given, wanted(master, stream, on, how))
        return given


@pytest.fixture
def joiner(stores: Stores, algorithm: str) -> Iterator[Joiner]:
    joiner = Joiner(stores, algorithm)
    yield joiner
    joiner.close()


@pytest.fixture
def make_store(request: pytest.FixtureRequest) -> Any:
    """Stores of Arrow files, for laws that do not depend on the kind of store."""
    return STORES["arrow"](request).make
