"""R-MESHJOIN: MESHJOIN whose memory is divided freely between window and disk buffer.

Papers 003 and 000 describe it as MESHJOIN without the tie between the two: only as many partitions
are read at once as it takes to spread the fixed cost of a step, and the window gets the rest.
"""

from __future__ import annotations

from dataclasses import replace

from semistream.budget import BudgetSplit
from semistream.joins.disk_phase import DiskPhase, Surroundings
from semistream.joins.meshjoin import meshjoin
from semistream.joins.registry import Options, algorithm

_STEP_IN_ROWS = 3000  # what a step costs beside its rows, measured in rows read


@algorithm("rmeshjoin", "MESHJOIN with a disk buffer no larger than pays", takes_conditions=True)
def rmeshjoin(around: Surroundings, split: BudgetSplit, options: Options) -> DiskPhase:
    memory = split.window + split.disk_buffer
    disk = disk_buffer_bytes(memory, around)
    return meshjoin(around, replace(split, window=memory - disk, disk_buffer=disk), options)


def disk_buffer_bytes(memory: int, around: Surroundings) -> int:
    """The disk buffer with the highest service rate: b that maximises (M - b v) b / (s + b r).

    M is the memory, v a partition's bytes while it is read, r its rows, s the cost of a step.
    """
    store = around.store
    partition = max(2 * store.partition_bytes, 1)
    rows = max(store.row_count / max(store.partition_count, 1), 1.0)
    step = _STEP_IN_ROWS
    best = ((step**2 + rows * step * memory / partition) ** 0.5 - step) / rows
    return max(int(min(best, memory / partition / 2)), 1) * partition
