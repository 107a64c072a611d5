"""The window's lists: a chain of pending tuples per partition, a queue with random deletion."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def link(slots, partitions, partition, following, previous, heads, counts):  # type: ignore[no-untyped-def]
    """Put each slot at the head of its partition's chain."""
    for i in range(len(slots)):
        slot, p = slots[i], partitions[i]
        partition[slot] = p
        head = heads[p]
        following[slot] = head
        previous[slot] = -1
        if head >= 0:
            previous[head] = slot
        heads[p] = slot
        counts[p] += 1


@njit(cache=True, nogil=True)
def unlink(slots, partition, following, previous, heads, counts):  # type: ignore[no-untyped-def]
    """Take each slot out of its partition's chain."""
    for i in range(len(slots)):
        slot = slots[i]
        p, after, before = partition[slot], following[slot], previous[slot]
        if before >= 0:
            following[before] = after
        else:
            heads[p] = after
        if after >= 0:
            previous[after] = before
        counts[p] -= 1


@njit(cache=True, nogil=True)
def dequeue(slots, place, ring):  # type: ignore[no-untyped-def]
    """Leave a hole in the queue where each slot was."""
    for i in range(len(slots)):
        ring[place[slots[i]]] = -1


@njit(cache=True, nogil=True)
def enqueue(slots, place, ring, tail):  # type: ignore[no-untyped-def]
    """Append slots at the newest end; the new tail."""
    for i in range(len(slots)):
        ring[tail] = slots[i]
        place[slots[i]] = tail
        tail += 1
    return tail


@njit(cache=True, nogil=True)
def squeeze(place, ring, head, tail):  # type: ignore[no-untyped-def]
    """Move the living entries to the front of the ring, in order; the new tail."""
    at = 0
    for i in range(head, tail):
        slot = ring[i]
        if slot >= 0:
            ring[at] = slot
            place[slot] = at
            at += 1
    return at


@njit(cache=True, nogil=True)
def walk_partitions(ring, start, stop, step, partition, wanted, limit):  # type: ignore[no-untyped-def]
    """Up to `wanted` distinct partitions met on the way from `start` to `stop`, looking at no
    more than `limit` living tuples."""
    found = np.empty(wanted, np.int64)
    count = 0
    seen = 0
    i = start
    while i != stop and count < wanted and seen < limit:
        slot = ring[i]
        i += step
        if slot < 0:
            continue
        seen += 1
        p = partition[slot]
        known = False
        for j in range(count):
            if found[j] == p:
                known = True
                break
        if not known:
            found[count] = p
            count += 1
    return found[:count]


@njit(cache=True, nogil=True)
def oldest_slots(ring, head, tail, wanted, tags):  # type: ignore[no-untyped-def]
    """The first `wanted` living slots from the oldest end that carry no tag."""
    out = np.empty(wanted, np.int32)
    count = 0
    for i in range(head, tail):
        if count == wanted:
            break
        slot = ring[i]
        if slot >= 0 and (len(tags) == 0 or tags[slot] < 0):
            out[count] = slot
            count += 1
    return out[:count]


@njit(cache=True, nogil=True)
def live_position(ring, head, tail, living, fraction):  # type: ignore[no-untyped-def]
    """The ring position of the living tuple that has `fraction` of the queue on its newer side."""
    target = int(fraction * living)
    passed = 0
    for i in range(tail - 1, head - 1, -1):
        if ring[i] >= 0:
            if passed >= target:
                return i
            passed += 1
    return head


@njit(cache=True, nogil=True)
def first_living(ring, head, tail):  # type: ignore[no-untyped-def]
    """The position of the oldest living tuple."""
    while head < tail and ring[head] < 0:
        head += 1
    return head


@njit(cache=True, nogil=True)
def empty_chains(partitions, heads, counts):  # type: ignore[no-untyped-def]
    """Take all slots out of the chains of some partitions."""
    for i in range(len(partitions)):
        heads[partitions[i]] = -1
        counts[partitions[i]] = 0
