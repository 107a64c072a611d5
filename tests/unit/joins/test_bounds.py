"""Intervals of words hold exactly the stream values that meet the condition."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semistream.errors import InputError
from semistream.joins.bounds import Bounds
from semistream.joins.conditions import Between, Within, parse_condition


def _integer(type_: pa.DataType):
    limits = np.iinfo(type_.to_pandas_dtype())
    near = [limits.min, limits.max, 0, limits.max - 1]
    values = st.sampled_from(near) | st.integers(limits.min, limits.max) | st.integers(0, 40)
    return st.tuples(st.just(type_), values.map(Fraction))


def _decimal(precision: int, scale: int):
    type_, most = pa.decimal128(precision, scale), 10**precision - 1
    values = st.integers(-most, most) | st.integers(-4000, 4000) | st.sampled_from([most, -most])
    return st.tuples(st.just(type_), values.map(lambda n: Fraction(n, 10**scale)))


NUMBERS = st.one_of(
    *(_integer(each) for each in (pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64())),
    *(_decimal(*each) for each in ((18, 0), (18, 18), (9, 2), (5, 4), (18, 6))),
)


def _array(type_: pa.DataType, value: Fraction) -> pa.Array:
    if pa.types.is_decimal(type_):
        scaled = int(value * 10**type_.scale)
        return pa.array([Decimal(scaled).scaleb(-type_.scale)], type_)
    return pa.array([int(value)], type_)


def _meets(condition, x, **master) -> bool:
    """Whether one stream value lies in the interval of one master row."""
    stream = _array(*x)
    rows = pa.record_batch({name: _array(*value) for name, value in master.items()})
    bounds = Bounds(condition, pa.schema([("x", stream.type)]), rows.schema)
    word = bounds.encode([stream]).codes[0]
    first, last = bounds.intervals(rows)
    return bool(first[0] <= word <= last[0])


def _cents(value: str):
    return pa.decimal128(9, 2), Fraction(value)


def _whole(value: int):
    return pa.int32(), Fraction(value)


@example(x=_whole(2), low=_cents("2.01"), high=_cents("9"))
@example(x=_whole(-2), low=_cents("-9"), high=_cents("-2.01"))
@example(x=_cents("2.01"), low=_whole(2), high=_whole(2))
@given(x=NUMBERS, low=NUMBERS, high=NUMBERS)
def test_between_is_exact_for_numbers_of_any_types(x, low, high):
    given = _meets(Between("x", "low", "high"), x, low=low, high=high)
    assert given == (low[1] <= x[1] <= high[1])


@given(
    x=NUMBERS,
    low=NUMBERS,
    distance=st.integers(0, 2**66)
    | st.decimals(0, 10**6, places=3)
    | st.sampled_from([0.5, 0.25, 1e-9]),
)
def test_within_is_exact_for_numbers_of_any_types(x, low, distance):
    given = _meets(Within("x", distance, "low"), x, low=low)
    assert given == (abs(x[1] - low[1]) <= Fraction(str(distance)))


_finite = st.floats(allow_nan=False, allow_infinity=False)


@given(x=_finite, low=_finite, distance=_finite.map(abs))
def test_within_is_exact_for_floats(x, low, distance):
    """Whatever the rounding of x - low would say."""
    for value in (x, low - distance, low + distance, math.nextafter(low + distance, math.inf)):
        if not np.isfinite(value):
            continue
        rows = pa.record_batch({"low": [low]})
        bounds = Bounds(Within("x", distance, "low"), pa.schema([("x", pa.float64())]), rows.schema)
        word = bounds.encode([pa.array([float(value)])]).codes[0]
        first, last = bounds.intervals(rows)
        wanted = abs(Fraction(float(value)) - Fraction(low)) <= Fraction(distance)
        assert bool(first[0] <= word <= last[0]) == wanted


def test_far_ends_of_time_need_no_slow_path():
    """An open end such as 9999-12-31 is beyond nanoseconds, and is simply the last of them."""
    rows = pa.record_batch(
        {
            "low": pa.array([0, -(10**6)], pa.date32()),
            "high": pa.array([2932896, -999999], pa.date32()),
        }
    )
    stream = pa.schema([("x", pa.timestamp("ns"))])
    bounds = Bounds(Between("x", "low", "high"), stream, rows.schema)
    first, last = bounds.intervals(rows)
    assert last[0] == np.uint64(2**64 - 1)
    assert first[1] > last[1]


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("price between low and high", Between("price", "low", "high")),
        (' "unit price" BETWEEN "a b" AND c ', Between("unit price", "a b", "c")),
        ("price within 0.5 of list_price", Within("price", Decimal("0.5"), "list_price")),
    ],
)
def test_conditions_are_read(text, condition):
    assert parse_condition(text) == condition


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("price < high", "not understood"),
        ("price between low", "not understood"),
        ("price within -1 of high", "not understood"),
        ("at within 5 years of due", "unknown unit 'years'; there are us, ms, s, min, h, d"),
    ],
)
def test_other_texts_are_refused(text, says):
    with pytest.raises(InputError, match=says):
        parse_condition(text)
