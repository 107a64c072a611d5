"""Open-addressing tables from keys to entries, and a count-min sketch with aging."""

from __future__ import annotations

import numpy as np
from numba import njit

_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX2 = np.uint64(0xC2B2AE3D27D4EB4F)


@njit(inline="always")
def _home(code, shift):  # type: ignore[no-untyped-def]
    mixed = code * _MIX
    return np.int64((mixed ^ (mixed >> np.uint64(29))) * _MIX2 >> np.uint64(shift))


@njit(inline="always")
def _find(code, check, table, shift, entry_code, entry_check):  # type: ignore[no-untyped-def]
    mask = len(table) - 1
    at = _home(code, shift)
    while True:
        entry = table[at]
        if entry < 0:
            return np.int32(-1), at
        if entry_code[entry] == code and (len(entry_check) == 0 or entry_check[entry] == check):
            return entry, at
        at = (at + 1) & mask


@njit(cache=True, nogil=True)
def probe(codes, checks, table, shift, entry_code, entry_check, weight, found):  # type: ignore[no-untyped-def]
    """The entry of every key, -1 where there is none; a hit adds one to its weight, if there
    are weights."""
    # The hot loop holds `_find` itself: numba counts references to arrays handed to a helper.
    mask = len(table) - 1
    exact = len(entry_check) == 0
    for i in range(len(codes)):
        code = codes[i]
        at = _home(code, shift)
        entry = table[at]
        while entry >= 0 and not (
            entry_code[entry] == code and (exact or entry_check[entry] == checks[i])
        ):
            at = (at + 1) & mask
            entry = table[at]
        found[i] = entry
        if entry >= 0 and len(weight) > 0:
            weight[entry] += np.float32(1)


@njit(cache=True, nogil=True)
def tally(low, high, wanted, rows):  # type: ignore[no-untyped-def]
    """The distinct ranges of rows among the wanted ones, ascending, and how often each came."""
    count = np.zeros(rows, np.int32)
    end = np.empty(rows, np.int32)
    distinct = 0
    for i in range(len(low)):
        if wanted[i]:
            at = low[i]
            distinct += count[at] == 0
            count[at] += 1
            end[at] = high[i]
    starts, stops = np.empty(distinct, np.int64), np.empty(distinct, np.int64)
    counts = np.empty(distinct, np.int64)
    n = 0
    for at in range(rows):
        if count[at] > 0:
            starts[n], stops[n], counts[n] = at, end[at], count[at]
            n += 1
    return starts, stops, counts


@njit(cache=True, nogil=True)
def insert(entries, table, shift, entry_code, entry_check):  # type: ignore[no-untyped-def]
    """Make entries (whose code and check are set) findable; none of their keys is there yet."""
    for i in range(len(entries)):
        entry = entries[i]
        check = entry_check[entry] if len(entry_check) > 0 else np.uint64(0)
        _, at = _find(entry_code[entry], check, table, shift, entry_code, entry_check)
        table[at] = entry


@njit(cache=True, nogil=True)
def remove(entries, table, shift, entry_code, entry_check):  # type: ignore[no-untyped-def]
    """Take entries out, closing the gaps so that probes need no tombstones."""
    mask = len(table) - 1
    for i in range(len(entries)):
        entry = entries[i]
        check = entry_check[entry] if len(entry_check) > 0 else np.uint64(0)
        found, hole = _find(entry_code[entry], check, table, shift, entry_code, entry_check)
        if found != entry:
            continue
        at = hole
        while True:
            at = (at + 1) & mask
            other = table[at]
            if other < 0:
                break
            home = _home(entry_code[other], shift)
            # Move back what could not be found across the hole.
            if ((at - home) & mask) >= ((at - hole) & mask):
                table[hole] = other
                hole = at
        table[hole] = -1


@njit(cache=True, nogil=True)
def record(codes, amounts, counters, estimates):  # type: ignore[no-untyped-def]
    """Add amounts to the sketch (conservative update); the new estimates."""
    depth, width = counters.shape
    mask = np.uint64(width - 1)
    for i in range(len(codes)):
        mixed = codes[i] * _MIX
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIX2
        step = (mixed >> np.uint64(32)) | np.uint64(1)
        least = np.int64(1) << 40
        for d in range(depth):
            value = np.int64(counters[d, (mixed + np.uint64(d) * step) & mask])
            if value < least:
                least = value
        least = min(least + amounts[i], np.int64(65535))
        for d in range(depth):
            place = (mixed + np.uint64(d) * step) & mask
            if counters[d, place] < least:
                counters[d, place] = np.uint16(least)
        estimates[i] = least


@njit(cache=True, nogil=True)
def chain_lengths(heads, following, counts):  # type: ignore[no-untyped-def]
    """The number of rows in each chain."""
    for i in range(len(heads)):
        n = 0
        slot = heads[i]
        while slot >= 0:
            n += 1
            slot = following[slot]
        counts[i] = n


@njit(cache=True, nogil=True)
def walk_chains(heads, following, slots):  # type: ignore[no-untyped-def]
    """All slots of all chains, one chain after the other."""
    at = 0
    for i in range(len(heads)):
        slot = heads[i]
        while slot >= 0:
            slots[at] = slot
            at += 1
            slot = following[slot]
