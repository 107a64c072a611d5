"""A store that fails in the middle of a keyed fetch: the join goes on, nothing lost or doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semistream import open_join
from semistream.errors import StoreUnavailable
from semistream.stores.arrow_build import build_arrow_store
from semistream.stores.arrow_store import ArrowStore
from semistream.stores.protocol import MasterRows

KEYS = 4_000


@pytest.mark.parametrize("algorithm", ["inlj", "cinlj"])
@pytest.mark.parametrize("failing", [{1}, {2}, {2, 4, 5}])
def test_a_failed_fetch_is_resumed(
    algorithm: str, failing: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = pa.record_batch({"k": np.arange(KEYS), "v": np.arange(KEYS) * 10})
    build_arrow_store(
        tmp_path / "m", [master], master.schema, ["k"], partition_bytes=4 << 10, name="m"
    )
    # Every other key is absent; some come twice.
    keys = np.random.default_rng(1).integers(0, 2 * KEYS, 3_000)
    stream = pa.record_batch({"id": np.arange(len(keys)), "k": keys})
    reads = 0
    honest = ArrowStore.read

    def flaky(self: ArrowStore, partitions: np.ndarray) -> MasterRows:
        nonlocal reads
        reads += 1
        if reads in failing:
            raise StoreUnavailable("away for a moment")
        return honest(self, partitions)

    monkeypatch.setattr(ArrowStore, "read", flaky)
    found: Counter[tuple[int, int | None]] = Counter()
    failures = 0
    store = ArrowStore.open(tmp_path / "m")
    with open_join(store, stream.schema, [("k", "k")], algorithm=algorithm, memory="96KB") as join:
        join.offer(stream)
        while not join.is_idle:
            try:
                for output in join.step():
                    rows = output.rows.to_pydict()
                    values = rows["v"] if output.kind == "joined" else [None] * len(rows["id"])
                    found.update(zip(rows["id"], values, strict=True))
            except StoreUnavailable:
                failures += 1
            assert join.statistics.balances
        assert join.statistics.rows_in == join.statistics.rows_finished == len(keys)
    assert failures == len(failing)
    expected = [(i, int(k) * 10 if k < KEYS else None) for i, k in enumerate(keys)]
    assert found == Counter(expected)
