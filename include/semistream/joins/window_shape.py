"""How many tuples a window of some bytes holds, and windows made to measure."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from semistream.joins.disk_phase import Surroundings
from semistream.joins.lean_window import LeanWindow
from semistream.joins.scan_window import ScanWindow
from semistream.joins.tuple_rows import TupleRows
from semistream.joins.tuple_table import Content
from semistream.slab import RowSlab
from semistream.stores.protocol import MasterStore

_SPARE = 1.25  # later tuples may be wider than the first


def window_shape(rows: pa.RecordBatch, window_bytes: int, slot_bytes: int) -> tuple[int, int]:
    """Slots, and bytes of the arena, for tuples as wide as `rows`, the first of which must fit.

    Wider ones that come later fill the window by bytes before its slots run out.
    """
    sizes = RowSlab.arena_sizes(rows)
    arena_per_row = float(sizes.mean()) * _SPARE if len(sizes) else 0.0
    first_row = int(sizes[0]) * 8 // 7 + 8 if len(sizes) else 0
    slots = min(
        int(window_bytes / (slot_bytes + arena_per_row)), (window_bytes - first_row) // slot_bytes
    )
    slots = max(slots, 1)
    return slots, max(window_bytes - slots * slot_bytes, 0)


@dataclass(frozen=True, slots=True)
class WindowMaker:
    """Makes windows for a scan of `store`: lean ones where tuples leave at their match."""

    rows: TupleRows
    store: MasterStore
    is_lean: bool
    is_tagged: bool
    counts_rows: bool = False
    is_sorted: bool = False  # for conditions other than equality

    @classmethod
    def of(cls, around: Surroundings, *, is_lean: bool, counts_rows: bool = False) -> WindowMaker:
        # Only lean windows leave the key out: the others are the papers', who keep tuples whole.
        rows = TupleRows(around.stream_schema)
        if is_lean:
            rows = TupleRows.of(around.stream_schema, around.stream_key, around.store)
        is_tagged, is_sorted = around.shed_store is not None, around.bounds is not None
        return cls(rows, around.store, is_lean, is_tagged, counts_rows, is_sorted)

    @property
    def slot_bytes(self) -> int:
        is_exact, is_tagged = self.is_exact, self.is_tagged
        if self.is_lean:
            return LeanWindow.slot_bytes(self.rows, is_exact=is_exact, is_tagged=is_tagged)
        return ScanWindow.slot_bytes(
            self.rows,
            is_exact=is_exact,
            is_tagged=is_tagged,
            counts_rows=self.counts_rows,
            is_sorted=self.is_sorted,
        )

    @property
    def is_exact(self) -> bool:
        return self.is_sorted or self.store.is_exact

    def make(self, rows: pa.RecordBatch, window_bytes: int) -> ScanWindow | LeanWindow:
        """A window of `window_bytes` for tuples as wide as `rows`."""
        capacity, arena_bytes = window_shape(rows, window_bytes, self.slot_bytes)
        is_exact, cycle = self.is_exact, self.store.partition_count
        shape = (self.rows, capacity, arena_bytes)
        if self.is_lean:
            return LeanWindow(*shape, is_exact=is_exact, is_tagged=self.is_tagged, cycle=cycle)
        return ScanWindow(
            *shape,
            is_exact=is_exact,
            is_tagged=self.is_tagged,
            cycle=cycle,
            counts_rows=self.counts_rows,
            is_sorted=self.is_sorted,
        )

    def fits(self, content: Content, window_bytes: int) -> bool:
        """Whether a window of `window_bytes` would hold `content`."""
        capacity, arena_bytes = window_shape(content.rows, window_bytes, self.slot_bytes)
        text = int(RowSlab.arena_sizes(content.rows).sum())
        return content.rows.num_rows <= capacity and text <= arena_bytes - arena_bytes // 8
