"""Raw rows to Arrow columns, exactly: every bit of a float, every digit of a decimal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from semistream.errors import InputError
from semistream.kernels.arrays import I64Array, U8Array
from semistream.stores.mysql import packets
from semistream.stores.mysql.wire import Reply

# Protocol type codes by how a value is laid out in a row.
_FLOAT, _DOUBLE, _YEAR = 4, 5, 13
_NOT_NULL, _UNSIGNED = 0x01, 0x20  # flags
_WIDTHS = {1: 1, 2: 2, _YEAR: 2, 3: 4, 9: 4, 8: 8, _FLOAT: 4, _DOUBLE: 8}
_DATES, _TIME, _BIT = {7, 10, 12}, 11, 16
_LONGEST_COLUMN = (1 << 31) - 1  # bytes that 32-bit offsets reach
_VALUES = {0, 15, 245, 246, 247, 248, 249, 250, 251, 252, 253, 254, 255}


def decode(replies: list[Reply], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """The columns of all replies to one statement, one after the other, as `types`.

    Dates that do not exist (0000-00-00) become NULL, which is what MySQL itself makes of them
    under `IS NULL`. Cost: one pass per column; memory: the columns, next to the raw rows.
    Consumes `replies`, so that raw rows are gone when columns of several buffers are joined.
    """
    parts = []
    while replies:
        data, kinds = replies[0].data, replies[0].kinds
        count = sum(1 for _ in takewhile(lambda reply: reply.data is data, replies))  # noqa: B023
        starts = np.concatenate([reply.starts for reply in replies[:count]])
        del replies[:count]
        parts.append(_decode(data, starts, kinds, types))
        del data
    if len(parts) == 1:
        return parts[0]
    return [pa.concat_arrays(column) for column in zip(*parts, strict=True)]


def _decode(
    data: U8Array, starts: I64Array, kinds: U8Array, types: Sequence[pa.DataType]
) -> list[pa.Array]:
    if len(kinds) != len(types):
        raise _changed(f"{len(kinds)} columns came instead of {len(types)}")
    at = starts + (1 + (len(types) + 9) // 8)  # behind the header and the NULL bits
    columns = []
    for number, type_ in enumerate(types):
        flags, nulls = np.zeros(len(starts), np.uint8), 0
        if not kinds[number, 1] & _NOT_NULL:
            nulls = packets.null_flags(data, starts, number, flags)
        columns.append(_column(data, at, flags, nulls, kinds[number], type_))
    return columns


def _column(
    data: U8Array, at: I64Array, flags: U8Array, nulls: int, kind: U8Array, type_: pa.DataType
) -> pa.Array:
    rows, code = len(at), int(kind[0])
    if code in _WIDTHS:
        fixed = np.empty((rows, _WIDTHS[code]), np.uint8)
        packets.take_fixed(data, at, flags, fixed)
        return _as_number(fixed, type_, flags, nulls, kind)
    if code in _DATES:
        days, micros = np.empty(rows, np.int64), np.empty(rows, np.int64)
        nulls += packets.take_dates(data, at, flags, days, micros)
        if pat.is_date(type_):
            return _array(type_, flags, nulls, days.astype(np.int32))
        if pat.is_timestamp(type_):
            return _array(type_, flags, nulls, days * 86_400_000_000 + micros)
    elif code == _TIME and pat.is_duration(type_):
        micros = np.empty(rows, np.int64)
        packets.take_times(data, at, flags, micros)
        return _array(type_, flags, nulls, micros)
    elif code == _BIT and type_ == pa.uint64():
        bits = np.empty(rows, np.uint64)
        packets.take_bits(data, at, flags, bits)
        return _array(type_, flags, nulls, bits)
    elif code in _VALUES:
        return _as_value(data, at, flags, nulls, type_)
    raise _changed(f"protocol type {code} came for a column read as {type_}")


def _as_number(
    fixed: U8Array, type_: pa.DataType, flags: U8Array, nulls: int, kind: U8Array
) -> pa.Array:
    code, width = int(kind[0]), fixed.shape[1]
    if code in (_FLOAT, _DOUBLE):
        came = np.dtype(f"<f{width}")
    else:
        came = np.dtype(f"<{'u' if kind[1] & _UNSIGNED and code != _YEAR else 'i'}{width}")
    # An expression may come narrower than its type; a column that comes wider was altered.
    if not pat.is_primitive(type_) or not np.can_cast(came, type_.to_pandas_dtype(), "safe"):
        raise _changed(f"{came} came for a column read as {type_}")
    values = fixed.view(came).reshape(-1)
    return _array(type_, flags, nulls, values.astype(type_.to_pandas_dtype(), copy=False))


def _as_value(
    data: U8Array, at: I64Array, flags: U8Array, nulls: int, type_: pa.DataType
) -> pa.Array:
    offsets = np.empty(len(at) + 1, np.int64)
    total = packets.find_values(data, at, flags, offsets)
    values = np.empty(total, np.uint8)
    packets.take_values(data, at, offsets, values)
    if not (pat.is_string(type_) or pat.is_decimal(type_) or pat.is_binary(type_)):
        raise _changed(f"text or bytes came for a column read as {type_}")
    if total <= _LONGEST_COLUMN and not pat.is_decimal(type_):
        offsets = offsets.astype(np.int32)
        wide = type_
    else:
        wide = pa.large_binary() if pat.is_binary(type_) else pa.large_string()
    buffers = [_validity(flags, nulls), pa.py_buffer(offsets), pa.py_buffer(values)]
    column = pa.Array.from_buffers(wide, len(at), buffers)
    return column if wide == type_ else column.cast(type_)


def _array(type_: pa.DataType, flags: U8Array, nulls: int, values: np.ndarray) -> pa.Array:
    buffers = [_validity(flags, nulls), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(type_, len(flags), buffers)


def _validity(flags: U8Array, nulls: int) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(flags == 0, bitorder="little")) if nulls else None


def _changed(what: str) -> InputError:
    return InputError(f"the master table was altered while it was read ({what}): open it again")
