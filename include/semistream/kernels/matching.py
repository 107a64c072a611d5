"""Find the master rows of keys among rows that ascend by (code, check)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(inline="always")
def _lower(codes, checks, code, check, low, high):  # type: ignore[no-untyped-def]
    while low < high:
        middle = (low + high) >> 1
        less = codes[middle] < code
        if len(checks) > 0 and codes[middle] == code:
            less = checks[middle] < check
        if less:
            low = middle + 1
        else:
            high = middle
    return low


@njit(inline="always")
def _run_end(codes, checks, at, high):  # type: ignore[no-untyped-def]
    """The end of the run of rows equal to row `at`, by doubling steps."""
    end = at + 1
    while (
        end < high and codes[end] == codes[at] and (len(checks) == 0 or checks[end] == checks[at])
    ):
        end += 1
    return end


@njit(inline="always")
def _find(codes, checks, code, check, low, high):  # type: ignore[no-untyped-def]
    at = _lower(codes, checks, code, check, low, high)
    if at == high or codes[at] != code or (len(checks) > 0 and checks[at] != check):
        return at, at
    return at, _run_end(codes, checks, at, high)


@njit(cache=True, nogil=True)
def match_chains(  # type: ignore[no-untyped-def]
    partitions, heads, following, code, check, bounds, row_codes, row_checks, slots, low, high
):
    """For every pending tuple of the partitions read: its slot and its range of master rows."""
    count = 0
    for g in range(len(partitions)):
        slot = heads[partitions[g]]
        while slot >= 0:
            wanted = check[slot] if len(row_checks) > 0 else np.uint64(0)
            a, b = _find(row_codes, row_checks, code[slot], wanted, bounds[g], bounds[g + 1])
            slots[count], low[count], high[count] = slot, a, b
            count += 1
            slot = following[slot]


@njit(cache=True, nogil=True)
def match_keys(codes, checks, bounds, row_codes, row_checks, group, low, high):  # type: ignore[no-untyped-def]
    """The range of master rows of every key within one group."""
    for i in range(len(codes)):
        wanted = checks[i] if len(row_checks) > 0 else np.uint64(0)
        a, b = _find(row_codes, row_checks, codes[i], wanted, bounds[group], bounds[group + 1])
        low[i], high[i] = a, b
