"""SSBJ's balance: one budget that flows between window and front stage as keys migrate."""

from __future__ import annotations

import pyarrow as pa

from semistream.joins.balanced_stage import BalancedStage
from semistream.joins.lean_window import LeanWindow
from semistream.joins.migration import Migration
from semistream.joins.scan_window import ScanWindow
from semistream.joins.tuple_table import Content
from semistream.joins.window_shape import WindowMaker

_LEAST_BUFFER, _MOST_BUFFER = 0.03, 0.15  # of the memory, for the switching buffer
_LEAST_WINDOW = 0.05
_LEAST_WINDOW_BYTES, _LEAST_STAGE_BYTES = 24 << 10, 16 << 10
_KEEP = 0.7  # a front stage that needs this much of its size keeps it
_SPARE = 1.05  # the front stage gets a little more than it needs now


class Balance:
    """Divides `memory_bytes` between the window, the front stage and the switching buffer.

    The front stage grows by what the migration brings and the window shrinks by as much; both are
    rebuilt at the new size, at most once a cycle, as soon as the window's tuples fit.
    Where every key gains from it, the whole master ends up in the front stage: the join has
    become one in memory, and the scan rests.
    """

    def __init__(
        self,
        stage: BalancedStage,
        memory_bytes: int,
        maker: WindowMaker,
        *,
        factor: float,
    ) -> None:
        stay = 0.5 if maker.is_lean else 1.0
        self.migration = Migration(stage, factor=factor, stay=stay, is_unique=maker.is_lean)
        self._stage, self._maker = stage, maker
        self._memory = memory_bytes
        self._stage_bytes = stage.nbytes
        self._buffer_share = _MOST_BUFFER
        self._is_due = False  # a new division waits for the window to have run empty enough

    @property
    def window_bytes(self) -> int:
        rest = self._memory - self._stage_bytes - int(self._memory * self._buffer_share)
        return max(rest, _LEAST_WINDOW_BYTES)

    def make_window(self, rows: pa.RecordBatch) -> ScanWindow | LeanWindow:
        window = self._maker.make(rows, self.window_bytes)
        self.migration.tuple_bytes = self.window_bytes / window.capacity
        self.migration.limit_bytes = int(self._memory * self._buffer_share)
        return window

    def begin_cycle(self, window: ScanWindow | LeanWindow, now: int) -> None:
        """The scan is at its first partition again, `now` partitions after its start."""
        self.migration.begin_cycle(window, now)
        if self.migration.is_to_move:
            self._plan(window)

    def rebuilt(self, window: ScanWindow | LeanWindow) -> Content | None:
        """The content of a window whose successor, of another size, has room for it; else None."""
        if not self._is_due or window.pending > window.limit:
            return None
        content = window.content()
        if not self._maker.fits(content, self.window_bytes):
            window.limit = int(0.95 * window.pending)
            return None
        return content

    def successor(self, content: Content) -> ScanWindow | LeanWindow:
        """Move what migrates, then load `content` into a window of the new size."""
        self._is_due = False
        self._stage.resize(self._stage_bytes)
        self.migration.move()
        window = self.make_window(content.rows)
        window.load(content)
        return window

    def _plan(self, window: ScanWindow | LeanWindow) -> None:
        """Divide anew if it pays; the window then takes in no more than it will have room for."""
        migration, before = self.migration, self.window_bytes
        wanted = int(migration.needed_bytes() * _SPARE)
        if _KEEP * self._stage_bytes <= wanted <= self._stage_bytes:
            migration.move()
            return
        used = migration.buffer_bytes / self._memory
        self._buffer_share = min(max(1.5 * used, _LEAST_BUFFER), _MOST_BUFFER)
        least_window = max(int(self._memory * _LEAST_WINDOW), _LEAST_WINDOW_BYTES)
        most = self._memory - int(self._memory * self._buffer_share) - least_window
        self._stage_bytes = max(min(wanted, most), _LEAST_STAGE_BYTES)
        window.limit = min(int(window.capacity * self.window_bytes / before), window.capacity)
        self._is_due = True
