"""What a join must give, according to DuckDB, and what a join gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from semistream.joins.core import SemiStreamJoin
from semistream.joins.outputs import JoinOutput
from semistream.statistics import JoinStatistics

Pairs = Sequence[tuple[str, str]]


@dataclass(slots=True)
class Given:
    """Everything a join put out, as multisets."""

    joined: Counter = field(default_factory=Counter)
    unmatched: Counter = field(default_factory=Counter)  # stream rows, without the reason
    reasons: Counter = field(default_factory=Counter)
    statistics: JoinStatistics = field(default_factory=JoinStatistics)


_KEPT_ANSWERS = 32
_ANSWERS: dict[tuple, tuple[pa.Table, pa.Table, Given]] = {}


def rows_of(data: pa.Table | pa.RecordBatch) -> list[tuple]:
    columns = [column.to_pylist() for column in data.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * data.num_rows


def collect(
    join: SemiStreamJoin, outputs: Iterable[JoinOutput], into: Given | None = None
) -> Given:
    """Take all outputs, checking at each that no tuple is lost or counted twice."""
    given = into or Given()
    statistics = given.statistics = join.statistics
    for output in outputs:
        output.rows.validate(full=True)
        assert output.rows.num_rows
        assert statistics.balances
        assert statistics.rows_pending >= 0
        if output.kind == "joined":
            assert output.rows.schema.equals(join.joined_schema)
            given.joined.update(rows_of(output.rows))
        else:
            assert output.kind == "unmatched"
            assert output.rows.schema.equals(join.unmatched_schema)
            for row in rows_of(output.rows):
                given.unmatched[row[:-1]] += 1
                given.reasons[row[-1]] += 1
        assert statistics.rows_unmatched == given.unmatched.total()
        assert statistics.rows_joined == given.joined.total()
    assert statistics.balances
    assert statistics.unmatched_by_reason == given.reasons
    return given


def wanted(master: pa.Table, stream: pa.Table, on: Pairs, how: str = "inner") -> Given:
    """DuckDB's answer, in the column order of `open_join` without a selection; do not change it.

    Remembered: a law asks the same of every algorithm and every store.
    """
    question = (id(master), id(stream), tuple(on), how)
    if question not in _ANSWERS:
        while len(_ANSWERS) >= _KEPT_ANSWERS:
            del _ANSWERS[next(iter(_ANSWERS))]
        # With the tables themselves: were one freed, another could get its id.
        _ANSWERS[question] = master, stream, _ask_duckdb(master, stream, on, how)
    return _ANSWERS[question][-1]


def _ask_duckdb(master: pa.Table, stream: pa.Table, on: Pairs, how: str) -> Given:
    condition = " and ".join(f's."{ours}" = m."{theirs}"' for ours, theirs in on)
    repeated = {theirs for ours, theirs in on if ours == theirs}
    columns = [f's."{name}"' for name in stream.column_names]
    own = ", ".join(columns)
    columns += [f'm."{name}"' for name in master.column_names if name not in repeated]
    missing = f"from s where not exists (select 1 from m where {condition})"
    null = " or ".join(f's."{ours}" is null' for ours, _ in on)
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("s", stream)
        connection.register("m", master)

        def rows(query: str) -> list[tuple]:
            return rows_of(connection.sql(query).to_arrow_table())

        mode = "left" if how == "left" else ""
        given = Given(
            Counter(rows(f"select {', '.join(columns)} from s {mode} join m on {condition}")),
            Counter(rows(f"select {own} {missing}")),
        )
        (nulls,) = rows(f"select count(*) {missing} and ({null})")[0]
    reasons = {"null_key": nulls, "no_match": given.unmatched.total() - nulls}
    given.reasons = Counter({reason: count for reason, count in reasons.items() if count})
    return given


def difference(given: Counter, expected: Counter) -> tuple[list, list]:
    """A few rows that are missing, and a few that are too many."""
    return list((expected - given).items())[:3], list((given - expected).items())[:3]


def assert_same(given: Given, expected: Given) -> None:
    assert difference(given.joined, expected.joined) == ([], [])
    assert difference(given.unmatched, expected.unmatched) == ([], [])
    assert given.reasons == expected.reasons
    assert given.statistics.rows_pending == 0


def split(stream: pa.Table, sizes: Iterable[int]) -> list[pa.RecordBatch]:
    """`stream` in batches of `sizes` rows (repeated as needed); 0 gives an empty batch."""
    whole = stream.combine_chunks().to_batches()
    pattern = list(sizes)
    if not whole or not any(pattern):
        return whole
    batches, at, turn = [], 0, 0
    while at < stream.num_rows:
        size = pattern[turn % len(pattern)]
        batches.append(whole[0].slice(at, size))
        at, turn = at + size, turn + 1
    return batches
