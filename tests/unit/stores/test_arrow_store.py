"""Building and reading the embedded store."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from semistream import ArrowStore, algorithms, build_arrow_store, open_join
from semistream.errors import InputError, StoreCorrupt
from semistream.kernels.hashing import hash_bytes
from semistream.keys import KeyCodec
from semistream.stores.arrow_build import frequencies_of

MASTER = pa.table({"k": np.arange(2000)[::-1], "v": np.arange(2000)})


def _build(path, master=MASTER, key=("k",), **options):
    options = {"partition_bytes": 2048, **options}
    return build_arrow_store(path, master.to_batches(300), master.schema, key, **options)


def _count(store, stream, algorithm):
    join = open_join(store, stream.schema, [("k", "k")], algorithm=algorithm, memory="3MB")
    outputs = join.run(stream.to_batches(max_chunksize=50))
    return sum(output.rows.num_rows for output in outputs if output.kind == "joined")


def _hot(path):
    estimate = pa.table({"k": [5, 1500, 7], "frequency": [1.0, 9.0, 4.0]})
    frequencies = frequencies_of(estimate, ["k"], KeyCodec([pa.int64()]))
    _build(path, frequencies=frequencies, hot_bytes=10_000)


@pytest.mark.parametrize("name", ["manifest.json", "index.arrow", "hot.arrow", "data.arrows"])
def test_any_flipped_byte_is_found_and_named(tmp_path, name):
    _hot(tmp_path)
    whole = (tmp_path / name).read_bytes()
    places = range(len(whole)) if name == "manifest.json" else range(0, len(whole), 97)
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1 << (place % 8)
        (tmp_path / name).write_bytes(data)
        with pytest.raises(StoreCorrupt, match=name):
            list(ArrowStore.open(tmp_path).scan())


def test_truncated_and_missing_files(tmp_path):
    _build(tmp_path)
    names = sorted(file.name for file in tmp_path.iterdir())
    for name in names:
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[:-9])
        with pytest.raises(StoreCorrupt):
            ArrowStore.open(tmp_path)
        (tmp_path / name).unlink()
        with pytest.raises(StoreCorrupt, match="missing"):
            ArrowStore.open(tmp_path)
        (tmp_path / name).write_bytes(whole)
    with pytest.raises(InputError, match="no master store"):
        ArrowStore.open(tmp_path / "nowhere")


def test_a_master_bigger_than_the_memory_is_sorted(tmp_path):
    keys = np.random.default_rng(1).permutation(40_000)
    master = pa.table({"k": keys, "pad": ["x" * 100] * len(keys)})
    report = _build(tmp_path, master, partition_bytes=64 << 10, memory_bytes=1)
    store = ArrowStore.open(tmp_path)
    codes = np.concatenate([rows.codes for rows in store.scan()])
    assert report.rows == len(codes) == len(keys)
    assert np.all(codes[1:] > codes[:-1])
    assert store.is_unique


def test_hot_keys_come_first(tmp_path):
    estimate = pa.table({"k": [5, 1500, 7], "frequency": [1.0, 9.0, 4.0]})
    frequencies = frequencies_of(estimate, ["k"], KeyCodec([pa.int64()]))
    _build(tmp_path, frequencies=frequencies, hot_bytes=10_000, partition_bytes=1)
    store = ArrowStore.open(tmp_path)
    assert store.hot_partitions == 3
    first = [
        rows.rows.column("k")[0].as_py() for rows, _ in zip(store.scan(), range(3), strict=False)
    ]
    assert first == [1500, 7, 5]


@pytest.mark.parametrize("algorithm", algorithms())
def test_a_hot_key_wider_than_a_partition(tmp_path, algorithm):
    master = pa.table({"k": np.repeat([1, 2, 3], [900, 1, 400]), "v": np.arange(1301)})
    estimate = pa.table({"k": [1, 2, 3], "frequency": [3.0, 2.0, 1.0]})
    frequencies = frequencies_of(estimate, ["k"], KeyCodec([pa.int64()]))
    _build(tmp_path, master, frequencies=frequencies, hot_bytes=1 << 20, partition_bytes=1024)
    stream = pa.table({"k": [1, 2, 3, 4] * 20})
    assert _count(ArrowStore.open(tmp_path), stream, algorithm) == 20 * 1301


@pytest.mark.parametrize("algorithm", algorithms())
@pytest.mark.parametrize("memory_bytes", [1, 64 << 20])
def test_colliding_codes_stay_exact(tmp_path, algorithm, memory_bytes):
    """Three codes for 3000 keys: only the checks tell the keys apart."""

    def bad_hash(offsets, data):
        codes, checks = hash_bytes(offsets, data)
        return codes % np.uint64(3), checks

    rng = np.random.default_rng(0)
    numbers, asked = rng.integers(0, 3000, 20_000), np.tile(rng.integers(0, 3100, 1500), 3)
    master = pa.table({"k": [f"k{n}" for n in numbers], "v": ["x" * 60] * len(numbers)})
    stream = pa.table({"k": [f"k{n}" for n in asked]})
    codec = KeyCodec([pa.string()], bytes_hash=bad_hash)
    _build(tmp_path, master, codec=codec, partition_bytes=100_000, memory_bytes=memory_bytes)
    wanted = int(np.bincount(numbers, minlength=3100)[asked].sum())
    assert _count(ArrowStore.open(tmp_path, codec=codec), stream, algorithm) == wanted
