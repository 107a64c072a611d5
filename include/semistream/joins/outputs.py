"""What leaves a join: joined rows, unmatched rows with a reason, shed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from semistream.errors import InputError
from semistream.kernels.arrays import I64Array
from semistream.statistics import JoinStatistics

Kind = Literal["joined", "unmatched", "shed"]
How = Literal["inner", "left"]
Weigh = Callable[[np.ndarray], I64Array]  # bytes of each of some rows
REASON = "_reason"
CLASH_SUFFIX = "_master"
_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class JoinOutput:
    """Rows of one kind; `unmatched` rows carry their reason in the column `_reason`."""

    kind: Kind
    rows: pa.RecordBatch


def master_columns(
    master: pa.Schema, select: Sequence[str] | None, on: Sequence[tuple[str, str]]
) -> tuple[str, ...]:
    """The master columns a join brings: those selected, or all but the repeated key columns."""
    if select is not None:
        return tuple(dict.fromkeys(select))
    repeated = {theirs for ours, theirs in on if ours == theirs}
    return tuple(name for name in master.names if name not in repeated)


def output_schema(stream: pa.Schema, master: pa.Schema, how: How) -> pa.Schema:
    """All stream columns, then the master's; a name that is taken gets the suffix `_master`."""
    fields = list(stream)
    taken = set(stream.names)
    for field in master:
        name = field.name
        while name in taken:
            name += CLASH_SUFFIX
        taken.add(name)
        nullable = field.nullable or how == "left"
        fields.append(field.with_name(name).with_nullable(nullable))
    return pa.schema(fields)


class Emitter:
    """Assembles output batches of bounded size and counts them."""

    def __init__(
        self,
        stream: pa.Schema,
        master: pa.Schema,
        how: How,
        statistics: JoinStatistics,
        row_bytes: float,
    ) -> None:
        if how not in ("inner", "left"):
            raise InputError(f"how {how!r} is not a join mode: inner or left")
        if REASON in stream.names:
            raise InputError(f"stream column {REASON!r} is reserved for unmatched rows: rename it")
        self.joined_schema = output_schema(stream, master, how)
        self.unmatched_schema = stream.append(pa.field(REASON, pa.string()))
        self._stream, self._master, self._how = stream, master, how
        self.master_names = list(master.names)
        self._statistics = statistics
        self._chunk_rows = int(np.clip(_CHUNK_BYTES / (row_bytes + 64), 64, 1 << 16))

    def joined(self, stream: pa.RecordBatch, master: pa.RecordBatch) -> Iterator[JoinOutput]:
        """Rows that belong together side by side."""
        if stream.num_rows:
            arrays = [*stream.columns, *master.columns]
            self._statistics.rows_joined += stream.num_rows
            yield JoinOutput(
                "joined", pa.RecordBatch.from_arrays(arrays, schema=self.joined_schema)
            )

    def pairs(
        self,
        stream_rows: Callable[[np.ndarray], pa.RecordBatch],
        tuples: np.ndarray,
        low: I64Array,
        counts: I64Array,
        master_rows: Callable[[np.ndarray], pa.RecordBatch],
        *,
        sizes: tuple[Weigh, Weigh] | None = None,
    ) -> Iterator[JoinOutput]:
        """Tuple i with the master rows `low[i]` to `low[i] + counts[i]`, in chunks: the product
        of a many-to-many key never stands in memory as a whole. `sizes` weigh tuples and master
        rows: one wide row that many tuples meet must not fill the memory either."""
        matched = np.flatnonzero(counts)
        tuples = tuples[matched]
        for owner, rows in self.spread(low[matched], counts[matched]):
            slots = tuples[owner]
            parts: Iterable[slice] = [slice(None)]
            if sizes is not None:
                parts = self.portions(sizes[0](slots) + sizes[1](rows))
            for part in parts:
                yield from self.joined(stream_rows(slots[part]), master_rows(rows[part]))

    def spread(self, low: I64Array, counts: I64Array) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The numbers `low[i]` to `low[i] + counts[i]` (at least one) and the i of each, in chunks
        of as many as an output may have rows."""
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, self._chunk_rows):
            stop = min(start + self._chunk_rows, total)
            numbers = np.arange(start, stop)
            owner = np.searchsorted(ends, numbers, side="right") if total > len(ends) else numbers
            rows = low[owner] + numbers - (ends[owner] - counts[owner])
            yield owner, rows

    def portions(self, sizes: I64Array) -> Iterator[slice]:
        """Ranges of rows of `sizes` bytes that are safe to put out at once; a row is in one."""
        ends = np.cumsum(sizes)
        start = 0
        while start < len(ends):
            done = ends[start - 1] if start else 0
            stop = max(int(np.searchsorted(ends, done + _CHUNK_BYTES, side="right")), start + 1)
            yield slice(start, stop)
            start = stop

    def unmatched(self, rows: pa.RecordBatch, reason: str) -> Iterator[JoinOutput]:
        """Tuples without a master tuple; in left mode they are also joined with NULLs."""
        count = rows.num_rows
        if not count:
            return
        statistics = self._statistics
        statistics.rows_unmatched += count
        by_reason = statistics.unmatched_by_reason
        by_reason[reason] = by_reason.get(reason, 0) + count
        reasons = pa.repeat(pa.scalar(reason), count)
        yield JoinOutput(
            "unmatched",
            pa.RecordBatch.from_arrays([*rows.columns, reasons], schema=self.unmatched_schema),
        )
        if self._how == "left":
            nulls = [pa.nulls(count, field.type) for field in self._master]
            statistics.rows_joined += count
            yield JoinOutput(
                "joined",
                pa.RecordBatch.from_arrays([*rows.columns, *nulls], schema=self.joined_schema),
            )
