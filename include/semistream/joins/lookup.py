"""Which partitions to read next: strategies over the window's queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from semistream.errors import InputError
from semistream.joins.window import Window
from semistream.kernels.arrays import I64Array


class LookUp(Protocol):
    """Chooses up to `wanted` distinct partitions with pending tuples; none only if none pend."""

    def choose(self, window: Window, wanted: int, step: int) -> I64Array: ...


@dataclass(frozen=True, slots=True)
class Oldest:
    """The partitions of the oldest pending tuples (HYBRIDJOIN): no tuple waits for ever."""

    def choose(self, window: Window, wanted: int, step: int) -> I64Array:
        return window.partitions_from_oldest(wanted)


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The partitions at a position of the queue, counted from its newest end.

    0.15 is the best look-up position while the oldest tuples are being shed: what is looked up
    there would not have survived to the end (paper 000, section 5.3.1). Without shedding it may
    starve old tuples, so it takes turns with the oldest every `relief` steps.
    """

    fraction: float = 0.15
    relief: int = 16

    def __post_init__(self) -> None:
        if not 0 <= self.fraction <= 1:
            raise InputError(f"look-up position {self.fraction} is outside 0 to 1 (0.15 is usual)")

    def choose(self, window: Window, wanted: int, step: int) -> I64Array:
        if self.relief and step % self.relief == 0:
            return window.partitions_from_oldest(wanted)
        return window.partitions_from(self.fraction, wanted)


@dataclass(frozen=True, slots=True)
class MostPending:
    """The partitions most tuples wait for; the oldest tuple's once it has waited `age_steps`."""

    age_steps: int = 1000

    def choose(self, window: Window, wanted: int, step: int) -> I64Array:
        counts = window.pending_by_partition
        if window.oldest_age(step) > self.age_steps:
            return window.partitions_from_oldest(wanted)
        some = min(wanted, len(counts))
        best = np.argpartition(counts, len(counts) - some)[len(counts) - some :]
        return best[counts[best] > 0].astype(np.int64)
