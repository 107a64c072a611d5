"""SSBJ's migration: which keys move between window and front stage, and when.

Paper 002, algorithm 1. Every cycle of the scan is in one of three states, in turn: *incrementing*
counts the master rows of the keys in the window, *switching* puts the rows of keys that would
take less memory in the front stage into a switching buffer, *phase-out* begins by moving that
buffer into the front stage, so that all rows of a key enter together. Every tenth cycle, keys
that would take less in the window leave the front stage.

The algorithm looks at one master row at a time. Here the rows of a key that lie together are one
run, and all runs of a step are weighed at once. That is the same: within a step the window does
not change, so every row of a run sees the same tuples, and counts are sums.

With unique master keys there is nothing to count, since every key has one row, and nothing to
phase out, since tuples leave at their match: then every cycle switches, and moves what the last
one has buffered.

Where the pseudo-code would go wrong, this does not: a key counts only if it was in the window for
the whole incrementing cycle (else its count would be short), and it moves only if the buffer got
all rows counted (else the front stage would lose matches). A key that came to the front stage
after the last eviction is judged by its hits per cycle, not by a tenth of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from semistream.joins.balanced_stage import BalancedStage
from semistream.joins.tuple_table import Runs, TupleTable
from semistream.kernels.arrays import I64Array, U64Array
from semistream.stores.protocol import MasterRows

EVICT_EVERY = 10  # cycles


class State(Enum):
    """What a cycle of the scan is for; the value is the number of the cycle modulo three."""

    PHASE_OUT = 0
    INCREMENTING = 1
    SWITCHING = 2


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of one step in the switching buffer; per row: rows and tuples of its key."""

    rows: pa.RecordBatch
    codes: U64Array
    checks: U64Array | None
    wanted: I64Array
    tuples: I64Array

    @property
    def nbytes(self) -> int:
        checks = 0 if self.checks is None else self.checks.nbytes
        arrays = self.codes.nbytes + self.wanted.nbytes + self.tuples.nbytes
        return int(self.rows.nbytes) + arrays + checks


class Migration:
    """Moves keys between a window and a front stage by the cache inequality m·vR < n·vS.

    `factor` is the switching factor: above 1, a key must gain that much to move either way.
    `stay` is the share of a cycle a tuple stays in the window: 1, or ½ where tuples leave at
    their match, since the window then holds a key's tuples only half the time.
    """

    def __init__(
        self, stage: BalancedStage, *, factor: float, stay: float, is_unique: bool
    ) -> None:
        self.stage, self._factor, self._stay = stage, factor, stay
        self._is_unique = is_unique
        self.cycle = 0
        self.tuple_bytes = 0.0  # what a tuple takes in the window
        self.limit_bytes = 0  # of the switching buffer
        self._buffer: list[_Piece] = []
        self.buffer_bytes = 0
        self._since = 0

    @property
    def state(self) -> State:
        return State.SWITCHING if self._is_unique else State(self.cycle % 3)

    @property
    def is_to_move(self) -> bool:
        """This cycle begins by moving what is buffered."""
        return self._is_unique or self.state is State.PHASE_OUT

    def begin_cycle(self, window: TupleTable, now: int) -> None:
        """A new cycle starts when `now` partitions have been scanned."""
        self.cycle += 1
        if self.cycle % EVICT_EVERY == 0:
            self.stage.evict(self._stay * self.tuple_bytes, EVICT_EVERY, self._factor)
        if self.state is State.INCREMENTING:
            self._since = now
            window.key_rows[:] = 0

    def meet(self, window: TupleTable, master: MasterRows, runs: Runs) -> None:
        """The keys of one step that tuples wait for (lines 28 to 36)."""
        lengths = runs.stops - runs.starts
        if self.state is State.INCREMENTING:
            # A key whose rows lie in two partitions of one step has two runs.
            np.add.at(window.key_rows, runs.heads, lengths)
        elif self.state is State.SWITCHING:
            self._switch(window, master, runs, lengths)

    def _switch(
        self, window: TupleTable, master: MasterRows, runs: Runs, lengths: I64Array
    ) -> None:
        if self._is_unique:
            rows = lengths
        else:
            rows = window.key_rows[runs.heads].astype(np.int64)
            rows[window.key_since[runs.heads] > self._since] = 0
        in_window = runs.sizes * (self._stay * self.tuple_bytes)
        # The rows met now stand for those of the key that lie elsewhere.
        here = self.stage.sizes_of(master, runs.starts, runs.stops) * (rows / lengths)
        chosen = np.flatnonzero((rows >= lengths) & (in_window > self._factor * here))
        if not len(chosen):
            return
        counts = lengths[chosen]
        ends = np.cumsum(counts)
        index = np.repeat(runs.starts[chosen] - (ends - counts), counts) + np.arange(ends[-1])
        piece = _Piece(
            master.rows.take(pa.array(index)),
            master.codes[index],
            None if master.checks is None else master.checks[index],
            np.repeat(rows[chosen], counts),
            np.repeat(runs.sizes[chosen], counts),
        )
        # A full buffer makes keys wait for the next turn; parts of a key never enter alone.
        if self.buffer_bytes + piece.nbytes <= self.limit_bytes:
            self._buffer.append(piece)
            self.buffer_bytes += piece.nbytes

    def needed_bytes(self) -> int:
        """What the front stage must be able to hold once the buffer has moved."""
        fixed = sum(len(piece.codes) for piece in self._buffer) * (
            self.stage.row_bytes + self.stage.key_bytes
        )
        text = sum(int(piece.rows.nbytes) for piece in self._buffer)
        return self.stage.used_bytes + fixed + text

    def move(self) -> None:
        """Give the buffered keys whose rows are all there to the front stage (line 10)."""
        pieces, self._buffer, self.buffer_bytes = self._buffer, [], 0
        if not pieces:
            return
        codes = np.concatenate([piece.codes for piece in pieces])
        parts = [piece.checks for piece in pieces if piece.checks is not None]
        checks = np.concatenate(parts) if parts else None
        order = np.argsort(codes, kind="stable") if checks is None else np.lexsort((checks, codes))
        codes, checks = codes[order], None if checks is None else checks[order]
        is_first = np.ones(len(codes), np.bool_)
        is_first[1:] = codes[1:] != codes[:-1]
        if checks is not None:
            is_first[1:] |= checks[1:] != checks[:-1]
        starts = np.flatnonzero(is_first)
        stops = np.append(starts[1:], len(codes))
        wanted = np.concatenate([piece.wanted for piece in pieces])[order][starts]
        tuples = np.concatenate([piece.tuples for piece in pieces])[order][starts]
        whole = stops - starts == wanted
        rows = pa.concat_batches([piece.rows for piece in pieces]).take(pa.array(order))
        master = MasterRows(np.zeros(1, np.int64), np.array([0, len(codes)]), codes, checks, rows)
        # As if it had been here since the last eviction, so that the next one can judge it.
        hits = tuples[whole] * max(self.cycle % EVICT_EVERY, 1)
        self.stage.admit(master, starts[whole], stops[whole], hits)
