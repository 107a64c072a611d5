"""The disk phase of HYBRIDJOIN, with or without a pinned part of the disk buffer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from semistream.joins.disk_phase import Surroundings, Waiting
from semistream.joins.lookup import LookUp, Oldest
from semistream.joins.outputs import JoinOutput
from semistream.joins.pinned import PinnedPartitions
from semistream.joins.window import Window
from semistream.joins.window_shape import window_shape
from semistream.row_sizes import row_sizes


class HybridPhase:
    """Reads the partitions a look-up strategy chooses and finishes every tuple pending there.

    Paper 001, algorithm 1. Several partitions are read per step, as many as the disk buffer
    holds, so that the fixed cost of a step is shared.
    """

    uses_index = True

    def __init__(
        self,
        around: Surroundings,
        window_bytes: int,
        disk_bytes: int,
        *,
        lookup: LookUp | None = None,
        pinned: PinnedPartitions | None = None,
    ) -> None:
        self._around = around
        self._window_bytes = window_bytes
        self._reads_per_step = max(disk_bytes // max(2 * around.store.partition_bytes, 1), 1)
        self._usual: LookUp = lookup or Oldest()
        self._lookup = self._usual
        self._pinned = pinned
        self._is_tagged = around.shed_store is not None
        self._window: Window | None = None
        self._disk_bytes = 0

    @property
    def pending(self) -> int:
        return 0 if self._window is None else self._window.pending

    @property
    def room(self) -> int:
        return 0 if self._window is None else self._window.capacity - self._window.pending

    def room_for(self, rows: pa.RecordBatch) -> int:
        if self._window is None:
            self._window = self._make_window(rows)
        room = self._window.room_for(rows)
        if not room and not self._window.pending:
            # The tuples have grown since the window was shaped: shape it anew for these.
            self._window = self._make_window(rows)
            room = self._window.room_for(rows)
        return room

    def accept(self, waiting: Waiting, step: int) -> Iterator[JoinOutput]:
        assert self._window is not None
        if self._pinned is not None:
            waiting, outputs = self._pinned.join(waiting, self._around)
            yield from outputs
        self._window.add(
            waiting.rows, waiting.keys, waiting.first, waiting.last, step, waiting.tags
        )
        self._note_window(step)

    def step(self, step: int) -> Iterator[JoinOutput]:
        window, around = self._window, self._around
        if window is None or not window.pending:
            return
        chosen = np.sort(self._lookup.choose(window, self._reads_per_step, step))
        master = around.store.read(chosen)
        around.statistics.partition_reads += len(chosen)
        around.statistics.master_rows_read += len(master)
        self._disk_bytes = max(self._disk_bytes, master.nbytes)
        slots, low, high = window.match(master)
        finished, matched = window.settle(slots, high > low)
        yield from around.emitter.pairs(
            window.rows,
            slots,
            low,
            high - low,
            lambda rows: master.rows.take(pa.array(rows)),
            sizes=(window.sizes, row_sizes(master.rows).take),
        )
        around.statistics.rows_matched += int(np.count_nonzero(matched))
        missing = finished[~matched]
        yield from around.emitter.unmatched(window.rows(missing), "no_match")
        if around.front_stage is not None:
            around.front_stage.consider(master, low, high)
            around.front_stage.note_absent(*window.codes(missing))
        around.finish(window.tags(finished))
        window.remove_all(chosen, finished)
        self._note_window(step)

    def oldest(self) -> pa.RecordBatch | None:
        window = self._window
        return window.rows(window.first()) if window is not None and window.pending else None

    def shed(self, count: int) -> pa.RecordBatch | None:
        window = self._window
        if window is None:
            return self._around.stream_schema.empty_table().to_batches()[0]
        slots = window.oldest(count)
        rows = window.rows(slots)
        window.remove(slots)
        return rows

    def look_up_by(self, lookup: LookUp | None) -> None:
        self._lookup = lookup or self._usual

    def bytes_by_component(self) -> dict[str, int]:
        window = self._window
        pinned = 0 if self._pinned is None else self._pinned.nbytes
        return {
            "window": 0 if window is None else window.window_bytes,
            "queue": 0 if window is None else window.queue_bytes,
            "disk_buffer": self._disk_bytes + pinned,
        }

    def _note_window(self, step: int) -> None:
        window, statistics = self._window, self._around.statistics
        assert window is not None
        statistics.window_rows, statistics.window_capacity = window.pending, window.capacity
        statistics.queue_age_steps = window.oldest_age(step)
        statistics.queue_age_steps_max = max(
            statistics.queue_age_steps_max, statistics.queue_age_steps
        )

    def _make_window(self, rows: pa.RecordBatch) -> Window:
        store, schema = self._around.store, self._around.stream_schema
        fixed = Window.slot_bytes(
            schema,
            is_exact=store.is_exact,
            has_straddling_keys=store.has_straddling_keys,
            is_tagged=self._is_tagged,
        )
        capacity, arena_bytes = window_shape(rows, self._window_bytes, fixed)
        return Window(
            schema,
            capacity,
            arena_bytes,
            store.partition_count,
            is_exact=store.is_exact,
            has_straddling_keys=store.has_straddling_keys,
            is_tagged=self._is_tagged,
        )
