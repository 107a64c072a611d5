"""The window of the scan family: pending tuples hashed by key, in chunks of arrival.

Paper 004, section 3.1: a chunk enters at some place of the cyclic scan and leaves when the scan
is back at that place: it has met the whole master once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from semistream.joins.sorted_runs import SortedRuns
from semistream.joins.tuple_rows import TupleRows
from semistream.joins.tuple_table import CELLS, Content, Runs, TupleTable
from semistream.kernels import scanning
from semistream.kernels.arrays import BoolArray, I32Array, I64Array
from semistream.keys import Keys


@dataclass(slots=True)
class _Chunk:
    number: int
    entered: int  # partitions scanned before it came
    step: int
    slots: I32Array


@dataclass(frozen=True, slots=True)
class _ChunkContent(Content):
    has_matched: BoolArray
    chunks: list[tuple[int, int, int]]  # entered, step, tuples
    key_rows: I32Array
    key_since: I64Array


class ScanWindow(TupleTable):
    """Up to `capacity` pending tuples, `cycle` partitions being one cycle of the scan."""

    def __init__(
        self,
        rows: TupleRows,
        capacity: int,
        arena_bytes: int,
        *,
        is_exact: bool,
        is_tagged: bool = False,
        cycle: int,
        counts_rows: bool = False,
        is_sorted: bool = False,
    ) -> None:
        """With `is_sorted` tuples are found by range instead of by key."""
        super().__init__(
            rows,
            capacity,
            arena_bytes,
            is_exact=is_exact,
            is_tagged=is_tagged,
            is_hashed=not is_sorted,
        )
        self._cycle = cycle
        self.sorted_runs = SortedRuns(capacity) if is_sorted else None
        self._previous = np.full(0 if is_sorted else capacity, -1, np.int32)
        self._chunk_of = np.full(capacity, -1, np.int32)
        self._has_matched = np.zeros(capacity, np.bool_)
        if counts_rows:
            self.key_rows = np.zeros(capacity, np.int32)
            self.key_since = np.zeros(capacity, np.int64)
        self._chunks: deque[_Chunk] = deque()
        self._queued = 0
        self._next_chunk = 0

    @staticmethod
    def slot_bytes(
        rows: TupleRows,
        *,
        is_exact: bool,
        is_tagged: bool = False,
        counts_rows: bool = False,
        is_sorted: bool = False,
    ) -> int:
        """Bytes of a slot with its place in a chunk, without variable-width values."""
        base = TupleTable.base_bytes(rows, is_exact=is_exact, is_tagged=is_tagged)
        chains = SortedRuns.slot_bytes() - int(4 * CELLS) if is_sorted else 4
        return base + chains + 8 + 1 + 12 * counts_rows

    @property
    def queue_bytes(self) -> int:
        return 4 * self._queued + self._chunk_of.nbytes

    @property
    def window_bytes(self) -> int:
        arrays = (self._previous, self._has_matched, self.key_rows, self.key_since)
        runs = 0 if self.sorted_runs is None else self.sorted_runs.nbytes
        return self.table_bytes + sum(array.nbytes for array in arrays) + runs

    def add(
        self, rows: pa.RecordBatch, keys: Keys, now: int, step: int, tags: I64Array | None = None
    ) -> None:
        """Take rows that fit (`room_for`) when `now` partitions have been scanned."""
        if not rows.num_rows:
            return
        slots = self._put(rows, keys, tags)
        self._has_matched[slots] = False
        if self.sorted_runs is None:
            self._attach(slots, now)
        self._enqueue(slots, now, step)
        if self.sorted_runs is not None:
            self.sorted_runs.add(keys.codes, slots, self._chunks[-1].number, self._chunk_of)
        if self._queued > self.capacity:
            self._reclaim()

    def _attach(self, slots: I32Array, now: int) -> None:
        scanning.attach(
            slots,
            self._table,
            self.code,
            self.check,
            self._following,
            self._previous,
            now,
            self.key_rows,
            self.key_since,
        )

    def _enqueue(self, slots: I32Array, now: int, step: int) -> None:
        self._chunk_of[slots] = self._next_chunk
        self._chunks.append(_Chunk(self._next_chunk, now, step, slots))
        self._next_chunk = (self._next_chunk + 1) & 0x7FFFFFFF
        self._queued += len(slots)

    def content(self) -> Content:
        """Everything, in the order it came."""
        self._reclaim()
        slots = np.concatenate([np.empty(0, np.int32), *(chunk.slots for chunk in self._chunks)])
        rows, keys, tags = self._content(slots)
        heads = self.heads_of(keys.codes, keys.checks) if len(self.key_rows) else slots[:0]
        return _ChunkContent(
            rows,
            keys,
            tags,
            self._has_matched[slots],
            [(chunk.entered, chunk.step, len(chunk.slots)) for chunk in self._chunks],
            self.key_rows[heads],
            self.key_since[heads],
        )

    def load(self, content: Content) -> None:
        """Take over the content of another window; this one must be empty."""
        assert isinstance(content, _ChunkContent)
        slots = self._put(content.rows, content.keys, content.tags)
        self._has_matched[slots] = content.has_matched
        self._attach(slots, 0)
        at = 0
        for entered, step, size in content.chunks:
            self._enqueue(slots[at : at + size], entered, step)
            at += size
        if len(self.key_rows):
            heads = self.heads_of(content.keys.codes, content.keys.checks)
            self.key_rows[heads], self.key_since[heads] = content.key_rows, content.key_since

    def match(self, runs: Runs) -> tuple[I32Array, I64Array, I64Array]:
        slots, low, high = super().match(runs)
        self._has_matched[slots] = True
        return slots, low, high

    def leave(self, slots: I32Array) -> int:
        """Tuples just matched; they stay, since the rest of the master may match them too."""
        return 0

    def remaining(self, now: int) -> int:
        """Partitions until the oldest tuples have met the whole master."""
        return self._chunks[0].entered + self._cycle - now if self._chunks else self._cycle

    def oldest_age(self, step: int) -> int:
        """Steps the oldest pending tuple has waited."""
        return step - self._chunks[0].step if self._chunks else 0

    def oldest_row(self) -> pa.RecordBatch:
        """The row of the tuple that came first; there must be one."""
        while not len(living := self._living(self._chunks[0])):
            self._queued -= len(self._chunks.popleft().slots)
        return self.rows(living[:1])

    def expire(self, now: int) -> I32Array:
        """Tuples that have met the whole master; they still have to be removed."""
        gone = [self._chunks.popleft() for _ in range(self._count_over(now))]
        self._queued -= sum(len(chunk.slots) for chunk in gone)
        living = [self._living(chunk) for chunk in gone]
        return np.concatenate(living) if living else np.empty(0, np.int32)

    def newest(self, count: int) -> I32Array:
        """The latest tuples that have neither matched nor been shed before, at most `count`: the
        scan has done least for them."""
        found: list[I32Array] = []
        for chunk in reversed(self._chunks):
            slots = self._living(chunk)
            slots = slots[~self._has_matched[slots]]
            if len(self._tag):
                slots = slots[self._tag[slots] < 0]
            found.append(slots[max(len(slots) - count, 0) :])
            count -= len(found[-1])
            if count <= 0:
                break
        return np.concatenate(found) if found else np.empty(0, np.int32)

    def has_matched(self, slots: I32Array) -> np.ndarray:
        return self._has_matched[slots]

    def note_matched(self, slots: I32Array) -> None:
        self._has_matched[slots] = True

    def is_living(self, slots: I32Array, numbers: I32Array) -> np.ndarray:
        """Whether the slots still hold the tuples of these chunks."""
        living: np.ndarray = self._chunk_of[slots] == numbers
        return living

    def drop_dead(self) -> None:
        """Keep the sorted runs at most about half dead."""
        runs = self.sorted_runs
        if runs is not None and len(runs) > 2 * self.pending + 64:
            runs.drop_dead(self._chunk_of)

    def remove(self, slots: I32Array) -> None:
        """Free the slots of tuples that leave."""
        if self.sorted_runs is None:
            scanning.detach(
                slots,
                self._table,
                self.code,
                self.check,
                self._following,
                self._previous,
                self.key_rows,
                self.key_since,
            )
        self._chunk_of[slots] = -1
        self._release(slots)
        if not self.pending:
            self._chunks.clear()
            self._queued = 0
            if self.sorted_runs is not None:
                self.sorted_runs.clear()

    def _count_over(self, now: int) -> int:
        for number, chunk in enumerate(self._chunks):
            if chunk.entered + self._cycle > now:
                return number
        return len(self._chunks)

    def _living(self, chunk: _Chunk) -> I32Array:
        """A slot may have been given to a later chunk: the chunk's number tells."""
        living: I32Array = chunk.slots[self._chunk_of[chunk.slots] == chunk.number]
        return living

    @property
    def _heads_cost(self) -> int:
        return self._queued

    def _heads(self) -> I32Array:
        living = [self._living(chunk) for chunk in self._chunks]
        slots = np.concatenate([np.empty(0, np.int32), *living])
        heads: I32Array = slots[self._previous[slots] < 0]
        return heads

    def _reclaim(self) -> None:
        for chunk in self._chunks:
            chunk.slots = self._living(chunk)
        self._queued = self.pending
