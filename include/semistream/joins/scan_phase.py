"""The disk phase of the scan family: the master passes by cyclically, no index needed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from semistream.joins.balance import Balance
from semistream.joins.disk_phase import Surroundings, Waiting
from semistream.joins.lean_window import LeanWindow
from semistream.joins.lookup import LookUp
from semistream.joins.outputs import JoinOutput
from semistream.joins.scan_matching import HashMatching, Matching
from semistream.joins.scan_window import ScanWindow
from semistream.joins.window_shape import WindowMaker
from semistream.stores.protocol import MasterRows

_LEAST_CHUNK = 256  # tuples a step may always take, so that tiny windows do not crawl


class ScanPhase:
    """Reads the next b partitions each step and joins them with the whole window.

    Paper 004, section 3: a tuple enters wherever the scan is and leaves one whole cycle later,
    so it meets every master tuple exactly once. w and b adapt (section 3.3, dynamic tuning): w is
    what has arrived, up to an even share of the window; b doubles while arrivals find the window
    full and halves while they do not. A step never goes past the place where the oldest tuples
    entered, so results stay exact whatever b was before.

    With lean windows a tuple leaves at its match: where master keys are unique nothing else can
    match it, and its slot serves another tuple for the rest of the cycle.
    """

    uses_index = False

    def __init__(
        self,
        around: Surroundings,
        maker: WindowMaker,
        window_bytes: int,
        disk_bytes: int,
        balance: Balance | None = None,
        *,
        matching: Matching | None = None,
    ) -> None:
        self._around, self._maker, self._balance = around, maker, balance
        self._matching = matching or HashMatching(around)
        self._window_bytes = window_bytes
        self._most_reads = max(disk_bytes // max(2 * around.store.partition_bytes, 1), 1)
        self._reads = 1
        self._window: ScanWindow | LeanWindow | None = None
        self._scanned = 0  # partitions since the start
        self._taken = 0  # tuples since the last step
        self._is_full = False  # arrivals found no room since the last step
        self._disk_bytes = 0

    @property
    def pending(self) -> int:
        return 0 if self._window is None else self._window.pending

    @property
    def room(self) -> int:
        window = self._window
        if window is None:
            return 0
        return min(max(window.limit - window.pending, 0), self._chunk_left(window))

    def room_for(self, rows: pa.RecordBatch) -> int:
        if self._window is None:
            self._window = self._make_window(rows)
        room = self._window.room_for(rows)
        if not room and not self._window.pending:
            # The tuples have grown since the window was shaped: shape it anew for these.
            self._window = self._make_window(rows)
            room = self._window.room_for(rows)
        room = min(room, self._chunk_left(self._window))
        self._is_full |= room < rows.num_rows
        return room

    def accept(self, waiting: Waiting, step: int) -> Iterator[JoinOutput]:
        assert self._window is not None
        self._window.add(waiting.rows, waiting.keys, self._scanned, step, waiting.tags)
        self._taken += waiting.rows.num_rows
        self._note_window(step)
        return iter(())

    def step(self, step: int) -> Iterator[JoinOutput]:
        window, cycle = self._window, self._around.store.partition_count
        if window is None or not window.pending:
            return
        self._tune()
        if cycle:
            if self._balance is not None:
                del window
                window = self._rebalance(self._balance, cycle)
            master = self._read_next(window, cycle)
            meet = None if self._balance is None else self._balance.migration.meet
            slots = yield from self._matching.join(window, master, meet)
            self._around.finish(window.tags(slots) if self._maker.is_lean else None)
            self._around.statistics.rows_matched += window.leave(slots)
        yield from self._expire(window)
        self._note_window(step)

    def oldest(self) -> pa.RecordBatch | None:
        window = self._window
        return window.oldest_row() if window is not None and window.pending else None

    def shed(self, count: int) -> pa.RecordBatch | None:
        window = self._window
        if window is None:
            return self._around.stream_schema.empty_table().to_batches()[0]
        slots = window.newest(count)
        rows = window.rows(slots)
        window.remove(slots)
        return rows

    def look_up_by(self, lookup: LookUp | None) -> None:
        """A scan has no choice of partitions."""

    def bytes_by_component(self) -> dict[str, int]:
        window, balance = self._window, self._balance
        return {
            "switching_buffer": 0 if balance is None else balance.migration.buffer_bytes,
            "window": 0 if window is None else window.window_bytes,
            "queue": 0 if window is None else window.queue_bytes,
            "disk_buffer": self._disk_bytes,
        }

    def _tune(self) -> None:
        self._reads = min(self._reads * 2, self._most_reads) if self._is_full else self._reads // 2
        self._reads = max(self._reads, 1)
        self._taken, self._is_full = 0, False

    def _chunk_left(self, window: ScanWindow | LeanWindow) -> int:
        """What is left of w, the share of the window that leaves while b partitions are read."""
        cycle = max(self._around.store.partition_count, 1)
        share = self._reads / cycle * (2 if self._maker.is_lean else 1)
        chunk_rows = max(int(np.ceil(window.capacity * share)), _LEAST_CHUNK)
        return max(chunk_rows - self._taken, 0)

    def _read_next(self, window: ScanWindow | LeanWindow, cycle: int) -> MasterRows:
        first = self._scanned % cycle
        count = min(self._reads, cycle - first, window.remaining(self._scanned))
        master = self._around.store.read(np.arange(first, first + count))
        self._scanned += count
        statistics = self._around.statistics
        statistics.partition_reads += count
        statistics.master_rows_read += len(master)
        self._disk_bytes = max(self._disk_bytes, master.nbytes)
        return master

    def _rebalance(self, balance: Balance, cycle: int) -> ScanWindow | LeanWindow:
        window = self._window
        assert window is not None
        if self._scanned % cycle == 0:
            balance.begin_cycle(window, self._scanned)
        content = balance.rebuilt(window)
        if content is not None:
            # The old window goes before the new one comes: both would not fit.
            del window
            self._window = None
            self._window = balance.successor(content)
        assert self._window is not None
        return self._window

    def _expire(self, window: ScanWindow | LeanWindow) -> Iterator[JoinOutput]:
        around = self._around
        expired = window.expire(self._scanned)
        has_matched = window.has_matched(expired)
        missing = expired[~has_matched]
        yield from around.emitter.unmatched(window.rows(missing), "no_match")
        if around.front_stage is not None:
            around.front_stage.note_absent(*window.codes(missing))
        around.statistics.rows_matched += int(np.count_nonzero(has_matched))
        around.finish(window.tags(expired))
        window.remove(expired)

    def _note_window(self, step: int) -> None:
        window, statistics = self._window, self._around.statistics
        assert window is not None
        statistics.window_rows, statistics.window_capacity = window.pending, window.capacity
        statistics.queue_age_steps = window.oldest_age(step)
        statistics.queue_age_steps_max = max(
            statistics.queue_age_steps_max, statistics.queue_age_steps
        )

    def _make_window(self, rows: pa.RecordBatch) -> ScanWindow | LeanWindow:
        if self._balance is not None:
            return self._balance.make_window(rows)
        return self._maker.make(rows, self._window_bytes)
