"""The laws of every join, for conditions other than equality."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semistream import Between, Within, algorithms, open_join
from semistream.errors import BudgetTooSmall, InputError, KeyTypeMismatch
from semistream.joins.registry import Options
from semistream.joins.shed_store import ShedStore
from semistream.joins.shedding import Shedding
from tests.conformance.oracle import Given, assert_same, collect, difference, rows_of, split
from tests.conformance.test_order import in_order

FEW = settings(
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SMALL = 100_000
RANGE, BAND = Between("x", "low", "high"), Within("x", 3, "low")
SQL = {RANGE: "s.x between m.low and m.high", BAND: "abs(s.x - m.low) <= 3"}
ABLE = [name for name, each in algorithms().items() if each.takes_conditions]


def make_master(rows: int = 1500, *, seed: int = 1) -> pa.Table:
    """Ranges of 0 to 30, some empty (low above high), some with a NULL end."""
    rng = np.random.default_rng(seed)
    low = rng.integers(-2000, 9000, rows)
    high = low + rng.integers(-4, 30, rows)
    return pa.table(
        {
            "low": pa.array(low, mask=rng.random(rows) < 0.03),
            "high": pa.array(high, mask=rng.random(rows) < 0.03),
            "v": np.arange(rows),
            "name": [None if size == 7 else "ü" * int(size) for size in rng.integers(0, 20, rows)],
        }
    )


def make_stream(rows: int = 2000, *, seed: int = 2) -> pa.Table:
    rng = np.random.default_rng(seed)
    values = (rng.zipf(1.3, rows) % 9000 - 500).astype(np.int32)
    return pa.table(
        {
            "id": np.arange(rows),
            "x": pa.array(values, mask=rng.random(rows) < 0.05),
            "v": ["é" * int(size) for size in rng.integers(0, 9, rows)],
        }
    )


MASTER, STREAM = make_master(), make_stream()


def wanted(master: pa.Table, stream: pa.Table, condition, how: str = "inner") -> Given:
    """DuckDB's answer: all columns of both sides."""
    where = SQL[condition]
    mode = "left" if how == "left" else ""
    missing = f"from s where not exists (select 1 from m where {where})"
    with duckdb.connect() as connection:
        connection.register("s", stream)
        connection.register("m", master)

        def rows(query: str) -> list[tuple]:
            return rows_of(connection.sql(query).to_arrow_table())

        found = Given(
            Counter(rows(f"select s.*, m.* from s {mode} join m on {where}")),
            Counter(rows(f"select s.* {missing}")),
        )
        (nulls,) = rows(f"select count(*) {missing} and s.x is null")[0]
    reasons = {"null_key": nulls, "no_match": found.unmatched.total() - nulls}
    found.reasons = Counter({reason: count for reason, count in reasons.items() if count})
    return found


class ConditionJoiner:
    def __init__(self, make_store, algorithm: str, condition) -> None:
        self.make_store, self.algorithm, self.condition = make_store, algorithm, condition

    def store(self, master: pa.Table, partition_bytes: int = 2048):
        return self.make_store(master, [self.condition.master_key], partition_bytes)

    def open(self, store, schema: pa.Schema, **options):
        options = {"memory": "1MB", "algorithm": self.algorithm, **options}
        return open_join(store, schema, self.condition, **options)

    def run(self, master, stream, *, sizes: Sequence[int] = (97,), **options) -> Given:
        partition_bytes = options.pop("partition_bytes", 2048)
        store = self.store(master, partition_bytes) if isinstance(master, pa.Table) else master
        join = self.open(store, stream.schema, **options)
        outputs = join.run(split(stream, sizes))
        if options.get("order") == "stream":
            outputs = in_order(outputs, {})
        return collect(join, outputs)

    def check(self, master, stream, **options) -> Given:
        for how in ("left", "inner"):
            given = self.run(master, stream, how=how, **options)
            assert_same(given, wanted(master, stream, self.condition, how))
        return given


@pytest.fixture(params=[RANGE, BAND], ids=["between", "within"])
def condition(request):
    return request.param


@pytest.fixture(params=ABLE)
def joiner(request, make_store, condition) -> ConditionJoiner:
    return ConditionJoiner(make_store, request.param, condition)


@pytest.mark.parametrize("order", ["any", "stream"])
@pytest.mark.parametrize("memory", [SMALL, "64MB"])
def test_the_answer_is_that_of_a_database(joiner, memory, order):
    given = joiner.check(MASTER, STREAM, memory=memory, order=order)
    assert given.joined.total() > STREAM.num_rows  # many to many


@FEW
@given(
    master=st.lists(
        st.tuples(
            st.none() | st.integers(-9, 9), st.none() | st.integers(-9, 9), st.text(max_size=40)
        ),
        max_size=80,
    ),
    stream=st.lists(st.none() | st.integers(-16, 16), max_size=120),
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=5),
    order=st.sampled_from(["any", "stream"]),
)
def test_any_rows_in_any_batches(joiner, master, stream, sizes, order):
    left = pa.table({"id": np.arange(len(stream)), "x": pa.array(stream, pa.int16())})
    right = pa.table(
        {
            "low": pa.array([low for low, _, _ in master], pa.int64()),
            "high": pa.array([high for _, high, _ in master], pa.int32()),
            "text": pa.array([text for _, _, text in master], pa.string()),
        }
    )
    joiner.check(right, left, sizes=sizes, partition_bytes=256, memory=SMALL, order=order)


@FEW
@given(sizes=st.lists(st.integers(0, 900), min_size=1, max_size=6), seed=st.integers(0, 2**32 - 1))
def test_splits_and_order_do_not_matter(joiner, sizes, seed):
    shuffled = STREAM.take(np.random.default_rng(seed).permutation(STREAM.num_rows))
    given = joiner.run(MASTER, shuffled, sizes=sizes, memory=SMALL)
    assert_same(given, wanted(MASTER, STREAM, joiner.condition))


def test_master_order_does_not_matter(joiner):
    shuffled = MASTER.take(np.random.default_rng(5).permutation(MASTER.num_rows))
    assert_same(joiner.run(shuffled, STREAM), wanted(MASTER, STREAM, joiner.condition))


def test_drain_finishes_everything(joiner):
    join = joiner.open(joiner.store(MASTER), STREAM.schema, memory=SMALL)
    for batch in split(STREAM, [500]):
        join.offer(batch)
    assert join.statistics.rows_pending == STREAM.num_rows
    given = collect(join, join.drain())
    assert join.is_idle
    assert_same(given, wanted(MASTER, STREAM, joiner.condition))
    assert not list(join.drain())
    # And it goes on, in a window that has been used before.
    join.offer(split(STREAM.slice(0, 300), [300])[0])
    given = collect(join, join.drain(), given)
    twice = wanted(MASTER, STREAM.slice(0, 300), joiner.condition)
    expected = wanted(MASTER, STREAM, joiner.condition).joined + twice.joined
    assert difference(given.joined, expected) == ([], [])


def test_silence_holds_nothing_back(joiner):
    store, few = joiner.store(MASTER), STREAM.slice(0, 200)
    join = joiner.open(store, STREAM.schema, memory=SMALL)
    join.offer(split(few, [200])[0])
    steps, given = 0, None
    while not join.is_idle:
        given = collect(join, join.step(), given)
        steps += 1
        assert steps <= few.num_rows + store.partition_count
    assert_same(given, wanted(MASTER, few, joiner.condition))


@pytest.mark.parametrize("partition_bytes", [1, 512, 4096])
def test_duplicates_on_both_sides(joiner, partition_bytes):
    rng = np.random.default_rng(3)
    low = np.repeat([1, 2, 30, 50], [150, 1, 80, 3])
    master = pa.table({"low": low, "high": low + 20, "v": np.arange(len(low))})
    stream = pa.table({"id": np.arange(250), "x": np.tile(rng.integers(0, 60, 125), 2)})
    joiner.check(master, stream, sizes=[0, 7, 30], partition_bytes=partition_bytes, memory=SMALL)


@pytest.mark.parametrize("side", ["master", "stream", "both"])
def test_empty_sides(joiner, side):
    master = MASTER.slice(0, 0) if side != "stream" else MASTER
    stream = STREAM.slice(0, 0) if side != "master" else STREAM
    joiner.check(master, stream)


def test_nulls_match_nothing(joiner):
    master = pa.table(
        {
            "low": pa.array([None, None, 1, 1, 1], pa.int64()),
            "high": pa.array([None, 9, None, 9, 0], pa.int64()),
        }
    )
    stream = pa.table({"id": [0, 1, 2, 3], "x": pa.array([None, 1, 100, None], pa.int64())})
    given = joiner.check(master, stream)
    assert given.reasons == {"null_key": 2, "no_match": 1}
    nothing = pa.table({"id": [0, 1, 2], "x": pa.nulls(3)})
    assert joiner.run(master, nothing).reasons == {"null_key": 3}


def test_left_is_inner_and_the_unmatched(joiner):
    inner, left = (joiner.run(MASTER, STREAM, how=how) for how in ("inner", "left"))
    padded = Counter(
        {(*row, *[None] * MASTER.num_columns): n for row, n in inner.unmatched.items()}
    )
    assert difference(left.joined, inner.joined + padded) == ([], [])
    assert difference(left.unmatched, inner.unmatched) == ([], [])


@pytest.mark.parametrize("memory", [SMALL, 300_000, "2MB"])
def test_the_budget_holds(joiner, memory):
    given = joiner.run(MASTER, pa.concat_tables([STREAM] * 3), memory=memory, sizes=[3000])
    statistics = given.statistics
    assert 0 < statistics.peak_bytes <= 1.1 * statistics.budget_bytes
    assert sum(statistics.bytes_by_component.values()) <= statistics.peak_bytes


def test_the_budget_holds_when_tuples_grow(joiner):
    sizes = [0] * 300 + [3000] * 60 + [10] * 300
    stream = pa.table({"x": np.arange(660) * 11, "text": ["t" * size for size in sizes]})
    given = joiner.run(MASTER, stream, sizes=[50], memory=SMALL)
    assert_same(given, wanted(MASTER, stream, joiner.condition))
    assert given.statistics.peak_bytes <= 1.1 * given.statistics.budget_bytes


def test_one_step_of_many_pairs_comes_in_pieces(joiner):
    """Every tuple matches every row of the master: the product never stands in memory."""
    master = pa.table(
        {"low": np.zeros(600, np.int64), "high": np.full(600, 3), "text": ["x"] * 600}
    )
    stream = pa.table({"id": np.arange(400), "x": np.arange(400) % 4})
    join = joiner.open(joiner.store(master, 1 << 20), stream.schema)
    sizes = [output.rows.num_rows for output in join.run(split(stream, [400]))]
    assert sum(sizes) == 600 * 400
    assert max(sizes) <= 1 << 16


def test_a_budget_too_small_says_what_is_enough(joiner):
    with pytest.raises(BudgetTooSmall) as caught:
        joiner.open(joiner.store(MASTER), STREAM.schema, memory=1000)
    given = joiner.run(MASTER, STREAM, memory=caught.value.smallest_bytes)
    assert_same(given, wanted(MASTER, STREAM, joiner.condition))


def test_statistics_add_up(joiner):
    given = joiner.run(MASTER, STREAM, memory=SMALL)
    expected, statistics = wanted(MASTER, STREAM, joiner.condition), given.statistics
    assert statistics.algorithm == joiner.algorithm
    assert statistics.rows_in == STREAM.num_rows
    assert statistics.rows_unmatched == expected.unmatched.total()
    assert statistics.rows_matched == STREAM.num_rows - expected.unmatched.total()
    assert statistics.rows_joined == expected.joined.total()
    assert statistics.rows_pending == statistics.window_rows == 0


def test_the_same_input_does_the_same(joiner):
    runs = [joiner.run(MASTER, STREAM, sizes=[31, 400], memory=SMALL) for _ in range(2)]
    facts = [
        {name: value for name, value in run.statistics.to_dict().items() if "second" not in name}
        for run in runs
    ]
    assert facts[0] == facts[1]


@pytest.mark.parametrize("select", [[], ["name"], ["high", "v"]])
def test_selected_columns(joiner, select):
    """The columns of the condition are read, but brought only when asked for."""
    given = joiner.run(MASTER, STREAM, select=select)
    places = [3 + MASTER.column_names.index(name) for name in select]
    expected: Counter = Counter()
    for row, count in wanted(MASTER, STREAM, joiner.condition).joined.items():
        expected[(*row[:3], *(row[place] for place in places))] += count
    assert difference(given.joined, expected) == ([], [])


@pytest.mark.parametrize("mode", ["tuned", "upfront"])
def test_shed_tuples_are_joined_once(joiner, tmp_path, mode):
    options = Options(shedding=Shedding(ShedStore(tmp_path / "shed"), mode))
    given = Given()
    with joiner.open(joiner.store(MASTER), STREAM.schema, memory=SMALL, options=options) as join:
        for batch in split(pa.concat_tables([STREAM] * 4), [2000]):
            join.offer(batch)
            collect(join, join.step(), given)
        assert join.statistics.rows_shed_total > 0
        collect(join, join.drain(), given)
    expected = wanted(MASTER, pa.concat_tables([STREAM] * 4), joiner.condition)
    assert difference(given.joined, expected.joined) == ([], [])
    assert difference(given.unmatched, expected.unmatched) == ([], [])


_DAY, _UTC = dt.datetime.fromisoformat("2024-02-29"), dt.UTC
_OLD = dt.datetime.fromisoformat("1700-01-01")
_CASES = {
    "integers of other widths": (
        pa.array([-1, 0, 5, 127], pa.int8()),
        pa.array([-300, 0, 5, 100], pa.int64()),
        pa.array([0, 2**64 - 1, 5, 126], pa.uint64()),
    ),
    "unsigned in the stream": (
        pa.array([0, 5, 2**63, 2**64 - 1], pa.uint64()),
        pa.array([-(2**63), 5, 2**63 - 1], pa.int64()),
        pa.array([-1, 5, 2**63 - 1], pa.int64()),
    ),
    "an integer between decimals": (
        pa.array([1, 2, 3, 2**62], pa.int64()),
        pa.array([Decimal("0.01"), Decimal("2.00"), Decimal("2.01")], pa.decimal128(5, 2)),
        pa.array([Decimal("1.99999"), Decimal("2.5"), Decimal("9")], pa.decimal128(10, 5)),
    ),
    "a decimal between integers": (
        pa.array([Decimal("1.99"), Decimal("2.00"), Decimal("-7.01")], pa.decimal128(18, 2)),
        pa.array([-(2**63), 2, 1, -8], pa.int64()),
        pa.array([2**63 - 1, 2, 1, -7], pa.int64()),
    ),
    "a date between times": (
        pa.array([_DAY.date(), dt.date(1969, 12, 31)]),
        pa.array([_DAY - dt.timedelta(microseconds=1), _DAY + dt.timedelta(microseconds=1)]),
        pa.array([_DAY, _DAY + dt.timedelta(days=2)], pa.timestamp("us")),
    ),
    "a time between dates": (
        pa.array([_DAY, _DAY + dt.timedelta(hours=5), _OLD], pa.timestamp("ns")),
        pa.array([_DAY.date(), dt.date(1, 1, 1)]),
        pa.array([_DAY.date(), dt.date(9999, 12, 31)]),
    ),
    "times with zones": (
        pa.array([_DAY.replace(tzinfo=_UTC)], pa.timestamp("ms", "UTC")),
        pa.array([_DAY.replace(tzinfo=_UTC)], pa.timestamp("s", "Asia/Tokyo")),
        pa.array([_DAY.replace(tzinfo=_UTC)], pa.timestamp("ns", "UTC")),
    ),
    "floats": (
        pa.array([-0.0, 0.1, float("inf"), 1e300, 5e-324], pa.float64()),
        pa.array([0.0, -1e300, float("-inf"), 0.125], pa.float64()),
        pa.array([0.0, 0.09999, float("inf"), 0.1], pa.float32()),
    ),
    "dictionaries": (
        pa.array([1, 2, 2, None]),
        pa.array([2, 1]).dictionary_encode(),
        pa.array([2, 2]),
    ),
}


def _comparable(value):
    is_date = type(value) is dt.date
    return dt.datetime.combine(value, dt.time()) if is_date else value


@pytest.mark.parametrize("case", _CASES)
def test_every_type_is_compared_by_value(make_store, case):
    x, low, high = _CASES[case]
    count = min(len(low), len(high))
    master = pa.table({"low": low[:count], "high": high[:count], "v": range(count)})
    stream = pa.table({"x": x, "id": range(len(x))})
    expected = {
        (i, v)
        for i, value in enumerate(map(_comparable, x.to_pylist()))
        for v, (a, b) in enumerate(zip(low.to_pylist(), high.to_pylist(), strict=False))
        if value is not None and _comparable(a) <= value <= _comparable(b)
    }
    joiner = ConditionJoiner(make_store, "meshjoin", RANGE)
    given = joiner.run(master, stream, select=["v"])
    assert {row[1:] for row in given.joined} == expected
    assert given.joined.total() == len(expected)


@pytest.mark.parametrize(
    ("x", "distance", "low", "matches"),
    [
        ([1, 4, 9], 3, [6], [4, 9]),
        ([1, 2, 3], Decimal("0.5"), [2], [2]),
        ([2**63 - 1, -(2**63)], 2**64, [0], [2**63 - 1, -(2**63)]),
        ([2**63 - 1, 2**63 - 2], 1, [2**63 - 1], [2**63 - 1, 2**63 - 2]),
        ([Decimal("1.25"), Decimal("1.26")], 0.25, [1], [Decimal("1.25")]),
        ([1.5, 1.75, float("inf"), float("nan")], 0.5, [2.0], [1.5, 1.75]),
        ([1.0], 2.0, [float("inf"), float("nan")], []),
        ([_DAY, _DAY.replace(hour=1)], dt.timedelta(minutes=59), [_DAY.date()], [_DAY]),
        ([_DAY.date()], dt.timedelta(hours=5), [_DAY.replace(hour=5)], [_DAY.date()]),
    ],
    ids=str,
)
def test_a_band_is_exact(make_store, x, distance, low, matches):
    condition = Within("x", distance, "low")
    joiner = ConditionJoiner(make_store, "meshjoin", condition)
    given = joiner.run(pa.table({"low": low}), pa.table({"x": x}), select=[])
    assert sorted(row[0] for row in given.joined) == sorted(matches)


def test_the_others_refuse_and_name_those_that_can(make_store):
    store = make_store(MASTER, ["low"])
    for name in set(algorithms()) - set(ABLE):
        with pytest.raises(InputError, match=r"equal keys only.*meshjoin, rmeshjoin"):
            open_join(store, STREAM.schema, RANGE, algorithm=name)
    assert open_join(store, STREAM.schema, RANGE).statistics.algorithm == "meshjoin"


@pytest.mark.parametrize(
    ("condition", "error", "says"),
    [
        (Between("y", "low", "high"), InputError, "no column 'y' in the stream"),
        (Between("x", "low", "top"), InputError, "no column 'top' in master"),
        (Between("x", "high", "low"), InputError, "build it with the key high"),
        (Between("x", "low", "name"), InputError, "'name' is string; allowed are integers"),
        (Between("v", "low", "high"), InputError, "'v' is string; allowed are integers"),
        (Between("f", "low", "high"), KeyTypeMismatch, "'f'.*'low'.*without loss"),
        (Within("x", dt.timedelta(1), "low"), InputError, "a number without a unit"),
        (Within("day", 1, "low"), InputError, "cannot compare|must be a time"),
    ],
    ids=str,
)
def test_what_cannot_be_compared_is_refused(make_store, condition, error, says):
    schema = STREAM.schema.append(pa.field("f", pa.float64())).append(pa.field("day", pa.date32()))
    with pytest.raises(error, match=says):
        open_join(make_store(MASTER, ["low"]), schema, condition)


@pytest.mark.parametrize("distance", [-1, float("nan"), float("inf"), dt.timedelta(-1)], ids=str)
def test_a_distance_is_finite_and_not_negative(distance):
    with pytest.raises(InputError, match="finite number, 0 or above"):
        Within("x", distance, "low")
