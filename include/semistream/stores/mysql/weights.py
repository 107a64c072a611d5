"""Compiled loops over text: UTF-8 checked, mapped to collation weights, padding cut off.

All take values as (offsets, data). Weights of a value are bytes; equal weights are equal text.
"""

from __future__ import annotations

from numba import njit

KNOWN, UNKNOWN, INVALID = 0, 1, 2


@njit(inline="always")
def _character_bytes(data, at, end):  # type: ignore[no-untyped-def]
    """Bytes of the well-formed UTF-8 character at `at`, or 0."""
    head = data[at]
    if head < 0x80:
        return 1
    size = 2 if 0xC2 <= head <= 0xDF else (3 if 0xE0 <= head <= 0xEF else 4)
    if head < 0xC2 or head > 0xF4 or at + size > end:
        return 0
    second = data[at + 1]
    # No overlong forms, no surrogates, nothing beyond U+10FFFF.
    if (head == 0xE0 and second < 0xA0) or (head == 0xED and second > 0x9F):
        return 0
    if (head == 0xF0 and second < 0x90) or (head == 0xF4 and second > 0x8F):
        return 0
    for j in range(1, size):
        if data[at + j] & 0xC0 != 0x80:
            return 0
    return size


@njit(cache=True, nogil=True)
def classify(offsets, data, known, longest, out):  # type: ignore[no-untyped-def]
    """KNOWN where every character is an ASCII one marked in `known`, else UNKNOWN.

    INVALID where a value is not UTF-8 or has a character of more than `longest` bytes.
    """
    for i in range(len(out)):
        at, end = offsets[i], offsets[i + 1]
        out[i] = KNOWN
        while at < end:
            size = _character_bytes(data, at, end)
            if size == 0 or size > longest:
                out[i] = INVALID
                break
            if size > 1 or not known[data[at]]:
                out[i] = UNKNOWN
            at += size


@njit(cache=True, nogil=True)
def measure(offsets, data, classes, widths, sizes):  # type: ignore[no-untyped-def]
    """Bytes of the weights of KNOWN values into `sizes`, by bytes per ASCII character."""
    for i in range(len(classes)):
        if classes[i] == KNOWN:
            size = 0
            for at in range(offsets[i], offsets[i + 1]):
                size += widths[data[at]]
            sizes[i] = size


@njit(cache=True, nogil=True)
def translate(offsets, data, classes, places, widths, table, targets, out):  # type: ignore[no-untyped-def]
    """Weights of KNOWN values into `out` from `targets[i]` on."""
    for i in range(len(classes)):
        if classes[i] == KNOWN:
            target = targets[i]
            for at in range(offsets[i], offsets[i + 1]):
                place = places[data[at]]
                for j in range(widths[data[at]]):
                    out[target + j] = table[place + j]
                target += widths[data[at]]


@njit(cache=True, nogil=True)
def place(rows, values, offsets, data, targets, out):  # type: ignore[no-untyped-def]
    """Copy value `values[k]` of (offsets, data) to row `rows[k]` of `out`."""
    for k in range(len(rows)):
        start, end = offsets[values[k]], offsets[values[k] + 1]
        target = targets[rows[k]]
        for at in range(start, end):
            out[target + at - start] = data[at]


@njit(cache=True, nogil=True)
def cut_padding(offsets, data, pad, new_offsets, out):  # type: ignore[no-untyped-def]
    """Values without trailing repeats of `pad`, closed up. `out` may be `data` itself."""
    width = len(pad)
    target = 0
    new_offsets[0] = 0
    for i in range(len(new_offsets) - 1):
        start, end = offsets[i], offsets[i + 1]
        while end - start >= width:
            same = True
            for j in range(width):
                if data[end - width + j] != pad[j]:
                    same = False
                    break
            if not same:
                break
            end -= width
        for at in range(start, end):
            out[target] = data[at]
            target += 1
        new_offsets[i + 1] = target
    return target


@njit(inline="always")
def _compare(data, at, end, other, from_, to, pad):  # type: ignore[no-untyped-def]
    """-1, 0 or 1; the shorter value counts as continued with `pad`, if there is one."""
    length, other_length = end - at, to - from_
    shared = min(length, other_length)
    for j in range(shared):
        if data[at + j] != other[from_ + j]:
            return -1 if data[at + j] < other[from_ + j] else 1
    if length == other_length:
        return 0
    width = len(pad)
    if width == 0:
        return -1 if length < other_length else 1
    for j in range(shared, length):
        if data[at + j] != pad[j % width]:
            return -1 if data[at + j] < pad[j % width] else 1
    for j in range(shared, other_length):
        if other[from_ + j] != pad[j % width]:
            return 1 if other[from_ + j] < pad[j % width] else -1
    return 0


@njit(cache=True, nogil=True)
def narrow_bytes(offsets, data, bound_offsets, bounds, pad, low, high):  # type: ignore[no-untyped-def]
    """Narrow `low[i]:high[i]`, a run of ascending bounds, to those equal to value i.

    An empty run means none is; `low[i]` is then the first bound above the value.
    """
    for i in range(len(low)):
        at, end = offsets[i], offsets[i + 1]
        first, last = low[i], high[i]
        while first < last:
            mid = (first + last) // 2
            start, stop = bound_offsets[mid], bound_offsets[mid + 1]
            if _compare(bounds, start, stop, data, at, end, pad) < 0:
                first = mid + 1
            else:
                last = mid
        low[i] = first
        last = high[i]
        while first < last:
            mid = (first + last) // 2
            start, stop = bound_offsets[mid], bound_offsets[mid + 1]
            if _compare(bounds, start, stop, data, at, end, pad) <= 0:
                first = mid + 1
            else:
                last = mid
        high[i] = first


@njit(cache=True, nogil=True)
def narrow_words(words, bounds, low, high):  # type: ignore[no-untyped-def]
    """The same for keys that are 64-bit words."""
    for i in range(len(low)):
        word = words[i]
        first, last = low[i], high[i]
        while first < last:
            mid = (first + last) // 2
            if bounds[mid] < word:
                first = mid + 1
            else:
                last = mid
        low[i] = first
        last = high[i]
        while first < last:
            mid = (first + last) // 2
            if bounds[mid] <= word:
                first = mid + 1
            else:
                last = mid
        high[i] = first


@njit(cache=True, nogil=True)
def compare_neighbours(offsets, data, pad, out):  # type: ignore[no-untyped-def]
    """How value i compares with value i + 1: -1, 0 or 1."""
    for i in range(len(out)):
        out[i] = _compare(
            data, offsets[i], offsets[i + 1], data, offsets[i + 1], offsets[i + 2], pad
        )
