"""The window: pending stream tuples, found by partition, ordered by a queue.

The papers hash the window by key and probe it with every master tuple of a partition. Here the
bucket of a tuple is the partition its key lies in: the same tuples are found, without touching
the window once per master tuple. The queue holds the arrival order and allows deletion anywhere.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from semistream.kernels import pending
from semistream.kernels.arrays import I32Array, I64Array
from semistream.kernels.matching import walk_chains
from semistream.keys import Keys
from semistream.slab import RowSlab
from semistream.stores.protocol import MasterRows

_NOT_EXACT, _EXACT = 8, 0  # bytes of a check
_SLOT_ARRAYS = 8 + 5 * 4  # code; partition, following, previous, place, entered
_QUEUE_SLACK = 1.5  # ring entries per slot: holes are squeezed out when the ring is full
_NO_TAGS = np.empty(0, np.int64)


class Window:
    """Up to `capacity` pending tuples of `schema` in fixed memory."""

    def __init__(
        self,
        schema: pa.Schema,
        capacity: int,
        arena_bytes: int,
        partition_count: int,
        *,
        is_exact: bool,
        has_straddling_keys: bool = False,
        is_tagged: bool = False,
    ) -> None:
        self.capacity = capacity
        self._slab = RowSlab(schema, capacity, arena_bytes)
        self._code = np.zeros(capacity, np.uint64)
        self._check = np.zeros(0 if is_exact else capacity, np.uint64)
        self._partition = np.zeros(capacity, np.int32)
        self._following = np.full(capacity, -1, np.int32)
        self._previous = np.full(capacity, -1, np.int32)
        self._heads = np.full(partition_count, -1, np.int32)
        self.pending_by_partition = np.zeros(partition_count, np.int32)
        self._entered = np.zeros(capacity, np.int32)
        self._place = np.zeros(capacity, np.int32)
        self._ring = np.full(int(capacity * _QUEUE_SLACK) + 1, -1, np.int32)
        self._head = self._tail = 0
        # The free slots are a stack at the other end of the ring; the two never meet, because
        # the living and the free are `capacity` together and the ring is longer.
        self._bottom = len(self._ring) - capacity
        self._ring[self._bottom :] = np.arange(capacity, dtype=np.int32)
        self.pending = 0
        # Only masters whose keys straddle partitions need to know where a key ends and whether
        # an earlier partition has matched; only shedding needs tags.
        self._last = np.zeros(capacity if has_straddling_keys else 0, np.int32)
        self._has_matched = np.zeros(len(self._last), np.bool_)
        self._tag = np.full(capacity, -1, np.int64) if is_tagged else _NO_TAGS

    @staticmethod
    def slot_bytes(
        schema: pa.Schema, *, is_exact: bool, has_straddling_keys: bool, is_tagged: bool
    ) -> int:
        """Bytes of a slot with its place in the queue, without variable-width values."""
        extra = (_EXACT if is_exact else _NOT_EXACT) + 5 * has_straddling_keys + 8 * is_tagged
        return RowSlab.slot_bytes(schema) + _SLOT_ARRAYS + int(4 * _QUEUE_SLACK) + extra

    @staticmethod
    def partition_overhead(partition_count: int) -> int:
        return 8 * partition_count

    @property
    def queue_bytes(self) -> int:
        return self._ring.nbytes + self._place.nbytes + self._entered.nbytes

    @property
    def window_bytes(self) -> int:
        arrays = (self._code, self._check, self._partition, self._following, self._previous)
        more = (self._heads, self.pending_by_partition, self._last, self._has_matched, self._tag)
        return self._slab.nbytes + sum(array.nbytes for array in (*arrays, *more))

    def room_for(self, rows: pa.RecordBatch) -> int:
        """How many of the first rows fit, by slots and by bytes."""
        fit = min(rows.num_rows, self.capacity - self.pending)
        sizes = RowSlab.arena_sizes(rows.slice(0, fit))
        return int(np.searchsorted(np.cumsum(sizes), self._slab.free_arena_bytes, side="right"))

    def add(
        self,
        rows: pa.RecordBatch,
        keys: Keys,
        first: I64Array,
        last: I64Array,
        step: int,
        tags: I64Array | None = None,
    ) -> None:
        """Take rows that fit (`room_for`), at the newest end of the queue."""
        if not rows.num_rows:
            return
        slots = self._ring[self._bottom : self._bottom + rows.num_rows].copy()
        self._bottom += len(slots)
        self._slab.put(slots, rows)
        self._code[slots] = keys.codes
        if keys.checks is not None:
            self._check[slots] = keys.checks
        self._entered[slots] = step
        if len(self._last):
            self._last[slots] = last
            self._has_matched[slots] = False
        if len(self._tag):
            self._tag[slots] = -1 if tags is None else tags
        self._link(slots, first)
        if self._tail + len(slots) > self._bottom:
            self._squeeze()
        self._tail = pending.enqueue(slots, self._place, self._ring, self._tail)
        self.pending += len(slots)

    def match(self, master: MasterRows) -> tuple[I32Array, I64Array, I64Array]:
        """The slots pending on the partitions read, and the range of master rows of each."""
        counts = self.pending_by_partition
        count = int(counts[master.partitions].sum())
        slots = np.empty(count, np.int32)
        ends = np.empty(len(master.partitions), np.int64)
        walk_chains(master.partitions, self._heads, counts, self._following, slots, ends)
        low, high = master.ranges(*self.codes(slots), ends)
        return slots, low, high

    def settle(self, slots: I32Array, matched: np.ndarray) -> tuple[I32Array, np.ndarray]:
        """Which of the slots just matched are finished, and which of these have matched at all.

        A tuple whose key goes on in the next partition moves there and stays pending.
        """
        if not len(self._last):
            return slots, matched
        self._has_matched[slots] |= matched
        goes_on = self._last[slots] > self._partition[slots]
        moving, finished = slots[goes_on], slots[~goes_on]
        if len(moving):
            onward = self._partition[moving] + 1
            self._unlink(moving)
            self._link(moving, onward)
        return finished, self._has_matched[finished]

    def rows(self, slots: I32Array) -> pa.RecordBatch:
        return self._slab.gather(slots)

    def sizes(self, slots: I32Array) -> I64Array:
        return self._slab.sizes(slots)

    def codes(self, slots: I32Array) -> tuple[np.ndarray, np.ndarray | None]:
        return self._code[slots], (self._check[slots] if len(self._check) else None)

    def tags(self, slots: I32Array) -> I64Array | None:
        return self._tag[slots] if len(self._tag) else None

    def remove(self, slots: I32Array) -> None:
        """Free the slots of tuples that have left the window."""
        self._unlink(slots)
        self._release(slots)

    def remove_all(self, partitions: np.ndarray, slots: I32Array) -> None:
        """Free the slots of finished tuples, all that `settle` left pending on the partitions."""
        if len(self._last):
            self.remove(slots)
            return
        pending.empty_chains(partitions, self._heads, self.pending_by_partition)
        self._release(slots)

    def _release(self, slots: I32Array) -> None:
        pending.dequeue(slots, self._place, self._ring)
        self._slab.clear(slots)
        self.pending -= len(slots)
        if self._tail > self._bottom - len(slots):
            self._squeeze()
        self._bottom -= len(slots)
        self._ring[self._bottom : self._bottom + len(slots)] = slots
        if self.pending:
            self._head = int(pending.first_living(self._ring, self._head, self._tail))
        else:
            self._head = self._tail = 0

    def _squeeze(self) -> None:
        """Close the holes of the queue."""
        self._tail = int(pending.squeeze(self._place, self._ring, self._head, self._tail))
        self._head = 0

    def oldest(self, count: int) -> I32Array:
        """The oldest tuples that were not shed before, at most `count`.

        A tuple some of whose matches are out already is no longer among them.
        """
        slots: I32Array = pending.oldest_slots(
            self._ring, self._head, self._tail, min(count, self.pending), self._tag
        )
        return slots[~self._has_matched[slots]] if len(self._last) else slots

    def first(self) -> I32Array:
        """The slot at the head of the queue; there must be one."""
        return self._ring[self._head : self._head + 1]

    def partitions_from_oldest(self, wanted: int) -> I64Array:
        return self._walk(self._head, self._tail, 1, wanted)

    def partitions_from(self, fraction: float, wanted: int) -> I64Array:
        """Partitions of the tuples at `fraction` of the queue behind its newest end, and older."""
        start = pending.live_position(self._ring, self._head, self._tail, self.pending, fraction)
        return self._walk(start, self._head - 1, -1, wanted)

    def oldest_age(self, step: int) -> int:
        """Steps the oldest pending tuple has waited."""
        return step - int(self._entered[self._ring[self._head]]) if self.pending else 0

    def _walk(self, start: int, stop: int, direction: int, wanted: int) -> I64Array:
        if not self.pending:
            return np.empty(0, np.int64)
        partitions: I64Array = pending.walk_partitions(
            self._ring, start, stop, direction, self._partition, wanted, 64 * wanted
        )
        return partitions

    def _link(self, slots: I32Array, partitions: np.ndarray) -> None:
        pending.link(
            slots,
            partitions,
            self._partition,
            self._following,
            self._previous,
            self._heads,
            self.pending_by_partition,
        )

    def _unlink(self, slots: I32Array) -> None:
        pending.unlink(
            slots,
            self._partition,
            self._following,
            self._previous,
            self._heads,
            self.pending_by_partition,
        )
