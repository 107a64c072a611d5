from __future__ import annotations

import heapq
from itertools import chain, islice

import numpy as np
import pytest

from semistream.workloads.arrivals import ArrivalClock, arrivals_per_step
from semistream.workloads.draws import block_generator


def counts_of(seed: int, virtual_streams: int, steps: int) -> np.ndarray:
    coming = arrivals_per_step(seed, virtual_streams)
    return np.fromiter(islice(chain.from_iterable(coming), steps), dtype=np.int64)


def figure_7(seed: int, virtual_streams: int, steps: int) -> list[int]:
    """The paper's pseudo-code with a priority queue, each source on or off by itself."""
    randoms = {2**i: block_generator(seed, f"toggles {2**i}") for i in range(1, 17)}
    queue = [(0.0, 2**i) for i in range(1, virtual_streams + 1)]
    on = dict.fromkeys(randoms, False)
    total, counts = 0, []
    for now in range(1, steps + 1):
        while now > queue[0][0]:
            time, bandwidth = heapq.heappop(queue)
            on[bandwidth] = not on[bandwidth]
            total += bandwidth if on[bandwidth] else -bandwidth
            wait = randoms[bandwidth].random() * bandwidth
            heapq.heappush(queue, (time + wait, bandwidth))
        counts.append(total)
    return counts


@pytest.mark.parametrize("virtual_streams", [1, 2, 5, 10])
@pytest.mark.parametrize("seed", [0, 7])
def test_it_equals_the_priority_queue_of_the_paper(seed: int, virtual_streams: int):
    expected = figure_7(seed, virtual_streams, 5_000)
    assert counts_of(seed, virtual_streams, 5_000).tolist() == expected


def test_counts_stay_between_silence_and_all_sources():
    counts = counts_of(1, 10, 40_000)
    assert counts.min() >= 0
    assert counts.max() == 2**11 - 2
    assert counts[0] > 2**10  # all start together, only the fastest may be off again


def test_the_mean_is_half_of_all_bandwidths():
    counts = np.concatenate([counts_of(seed, 8, 20_000) for seed in range(5)])
    assert counts.mean() == pytest.approx(2**8 - 1, rel=0.1)


def test_bursts_survive_aggregation():
    # The variance of means over m steps falls like 1/m for independent steps (1/64 below);
    # self-similar traffic keeps most of it.
    counts = counts_of(3, 10, 1 << 15).astype(np.float64)
    shuffled = np.random.default_rng(0).permutation(counts)

    def kept(values: np.ndarray) -> float:
        return values.reshape(-1, 64).mean(axis=1).var() / values.var()

    assert kept(shuffled) < 2 / 64
    assert kept(counts) > 0.5


def test_there_are_bursts_on_every_scale():
    counts = counts_of(3, 10, 1 << 15).astype(np.float64)
    for scale in (1, 4, 16, 64, 256):
        means = counts.reshape(-1, scale).mean(axis=1)
        jumps = np.abs(np.diff(means))
        assert jumps.max() > 0.25 * counts.mean(), scale


@pytest.mark.parametrize("takes", [[1] * 50, [5_000, 1, 70_000], [3, 1_000_000], [123_456]])
def test_the_clock_hands_out_each_step_as_often_as_it_has_tuples(takes: list[int]):
    clock = ArrivalClock(5, 6)
    steps = np.concatenate([clock.take(tuples) for tuples in takes])
    assert len(steps) == sum(takes)
    counts = counts_of(5, 6, int(steps[-1]))
    expected = np.repeat(np.arange(1, len(counts) + 1), counts)[: len(steps)]
    assert np.array_equal(steps, expected)
