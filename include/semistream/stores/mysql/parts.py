"""One key column: its components on both sides, and its values as parameters.

A part knows how the server compares its column. `of_stream` takes whatever type a stream brings
(checked by `KeyCodec.require`), `of_master` what `select` read from the table; equal components
are what the server calls equal, and components sort as the column's index does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pat

from semistream.errors import InputError
from semistream.kernels.arrays import BoolArray, U64Array
from semistream.keys import OK, KeyCodec
from semistream.stores.mysql import params
from semistream.stores.mysql.collation import Collation
from semistream.stores.mysql.columns import Column
from semistream.stores.mysql.components import Bytes, Component, Words, fingerprints, raw_values

_SIGN = np.uint64(1 << 63)


class Part(Protocol):
    column: Column
    param_type: bytes

    @property
    def select(self) -> list[tuple[str, pa.DataType]]:
        """SQL expressions, and the types they are read as, for `of_master`."""

    @property
    def value(self) -> tuple[str, pa.DataType]:
        """SQL for values that `of_stream` and `params` take back, and their type."""

    def of_master(self, columns: Sequence[pa.Array]) -> list[Component]: ...
    def of_stream(self, values: pa.Array) -> tuple[list[Component], BoolArray]:
        """Components, and which values the column's type can hold."""

    def params(self, values: pa.Array) -> list[bytes]:
        """Parameters for values that the column's type can hold."""


class WordPart:
    """Numbers, dates and times that fit 64 bits."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self._codec = KeyCodec([column.arrow])
        self._param, self.param_type = _param_of(column.arrow)

    @property
    def select(self) -> list[tuple[str, pa.DataType]]:
        return [(self.column.sql, self.column.arrow)]

    @property
    def value(self) -> tuple[str, pa.DataType]:
        return self.column.sql, self.column.arrow

    def of_master(self, columns: Sequence[pa.Array]) -> list[Component]:
        return self.of_stream(columns[0])[0]

    def of_stream(self, values: pa.Array) -> tuple[list[Component], BoolArray]:
        keys = self._codec.encode([values])
        return [Words(keys.codes)], keys.status == OK

    def params(self, values: pa.Array) -> list[bytes]:
        if self._param is params.decimal_params:
            return params.decimal_params(_rescaled(values, self.column.arrow))
        words = self._codec.encode([values]).codes
        if self._param is params.number_params and pat.is_floating(self.column.arrow):
            bits = np.where(words & _SIGN, words ^ _SIGN, ~words)
            return params.number_params(bits.view(np.float64))
        if self.param_type == params.UNSIGNED:
            return params.number_params(words)
        return self._param((words ^ _SIGN).view(np.int64))


class DecimalPart:
    """Decimals of more than 18 digits, as 32 bytes, the highest first and the sign turned."""

    param_type = params.DECIMAL

    def __init__(self, column: Column) -> None:
        self.column = column
        self._codec = KeyCodec([column.arrow])

    @property
    def select(self) -> list[tuple[str, pa.DataType]]:
        return [(self.column.sql, self.column.arrow)]

    @property
    def value(self) -> tuple[str, pa.DataType]:
        return self.column.sql, self.column.arrow

    def of_master(self, columns: Sequence[pa.Array]) -> list[Component]:
        return self.of_stream(columns[0])[0]

    def of_stream(self, values: pa.Array) -> tuple[list[Component], BoolArray]:
        is_held = self._codec.encode([values]).status == OK
        wide = _rescaled(values, pa.decimal256(76, self.column.arrow.scale))
        raw = np.frombuffer(wide.buffers()[1] or b"", np.uint8)
        raw = raw[32 * wide.offset : 32 * (wide.offset + len(wide))].reshape(-1, 32)[:, ::-1].copy()
        raw[:, 0] ^= 0x80
        offsets = np.arange(len(wide) + 1, dtype=np.int64) * 32
        return [Bytes(offsets, raw.reshape(-1))], is_held

    def params(self, values: pa.Array) -> list[bytes]:
        return params.decimal_params(_rescaled(values, self.column.arrow))


class BinaryPart:
    """Bytes, compared one by one: trailing zeros and spaces count."""

    param_type = params.BINARY

    def __init__(self, column: Column) -> None:
        self.column = column

    @property
    def select(self) -> list[tuple[str, pa.DataType]]:
        return [(self.column.sql, pa.binary())]

    @property
    def value(self) -> tuple[str, pa.DataType]:
        return self.column.sql, pa.binary()

    def of_master(self, columns: Sequence[pa.Array]) -> list[Component]:
        return [Bytes.of(columns[0])]

    def of_stream(self, values: pa.Array) -> tuple[list[Component], BoolArray]:
        return [Bytes.of(values)], np.ones(len(values), np.bool_)

    def params(self, values: pa.Array) -> list[bytes]:
        return params.text_params(_bytes_of(values))


class TextPart:
    """Text, compared by its column's collation."""

    param_type = params.TEXT

    def __init__(self, column: Column, collation: Collation) -> None:
        self.column, self.collation = column, collation

    @property
    def select(self) -> list[tuple[str, pa.DataType]]:
        return [(sql, pa.binary()) for sql in self.collation.select(self.column.sql)]

    @property
    def value(self) -> tuple[str, pa.DataType]:
        return self.column.sql, pa.string()

    def of_master(self, columns: Sequence[pa.Array]) -> list[Component]:
        return list(self.collation.of_master(columns))

    def of_stream(self, values: pa.Array) -> tuple[list[Component], BoolArray]:
        levels, is_held = self.collation.of_text(*raw_values(values))
        return list(levels), is_held

    def params(self, values: pa.Array) -> list[bytes]:
        return params.text_params(_bytes_of(values))


class EnumPart:
    """Labels, compared by collation, in the order of the column's definition."""

    param_type = params.SIGNED

    def __init__(self, column: Column, collation: Collation) -> None:
        self.column, self.collation = column, collation
        labels = pa.array(["", *column.labels], pa.large_string())
        codes, checks = self._fingerprints(labels)
        # The first of equal labels wins, as on the server; number 0 is the empty error value.
        numbers: dict[tuple[int, int], int] = {}
        for number in [*range(1, len(labels)), 0]:
            numbers.setdefault((int(codes[number]), int(checks[number])), number)
        self._labels = sorted((code, check, number) for (code, check), number in numbers.items())
        self._codes = np.array([code for code, _, _ in self._labels], np.uint64)
        self._checks = np.array([check for _, check, _ in self._labels], np.uint64)
        self._numbers = np.array([number for *_, number in self._labels], np.uint64)

    @property
    def count(self) -> int:
        return len(self.column.labels)

    @property
    def select(self) -> list[tuple[str, pa.DataType]]:
        return [(f"CAST({self.column.sql} AS UNSIGNED)", pa.uint64())]

    @property
    def value(self) -> tuple[str, pa.DataType]:
        return self.select[0]

    def of_master(self, columns: Sequence[pa.Array]) -> list[Component]:
        return [Words(pc.fill_null(columns[0], 0).to_numpy())]

    def of_stream(self, values: pa.Array) -> tuple[list[Component], BoolArray]:
        if pat.is_unsigned_integer(values.type):  # a bound, which is a number already
            return self.of_master([values]), np.ones(len(values), np.bool_)
        codes, checks = self._fingerprints(values)
        found = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        is_held = (self._codes[found] == codes) & (self._checks[found] == checks)
        return [Words(np.where(is_held, self._numbers[found], 0).astype(np.uint64))], is_held

    def params(self, values: pa.Array) -> list[bytes]:
        component = self.of_stream(values)[0][0]
        assert isinstance(component, Words)
        return params.number_params(component.values)

    def _fingerprints(self, values: pa.Array) -> tuple[U64Array, U64Array]:
        levels, _ = self.collation.of_text(*raw_values(values))
        codes, checks = fingerprints(levels)
        assert checks is not None
        return codes, checks


def _param_of(type_: pa.DataType) -> tuple[Callable[[Any], list[bytes]], bytes]:
    if pat.is_decimal(type_):
        return params.decimal_params, params.DECIMAL
    if pat.is_floating(type_):
        return params.number_params, params.DOUBLE
    if pat.is_date(type_):
        return params.date_params, params.DATE
    if pat.is_timestamp(type_):
        return params.datetime_params, params.DATETIME
    if pat.is_duration(type_):
        return params.time_params, params.TIME
    if pat.is_unsigned_integer(type_):
        return params.number_params, params.UNSIGNED
    if pat.is_integer(type_):
        return params.number_params, params.SIGNED
    raise InputError(f"type {type_} cannot be a key here")


def _rescaled(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if pat.is_integer(values.type):
        values = values.cast(pa.decimal128(20, 0))
    if not pat.is_decimal256(values.type):
        values = values.cast(pa.decimal128(38, values.type.scale))
    wide = values.cast(pa.decimal256(76, values.type.scale))
    return wide.cast(pa.decimal256(76, type_.scale), safe=False)


def _bytes_of(values: pa.Array) -> list[bytes]:
    if pat.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    return [value or b"" for value in values.cast(pa.large_binary()).to_pylist()]
