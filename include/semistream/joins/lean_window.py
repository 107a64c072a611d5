"""The window of a scan whose tuples leave at their match: less memory a tuple.

With unique master keys only tuples without a match stay a whole cycle. So the tuples of a key
leave together, chains need no way back, and when a tuple came need not be known exactly: a tuple
that stays a little longer than a cycle meets some partitions twice and matches nothing in them
again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from semistream.joins.tuple_rows import TupleRows
from semistream.joins.tuple_table import Content, TupleTable
from semistream.kernels import scanning
from semistream.kernels.arrays import I32Array, I64Array, U8Array
from semistream.keys import Keys

_TICKS = 8  # of a cycle: how finely arrival is remembered


@dataclass(frozen=True, slots=True)
class _LeanContent(Content):
    came: U8Array
    swept: int
    oldest_step: int
    firsts: deque[tuple[int, pa.RecordBatch]]


class LeanWindow(TupleTable):
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
    ) -> None:
        super().__init__(rows, capacity, arena_bytes, is_exact=is_exact, is_tagged=is_tagged)
        self._cycle = cycle
        self._came = np.zeros(capacity, np.uint8)  # tick, modulo 256
        self._swept = 0
        self._none = np.empty(0, np.int32)
        self._oldest_step = 0
        self._firsts: deque[tuple[int, pa.RecordBatch]] = deque()  # first row of each tick

    @staticmethod
    def slot_bytes(rows: TupleRows, *, is_exact: bool, is_tagged: bool = False) -> int:
        """Bytes of a slot, without variable-width values."""
        return TupleTable.base_bytes(rows, is_exact=is_exact, is_tagged=is_tagged) + 1

    @property
    def queue_bytes(self) -> int:
        return self._came.nbytes

    @property
    def window_bytes(self) -> int:
        return self.table_bytes

    def add(
        self, rows: pa.RecordBatch, keys: Keys, now: int, step: int, tags: I64Array | None = None
    ) -> None:
        """Take rows that fit (`room_for`) when `now` partitions have been scanned."""
        if not rows.num_rows:
            return
        tick = self._tick(now)
        if not self.pending:
            self._swept, self._oldest_step = tick, step
            self._firsts.clear()
        if not self._firsts or self._firsts[-1][0] != tick:
            self._firsts.append((tick, rows.take([0])))
        slots = self._put(rows, keys, tags)
        self._came[slots] = tick & 255
        self._attach(slots)

    def _attach(self, slots: I32Array) -> None:
        scanning.attach(
            slots,
            self._table,
            self.code,
            self.check,
            self._following,
            self._none,
            0,
            self.key_rows,
            self.key_since,
        )

    def content(self) -> Content:
        """Everything, in whole chains, their first tuples first."""
        slots = self._chains(self._heads())
        held = self._content(slots)
        return _LeanContent(*held, self._came[slots], self._swept, self._oldest_step, self._firsts)

    def load(self, content: Content) -> None:
        """Take over the content of another window; this one must be empty."""
        assert isinstance(content, _LeanContent)
        slots = self._put(content.rows, content.keys, content.tags)
        self._came[slots] = content.came
        self._swept, self._oldest_step = content.swept, content.oldest_step
        self._firsts = content.firsts
        self._attach(slots)

    def leave(self, slots: I32Array) -> int:
        """Tuples just matched leave; how many have matched for good."""
        self.remove(slots)
        return len(slots)

    def remaining(self, now: int) -> int:
        """Partitions the scan may read at once: any number."""
        return self._cycle

    def expire(self, now: int) -> I32Array:
        """Tuples that have met the whole master without a match, in whole chains."""
        if not self._cycle:  # an empty master has been met at once
            return self._chains(self._heads())
        tick = self._tick(now)
        if tick == self._swept or not self.pending:
            return self._none
        self._swept = tick
        heads = self._heads()
        # The first of a chain is the oldest: where it found nothing, the others will not either.
        age = (np.uint8(tick & 255) - self._came[heads]).astype(np.uint8)
        return self._chains(heads[age > _TICKS])

    def has_matched(self, slots: I32Array) -> np.ndarray:
        return np.zeros(len(slots), np.bool_)

    def newest(self, count: int) -> I32Array:
        """About `count` of the latest tuples that were not shed before, in whole chains."""
        heads = self._heads()
        age = (np.uint8(self._swept & 255) - self._came[heads]).astype(np.uint8)
        heads = heads[np.argsort(age, kind="stable")]
        sizes = np.empty(len(heads), np.int64)
        scanning.chain_sizes(heads, self._following, sizes)
        if len(self._tag) and len(heads):
            slots = self._chains(heads)
            starts = np.cumsum(sizes) - sizes
            is_fresh = np.maximum.reduceat(self._tag[slots], starts) < 0
            heads, sizes = heads[is_fresh], sizes[is_fresh]
        return self._chains(heads[np.cumsum(sizes) <= count])

    def oldest_row(self) -> pa.RecordBatch:
        """The first row of the oldest tick that pending tuples may be of; there must be one."""
        while self._swept - self._firsts[0][0] > _TICKS:
            self._firsts.popleft()
        return self._firsts[0][1]

    def oldest_age(self, step: int) -> int:
        """Steps since the window was last empty: nothing in it is older."""
        return step - self._oldest_step if self.pending else 0

    def remove(self, slots: I32Array) -> None:
        """Free whole chains."""
        scanning.drop_keys(slots, self._table, self.code, self.check)
        self._release(slots)

    def _chains(self, heads: I32Array) -> I32Array:
        sizes = np.empty(len(heads), np.int64)
        slots = np.empty(scanning.chain_sizes(heads, self._following, sizes), np.int32)
        scanning.walk(heads, self._following, slots)
        return slots

    def _tick(self, now: int) -> int:
        return now * _TICKS // max(self._cycle, 1)
