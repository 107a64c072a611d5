"""Rows side by side in memory: columns in, columns out, and the byte arena beside them.

A row is `stride` bytes at `base + slot * stride`. If it has variable-width values it begins with
one plus the place of their segment in the arena (0: none), followed by their lengths. A segment
is the slot it belongs to, then the values; a dead segment has minus its size instead of the slot.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.kernels.memory import (
    copy1,
    copy2,
    copy4,
    copy8,
    copy16,
    load_i32,
    load_i64,
    move,
    store_i32,
    store_i64,
)

LENGTHS = 8  # where the lengths begin in a row
HEADER = 4  # bytes of a segment before its values
SLACK = 16  # bytes that may be read or written behind a value
# Rows of a block stay in the first-level cache while one column after the other is copied.
_BLOCK = 128
_PIECE = 1 << 30


@njit(cache=True, nogil=True)
def gather_fixed(slots, base, stride, offsets, widths, targets):  # type: ignore[no-untyped-def]
    """The fixed-width values of `slots`, one column after the other, to the target addresses."""
    for begin in range(0, len(slots), _BLOCK):
        end = min(begin + _BLOCK, len(slots))
        for c in range(len(widths)):
            width, source, target = widths[c], base + offsets[c], targets[c]
            if width == 8:
                for i in range(begin, end):
                    copy8(target + 8 * i, source + stride * np.int64(slots[i]))
            elif width == 4:
                for i in range(begin, end):
                    copy4(target + 4 * i, source + stride * np.int64(slots[i]))
            elif width == 16:
                for i in range(begin, end):
                    copy16(target + 16 * i, source + stride * np.int64(slots[i]))
            elif width == 2:
                for i in range(begin, end):
                    copy2(target + 2 * i, source + stride * np.int64(slots[i]))
            else:
                for i in range(begin, end):
                    for j in range(width):
                        copy1(target + width * i + j, source + stride * np.int64(slots[i]) + j)


@njit(cache=True, nogil=True)
def put_fixed(slots, base, stride, offsets, widths, sources):  # type: ignore[no-untyped-def]
    """The reverse of `gather_fixed`."""
    for begin in range(0, len(slots), _BLOCK):
        end = min(begin + _BLOCK, len(slots))
        for c in range(len(widths)):
            width, target, source = widths[c], base + offsets[c], sources[c]
            if width == 8:
                for i in range(begin, end):
                    copy8(target + stride * np.int64(slots[i]), source + 8 * i)
            elif width == 4:
                for i in range(begin, end):
                    copy4(target + stride * np.int64(slots[i]), source + 4 * i)
            else:
                for i in range(begin, end):
                    for j in range(width):
                        copy1(target + stride * np.int64(slots[i]) + j, source + width * i + j)


@njit(cache=True, nogil=True)
def put_bytes(slots, base, stride, offsets, sources, arena, tail):  # type: ignore[no-untyped-def]
    """Append a segment per slot, value i of column c from `offsets[c, i]` on; the new tail."""
    for i in range(len(slots)):
        row = base + stride * np.int64(slots[i])
        store_i64(row, tail + 1)
        store_i32(arena + tail, np.int32(slots[i]))
        tail += HEADER
        for c in range(len(sources)):
            begin = offsets[c, i]
            size = offsets[c, i + 1] - begin
            store_i32(row + LENGTHS + 4 * c, np.int32(size))
            move(arena + tail, sources[c] + begin, size)
            tail += size
    return tail


@njit(cache=True, nogil=True)
def gather_offsets(slots, base, stride, places, offsets):  # type: ignore[no-untyped-def]
    """Where the values of `slots` lie and the offsets they will have; the bytes of each column."""
    columns = len(offsets)
    totals = np.zeros(columns, np.int64)
    for c in range(columns):
        offsets[c, 0] = 0
    for i in range(len(slots)):
        row = base + stride * np.int64(slots[i])
        places[i] = load_i64(row) - 1 + HEADER
        for c in range(columns):
            totals[c] += load_i32(row + LENGTHS + 4 * c)
            offsets[c, i + 1] = totals[c]
    return totals


@njit(cache=True, nogil=True)
def gather_bytes(places, offsets, arena, targets):  # type: ignore[no-untyped-def]
    """Copy the values to the target addresses, in whole words: what one value spills over, the
    next one overwrites, and the last one spills into the slack."""
    for i in range(len(places)):
        source = arena + places[i]
        for c in range(len(targets)):
            size = np.int64(offsets[c, i + 1]) - np.int64(offsets[c, i])
            target = targets[c] + np.int64(offsets[c, i])
            for j in range(0, size, 16):
                copy16(target + j, source + j)
            source += size


@njit(inline="always")
def _segment_size(row, columns):  # type: ignore[no-untyped-def]
    size = np.int64(HEADER)
    for c in range(columns):
        size += load_i32(row + LENGTHS + 4 * c)
    return size


@njit(cache=True, nogil=True)
def add_sizes(slots, base, stride, columns, sizes):  # type: ignore[no-untyped-def]
    """Add the bytes of the segment of each slot."""
    for i in range(len(slots)):
        sizes[i] += _segment_size(base + stride * np.int64(slots[i]), columns)


@njit(cache=True, nogil=True)
def clear_bytes(slots, base, stride, columns, arena):  # type: ignore[no-untyped-def]
    """Declare the segments of `slots` dead; the bytes they took."""
    freed = np.int64(0)
    for i in range(len(slots)):
        row = base + stride * np.int64(slots[i])
        place = load_i64(row) - 1
        if place >= 0:
            size = _segment_size(row, columns)
            store_i64(row, np.int64(0))
            freed += size
            # A segment may be wider than a header can say: then it dies in pieces.
            while size > _PIECE:
                store_i32(arena + place, np.int32(-(_PIECE // 2)))
                place += _PIECE // 2
                size -= _PIECE // 2
            store_i32(arena + place, np.int32(-size))
    return freed


@njit(cache=True, nogil=True)
def compact(base, stride, columns, arena, tail):  # type: ignore[no-untyped-def]
    """Close the gaps that dead segments left; the new tail."""
    at = to = np.int64(0)
    while at < tail:
        slot = load_i32(arena + at)
        if slot < 0:
            at -= slot
            continue
        row = base + stride * np.int64(slot)
        size = _segment_size(row, columns)
        if at != to:
            move(arena + to, arena + at, size)
            store_i64(row, to + 1)
        at += size
        to += size
    return to
