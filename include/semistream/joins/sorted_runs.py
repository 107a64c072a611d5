"""The window's index for ranges: words of pending tuples in a few sorted runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from semistream.kernels import ranging
from semistream.kernels.arrays import I32Array, I64Array, U64Array

_SLACK = 1.25  # entries per slot: those of tuples that left are dropped when runs merge
_ENTRY = 8 + 4 + 4


class SortedRuns:
    """Entries of up to `capacity` tuples in fixed memory.

    A chunk comes as a run of its own; a run merges with the one before while that is not more than
    twice as long. So there are about log2 of the chunks, each tuple takes part in as many merges,
    and a range is found by two searches a run.
    """

    def __init__(self, capacity: int) -> None:
        size = int(capacity * _SLACK) + 1
        spare = size // 2 + 1  # the smaller of two runs
        self._words, self._spare_words = np.zeros(size, np.uint64), np.zeros(spare, np.uint64)
        self.slots, self._spare_slots = np.zeros(size, np.int32), np.zeros(spare, np.int32)
        self.numbers, self._spare_numbers = np.zeros(size, np.int32), np.zeros(spare, np.int32)
        self._ends: list[int] = [0]

    @staticmethod
    def slot_bytes() -> int:
        return int(_ENTRY * _SLACK * 1.5) + 1

    @property
    def nbytes(self) -> int:
        return _ENTRY * (len(self._words) + len(self._spare_words))

    def __len__(self) -> int:
        """Entries, dead ones included."""
        return self._ends[-1]

    @property
    def run_count(self) -> int:
        return len(self._ends) - 1

    def add(self, words: U64Array, slots: I32Array, number: int, chunk_of: I32Array) -> None:
        """Take the tuples of a new chunk; `chunk_of` tells which entries live, these included."""
        if len(self) + len(words) > len(self._words):
            self.drop_dead(chunk_of)
        order = np.argsort(words, kind="stable")
        begin, end = len(self), len(self) + len(words)
        self._words[begin:end] = words[order]
        self.slots[begin:end] = slots[order]
        self.numbers[begin:end] = number
        self._ends.append(end)
        while self.run_count > 1 and 2 * self._length(-1) >= self._length(-2):
            self._merge_last(chunk_of)

    def find(self, first: U64Array, last: U64Array) -> Iterator[tuple[I64Array, I64Array]]:
        """For each run, where the entries from `first[i]` to `last[i]` begin and how many there
        are; places count through `slots` and `numbers`, dead entries included."""
        for begin, end in itertools.pairwise(self._ends):
            low, counts = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
            ranging.find_ranges(self._words, begin, end, first, last, low, counts)
            yield low, counts

    def clear(self) -> None:
        self._ends = [0]

    def drop_dead(self, chunk_of: I32Array) -> None:
        ends, target = [0], 0
        for begin, end in itertools.pairwise(self._ends):
            target = self._living(begin, end, target, chunk_of)
            if target > ends[-1]:
                ends.append(target)
        self._ends = ends

    def _length(self, run: int) -> int:
        return self._ends[run] - self._ends[run - 1]

    def _living(self, begin: int, end: int, target: int, chunk_of: I32Array) -> int:
        return int(
            ranging.drop_dead(self._words, self.slots, self.numbers, begin, end, target, chunk_of)
        )

    def _merge_last(self, chunk_of: I32Array) -> None:
        start, middle, stop = self._ends[-3:]
        kept = self._living(start, middle, start, chunk_of)
        stop = self._living(middle, stop, kept, chunk_of)
        ranging.merge(
            self._words,
            self.slots,
            self.numbers,
            start,
            kept,
            stop,
            self._spare_words,
            self._spare_slots,
            self._spare_numbers,
        )
        self._ends[-2:] = [stop] if stop > start else []
