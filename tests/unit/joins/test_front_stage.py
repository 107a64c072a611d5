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


def test_no_name_of_a_master_column_disturbs_a_saved_front_stage(tmp_path):
    names = ["k", "code", "key", "weight", "row.0", "__code"]
    master = pa.table([pa.array(np.arange(500) + n) for n in range(len(names))], names=names)
    build_arrow_store(tmp_path / "m", master.to_batches(), master.schema, ["k"], name="m")
    joins = [
        open_join(ArrowStore.open(tmp_path / "m"), STREAM, [("k", "k")], memory="1MB")
        for _ in range(2)
    ]
    _hit_ratio(joins[0], np.arange(500))
    saved = joins[0].front_stage.save(tmp_path / "front")
    assert joins[1].front_stage.warm(tmp_path / "front") == saved > 0
    stream = pa.record_batch({"k": np.arange(500)})
    rows = [row for output in joins[1].run([stream]) for row in output.rows.to_pylist()]
    assert all(row["code"] == row["k"] + 1 and row["row.0"] == row["k"] + 4 for row in rows)


def test_keys_without_columns_can_be_saved(tmp_path):
    join = _join(tmp_path / "m")
    bare = open_join(ArrowStore.open(tmp_path / "m"), STREAM, [("k", "k")], select=[])
    for each in (join, bare):
        _hit_ratio(each, np.arange(500))
    assert bare.front_stage.save(tmp_path / "front") > 0
    again = open_join(ArrowStore.open(tmp_path / "m"), STREAM, [("k", "k")], select=[])
    assert again.front_stage.warm(tmp_path / "front") > 0
    assert _hit_ratio(again, np.arange(500)) > 0
