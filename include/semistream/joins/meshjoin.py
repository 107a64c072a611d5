"""MESHJOIN: a cyclic scan of the master meets a sliding window of the stream (paper 004)."""

from __future__ import annotations

from semistream.budget import BudgetSplit
from semistream.joins.disk_phase import Surroundings
from semistream.joins.registry import Options, algorithm
from semistream.joins.scan_matching import matching_for
from semistream.joins.scan_phase import ScanPhase
from semistream.joins.window_shape import WindowMaker


@algorithm(
    "meshjoin",
    "scans the master in a cycle; each tuple waits one whole cycle",
    takes_conditions=True,
)
def meshjoin(around: Surroundings, split: BudgetSplit, options: Options) -> ScanPhase:
    maker = WindowMaker.of(around, is_lean=False)
    matching = matching_for(around)
    return ScanPhase(around, maker, split.window, split.disk_buffer, matching=matching)
