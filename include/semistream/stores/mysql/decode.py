"""Raw rows to Arrow columns, exactly: every bit of a float, every digit of a decimal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from semistream.errors import InputError
from semistream.kernels.arrays import I64Array, U8Array
from semistream.stores.mysql import packets
from semistream.stores.mysql.wire import Reply

# Protocol type codes by how a value is laid out in a row.
_WIDTHS = {1: 1, 2: 2, 13: 2, 3: 4, 9: 4, 4: 4, 8: 8, 5: 8}
_DATES, _TIME, _BIT = {7, 10, 12}, 11, 16
_VALUES = {0, 15, 245, 246, 247, 248, 249, 250, 251, 252, 253, 254, 255}


def decode(replies: Sequence[Reply], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """The columns of all replies to one statement, one after the other, as `types`.

    Dates that do not exist (0000-00-00) become NULL, which is what MySQL itself makes of them
    under `IS NULL`. Cost: one pass per column; memory: the columns, next to the raw rows.
    """
    if len(replies) == 1:
        return _decode(replies[0].data, replies[0].starts, replies[0].kinds, types)
    first = replies[0]
    if all(reply.data is first.data for reply in replies):
        starts = np.concatenate([reply.starts for reply in replies])
        return _decode(first.data, starts, first.kinds, types)
    parts = [_decode(reply.data, reply.starts, reply.kinds, types) for reply in replies]
    return [pa.concat_arrays(column) for column in zip(*parts, strict=True)]


def _decode(
    data: U8Array, starts: I64Array, kinds: U8Array, types: Sequence[pa.DataType]
) -> list[pa.Array]:
    if len(kinds) != len(types):
        raise _changed(f"{len(kinds)} columns came instead of {len(types)}")
    at = starts + (1 + (len(types) + 9) // 8)  # behind the header and the NULL bits
    columns = []
    for number, type_ in enumerate(types):
        flags = np.empty(len(starts), np.uint8)
        nulls = packets.null_flags(data, starts, number, flags)
        columns.append(_column(data, at, flags, nulls, int(kinds[number, 0]), type_))
    return columns


def _column(
    data: U8Array, at: I64Array, flags: U8Array, nulls: int, kind: int, type_: pa.DataType
) -> pa.Array:
    rows = len(at)
    if kind in _WIDTHS:
        fixed = np.empty((rows, _WIDTHS[kind]), np.uint8)
        packets.take_fixed(data, at, flags, fixed)
        return _as_number(fixed, type_, flags, nulls, kind)
    if kind in _DATES:
        days, micros = np.empty(rows, np.int64), np.empty(rows, np.int64)
        nulls += packets.take_dates(data, at, flags, days, micros)
        if pat.is_date(type_):
            return _array(type_, flags, nulls, days.astype(np.int32))
        if pat.is_timestamp(type_):
            return _array(type_, flags, nulls, days * 86_400_000_000 + micros)
    elif kind == _TIME and pat.is_duration(type_):
        micros = np.empty(rows, np.int64)
        packets.take_times(data, at, flags, micros)
        return _array(type_, flags, nulls, micros)
    elif kind == _BIT and type_ == pa.uint64():
        bits = np.empty(rows, np.uint64)
        packets.take_bits(data, at, flags, bits)
        return _array(type_, flags, nulls, bits)
    elif kind in _VALUES:
        return _as_value(data, at, flags, nulls, type_)
    raise _changed(f"protocol type {kind} came for a column read as {type_}")


def _as_number(
    fixed: U8Array, type_: pa.DataType, flags: U8Array, nulls: int, kind: int
) -> pa.Array:
    # INT24 travels in four bytes, YEAR in two; both are read as the integer of that width.
    is_float = kind in (4, 5)
    if is_float != pat.is_floating(type_) or not pat.is_primitive(type_):
        raise _changed(f"protocol type {kind} came for a column read as {type_}")
    if type_.bit_width != 8 * fixed.shape[1]:
        raise _changed(f"{fixed.shape[1]} bytes came for a column read as {type_}")
    return _array(type_, flags, nulls, fixed)


def _as_value(
    data: U8Array, at: I64Array, flags: U8Array, nulls: int, type_: pa.DataType
) -> pa.Array:
    offsets = np.empty(len(at) + 1, np.int64)
    total = packets.find_values(data, at, flags, offsets)
    values = np.empty(total, np.uint8)
    packets.take_values(data, at, offsets, values)
    is_text = pat.is_string(type_) or pat.is_decimal(type_)
    if not is_text and not pat.is_binary(type_):
        raise _changed(f"text or bytes came for a column read as {type_}")
    raw = pa.Array.from_buffers(
        pa.large_string() if is_text else pa.large_binary(),
        len(at),
        [_validity(flags, nulls), pa.py_buffer(offsets), pa.py_buffer(values)],
    )
    return raw.cast(type_)


def _array(type_: pa.DataType, flags: U8Array, nulls: int, values: np.ndarray) -> pa.Array:
    buffers = [_validity(flags, nulls), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(type_, len(flags), buffers)


def _validity(flags: U8Array, nulls: int) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(flags == 0, bitorder="little")) if nulls else None


def _changed(what: str) -> InputError:
    return InputError(f"the master table was altered while it was read ({what}): open it again")
