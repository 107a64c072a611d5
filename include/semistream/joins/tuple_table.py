"""Pending tuples in slots of fixed memory, chained by key under a hash table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from semistream.joins.tuple_rows import TupleRows
from semistream.kernels import scanning
from semistream.kernels.arrays import I32Array, I64Array, U64Array
from semistream.keys import OK, Keys
from semistream.slab import RowSlab
from semistream.stores.protocol import MasterRows

CELLS = 1.5  # of the hash table, per slot
_SEARCH_COST = 24  # comparing a waiting key with a sorted partition, in probes of one row
_NO_TAGS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Content:
    """All that a window holds, to be loaded into one of another size."""

    rows: pa.RecordBatch
    keys: Keys
    tags: I64Array | None


@dataclass(frozen=True, slots=True)
class Runs:
    """Master keys that tuples wait for: first slot of the chain, tuples in it, rows of the key."""

    heads: I32Array
    sizes: I64Array
    starts: I64Array
    stops: I64Array

    def __len__(self) -> int:
        return len(self.heads)


class TupleTable:
    """Up to `capacity` tuples, found by key; what leaves when is the heirs' matter."""

    def __init__(
        self,
        rows: TupleRows,
        capacity: int,
        arena_bytes: int,
        *,
        is_exact: bool,
        is_tagged: bool = False,
        is_hashed: bool = True,
    ) -> None:
        self.capacity = self.limit = capacity  # a lower limit lets the window run empty
        self.pending = 0
        self.code = np.zeros(capacity, np.uint64)
        self.check = np.zeros(0 if is_exact else capacity, np.uint64)
        self._rows = rows
        self._slab = RowSlab(rows.kept, capacity, arena_bytes)
        self._following = np.arange(1, capacity + 1, dtype=np.int32)
        self._table = np.full(int(capacity * CELLS) + 1 if is_hashed else 0, -1, np.int32)
        self._tag = np.full(capacity, -1, np.int64) if is_tagged else _NO_TAGS
        self._free = 0
        # Where keys are weighed: master rows each has met, and since when, at its first slot.
        self.key_rows = np.zeros(0, np.int32)
        self.key_since = np.zeros(0, np.int64)

    @staticmethod
    def base_bytes(rows: TupleRows, *, is_exact: bool, is_tagged: bool) -> int:
        """Bytes of a slot without variable-width values."""
        keys = 8 + (0 if is_exact else 8)
        return RowSlab.slot_bytes(rows.kept) + keys + 4 + int(4 * CELLS) + 8 * is_tagged

    @property
    def table_bytes(self) -> int:
        arrays = (self.code, self.check, self._following, self._table, self._tag)
        return self._slab.nbytes + sum(array.nbytes for array in arrays)

    def room_for(self, rows: pa.RecordBatch) -> int:
        """How many of the first rows fit, by slots and by bytes."""
        fit = max(min(rows.num_rows, self.limit - self.pending), 0)
        sizes = RowSlab.arena_sizes(rows.slice(0, fit))
        return int(np.searchsorted(np.cumsum(sizes), self._slab.free_arena_bytes, side="right"))

    def runs(self, master: MasterRows) -> Runs:
        """The keys of `master` that tuples wait for.

        Every row is looked up in the window, or every waiting key in the rows, whichever is
        cheaper; both cost less than the rows read, whatever the size of the window.
        """
        checks = self.check[:0] if master.checks is None else master.checks
        groups = len(master.bounds) - 1
        most = min(len(master), self.pending * groups)
        heads, starts = np.empty(most, np.int32), np.empty(most, np.int64)
        stops = np.empty(most, np.int64)
        keys, rows = (self.code, self.check), (master.codes, checks)
        found = (heads, starts, stops)
        if self.pending * groups * _SEARCH_COST + self._heads_cost < len(master):
            count = scanning.search_rows(self._heads(), *keys, master.bounds, *rows, *found)
        else:
            count = scanning.find_runs(*rows, master.bounds, self._table, *keys, *found)
        sizes = np.empty(count, np.int64)
        scanning.chain_sizes(heads[:count], self._following, sizes)
        return Runs(heads[:count], sizes, starts[:count], stops[:count])

    def match(self, runs: Runs) -> tuple[I32Array, I64Array, I64Array]:
        """The tuples waiting for these keys, and the range of master rows of each."""
        count = int(runs.sizes.sum())
        slots, low = np.empty(count, np.int32), np.empty(count, np.int64)
        high = np.empty(count, np.int64)
        scanning.expand_runs(runs.heads, runs.starts, runs.stops, self._following, slots, low, high)
        return slots, low, high

    def heads_of(self, codes: U64Array, checks: U64Array | None) -> I32Array:
        """The first slot waiting for each key, -1 where there is none."""
        heads = np.empty(len(codes), np.int32)
        wanted = self.check[:0] if checks is None else checks
        scanning.find_heads(codes, wanted, self._table, self.code, self.check, heads)
        return heads

    def rows(self, slots: I32Array) -> pa.RecordBatch:
        return self._rows.restore(self._slab.gather(slots), self.code[slots])

    def sizes(self, slots: I32Array) -> I64Array:
        return self._slab.sizes(slots)

    def codes(self, slots: I32Array) -> tuple[U64Array, U64Array | None]:
        return self.code[slots], (self.check[slots] if len(self.check) else None)

    def tags(self, slots: I32Array) -> I64Array | None:
        return self._tag[slots] if len(self._tag) else None

    def _content(self, slots: I32Array) -> tuple[pa.RecordBatch, Keys, I64Array | None]:
        codes, checks = self.codes(slots)
        keys = Keys(codes, checks, np.full(len(slots), OK), ())
        return self.rows(slots), keys, self.tags(slots)

    def _put(self, rows: pa.RecordBatch, keys: Keys, tags: I64Array | None) -> I32Array:
        """Slots that now hold the tuples; they still have to be chained."""
        slots: I32Array
        slots, self._free = scanning.take_free(rows.num_rows, self._following, self._free)
        self._slab.put(slots, self._rows.strip(rows, keys.codes))
        self.code[slots] = keys.codes
        if keys.checks is not None:
            self.check[slots] = keys.checks
        if len(self._tag):
            self._tag[slots] = -1 if tags is None else tags
        self.pending += len(slots)
        return slots

    def _release(self, slots: I32Array) -> None:
        """Give up slots that are in no chain any more."""
        self._slab.clear(slots)
        self._free = scanning.give_back(slots, self._following, self._free)
        self.pending -= len(slots)

    @property
    def _heads_cost(self) -> int:
        """What `_heads` costs, in probes of one row."""
        return len(self._table) // 16

    def _heads(self) -> I32Array:
        """The first slots of all chains."""
        heads: I32Array = self._table[self._table >= 0]
        return heads
