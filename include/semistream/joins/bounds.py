"""A condition bound to column types: stream values as words, master rows as intervals of words.

Words are those of the *stream* column's own type (see `semistream.keys`), so every stream value
has one. A master bound is rounded inward to the values the stream's type can take, which changes
no answer: 2.5 <= x is 3 <= x for an integer x. So no common type is needed, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from semistream.errors import InputError, KeyTypeMismatch
from semistream.joins.conditions import Between, Condition
from semistream.kernels.arrays import BoolArray, U64Array
from semistream.keys import NULL_KEY, Keys, family_of, plain_array, plain_type, words_of

_SIGN = np.uint64(1 << 63)
_MOST = np.uint64((1 << 64) - 1)
_SECONDS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_INT64 = (-(1 << 63), (1 << 63) - 1)


class Bounds:
    """What a condition means for columns of these types."""

    def __init__(self, condition: Condition, stream: pa.Schema, master: pa.Schema) -> None:
        self.condition = condition
        names = condition.master_columns
        self._types = {name: plain_type(master.field(name).type) for name in names}
        given = plain_type(stream.field(condition.column).type)
        # A stream column of NULLs only has no type of its own.
        self._type = self._types[condition.master_key] if pat.is_null(given) else given
        for name, type_ in self._types.items():
            self._require(name, type_)
        self._distance = self._checked_distance()

    def encode(self, columns: Sequence[pa.Array]) -> Keys:
        """The words of the stream column's values."""
        column = plain_array(columns[0])
        status = np.zeros(len(column), np.uint8)
        if column.null_count:
            status[column.is_null().to_numpy(zero_copy_only=False)] = NULL_KEY
        if pat.is_null(column.type):
            column = pa.nulls(len(column), self._type)
        return Keys(words_of(column, self._type)[0], None, status, ())

    def intervals(self, rows: pa.RecordBatch) -> tuple[U64Array, U64Array]:
        """First and last word that match each master row; the first is above the last where no
        value does."""
        condition = self.condition
        if isinstance(condition, Between):
            low, high = condition.low, condition.high
        else:
            low = high = condition.of
        nothing = np.zeros(rows.num_rows, np.bool_)
        for name in {low, high}:
            column = rows.column(name)
            if column.null_count:
                nothing |= column.is_null().to_numpy(zero_copy_only=False)
        first, is_over = self._bound(rows, low, is_low=True)
        last, is_under = self._bound(rows, high, is_low=False)
        nothing |= is_over | is_under
        first[nothing], last[nothing] = _MOST, np.uint64(0)
        return first, last

    def _bound(
        self, rows: pa.RecordBatch, name: str, *, is_low: bool
    ) -> tuple[U64Array, BoolArray]:
        type_ = self._types[name]
        column = plain_array(rows.column(name))
        if pat.is_floating(type_):
            return self._float_bound(column, is_low=is_low)
        values = _units(words_of(column, type_)[0], type_)
        # In units of the stream's type a bound is (value * up + shift) / down.
        ratio = _unit(type_) / _unit(self._type)
        up, down = ratio.numerator, ratio.denominator
        # Both sides are whole multiples of 1 / down: what is finer in the distance never decides.
        shift = int(self._distance / _unit(self._type) * down)
        is_signed = not pat.is_unsigned_integer(self._type)
        limits = _INT64 if is_signed else (0, int(_MOST))
        words, is_out = _rounded(values, up, -shift if is_low else shift, down, limits, is_low)
        return (words ^ _SIGN if is_signed else words), is_out

    def _float_bound(self, column: pa.Array, *, is_low: bool) -> tuple[U64Array, BoolArray]:
        if isinstance(self.condition, Between):
            words, _ = words_of(column, pa.float64())
            return words, np.zeros(len(column), np.bool_)
        values = column.fill_null(0).cast(pa.float64()).to_numpy()
        is_out = ~np.isfinite(values)
        values = np.where(is_out, 0.0, values)
        ends = _exact_end(values, float(self._distance), is_low=is_low)
        return words_of(pa.array(ends), pa.float64())[0], is_out

    def _checked_distance(self) -> Fraction:
        if isinstance(self.condition, Between):
            return Fraction(0)
        distance = self.condition.distance
        is_time = pat.is_temporal(self._type)
        if is_time != isinstance(distance, timedelta):
            wanted = "a time (5min, or a timedelta)" if is_time else "a number without a unit"
            raise InputError(
                f"{self.condition}: column {self.condition.column!r} is {self._type}, so the "
                f"distance must be {wanted}"
            )
        if isinstance(distance, timedelta):
            return Fraction(distance // timedelta(microseconds=1), 10**6)
        return Fraction(distance if pat.is_floating(self._type) else str(distance))

    def _require(self, name: str, type_: pa.DataType) -> None:
        condition = self.condition
        for side, column, each in (
            ("stream", condition.column, self._type),
            ("master", name, type_),
        ):
            is_wide = pat.is_decimal(each) and each.precision > 18
            is_number = pat.is_integer(each) or pat.is_decimal(each) or pat.is_floating(each)
            if is_wide or not (is_number or pat.is_temporal(each)):
                raise InputError(
                    f"{condition}: {side} column {column!r} is {each}; allowed are integers, "
                    "decimals of at most 18 digits, floats, dates, times, timestamps and durations"
                )
        if family_of(self._type) != family_of(type_):
            raise KeyTypeMismatch(
                f"cannot compare stream column {condition.column!r} ({self._type}, "
                f"{family_of(self._type)}) with master column {name!r} ({type_}, "
                f"{family_of(type_)}) without loss: cast one side so that both are of the same kind"
            )


def _unit(type_: pa.DataType) -> Fraction:
    """What 1 in the type's integers stands for, in ones or in seconds."""
    if pat.is_integer(type_):
        return Fraction(1)
    if pat.is_decimal(type_):
        scale = int(type_.scale)
        return Fraction(1, 10**scale) if scale >= 0 else Fraction(10**-scale)
    if pat.is_date(type_):
        return Fraction(86400) if pat.is_date32(type_) else Fraction(1, 1000)
    return Fraction(1, _SECONDS[type_.unit])


def _units(words: U64Array, type_: pa.DataType) -> np.ndarray:
    return words if pat.is_unsigned_integer(type_) else (words ^ _SIGN).view(np.int64)


def _rounded(
    values: np.ndarray, up: int, shift: int, down: int, limits: tuple[int, int], is_low: bool
) -> tuple[U64Array, BoolArray]:
    """(values * up + shift) / down, rounded up for a low bound and down for a high one, as the
    bits of integers within `limits`; and which bounds lie beyond every value.

    What lies beyond the limits is found on the values' side, in exact integers; only the others
    are computed, so that overflow is rare.
    """
    least, most = limits
    if is_low:
        begin, end = ((least - 1) * down - shift) // up + 1, (most * down - shift) // up
    else:
        begin = -((shift - least * down) // up)
        end = -((shift - (most + 1) * down) // up) - 1
    is_below, is_above = values < begin, values > end
    inside = np.flatnonzero(~(is_below | is_above))
    moved = _moved(values[inside], up, shift, down, is_low)
    outermost = np.array(least, np.int64).view(np.uint64) if is_low else np.uint64(most)
    bits = np.full(len(values), outermost, np.uint64)
    bits[inside] = moved.astype(np.int64 if least < 0 else np.uint64).view(np.uint64)
    return bits, is_above if is_low else is_below


def _moved(values: np.ndarray, up: int, shift: int, down: int, is_low: bool) -> np.ndarray:
    if up == down == 1 and shift == 0:
        return values
    ends = [int(values.min()), int(values.max())] if len(values) else [0]
    numbers = [up, down, shift, *ends, *(end * up + shift for end in ends)]
    fits = all(_INT64[0] <= number <= _INT64[1] for number in numbers)
    values = values.astype(np.int64 if fits else object)
    total = values * up + shift
    rounded: np.ndarray = total // down
    return rounded + (total % down != 0) if is_low else rounded


def _exact_end(values: np.ndarray, distance: float, *, is_low: bool) -> np.ndarray:
    """The least float at or above `values` - `distance`, or the greatest at or below the sum."""
    step = -distance if is_low else distance
    inward = np.inf if is_low else -np.inf
    # A sum beyond all floats has no rounding error to speak of: it is clipped below.
    with np.errstate(all="ignore"):
        total = values + step
        # What the addition rounded away, exactly (Knuth's TwoSum).
        back = total - values
        lost = (values - (total - back)) + (step - back)
        is_outside = lost > 0 if is_low else lost < 0
        total = np.where(is_outside, np.nextafter(total, inward), total)
    biggest = np.finfo(np.float64).max
    return np.clip(total, -biggest, biggest)
