"""Sorted runs of words in one buffer: merged in place, searched by galloping.

An entry is a word, a slot and the number of the chunk the slot was filled with; it is dead when
the slot has another number by now.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def drop_dead(words, slots, numbers, start, stop, target, chunk_of):  # type: ignore[no-untyped-def]
    """Move the living entries of a run to `target` (not behind `start`), in order; their end."""
    for i in range(start, stop):
        slot, number = slots[i], numbers[i]
        if chunk_of[slot] == number:
            words[target], slots[target], numbers[target] = words[i], slot, number
            target += 1
    return target


@njit(cache=True, nogil=True)
def merge(words, slots, numbers, start, middle, stop, more_words, more_slots, more_numbers):  # type: ignore[no-untyped-def]
    """Merge two neighbouring runs in place; the smaller one must fit the spare arrays."""
    left, right = middle - start, stop - middle
    if right <= left:
        for i in range(right):
            more_words[i], more_slots[i] = words[middle + i], slots[middle + i]
            more_numbers[i] = numbers[middle + i]
        a, b, out = middle - 1, right - 1, stop - 1
        while b >= 0:
            if a >= start and words[a] > more_words[b]:
                words[out], slots[out], numbers[out] = words[a], slots[a], numbers[a]
                a -= 1
            else:
                words[out], slots[out] = more_words[b], more_slots[b]
                numbers[out] = more_numbers[b]
                b -= 1
            out -= 1
        return
    for i in range(left):
        more_words[i], more_slots[i] = words[start + i], slots[start + i]
        more_numbers[i] = numbers[start + i]
    a, b, out = 0, middle, start
    while a < left:
        if b < stop and words[b] < more_words[a]:
            words[out], slots[out], numbers[out] = words[b], slots[b], numbers[b]
            b += 1
        else:
            words[out], slots[out], numbers[out] = more_words[a], more_slots[a], more_numbers[a]
            a += 1
        out += 1


@njit(inline="always")
def _reach(words, wanted, at, stop, is_last):  # type: ignore[no-untyped-def]
    """The first place from `at` on whose word is not below `wanted` (`is_last`: is above it).

    Steps double, so a place that is near costs little however long the run is.
    """
    step = 1
    low, high = at, at
    while high < stop and (words[high] < wanted or (is_last and words[high] == wanted)):
        low = high + 1
        high += step
        step *= 2
    if high > stop:
        high = stop
    while low < high:
        middle = (low + high) >> 1
        if words[middle] < wanted or (is_last and words[middle] == wanted):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def find_ranges(words, start, stop, first, last, low, counts):  # type: ignore[no-untyped-def]
    """The entries of a run with words from `first[i]` to `last[i]`: where they begin, how many.

    Master rows mostly ascend, so the search goes on from the row before.
    """
    at = start
    before = first[0] if len(first) > 0 else 0
    for i in range(len(first)):
        if first[i] > last[i]:
            low[i], counts[i] = 0, 0
            continue
        if first[i] < before:
            at = start
        before = first[i]
        at = _reach(words, first[i], at, stop, False)
        low[i] = at
        counts[i] = _reach(words, last[i], at, stop, True) - at
