"""With order "stream" every law holds as before, and rows come in the order of their tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semistream.errors import BudgetTooSmall, InputError
from semistream.joins.outputs import JoinOutput
from semistream.joins.registry import Options
from semistream.joins.shed_store import ShedStore
from semistream.joins.shedding import Shedding
from tests.conformance.oracle import Given, assert_same, collect, split, wanted
from tests.conformance.test_laws import KEY, MASTER, STREAM

FEW = settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SMALL = 150_000


def in_order(outputs: Iterable[JoinOutput], last: dict[str, int]) -> Iterator[JoinOutput]:
    """Pass outputs on, checking that `id`, the tuple's number, never falls."""
    for output in outputs:
        if output.kind != "shed":
            numbers = output.rows.column("id").to_numpy()
            before = last.get(output.kind, -1)
            assert (np.diff(numbers, prepend=before) >= 0).all(), f"{output.kind} after {before}"
            last[output.kind] = int(numbers[-1])
        yield output


class OrderedJoiner:
    def __init__(self, joiner) -> None:
        self.joiner = joiner
        self.make_store = joiner.make_store

    def open(self, store, schema, on=KEY, **options):
        return self.joiner.open(store, schema, on, order="stream", **options)

    def run(
        self, master, stream, *, sizes: Iterable[int] = (97,), partition_bytes=2048, **options
    ) -> Given:
        store = self.make_store(master, ["k"], partition_bytes)
        with self.open(store, stream.schema, **options) as join:
            given = collect(join, in_order(join.run(split(stream, sizes)), {}))
            assert join.is_idle
        return given

    def check(self, master, stream, **options) -> Given:
        for how in ("inner", "left"):
            given = self.run(master, stream, how=how, **options)
            assert_same(given, wanted(master, stream, KEY, how))
        return given


@pytest.fixture
def ordered(joiner) -> OrderedJoiner:
    return OrderedJoiner(joiner)


@pytest.mark.parametrize("memory", [SMALL, "64MB"])
def test_the_answer_is_that_of_a_database(ordered, memory):
    statistics = ordered.check(MASTER, STREAM, memory=memory).statistics
    assert statistics.rows_matched == statistics.rows_in - statistics.rows_unmatched
    assert statistics.rows_in == STREAM.num_rows


@FEW
@given(
    master=st.lists(st.tuples(st.none() | st.integers(-9, 9), st.text(max_size=40)), max_size=80),
    stream=st.lists(st.none() | st.integers(-12, 12), max_size=120),
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=5),
)
def test_any_rows_in_any_batches(ordered, master, stream, sizes):
    left = pa.table({"k": pa.array(stream, pa.int16()), "id": np.arange(len(stream))})
    right = pa.table(
        {
            "k": pa.array([key for key, _ in master], pa.int64()),
            "text": pa.array([text for _, text in master], pa.string()),
        }
    )
    ordered.check(right, left, sizes=sizes, partition_bytes=256, memory=SMALL)


@FEW
@given(sizes=st.lists(st.integers(0, 900), min_size=1, max_size=6), seed=st.integers(0, 2**32 - 1))
def test_splits_and_order_of_input_do_not_matter(ordered, sizes, seed):
    keys = STREAM["k"].take(np.random.default_rng(seed).permutation(STREAM.num_rows))
    shuffled = STREAM.set_column(1, "k", keys)
    given = ordered.run(MASTER, shuffled, sizes=sizes, memory=SMALL)
    assert_same(given, wanted(MASTER, shuffled, KEY))


def test_tuples_that_leave_at_their_match(ordered):
    """With unique keys a tuple may overtake many that came before it, some never to match."""
    rng = np.random.default_rng(4)
    master = pa.table({"k": np.arange(0, 6000, 2), "v": np.arange(3000)})
    stream = pa.table({"k": rng.integers(0, 6000, 5000), "id": np.arange(5000)})
    ordered.check(master, stream, memory=SMALL, sizes=[700])


# A table keeps all rows of a key in one partition, which then needs a larger budget.
@pytest.mark.parametrize("stores", ["arrow"], indirect=True)
def test_rows_beyond_the_memory_wait_in_files(ordered):
    """One key with so many rows that a single tuple's do not fit, among tuples that have one."""
    count = 3000
    master = pa.table({"k": [*range(500), *[500] * count], "v": np.arange(500 + count)})
    keys = np.random.default_rng(3).permutation([*range(500), *[500] * 6, *range(600, 650)])
    stream = pa.table({"k": keys, "id": np.arange(len(keys))})
    for how in ("inner", "left"):
        with ordered.open(
            ordered.make_store(master, ["k"]), stream.schema, memory=SMALL, how=how
        ) as join:
            given = collect(join, in_order(join.run(split(stream, [200])), {}))
            assert_same(given, wanted(master, stream, KEY, how))
            assert join._joined.spilled_rows > count
            assert join._joined.file_bytes == join._joined.nbytes == 0
        assert 0 < join.statistics.peak_bytes <= 1.1 * SMALL


def test_every_step_keeps_the_account(ordered):
    """A row that waits is pending; without new tuples, steps alone bring everything out."""
    store = ordered.make_store(MASTER, ["k"])
    join = ordered.open(store, STREAM.schema, memory=SMALL, how="left")
    few, last, steps, given = STREAM.slice(0, 200), {}, 0, Given()
    join.offer(split(few, [200])[0])
    assert join.statistics.rows_pending == 200
    while not join.is_idle:
        collect(join, in_order(join.step(), last), given)
        statistics = join.statistics
        assert statistics.rows_finished == 200 - statistics.rows_pending
        out = {row[0] for row in given.joined}
        assert out == set(range(len(out)))  # left mode: no tuple is skipped
        assert len(out) == statistics.rows_finished
        steps += 1
        assert steps <= few.num_rows + store.partition_count
    assert_same(given, wanted(MASTER, few, KEY, "left"))


def test_a_drained_join_goes_on(ordered):
    join = ordered.open(ordered.make_store(MASTER, ["k"]), STREAM.schema, memory=SMALL)
    last: dict[str, int] = {}
    given = collect(join, in_order(join.run(split(STREAM.slice(0, 1500), [400])), last))
    given = collect(join, in_order(join.run(split(STREAM.slice(1500), [400])), last), given)
    assert_same(given, wanted(MASTER, STREAM, KEY))
    assert not list(join.drain())


@pytest.mark.parametrize("side", ["master", "stream", "both"])
def test_empty_sides(ordered, side):
    master = MASTER.slice(0, 0) if side != "stream" else MASTER
    stream = STREAM.slice(0, 0) if side != "master" else STREAM
    ordered.check(master, stream)


@pytest.mark.parametrize("memory", [SMALL, 300_000, "2MB"])
def test_the_budget_holds(ordered, memory):
    stream = pa.concat_tables([STREAM] * 3).set_column(0, "id", pa.array(np.arange(9000)))
    statistics = ordered.run(MASTER, stream, memory=memory, sizes=[3000]).statistics
    assert statistics.budget_bytes == (2 << 20 if memory == "2MB" else memory)
    assert 0 < statistics.peak_bytes <= 1.1 * statistics.budget_bytes
    assert "order" in statistics.bytes_by_component
    assert sum(statistics.bytes_by_component.values()) <= statistics.peak_bytes


def test_a_budget_too_small_says_what_is_enough(ordered):
    store = ordered.make_store(MASTER, ["k"])
    with pytest.raises(BudgetTooSmall, match="order") as caught:
        ordered.open(store, STREAM.schema, memory=1000)
    enough = caught.value.smallest_bytes
    assert_same(ordered.run(MASTER, STREAM, memory=enough), wanted(MASTER, STREAM, KEY))
    with pytest.raises(BudgetTooSmall):
        ordered.open(store, STREAM.schema, memory=enough - 1)


def test_the_same_input_does_the_same(ordered):
    runs = [ordered.run(MASTER, STREAM, sizes=[31, 400], memory=SMALL) for _ in range(2)]
    facts = [
        {name: value for name, value in run.statistics.to_dict().items() if "second" not in name}
        for run in runs
    ]
    assert facts[0] == facts[1]


def test_columns_of_every_kind_pass_through(ordered):
    """The hidden number neither clashes with a column nor shows; dictionaries come back."""
    master = pa.table({"k": np.arange(300), "_sequence": np.arange(300) * 2})
    stream = pa.table(
        {
            "k": np.arange(900) % 400,
            "id": np.arange(900),
            "__sequence": pa.array(["a", None, "b"] * 300).dictionary_encode(),
            "nested": pa.array([{"x": [n]} for n in range(900)]),
        }
    )
    join = ordered.open(ordered.make_store(master, ["k"]), stream.schema, memory=SMALL, how="left")
    assert join.joined_schema.names == [*stream.column_names, "_sequence"]
    rows = []
    for output in in_order(join.run(split(stream, [70])), {}):
        if output.kind == "joined":
            assert output.rows.schema.equals(join.joined_schema)
            rows += output.rows.to_pylist()
    assert [row["nested"] for row in rows] == stream["nested"].to_pylist()
    assert [row["__sequence"] for row in rows] == stream["__sequence"].to_pylist()
    assert [row["_sequence"] for row in rows] == [
        2 * row["k"] if row["k"] < 300 else None for row in rows
    ]


def test_shedding_with_a_store_is_refused(ordered, tmp_path):
    store = ordered.make_store(MASTER, ["k"])
    options = Options(shedding=Shedding(ShedStore(tmp_path / "shed")))
    with pytest.raises(InputError, match=r"shed store.*joined later"):
        ordered.open(store, STREAM.schema, options=options)
    with pytest.raises(InputError, match="any, stream"):
        ordered.joiner.open(store, STREAM.schema, KEY, order="random")


@pytest.mark.parametrize("mode", ["tuned", "upfront"])
def test_shedding_without_a_store_keeps_the_order_of_the_rest(ordered, mode):
    options = Options(shedding=Shedding(None, mode))
    stream = pa.table({"k": np.arange(9000) % 2700, "id": np.arange(9000)})
    store = ordered.make_store(MASTER, ["k"])
    with ordered.open(store, stream.schema, memory=SMALL, how="left", options=options) as join:
        seen: set[int] = set()
        last: dict[str, int] = {}

        def note(outputs: Iterable[JoinOutput]) -> None:
            for output in in_order(outputs, last):
                if output.kind != "unmatched":
                    seen.update(output.rows["id"].to_pylist())

        for batch in split(stream, [1500]):
            join.offer(batch)
            note(join.step())
            assert join.statistics.balances
        note(join.drain())
        assert join.statistics.balances
        assert join.statistics.rows_pending == 0
        assert join.statistics.rows_finished + join.statistics.rows_shed == 9000
    assert seen == set(range(9000))
