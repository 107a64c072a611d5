"""Find the master rows of keys among rows that ascend by (code, check).

The loops stand in the kernels themselves: numba counts references to every array handed to a
helper, inlined or not, which here costs ten times the search.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def walk_chains(partitions, heads, counts, following, slots, ends):  # type: ignore[no-untyped-def]
    """The slots of the chains of some partitions, and where each chain ends among them."""
    chains = len(partitions)
    at, place, active = np.empty(chains, np.int64), np.empty(chains, np.int64), 0
    total = 0
    for g in range(chains):
        if heads[partitions[g]] >= 0:
            at[active], place[active] = heads[partitions[g]], total
            active += 1
        total += counts[partitions[g]]
        ends[g] = total
    # All chains at once, a link of each in turn: their cache misses overlap.
    while active:
        left = 0
        for c in range(active):
            slots[place[c]] = at[c]
            onward = following[at[c]]
            if onward >= 0:
                at[left], place[left] = onward, place[c] + 1
                left += 1
        active = left


@njit(cache=True, nogil=True)
def match_groups(  # type: ignore[no-untyped-def]
    codes, checks, ends, bounds, row_codes, row_checks, low, high
):
    """The range of master rows of every key; the keys up to `ends[g]` look into group g.

    Dense and fingerprinted keys lie evenly, so the place a straight line predicts is right or
    near; doubling steps from there and a binary search find it however the keys lie.
    """
    exact = len(row_checks) == 0
    start = 0
    for g in range(len(ends)):
        begin, end = bounds[g], bounds[g + 1]
        least, scale = np.uint64(0), 0.0
        if begin < end:
            least = row_codes[begin]
            span = np.float64(row_codes[end - 1] - least)
            if span > 0:
                scale = (end - 1 - begin) / span
        for i in range(start, ends[g]):
            code = codes[i]
            check = np.uint64(0) if exact else checks[i]
            left, right = begin, end
            if left < right and least < code:
                at = min(left + int(np.float64(code - least) * scale), right - 1)
                step = 1
                if row_codes[at] < code or (
                    not exact and row_codes[at] == code and row_checks[at] < check
                ):
                    while at + step < right and (
                        row_codes[at + step] < code
                        or (
                            not exact
                            and row_codes[at + step] == code
                            and row_checks[at + step] < check
                        )
                    ):
                        at += step
                        step *= 2
                    left, right = at + 1, min(right, at + step)
                else:
                    while at - step >= left and not (
                        row_codes[at - step] < code
                        or (
                            not exact
                            and row_codes[at - step] == code
                            and row_checks[at - step] < check
                        )
                    ):
                        at -= step
                        step *= 2
                    left, right = max(left, at - step + 1), at
            while left < right:
                middle = (left + right) >> 1
                if row_codes[middle] < code or (
                    not exact and row_codes[middle] == code and row_checks[middle] < check
                ):
                    left = middle + 1
                else:
                    right = middle
            low[i] = left
            while left < end and row_codes[left] == code and (exact or row_checks[left] == check):
                left += 1
            high[i] = left
        start = ends[g]


@njit(cache=True, nogil=True)
def last_not_above(ascending, codes, out):  # type: ignore[no-untyped-def]
    """The place of the last value that is not above each code, -1 if all are."""
    count = len(ascending)
    scale = 0.0
    if count and ascending[count - 1] > ascending[0]:
        scale = (count - 1) / np.float64(ascending[count - 1] - ascending[0])
    for i in range(len(codes)):
        code = codes[i]
        left, right = 0, count
        if count and ascending[0] < code:
            at = min(int(np.float64(code - ascending[0]) * scale), count - 1)
            step = 1
            if ascending[at] <= code:
                while at + step < right and ascending[at + step] <= code:
                    at += step
                    step *= 2
                left, right = at + 1, min(right, at + step)
            else:
                while at - step >= left and ascending[at - step] > code:
                    at -= step
                    step *= 2
                left, right = max(left, at - step + 1), at
        while left < right:
            middle = (left + right) >> 1
            if ascending[middle] <= code:
                left = middle + 1
            else:
                right = middle
        out[i] = left - 1
