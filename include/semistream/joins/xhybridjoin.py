"""X-HYBRIDJOIN: HYBRIDJOIN with a pinned part of the disk buffer (paper 003)."""

from __future__ import annotations

from semistream.budget import BudgetSplit
from semistream.joins.disk_phase import Surroundings
from semistream.joins.hybrid_phase import HybridPhase
from semistream.joins.pinned import PinnedPartitions
from semistream.joins.registry import Options, algorithm

_SWAPPABLE_SHARE = 0.25


@algorithm("xhybridjoin", "HYBRIDJOIN with the busiest partitions pinned", pinned_share=0.3)
def xhybridjoin(around: Surroundings, split: BudgetSplit, options: Options) -> HybridPhase:
    partition_bytes = max(around.store.partition_bytes, 1)
    swappable = max(int(split.disk_buffer * _SWAPPABLE_SHARE), 2 * partition_bytes)
    spare = split.disk_buffer - swappable - PinnedPartitions.overhead(around.store)
    # A budget that can pin nothing must not pay for counting what to pin.
    pinned = PinnedPartitions(around.store, spare // 2) if spare >= 2 * partition_bytes else None
    return HybridPhase(around, split.window, swappable, lookup=options.lookup, pinned=pinned)
