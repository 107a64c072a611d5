"""INLJ: tuples are looked up through the master's index as they come."""

from __future__ import annotations

from semistream.budget import BudgetSplit
from semistream.joins.disk_phase import Surroundings
from semistream.joins.lookup_phase import LookupPhase
from semistream.joins.registry import Options, algorithm


@algorithm("inlj", "index look-ups of every batch; the baseline")
def inlj(around: Surroundings, split: BudgetSplit, options: Options) -> LookupPhase:
    return LookupPhase(around, split.window, split.disk_buffer)
