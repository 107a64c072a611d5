"""The front stage follows the hot keys, and survives a restart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from semistream import ArrowStore, build_arrow_store, open_join
from semistream.errors import InputError

STREAM = pa.schema([("k", pa.int64())])


def _join(path, shift=0):
    master = pa.table({"k": np.arange(20_000), "v": np.arange(20_000) + shift})
    build_arrow_store(
        path, master.to_batches(), master.schema, ["k"], name="m", partition_bytes=4096
    )
    store = ArrowStore.open(path)
    return open_join(store, STREAM, [("k", "k")], algorithm="cinlj", memory=200_000)


def _hit_ratio(join, keys):
    before = join.statistics.front_stage_hits
    batches = [pa.record_batch({"k": part}) for part in np.array_split(keys, 10)]
    for output in join.run(batches):
        assert output.kind == "joined"
    return (join.statistics.front_stage_hits - before) / len(keys)


def test_the_cache_follows_the_hot_set(tmp_path):
    join, rng = _join(tmp_path), np.random.default_rng(1)
    old, new = (lambda: rng.integers(0, 300, 5000)), (lambda: rng.integers(9000, 9300, 5000))
    _hit_ratio(join, old())
    before = _hit_ratio(join, old())
    during = _hit_ratio(join, new()[:300])
    for _ in range(8):
        _hit_ratio(join, new())
    after = _hit_ratio(join, new())
    assert before > 0.9
    assert during < 0.7
    assert after > 0.9


def test_save_and_warm(tmp_path):
    keys = np.random.default_rng(2).integers(0, 300, 5000)
    first, second = _join(tmp_path / "a"), _join(tmp_path / "a")
    _hit_ratio(first, keys)
    saved = first.front_stage.save(tmp_path / "warm")
    assert second.front_stage.warm(tmp_path / "warm") == saved > 200
    assert _hit_ratio(second, keys[:300]) > 0.9


def test_another_version_is_refused(tmp_path):
    join = _join(tmp_path / "a")
    _hit_ratio(join, np.arange(100))
    join.front_stage.save(tmp_path / "warm")
    with pytest.raises(InputError, match="another master, version"):
        _join(tmp_path / "b", shift=1).front_stage.warm(tmp_path / "warm")
    with pytest.raises(InputError, match="cannot warm"):
        join.front_stage.warm(tmp_path / "nowhere")
