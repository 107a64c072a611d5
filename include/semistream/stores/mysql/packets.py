"""Compiled loops over the bytes of a MySQL connection: rows in binary form to columns.

A reply is cut into packets once; then each column is taken out of all rows at a time, moving one
cursor per row. pymysql decodes 62 k rows/s of eight columns here, these loops over 5 M, so that
the server and not the client sets the pace of a read.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MORE, DONE, FAILED, FULL = 0, 1, 2, 3
# Where a reply stands: phase, column definitions still to come, rows so far, payload of an error.
PHASE, COLUMNS_LEFT, ROWS, PAYLOAD, PAYLOAD_BYTES, STATE_SIZE = 0, 1, 2, 3, 4, 5
_LONGEST = 0xFFFFFF


@njit(inline="always")
def _packet_length(data, at):  # type: ignore[no-untyped-def]
    return np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16


@njit(inline="always")
def _counted(data, at):  # type: ignore[no-untyped-def]
    """The length-encoded integer at `at`, and where it ends."""
    first = np.int64(data[at])
    if first < 0xFB:
        return first, at + 1
    width = 2 if first == 0xFC else (3 if first == 0xFD else 8)
    value = np.int64(0)
    for j in range(width):
        value |= np.int64(data[at + 1 + j]) << (8 * j)
    return value, at + 1 + width


@njit(cache=True, nogil=True)
def _join_parts(data, at, end):  # type: ignore[no-untyped-def]
    """Close the gaps inside a payload that came in several packets; its bytes, or -1: incomplete.

    Returns the payload's length and where the packet after it starts.
    """
    length, after = np.int64(0), at
    while True:
        if after + 4 > end:
            return np.int64(-1), at
        part = _packet_length(data, after)
        if after + 4 + part > end:
            return np.int64(-1), at
        length += part
        after += 4 + part
        if part < _LONGEST:
            break
    source, target = at, at + 4
    while source < after:
        part = _packet_length(data, source)
        for j in range(part):
            data[target + j] = data[source + 4 + j]
        source += 4 + part
        target += part
    return length, after


@njit(cache=True, nogil=True)
def cut_reply(data, at, end, state, kinds, starts):  # type: ignore[no-untyped-def]
    """Cut the packets of one reply in `data[at:end]`; where it got to, and why it stopped.

    `kinds` gets type and flags of each result column, `starts` where each row begins.
    """
    while True:
        if at + 4 > end:
            return at, MORE
        length = _packet_length(data, at)
        payload = at + 4
        if payload + length > end:
            return at, MORE
        after = payload + length
        if length == _LONGEST:
            length, after = _join_parts(data, at, end)
            if length < 0:
                return at, MORE
        head = data[payload] if length else 0
        state[PAYLOAD], state[PAYLOAD_BYTES] = payload, length
        if head == 0xFF:
            return after, FAILED
        if state[PHASE] == 0:
            state[COLUMNS_LEFT], _ = _counted(data, payload)
            state[PHASE] = 1
        elif state[PHASE] == 1 and state[COLUMNS_LEFT] > 0:
            # The definition ends with type, flags (2), decimals and two bytes of filler.
            column = len(kinds) - state[COLUMNS_LEFT]
            if column >= 0:
                kinds[column, 0] = data[after - 6]
                kinds[column, 1] = data[after - 5]
            state[COLUMNS_LEFT] -= 1
        elif head == 0xFE and length < 9:
            if state[PHASE] == 2:
                return after, DONE
            state[PHASE] = 2
        else:
            if state[ROWS] == len(starts):
                return at, FULL
            starts[state[ROWS]] = payload
            state[ROWS] += 1
        at = after


@njit(cache=True, nogil=True)
def null_flags(data, starts, column, flags):  # type: ignore[no-untyped-def]
    """1 in `flags` where a row's `column` is NULL; how many are."""
    byte, bit = 1 + (column + 2) // 8, (column + 2) % 8
    count = 0
    for i in range(len(starts)):
        flags[i] = (data[starts[i] + byte] >> bit) & 1
        count += flags[i]
    return count


@njit(cache=True, nogil=True)
def take_fixed(data, at, flags, out):  # type: ignore[no-untyped-def]
    """Values of a fixed width (the second dimension of `out`), NULL as zero."""
    width = out.shape[1]
    for i in range(len(at)):
        if flags[i]:
            for j in range(width):
                out[i, j] = 0
        else:
            start = at[i]
            for j in range(width):
                out[i, j] = data[start + j]
            at[i] = start + width


@njit(cache=True, nogil=True)
def find_values(data, at, flags, offsets):  # type: ignore[no-untyped-def]
    """Move the cursors behind the lengths of variable values and sum these into `offsets`."""
    total = np.int64(0)
    offsets[0] = 0
    for i in range(len(at)):
        if not flags[i]:
            length, at[i] = _counted(data, at[i])
            total += length
        offsets[i + 1] = total
    return total


@njit(cache=True, nogil=True)
def take_values(data, at, offsets, out):  # type: ignore[no-untyped-def]
    """Copy the values `find_values` found and move the cursors behind them."""
    for i in range(len(at)):
        start, target, length = at[i], offsets[i], offsets[i + 1] - offsets[i]
        if length < 32:
            for j in range(length):
                out[target + j] = data[start + j]
        else:
            out[target : target + length] = data[start : start + length]
        at[i] = start + length


@njit(cache=True, nogil=True)
def take_bits(data, at, flags, out):  # type: ignore[no-untyped-def]
    """BIT values: up to eight bytes, the highest first."""
    for i in range(len(at)):
        value = np.uint64(0)
        if not flags[i]:
            length, start = _counted(data, at[i])
            for j in range(length):
                value = (value << np.uint64(8)) | np.uint64(data[start + j])
            at[i] = start + length
        out[i] = value


@njit(inline="always")
def _days(year, month, day):  # type: ignore[no-untyped-def]
    """Days from 1970-01-01 in the proleptic Gregorian calendar."""
    shifted = year - 1 if month <= 2 else year
    era = (shifted if shifted >= 0 else shifted - 399) // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@njit(inline="always")
def _micros(data, at, length):  # type: ignore[no-untyped-def]
    """Microseconds of an hour-minute-second group with or without a fraction."""
    if length < 3:
        return np.int64(0)
    seconds = np.int64(data[at]) * 3600 + np.int64(data[at + 1]) * 60 + np.int64(data[at + 2])
    fraction = np.int64(0)
    if length >= 7:
        for j in range(4):
            fraction |= np.int64(data[at + 3 + j]) << (8 * j)
    return seconds * 1_000_000 + fraction


@njit(cache=True, nogil=True)
def take_dates(data, at, flags, days, micros):  # type: ignore[no-untyped-def]
    """Days since 1970 and microseconds of the day; a date that does not exist becomes NULL.

    Returns how many such dates (0000-00-00, 2020-00-00) there were.
    """
    impossible = 0
    for i in range(len(at)):
        days[i] = 0
        micros[i] = 0
        if flags[i]:
            continue
        length, start = np.int64(data[at[i]]), at[i] + 1
        at[i] = start + length
        month = np.int64(data[start + 2]) if length else np.int64(0)
        day = np.int64(data[start + 3]) if length else np.int64(0)
        if month == 0 or day == 0:
            flags[i] = 1
            impossible += 1
            continue
        year = np.int64(data[start]) | np.int64(data[start + 1]) << 8
        days[i] = _days(year, month, day)
        micros[i] = _micros(data, start + 4, length - 4)
    return impossible


@njit(cache=True, nogil=True)
def take_times(data, at, flags, micros):  # type: ignore[no-untyped-def]
    """Microseconds of TIME values, which may be negative or longer than a day."""
    for i in range(len(at)):
        micros[i] = 0
        if flags[i]:
            continue
        length, start = np.int64(data[at[i]]), at[i] + 1
        at[i] = start + length
        if length == 0:
            continue
        days = np.int64(0)
        for j in range(4):
            days |= np.int64(data[start + 1 + j]) << (8 * j)
        value = days * 86_400_000_000 + _micros(data, start + 5, length - 5)
        micros[i] = -value if data[start] else value
