"""Self-similar arrivals: how many tuples come in each step (paper 001, Figure 7)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from semistream.workloads.draws import block_generator

_STEPS_AT_ONCE = 1024
_TOGGLES_AT_ONCE = 1024


class _VirtualStream:
    """One source that is on or off, and toggles after random × bandwidth steps.

    In Figure 7 a priority queue merges the sources' toggles in time order. They do not influence
    each other, so each source's toggle times are one running sum, and the queue is not needed.
    """

    def __init__(self, bandwidth: int, seed: int) -> None:
        self.bandwidth = bandwidth
        self._generator = block_generator(seed, f"toggles {bandwidth}")
        self._is_on = False
        # Enqueued at time 0, switched on by the first step: Figure 7, lines 5 to 7.
        self._toggles = np.zeros(1)

    def tuples_in(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tuples of this source in each of the consecutive `steps`."""
        pieces = [self._toggles]
        while pieces[-1][-1] < steps[-1]:
            waits = self._generator.random(_TOGGLES_AT_ONCE) * self.bandwidth
            waits[0] += pieces[-1][-1]
            pieces.append(np.cumsum(waits))
        toggles = np.concatenate(pieces)
        # A toggle takes effect when the clock has passed it: line 11 asks for "greater".
        passed = np.searchsorted(toggles, steps, side="left")
        is_on = (passed + self._is_on) % 2
        self._is_on = bool(is_on[-1])
        self._toggles = toggles[passed[-1] :]
        return is_on * self.bandwidth


def arrivals_per_step(seed: int, virtual_streams: int) -> Iterator[NDArray[np.int64]]:
    """Tuple counts of step 1, 2, …, without end, 1024 steps at a time.

    The sources have the bandwidths 2, 4, …, 2^virtual_streams; each is on or off for a uniform
    random time of up to its bandwidth in steps, so slow sources carry most of the load and the
    sum fluctuates on every scale. On average 2^virtual_streams - 1 tuples per step.

    Deviations from Figure 7, which cannot be meant literally: "on" belongs to each source, not to
    all, and every toggle that is due is made (toggles fall due about twice per step, and one per
    step would let the clock of the toggles fall behind for ever).
    """
    sources = [_VirtualStream(2**i, seed) for i in range(1, virtual_streams + 1)]
    first = 1
    while True:
        steps = np.arange(first, first + _STEPS_AT_ONCE)
        yield np.sum([source.tuples_in(steps) for source in sources], axis=0)
        first += _STEPS_AT_ONCE


class ArrivalClock:
    """Tells the step in which each tuple arrives, tuple after tuple. Memory: 1024 steps."""

    def __init__(self, seed: int, virtual_streams: int) -> None:
        self._coming = arrivals_per_step(seed, virtual_streams)
        self._steps = np.empty(0, dtype=np.int64)
        self._counts = np.empty(0, dtype=np.int64)
        self._next_step = 1

    def take(self, tuples: int) -> NDArray[np.int64]:
        """The steps of the next `tuples` tuples, in order."""
        while self._counts.sum() < tuples:
            counts = next(self._coming)
            steps = np.arange(self._next_step, self._next_step + len(counts))
            self._next_step += len(counts)
            self._steps = np.concatenate([self._steps, steps])
            self._counts = np.concatenate([self._counts, counts])
        ends = np.cumsum(self._counts)
        last = int(np.searchsorted(ends, tuples))
        left_over = ends[last] - tuples
        counts = self._counts[: last + 1].copy()
        counts[-1] -= left_over
        arrived = np.repeat(self._steps[: last + 1], counts)
        self._steps, self._counts = self._steps[last:], self._counts[last:].copy()
        self._counts[0] = left_over
        return arrived
