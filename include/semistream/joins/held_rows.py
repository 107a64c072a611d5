"""Rows that wait for their turn: kept by sequence number, in memory and, beyond that, in files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from semistream.joins.spill_files import Piece, SpillFiles
from semistream.kernels.arrays import I64Array

_HELD_SHARE = 0.5  # of the memory, for rows that wait; the rest is for sorting those due
_AFTER_SPILL = 0.5  # of that, what may stay in memory: the rows that are due first
_NEAR_SHARE = 1 / 8  # rows not yet sorted into buckets
_SORTED_SHARE = 0.25  # a larger bucket is divided before it is sorted
_BUCKET_SHARE = 1 / 16
_MOST_RUNS = 32


@dataclass(slots=True)
class _Run:
    """Rows in order, given out from the front."""

    rows: pa.RecordBatch
    numbers: I64Array
    position: int = 0

    @property
    def rest(self) -> pa.RecordBatch:
        return self.rows.slice(self.position)


@dataclass(slots=True)
class _Bucket:
    """Rows of the sequence numbers `start` to `stop`, in no order."""

    start: int
    stop: int
    parts: list[pa.RecordBatch] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    nbytes: int = 0  # of the parts, which are in memory

    @property
    def total_bytes(self) -> int:
        return self.nbytes + sum(piece.nbytes for piece in self.pieces)


class HeldRows:
    """Takes rows in any order of their int64 column `sequence`, gives them back in order.

    New rows are kept as they come, each batch sorted, until there are enough of them to divide
    among buckets of consecutive numbers. So rows that are due soon are found by a search in a few
    batches, and those due later are not looked at. When the rows outgrow their share of
    `memory_bytes`, the buckets due last go to temporary files. Rows of one number may outgrow the
    memory (a tuple with very many matches): they need no sorting and pass through as they are.
    """

    def __init__(self, sequence: str, memory_bytes: int) -> None:
        self._sequence = sequence
        self._limit = int(memory_bytes * _HELD_SHARE)
        self._near_limit = int(memory_bytes * _NEAR_SHARE)
        self._sortable = int(memory_bytes * _SORTED_SHARE)
        self._bucket_bytes = max(memory_bytes * _BUCKET_SHARE, 1.0)
        self._files = SpillFiles(max(memory_bytes, 4 << 20))
        self._runs: list[_Run] = []
        self._buckets: list[_Bucket] = []
        # Numbers below `_first` are out, those below `_covered` are in runs only; buckets go from
        # there to `_end`.
        self._first = self._covered = self._end = 0
        self._seen_bytes, self._seen_end = 0, 1
        self._near = self._far = self._sorting = 0  # bytes
        self.spilled_rows = 0  # ever

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._near + self._far + self._sorting

    @property
    def file_bytes(self) -> int:
        return self._files.nbytes

    @property
    def is_empty(self) -> bool:
        return not self._runs and not any(each.parts or each.pieces for each in self._buckets)

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows whose numbers have not been released yet."""
        if not rows.num_rows:
            return
        run = self._add_run(self._in_order(rows))
        self._seen_bytes += int(rows.nbytes)
        self._seen_end = max(self._seen_end, int(run.numbers[-1]) + 1)
        if self._near > self._near_limit or len(self._runs) > _MOST_RUNS:
            self._divide_runs()

    def release(self, before: int) -> Iterator[pa.RecordBatch]:
        """All rows with numbers below `before`, in order."""
        while self._buckets and self._buckets[0].start < before:
            bucket = self._buckets[0]
            is_large = bucket.total_bytes > self._sortable
            if is_large and bucket.stop - bucket.start > 1:
                self._divide(bucket)
                continue
            del self._buckets[0]
            self._covered = bucket.stop
            if is_large:
                yield from self._due(bucket.start)
                yield from self._parts(bucket)
            elif bucket.parts or bucket.pieces:
                self._add_run(self._in_order(_together(list(self._parts(bucket)))))
            yield from self._due(min(bucket.stop, before))
        yield from self._due(before)
        self._first = max(self._first, before)
        if not self._buckets:
            self._covered = self._end = max(self._end, before)

    def close(self) -> None:
        self._runs.clear()
        self._buckets.clear()
        self._near = self._far = 0
        self._files.close()

    def _numbers(self, rows: pa.RecordBatch) -> I64Array:
        numbers: I64Array = rows.column(self._sequence).to_numpy()
        return numbers

    def _in_order(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        numbers = self._numbers(rows)
        if bool((numbers[1:] >= numbers[:-1]).all()):
            return rows
        return rows.take(pa.array(np.argsort(numbers, kind="stable")))

    def _add_run(self, rows: pa.RecordBatch) -> _Run:
        run = _Run(rows, self._numbers(rows))
        self._runs.append(run)
        self._near += int(rows.nbytes)
        return run

    def _due(self, before: int) -> Iterator[pa.RecordBatch]:
        """Take the rows below `before` out of the runs."""
        due: list[pa.RecordBatch] = []
        for run in self._runs:
            stop = int(np.searchsorted(run.numbers, before, side="left"))
            if stop > run.position:
                due.append(run.rows.slice(run.position, stop - run.position))
                run.position = stop
        if not due:
            return
        self._near -= sum(int(run.rows.nbytes) for run in self._runs if not run.rest.num_rows)
        self._runs = [run for run in self._runs if run.rest.num_rows]
        rows = self._in_order(_together(due))
        self._sorting = int(rows.nbytes)
        yield rows
        self._sorting = 0

    def _divide_runs(self) -> None:
        """Put what the runs hold into buckets, except for a little that is due first."""
        rows = self._in_order(_together([run.rest for run in self._runs]))
        self._runs, self._near = [], 0
        numbers = self._numbers(rows)
        self._cover(int(numbers[-1]))
        near = int(np.searchsorted(numbers, self._covered, side="left"))
        if near and rows.slice(0, near).nbytes > 2 * self._bucket_bytes:
            self._buckets.insert(0, _Bucket(self._first, self._covered))
            self._covered, near = self._first, 0
        if near:
            self._add_run(_copy(rows.slice(0, near)))
        if near < len(numbers):
            self._place(rows.slice(near))

    def _cover(self, last: int) -> None:
        """Have a bucket for every number up to `last`."""
        per_number = self._seen_bytes / self._seen_end
        width = max(int(self._bucket_bytes / max(per_number, 1e-3)), 1)
        while self._end <= last:
            self._buckets.append(_Bucket(self._end, self._end + width))
            self._end += width

    def _place(self, rows: pa.RecordBatch) -> None:
        """Put ordered rows into their buckets."""
        numbers = self._numbers(rows)
        starts = np.array([bucket.start for bucket in self._buckets], np.int64)
        cuts = np.searchsorted(numbers, starts, side="left")
        for place, (start, stop) in enumerate(itertools.pairwise([*cuts, len(numbers)])):
            if start < stop:
                # A slice would keep the whole batch in memory until its last row is due.
                part, bucket = _copy(rows.slice(start, stop - start)), self._buckets[place]
                nbytes = int(part.nbytes)
                bucket.parts.append(part)
                bucket.nbytes += nbytes
                self._far += nbytes
        if self._near + self._far > self._limit - self._near_limit:
            self._spill()

    def _spill(self) -> None:
        for bucket in reversed(self._buckets):
            if self._near + self._far <= self._limit * _AFTER_SPILL:
                return
            if bucket.parts:
                rows = _together(bucket.parts)
                self._far -= bucket.nbytes
                bucket.parts, bucket.nbytes = [], 0
                bucket.pieces.append(self._files.write(rows))
                self.spilled_rows += rows.num_rows

    def _divide(self, bucket: _Bucket) -> None:
        """Replace the first bucket by narrower ones."""
        span = bucket.stop - bucket.start
        count = min(max(int(bucket.total_bytes / self._bucket_bytes), 2), span, 64)
        edges = [bucket.start + span * i // count for i in range(count + 1)]
        self._buckets[:1] = [_Bucket(a, b) for a, b in itertools.pairwise(edges)]
        for part in self._parts(bucket):
            self._place(self._in_order(part))

    def _parts(self, bucket: _Bucket) -> Iterator[pa.RecordBatch]:
        """The bucket's rows as they came; those in files one piece at a time."""
        self._far -= bucket.nbytes
        yield from bucket.parts
        for piece in bucket.pieces:
            yield self._files.take(piece)


def _together(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def _copy(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.take(pa.array(np.arange(rows.num_rows)))
