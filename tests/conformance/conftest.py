"""Every law runs over every kind of store and every algorithm there is.

A store is added by one function in `_FACTORIES`; an algorithm by registering it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semistream import ArrowStore, algorithms, build_arrow_store, open_join
from semistream.stores.protocol import MasterStore
from tests.conformance.oracle import Given, Pairs, assert_same, collect, split, wanted

MakeStore = Callable[..., MasterStore]


def _arrow_stores(request: pytest.FixtureRequest) -> MakeStore:
    folder: Path = request.getfixturevalue("tmp_path")
    number = itertools.count()

    def make(master: pa.Table, key: Sequence[str], partition_bytes: int = 2048) -> ArrowStore:
        path = folder / f"master{next(number)}"
        batches = master.to_batches(max_chunksize=500)
        build_arrow_store(path, batches, master.schema, key, partition_bytes=partition_bytes)
        return ArrowStore.open(path)

    return make


_FACTORIES: dict[str, Callable[[pytest.FixtureRequest], MakeStore]] = {"arrow": _arrow_stores}


@pytest.fixture(params=_FACTORIES)
def make_store(request: pytest.FixtureRequest) -> Iterator[MakeStore]:
    """`make_store(master, key, partition_bytes)`: a fresh store of these rows."""
    make = _FACTORIES[request.param](request)
    made: list[MasterStore] = []

    def remembered(*args: Any, **options: Any) -> MasterStore:
        made.append(make(*args, **options))
        return made[-1]

    yield remembered
    for store in made:
        store.close()


@pytest.fixture(params=algorithms())
def algorithm(request: pytest.FixtureRequest) -> str:
    return request.param


class Joiner:
    """Runs one algorithm over one kind of store."""

    def __init__(self, make_store: MakeStore, algorithm: str) -> None:
        self.make_store, self.algorithm = make_store, algorithm

    def open(self, store: MasterStore, stream: pa.Schema, on: Pairs, **options: Any):
        options = {"memory": "1MB", **options}
        return open_join(store, stream, on, algorithm=self.algorithm, **options)

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
def joiner(make_store: MakeStore, algorithm: str) -> Joiner:
    return Joiner(make_store, algorithm)
