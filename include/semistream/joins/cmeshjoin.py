"""CMESHJOIN: the front stage before a cyclic scan (paper 000, section 3.1).

Beyond the paper, a tuple that can match nothing further leaves the window at once.
"""

from __future__ import annotations

from semistream.budget import BudgetSplit
from semistream.joins.disk_phase import Surroundings
from semistream.joins.registry import Options, algorithm
from semistream.joins.scan_phase import ScanPhase
from semistream.joins.window_shape import WindowMaker


@algorithm("cmeshjoin", "front stage, then MESHJOIN", front_share=0.25)
def cmeshjoin(around: Surroundings, split: BudgetSplit, options: Options) -> ScanPhase:
    maker = WindowMaker.of(around, is_lean=around.store.is_unique)
    return ScanPhase(around, maker, split.window, split.disk_buffer)
