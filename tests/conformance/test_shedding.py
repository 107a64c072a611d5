"""Shed tuples are joined later, exactly once, also after a restart."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from semistream import ArrowStore, algorithms, build_arrow_store, open_join
from semistream.errors import InputError, StoreCorrupt
from semistream.joins.registry import Options
from semistream.joins.shed_store import ShedStore
from semistream.joins.shedding import Shedding

MASTER_ROWS = 20_000
STREAM = pa.schema([("id", pa.int64()), ("k", pa.int64())])


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    folder = tmp_path_factory.mktemp("master")
    rows = pa.record_batch({"k": np.arange(MASTER_ROWS), "v": np.arange(MASTER_ROWS) * 3})
    build_arrow_store(folder, [rows], rows.schema, ["k"], partition_bytes=4096)
    return folder


def opened(master, shed, algorithm, mode="tuned", **shedding):
    options = Options(shedding=Shedding(shed, mode, **shedding))
    store = ArrowStore.open(master)
    pairs = [("k", "k")]
    return open_join(store, STREAM, pairs, algorithm=algorithm, memory=200_000, options=options)


def batch(start, count, seed, key_count=MASTER_ROWS + 500):
    keys = np.random.default_rng(seed).zipf(1.2, count) % key_count
    return pa.record_batch([np.arange(start, start + count), keys], schema=STREAM)


def overload(join, seen, loops=15, rows=3000, start=0):
    for loop in range(loops):
        join.offer(batch(start + loop * rows, rows, loop))
        for output in join.step():
            seen.update((output.kind, each) for each in output.rows.column("id").to_pylist())
        assert join.statistics.balances
    return loops * rows


@pytest.mark.parametrize("algorithm", sorted(algorithms()))
def test_a_tuple_with_some_of_its_matches_out_is_not_shed(tmp_path, algorithm):
    """The rows of every key fill two partitions or three."""
    rows_per_key, keys = 100, 300
    rows = pa.record_batch({"k": np.arange(keys * rows_per_key) // rows_per_key})
    rows = rows.append_column("v", pa.array(np.arange(rows.num_rows)))
    build_arrow_store(tmp_path / "master", [rows], rows.schema, ["k"], partition_bytes=1024)
    joined, sent, shed = Counter(), 0, 0
    with opened(tmp_path / "master", ShedStore(tmp_path / "shed"), algorithm) as join:
        for loop in range(8):
            join.offer(batch(sent, 300, loop, keys))
            sent += 300
            outputs = list(join.step())
            shed = join.statistics.rows_shed_total
            outputs += join.drain() if loop == 7 else []
            for output in outputs:
                joined.update(zip(*(output.rows[n].to_pylist() for n in ("id", "v")), strict=True))
    assert shed or algorithm in ("inlj", "cinlj")  # nothing piles up there
    assert set(joined.values()) == {1}
    assert len(joined) == sent * rows_per_key


@pytest.mark.parametrize("mode", ["tuned", "untuned", "upfront"])
@pytest.mark.parametrize("algorithm", sorted(algorithms()))
def test_every_tuple_leaves_once(master, tmp_path, algorithm, mode):
    seen = Counter()
    with opened(master, ShedStore(tmp_path), algorithm, mode) as join:
        sent = overload(join, seen)
        shed = join.statistics.rows_shed_total
        for output in join.drain():
            seen.update((output.kind, each) for each in output.rows.column("id").to_pylist())
        assert join.statistics.balances
        assert join.statistics.rows_shed == join.statistics.rows_pending == 0
    assert len({each for _, each in seen}) == len(seen) == sent
    assert set(seen.values()) == {1}
    assert shed > 0 or algorithm == "inlj"  # it finishes all it takes: nothing piles up
    assert not list(tmp_path.glob("segment-*"))


def test_what_was_acknowledged_survives_a_restart_and_is_not_repeated(master, tmp_path):
    delivered = Counter()
    join = opened(master, ShedStore(tmp_path), "hybridjoin")
    overload(join, delivered)
    join.acknowledge()
    left = ShedStore(tmp_path).outstanding
    shed, reloaded = join.statistics.rows_shed, join.statistics.rows_reloaded
    assert 0 < shed <= left <= shed + reloaded  # taken back, but not finished yet, counts as well
    # The process dies here: what was pending in memory is the source's to send again.
    second = opened(master, ShedStore(tmp_path), "hybridjoin")
    assert second.statistics.rows_recovered == left
    again = Counter()
    for output in second.drain():
        again.update((output.kind, each) for each in output.rows.column("id").to_pylist())
    second.close()
    assert sum(again.values()) == left
    assert not set(again) & set(delivered)
    assert ShedStore(tmp_path).outstanding == 0


def test_what_was_not_acknowledged_is_forgotten(tmp_path):
    store = ShedStore(tmp_path)
    store.put(batch(0, 10, 0))
    assert ShedStore(tmp_path).outstanding == 0
    assert not list(tmp_path.glob("segment-*"))


def test_finished_rows_of_a_half_done_segment_do_not_come_back(tmp_path):
    store = ShedStore(tmp_path)
    store.put(batch(0, 10, 0))
    store.commit()
    [(_, tags)] = store.take(1, STREAM)
    store.finish(tags[:4])
    store.commit()
    [(rows, _)] = ShedStore(tmp_path).take(1, STREAM)
    assert rows.column("id").to_pylist() == list(range(4, 10))


def test_without_a_store_shed_rows_are_handed_out(master):
    seen = Counter()
    with opened(master, None, "hybridjoin") as join:
        sent = overload(join, seen)
        for output in join.drain():
            seen.update((output.kind, each) for each in output.rows.column("id").to_pylist())
        assert join.statistics.balances
        shed = sum(1 for kind, _ in seen if kind == "shed")
        assert shed == join.statistics.rows_shed > 0
    assert len({each for _, each in seen}) == sum(seen.values()) == sent


def test_rows_shed_by_another_stream_are_refused(tmp_path):
    store = ShedStore(tmp_path)
    store.put(batch(0, 10, 0))
    with pytest.raises(InputError, match="reprocess it with the pipeline that shed it"):
        store.take(1, pa.schema([("other", pa.int64())]))


def test_unknown_mode_lists_the_known_ones():
    with pytest.raises(InputError, match="tuned, untuned, upfront"):
        Shedding(mode="sometimes")


def test_an_acknowledgement_between_two_outputs_loses_nothing(master, tmp_path):
    """What is done is done once its rows are out, not before."""
    seen = Counter()
    first = opened(master, ShedStore(tmp_path), "chybridjoin")
    overload(first, seen)
    first.acknowledge()
    again = Counter()
    second = opened(master, ShedStore(tmp_path), "chybridjoin")
    for number, output in enumerate(second.drain()):
        again.update(output.rows.column("id").to_pylist())
        second.acknowledge()
        if number == 25:
            break
    third = opened(master, ShedStore(tmp_path), "chybridjoin")
    for output in third.drain():
        again.update(output.rows.column("id").to_pylist())
    assert again.total() >= second.statistics.rows_recovered
    assert len(again) == second.statistics.rows_recovered


@pytest.mark.parametrize("damage", [b"", b"ARROW1 no"])
def test_a_damaged_segment_is_named(tmp_path, damage):
    store = ShedStore(tmp_path)
    store.put(batch(0, 10, 0))
    store.commit()
    [segment] = tmp_path.glob("segment-*")
    segment.write_bytes(damage)
    with pytest.raises(StoreCorrupt, match="segment-00000000"):
        ShedStore(tmp_path).take(1, STREAM)
