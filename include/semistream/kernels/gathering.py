"""Copy variable-width values into, out of and within a byte arena."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def put_bytes(offsets, data, slots, starts, lengths, arena, tail):  # type: ignore[no-untyped-def]
    """Append value i of (offsets, data) to the arena as slot `slots[i]`; the new tail."""
    for i in range(len(slots)):
        begin, end = offsets[i], offsets[i + 1]
        slot = slots[i]
        starts[slot] = tail
        lengths[slot] = end - begin
        for j in range(begin, end):
            arena[tail] = data[j]
            tail += 1
    return tail


@njit(cache=True, nogil=True)
def gather_offsets(slots, lengths, offsets):  # type: ignore[no-untyped-def]
    """Fill `offsets` for the values of `slots`, the bytes they need."""
    total = 0
    offsets[0] = 0
    for i in range(len(slots)):
        total += lengths[slots[i]]
        offsets[i + 1] = total
    return total


@njit(cache=True, nogil=True)
def gather_bytes(slots, starts, lengths, arena, out):  # type: ignore[no-untyped-def]
    """Copy the values of `slots` one after the other into `out`."""
    at = 0
    for i in range(len(slots)):
        begin = starts[slots[i]]
        for j in range(begin, begin + lengths[slots[i]]):
            out[at] = arena[j]
            at += 1


@njit(cache=True, nogil=True)
def compact(order, starts, lengths, arena):  # type: ignore[no-untyped-def]
    """Close the gaps between the values of the slots in `order` (ascending by start)."""
    tail = 0
    for i in range(len(order)):
        slot = order[i]
        begin = starts[slot]
        size = lengths[slot]
        if begin != tail:
            for j in range(size):
                arena[tail + j] = arena[begin + j]
            starts[slot] = tail
        tail += size
    return tail
