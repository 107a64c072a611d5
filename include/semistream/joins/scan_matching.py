"""How a scan finds the tuples that the master rows of a step match: by key, or by range."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol

import numpy as np
import pyarrow as pa

from semistream.joins.bounds import Bounds
from semistream.joins.disk_phase import Surroundings
from semistream.joins.lean_window import LeanWindow
from semistream.joins.outputs import JoinOutput
from semistream.joins.scan_window import ScanWindow
from semistream.joins.tuple_table import Runs
from semistream.kernels.arrays import I32Array
from semistream.row_sizes import row_sizes
from semistream.stores.protocol import MasterRows

Meet = Callable[[ScanWindow | LeanWindow, MasterRows, Runs], None]


class Matching(Protocol):
    """Joins the master rows of a step with the window."""

    def join(
        self, window: ScanWindow | LeanWindow, master: MasterRows, meet: Meet | None
    ) -> Generator[JoinOutput, None, I32Array]:
        """Yield the joined rows; return the slots that can match nothing further if the master's
        keys are unique. `meet` is told the keys met, if there are any."""


def matching_for(around: Surroundings) -> Matching:
    """By range if the join has bounds, else by key."""
    return HashMatching(around) if around.bounds is None else RangeMatching(around, around.bounds)


class HashMatching:
    """Equal keys, by a hash table over the window."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    def join(
        self, window: ScanWindow | LeanWindow, master: MasterRows, meet: Meet | None
    ) -> Generator[JoinOutput, None, I32Array]:
        runs = window.runs(master)
        if meet is not None:
            meet(window, master, runs)
        slots, low, high = window.match(runs)
        yield from self._around.emitter.pairs(
            window.rows,
            slots,
            low,
            high - low,
            lambda rows: master.rows.take(pa.array(rows)),
            sizes=(window.sizes, row_sizes(master.rows).take),
        )
        if self._around.front_stage is not None:
            self._around.front_stage.consider(master, low, high)
        return slots


class RangeMatching:
    """Values within bounds that the master rows give, by sorted runs over the window.

    Paper 004, section 3.3: tuples are kept ordered for range predicates. Each master row costs two
    searches a run, whatever the size of the window; pairs are made chunk by chunk.
    """

    def __init__(self, around: Surroundings, bounds: Bounds) -> None:
        self._around, self._bounds = around, bounds
        self._columns = around.emitter.master_names

    def join(
        self, window: ScanWindow | LeanWindow, master: MasterRows, meet: Meet | None
    ) -> Generator[JoinOutput, None, I32Array]:
        assert isinstance(window, ScanWindow)
        assert window.sorted_runs is not None
        runs, emitter = window.sorted_runs, self._around.emitter
        window.drop_dead()
        first, last = self._bounds.intervals(master.rows)
        brought = master.rows.select(self._columns)
        for low, counts in runs.find(first, last):
            matched = np.flatnonzero(counts)
            for owner, entries in emitter.spread(low[matched], counts[matched]):
                slots = runs.slots[entries]
                living = window.is_living(slots, runs.numbers[entries])
                if not living.all():
                    owner, slots = owner[living], slots[living]
                if len(slots):
                    window.note_matched(slots)
                    yield from emitter.joined(
                        window.rows(slots), brought.take(pa.array(matched[owner]))
                    )
        return np.empty(0, np.int32)
