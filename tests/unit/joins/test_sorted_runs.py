"""Sorted runs find exactly the living tuples in a range, and stay few."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semistream.joins.sorted_runs import SortedRuns

CAPACITY = 40


class Model:
    """A window of slots, and what the runs should find in it."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.runs = SortedRuns(capacity)
        self.chunk_of = np.full(capacity, -1, np.int32)
        self.word = np.zeros(capacity, np.uint64)
        self.chunks = 0

    def add(self, words: list[int]) -> None:
        slots = np.flatnonzero(self.chunk_of < 0)[: len(words)].astype(np.int32)
        values = np.array(words[: len(slots)], np.uint64)
        self.chunk_of[slots], self.word[slots] = self.chunks, values
        self.runs.add(values, slots, self.chunks, self.chunk_of)
        self.chunks += 1

    def expire(self, chunk: int) -> None:
        self.chunk_of[self.chunk_of == chunk] = -1

    def found(self, first: list[int], last: list[int]) -> list[tuple[int, int]]:
        pairs = []
        ends = np.array(first, np.uint64), np.array(last, np.uint64)
        for low, counts in self.runs.find(*ends):
            for row, (start, count) in enumerate(zip(low, counts, strict=True)):
                for at in range(start, start + count):
                    slot = int(self.runs.slots[at])
                    if self.chunk_of[slot] == self.runs.numbers[at]:
                        pairs.append((row, slot))
        return sorted(pairs)

    def wanted(self, first: list[int], last: list[int]) -> list[tuple[int, int]]:
        return sorted(
            (row, int(slot))
            for row, (a, b) in enumerate(zip(first, last, strict=True))
            for slot in np.flatnonzero(self.chunk_of >= 0)
            if a <= int(self.word[slot]) <= b
        )


words = st.integers(0, 30) | st.sampled_from([2**63, 2**64 - 1])


@settings(max_examples=150)
@given(
    chunks=st.lists(st.lists(words, min_size=1, max_size=25), max_size=25),
    keep=st.integers(1, 5),
    ranges=st.lists(st.tuples(words, words), max_size=12),
)
def test_ranges_find_the_living(chunks, keep, ranges):
    model = Model()
    first, last = [a for a, _ in ranges], [b for _, b in ranges]
    for number, chunk in enumerate(chunks):
        model.expire(number - keep)
        if not (model.chunk_of < 0).any():
            continue
        model.add(chunk)
        assert model.found(first, last) == model.wanted(first, last)
    model.runs.drop_dead(model.chunk_of)
    assert len(model.runs) == np.count_nonzero(model.chunk_of >= 0)
    assert model.found(first, last) == model.wanted(first, last)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_runs_are_few_and_memory_is_fixed(size):
    """A full window turned over many times: runs grow with the logarithm of its chunks."""
    capacity, rng = 4096, np.random.default_rng(1)
    model = Model(capacity)
    held = model.runs.nbytes
    assert held <= SortedRuns.slot_bytes() * (capacity + 2)
    chunks = capacity // size
    for number in range(3 * chunks if size > 1 else chunks):
        model.expire(number - chunks)
        model.add(rng.integers(0, 10**6, size).tolist())
        assert model.runs.run_count <= np.log2(chunks) + 2
        assert len(model.runs) <= 1.25 * capacity + 1
    assert model.runs.nbytes == held
