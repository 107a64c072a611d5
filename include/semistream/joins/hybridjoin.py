"""HYBRIDJOIN: partitions chosen by the oldest pending tuple (paper 001)."""

from __future__ import annotations

from semistream.budget import BudgetSplit
from semistream.joins.disk_phase import Surroundings
from semistream.joins.hybrid_phase import HybridPhase
from semistream.joins.registry import Options, algorithm


@algorithm("hybridjoin", "window and queue; reads the partition the oldest tuple needs")
def hybridjoin(around: Surroundings, split: BudgetSplit, options: Options) -> HybridPhase:
    return HybridPhase(around, split.window, split.disk_buffer, lookup=options.lookup)
