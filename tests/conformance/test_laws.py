"""Laws of every join: the answer depends on the rows only, and every tuple is accounted for."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semistream.errors import BudgetTooSmall, InputError
from tests.conformance.oracle import assert_same, collect, difference, split, wanted

FEW = settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SMALL = 100_000
KEY = (("k", "k"),)


def make_master(rows: int = 2500, *, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "k": pa.array(rng.integers(-500, 2500, rows), mask=rng.random(rows) < 0.02),
            "v": np.arange(rows),
            "name": [None if size == 7 else "ü" * int(size) for size in rng.integers(0, 20, rows)],
        }
    )


def make_stream(rows: int = 3000, *, seed: int = 2) -> pa.Table:
    rng = np.random.default_rng(seed)
    keys = (rng.zipf(1.3, rows) % 3500 - 100).astype(np.int32)
    return pa.table(
        {
            "id": np.arange(rows),
            "k": pa.array(keys, mask=rng.random(rows) < 0.05),
            "v": ["é" * int(size) for size in rng.integers(0, 9, rows)],
        }
    )


MASTER, STREAM = make_master(), make_stream()


@pytest.mark.parametrize("memory", [SMALL, "1MB", "64MB"])
def test_the_answer_is_that_of_a_database(joiner, memory):
    joiner.check(MASTER, STREAM, memory=memory)


@FEW
@given(
    master=st.lists(st.tuples(st.none() | st.integers(-9, 9), st.text(max_size=40)), max_size=80),
    stream=st.lists(st.none() | st.integers(-12, 12), max_size=120),
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=5),
)
def test_any_rows_in_any_batches(joiner, master, stream, sizes):
    left = pa.table({"k": pa.array(stream, pa.int16()), "id": np.arange(len(stream))})
    right = pa.table(
        {
            "k": pa.array([key for key, _ in master], pa.int64()),
            "text": pa.array([text for _, text in master], pa.string()),
        }
    )
    joiner.check(right, left, sizes=sizes, partition_bytes=256, memory=SMALL)


@FEW
@given(sizes=st.lists(st.integers(0, 900), min_size=1, max_size=6), seed=st.integers(0, 2**32 - 1))
def test_splits_and_order_do_not_matter(joiner, sizes, seed):
    store = joiner.make_store(MASTER, ["k"])
    shuffled = STREAM.take(np.random.default_rng(seed).permutation(STREAM.num_rows))
    given = joiner.run(store, shuffled, KEY, sizes=sizes, memory=SMALL)
    assert_same(given, wanted(MASTER, STREAM, KEY))


def test_master_order_does_not_matter(joiner):
    shuffled = MASTER.take(np.random.default_rng(5).permutation(MASTER.num_rows))
    given = joiner.run(shuffled, STREAM)
    assert difference(given.joined, joiner.run(MASTER, STREAM).joined) == ([], [])


def test_drain_finishes_everything(joiner):
    join = joiner.open(joiner.make_store(MASTER, ["k"]), STREAM.schema, KEY, memory=SMALL)
    for batch in split(STREAM, [500]):
        join.offer(batch)
    assert not join.is_idle
    assert join.statistics.rows_pending == STREAM.num_rows
    given = collect(join, join.drain())
    assert join.is_idle
    assert_same(given, wanted(MASTER, STREAM, KEY))
    assert not list(join.drain())


def test_a_drained_join_goes_on(joiner):
    join = joiner.open(joiner.make_store(MASTER, ["k"]), STREAM.schema, KEY, memory=SMALL)
    given = collect(join, join.run(split(STREAM.slice(0, 1500), [400])))
    given = collect(join, join.run(split(STREAM.slice(1500), [400])), given)
    assert_same(given, wanted(MASTER, STREAM, KEY))


def test_silence_holds_nothing_back(joiner):
    """A few tuples, then none: steps alone finish them, in a bounded number."""
    store = joiner.make_store(MASTER, ["k"])
    join = joiner.open(store, STREAM.schema, KEY, memory=SMALL)
    few = STREAM.slice(0, 200)
    join.offer(split(few, [200])[0])
    steps, given = 0, None
    while not join.is_idle:
        given = collect(join, join.step(), given)
        steps += 1
        assert steps <= few.num_rows + store.partition_count
    assert_same(given, wanted(MASTER, few, KEY))


def test_a_step_without_tuples_does_nothing(joiner):
    join = joiner.open(joiner.make_store(MASTER, ["k"]), STREAM.schema, KEY)
    assert not list(join.step())
    join.offer(split(STREAM, [5])[0].slice(0, 0))
    assert join.is_idle
    assert not list(join.step())


@pytest.mark.parametrize("partition_bytes", [1, 512, 4096])
def test_duplicates_on_both_sides(joiner, partition_bytes):
    """Keys whose rows fill many partitions, next to keys that do not."""
    rng = np.random.default_rng(3)
    master = pa.table({"k": np.repeat([1, 2, 3, 50], [300, 1, 150, 3]), "v": np.arange(454)})
    stream = pa.table({"k": rng.integers(0, 60, 200), "id": np.arange(200)})
    stream = pa.concat_tables([stream, stream.slice(0, 50)])
    joiner.check(master, stream, sizes=[0, 7, 30], partition_bytes=partition_bytes, memory=300_000)


def test_straddling_composite_keys_with_text(joiner):
    master = pa.table(
        {
            "a": ["x", "y"] * 400,
            "b": pa.array([n % 4 for n in range(800)], pa.int8()),
            "c": [f"row {n}" for n in range(800)],
        }
    )
    stream = pa.table({"a": ["x", "y", "z", None] * 30, "q": list(range(5)) * 24})
    joiner.check(master, stream, [("q", "b"), ("a", "a")], partition_bytes=512, memory=SMALL)


@pytest.mark.parametrize("side", ["master", "stream", "both"])
def test_empty_sides(joiner, side):
    master = MASTER.slice(0, 0) if side != "stream" else MASTER
    stream = STREAM.slice(0, 0) if side != "master" else STREAM
    joiner.check(master, stream)


def test_null_keys_are_unmatched_and_say_so(joiner):
    master = pa.table({"k": pa.array([None, None, 1], pa.int64()), "v": [1, 2, 3]})
    stream = pa.table({"k": pa.array([None, 1, 2, None], pa.int64()), "id": [0, 1, 2, 3]})
    given = joiner.check(master, stream)
    assert given.reasons == {"null_key": 2, "no_match": 1}
    nothing = pa.table({"k": pa.nulls(3), "id": [0, 1, 2]})
    assert joiner.run(master, nothing).reasons == {"null_key": 3}


def test_left_is_inner_and_the_unmatched(joiner):
    inner, left = (joiner.run(MASTER, STREAM, how=how) for how in ("inner", "left"))
    width = MASTER.num_columns - 1
    padded = Counter({(*row, *[None] * width): n for row, n in inner.unmatched.items()})
    assert difference(left.joined, inner.joined + padded) == ([], [])
    assert difference(left.unmatched, inner.unmatched) == ([], [])


@pytest.mark.parametrize("memory", [SMALL, 300_000, "2MB"])
def test_the_budget_holds(joiner, memory):
    given = joiner.run(MASTER, pa.concat_tables([STREAM] * 3), memory=memory, sizes=[3000])
    statistics = given.statistics
    assert 0 < statistics.peak_bytes <= 1.1 * statistics.budget_bytes
    assert sum(statistics.bytes_by_component.values()) <= statistics.peak_bytes


def test_the_budget_holds_when_tuples_grow(joiner):
    """The window is sized by the first tuples; later ones may be much wider."""
    sizes = [0] * 300 + [3000] * 60 + [10] * 300
    stream = pa.table({"k": np.arange(660) % 900, "text": ["t" * size for size in sizes]})
    given = joiner.run(MASTER, stream, sizes=[50], memory=SMALL)
    assert_same(given, wanted(MASTER, stream, KEY))
    assert given.statistics.peak_bytes <= 1.1 * given.statistics.budget_bytes


def test_a_budget_too_small_says_what_is_enough(joiner):
    store = joiner.make_store(MASTER, ["k"])
    with pytest.raises(BudgetTooSmall) as caught:
        joiner.open(store, STREAM.schema, KEY, memory=1000)
    given = joiner.run(store, STREAM, memory=caught.value.smallest_bytes)
    assert_same(given, wanted(MASTER, STREAM, KEY))
    with pytest.raises(BudgetTooSmall):
        joiner.open(store, STREAM.schema, KEY, memory=caught.value.smallest_bytes - 1)


def test_statistics_add_up(joiner):
    given = joiner.run(MASTER, STREAM, memory=SMALL)
    expected, statistics = wanted(MASTER, STREAM, KEY), given.statistics
    assert statistics.algorithm == joiner.algorithm
    assert statistics.rows_in == STREAM.num_rows
    assert statistics.rows_unmatched == expected.unmatched.total()
    assert statistics.rows_matched == STREAM.num_rows - expected.unmatched.total()
    assert statistics.rows_joined == expected.joined.total()
    assert statistics.rows_pending == statistics.window_rows == 0
    assert statistics.master_rows == MASTER.num_rows - MASTER["k"].null_count


def test_the_same_input_does_the_same(joiner):
    store = joiner.make_store(MASTER, ["k"])
    first, second = (joiner.run(store, STREAM, sizes=[31, 400], memory=SMALL) for _ in range(2))
    facts = [
        {name: value for name, value in given.statistics.to_dict().items() if "second" not in name}
        for given in (first, second)
    ]
    assert facts[0] == facts[1]
    assert difference(first.joined, second.joined) == ([], [])
    assert difference(first.unmatched, second.unmatched) == ([], [])


@pytest.mark.parametrize("select", [[], ["name"], ["k", "v"]])
def test_selected_columns(joiner, select):
    given = joiner.run(MASTER, STREAM, select=select)
    places = [3 + ["v", "name"].index(name) if name != "k" else 1 for name in select]
    everything = wanted(MASTER, STREAM, KEY).joined
    expected: Counter = Counter()
    for row, count in everything.items():
        expected[(*row[:3], *(row[place] for place in places))] += count
    assert difference(given.joined, expected) == ([], [])


def test_nested_and_dictionary_columns_pass_through(joiner):
    master = pa.table(
        {
            "k": np.arange(400),
            "tags": pa.array([[str(n)] * (n % 3) for n in range(400)]),
            "color": pa.array(["red", "green"] * 200).dictionary_encode(),
        }
    )
    if not joiner.stores.has_nested_columns:
        master = master.drop_columns(["tags"])
    stream = pa.table(
        {
            "k": np.arange(900) % 500,
            "kind": pa.array(["a", None, "b"] * 300).dictionary_encode(),
            "more": pa.array([{"x": n} for n in range(900)]),
        }
    )
    join = joiner.open(joiner.make_store(master, ["k"]), stream.schema, KEY)
    joined = [output for output in join.run(split(stream, [70])) if output.kind == "joined"]
    rows = [row for output in joined for row in output.rows.to_pylist()]
    assert len(rows) == 800
    for row in rows:
        assert row["more"]["x"] % 500 == row["k"]
        assert "tags" not in row or row["tags"] == [str(row["k"])] * (row["k"] % 3)
        assert row["color"] == ["red", "green"][row["k"] % 2]


def test_other_columns_are_refused(joiner):
    join = joiner.open(joiner.make_store(MASTER, ["k"]), STREAM.schema, KEY)
    with pytest.raises(InputError, match="other columns"):
        join.offer(split(MASTER, [5])[0])
    with pytest.raises(InputError, match="not the key"):
        joiner.open(joiner.make_store(MASTER, ["k"]), STREAM.schema, [("id", "v")])


def test_the_age_of_the_queue_is_told_in_steps_and_seconds(joiner):
    stream = pa.table({"k": np.arange(4000) % 3000, "id": np.arange(4000)})
    master = pa.table({"k": np.arange(3000), "v": ["x" * 50] * 3000})
    store = joiner.make_store(master, ["k"], 1024)
    join = joiner.open(store, stream.schema, KEY, memory=100_000)
    join.offer(split(stream, [4000])[0])
    statistics, ages = join.statistics, []
    for _ in range(30):
        list(join.step())
        ages.append((statistics.queue_age_steps, statistics.queue_age_seconds))
        assert (statistics.queue_age_seconds > 0) == (statistics.window_rows > 0)
    if max(steps for steps, _ in ages) > 1:
        assert max(seconds for steps, seconds in ages if steps > 1) < 60
    list(join.drain())
    assert statistics.queue_age_seconds == statistics.queue_age_steps == 0
