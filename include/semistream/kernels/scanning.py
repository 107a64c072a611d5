"""The scan window's hash table: from a key to the chain of tuples waiting for it.

The table holds the first slot of each chain; slots are chained both ways, so that a tuple leaves
in constant time however many share its key. Cells are found by multiplication instead of a mask:
the table is as large as asked for, not the next power of two.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.kernels.matching import match_groups

_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX2 = np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)


@njit(inline="always")
def _home(code, size):  # type: ignore[no-untyped-def]
    mixed = code * _MIX
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _MIX2
    return np.int64(((mixed >> _HALF) * np.uint64(size)) >> _HALF)


@njit(inline="always")
def _find(code, check, table, slot_code, slot_check):  # type: ignore[no-untyped-def]
    """The first slot of a key's chain (-1: none) and the cell that holds or would hold it."""
    size = len(table)
    at = _home(code, size)
    while True:
        slot = table[at]
        if slot < 0:
            return np.int32(-1), at
        if slot_code[slot] == code and (len(slot_check) == 0 or slot_check[slot] == check):
            return slot, at
        at += 1
        if at == size:
            at = 0


@njit(inline="always")
def _close_gap(hole, table, slot_code):  # type: ignore[no-untyped-def]
    """Empty a cell, moving back what could not be found across it."""
    size = len(table)
    at = hole
    while True:
        at += 1
        if at == size:
            at = 0
        other = table[at]
        if other < 0:
            break
        home = _home(slot_code[other], size)
        if (at - home) % size >= (at - hole) % size:
            table[hole] = other
            hole = at
    table[hole] = -1


@njit(cache=True, nogil=True)
def attach(slots, table, slot_code, slot_check, following, previous, now, key_rows, key_since):  # type: ignore[no-untyped-def]
    """Chain slots (whose code and check are set) behind the first of their key.

    The first slot of a chain also carries what is known of its key: `key_since`, when the key
    came into the window, and `key_rows`, how many master tuples it has met. `previous` and these
    two are empty where nobody needs them.
    """
    for i in range(len(slots)):
        slot = slots[i]
        check = slot_check[slot] if len(slot_check) > 0 else np.uint64(0)
        head, at = _find(slot_code[slot], check, table, slot_code, slot_check)
        if head < 0:
            table[at] = slot
            following[slot] = -1
            if len(previous) > 0:
                previous[slot] = -1
            if len(key_rows) > 0:
                key_rows[slot] = 0
                key_since[slot] = now
            continue
        after = following[head]
        following[slot] = after
        following[head] = slot
        if len(previous) > 0:
            previous[slot] = head
            if after >= 0:
                previous[after] = slot


@njit(cache=True, nogil=True)
def detach(slots, table, slot_code, slot_check, following, previous, key_rows, key_since):  # type: ignore[no-untyped-def]
    """Take slots out of their chains; a first slot hands what it carries to the next."""
    for i in range(len(slots)):
        slot = slots[i]
        before, after = previous[slot], following[slot]
        if after >= 0:
            previous[after] = before
        if before >= 0:
            following[before] = after
            continue
        check = slot_check[slot] if len(slot_check) > 0 else np.uint64(0)
        _, at = _find(slot_code[slot], check, table, slot_code, slot_check)
        if after >= 0:
            table[at] = after
            if len(key_rows) > 0:
                key_rows[after] = key_rows[slot]
                key_since[after] = key_since[slot]
        else:
            _close_gap(at, table, slot_code)


@njit(cache=True, nogil=True)
def drop_keys(slots, table, slot_code, slot_check):  # type: ignore[no-untyped-def]
    """Forget the chains that slots are in; all their slots leave together."""
    for i in range(len(slots)):
        slot = slots[i]
        check = slot_check[slot] if len(slot_check) > 0 else np.uint64(0)
        head, at = _find(slot_code[slot], check, table, slot_code, slot_check)
        if head >= 0:
            _close_gap(at, table, slot_code)


@njit(cache=True, nogil=True)
def walk(heads, following, slots):  # type: ignore[no-untyped-def]
    """All slots of all chains, one chain after the other."""
    at = 0
    for i in range(len(heads)):
        slot = heads[i]
        while slot >= 0:
            slots[at] = slot
            at += 1
            slot = following[slot]


@njit(cache=True, nogil=True)
def find_runs(row_codes, row_checks, bounds, table, slot_code, slot_check, heads, starts, stops):  # type: ignore[no-untyped-def]
    """The runs of equal master keys that some tuple waits for: first slot, first and last row.

    Rows ascend within each group, so equal keys are neighbours and are looked up once.
    """
    # The hot loop holds `_find` itself: numba counts references to arrays handed to a helper.
    count, size = 0, len(table)
    exact = len(row_checks) == 0
    for group in range(len(bounds) - 1):
        row, end = bounds[group], bounds[group + 1]
        while row < end:
            code = row_codes[row]
            check = np.uint64(0) if exact else row_checks[row]
            stop = row + 1
            while stop < end and row_codes[stop] == code and (exact or row_checks[stop] == check):
                stop += 1
            at = _home(code, size)
            head = table[at]
            while head >= 0 and not (
                slot_code[head] == code and (exact or slot_check[head] == check)
            ):
                at = at + 1 if at + 1 < size else 0
                head = table[at]
            if head >= 0:
                heads[count], starts[count], stops[count] = head, row, stop
                count += 1
            row = stop
    return count


@njit(cache=True, nogil=True)
def chain_sizes(heads, following, sizes):  # type: ignore[no-untyped-def]
    """Tuples in each chain; their sum."""
    total = 0
    for i in range(len(heads)):
        size = 0
        slot = heads[i]
        while slot >= 0:
            size += 1
            slot = following[slot]
        sizes[i] = size
        total += size
    return total


@njit(cache=True, nogil=True)
def expand_runs(heads, starts, stops, following, slots, low, high):  # type: ignore[no-untyped-def]
    """Each tuple of each chain with the rows of its run."""
    at = 0
    for i in range(len(heads)):
        slot = heads[i]
        while slot >= 0:
            slots[at], low[at], high[at] = slot, starts[i], stops[i]
            at += 1
            slot = following[slot]


@njit(cache=True, nogil=True)
def search_rows(  # type: ignore[no-untyped-def]
    heads, slot_code, slot_check, bounds, row_codes, row_checks, found, starts, stops
):
    """The same runs, found from the side of the waiting keys: cheaper when they are few."""
    waiting = len(heads)
    codes = np.empty(waiting, np.uint64)
    checks = np.empty(waiting if len(row_checks) > 0 else 0, np.uint64)
    for i in range(waiting):
        codes[i] = slot_code[heads[i]]
        if len(row_checks) > 0:
            checks[i] = slot_check[heads[i]]
    low, high = np.empty(waiting, np.int64), np.empty(waiting, np.int64)
    ends = np.full(1, waiting)
    count = 0
    for group in range(len(bounds) - 1):
        span = bounds[group : group + 2]
        match_groups(codes, checks, ends, span, row_codes, row_checks, low, high)
        for i in range(waiting):
            if high[i] > low[i]:
                found[count], starts[count], stops[count] = heads[i], low[i], high[i]
                count += 1
    return count


@njit(cache=True, nogil=True)
def find_heads(codes, checks, table, slot_code, slot_check, heads):  # type: ignore[no-untyped-def]
    """The first slot of each key's chain, -1 where no tuple waits for it."""
    for i in range(len(codes)):
        check = checks[i] if len(slot_check) > 0 else np.uint64(0)
        heads[i], _ = _find(codes[i], check, table, slot_code, slot_check)


@njit(cache=True, nogil=True)
def take_free(count, following, free):  # type: ignore[no-untyped-def]
    """Take `count` slots off the free list, which runs through `following`; its new head."""
    out = np.empty(count, np.int32)
    for i in range(count):
        out[i] = free
        free = following[free]
    return out, free


@njit(cache=True, nogil=True)
def give_back(slots, following, free):  # type: ignore[no-untyped-def]
    """Put slots back on the free list; its new head."""
    for i in range(len(slots)):
        following[slots[i]] = free
        free = slots[i]
    return free
