"""Any type may be a key; types that differ are compared without loss or refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from semistream.errors import KeyTypeMismatch
from tests.conformance.stores import Stores

_INTEGERS = {
    type_: [0, 1, 5, 2 ** (type_.bit_width - 1) - 1]
    + (
        [-1, -(2 ** (type_.bit_width - 1))]
        if str(type_).startswith("i")
        else [2**type_.bit_width - 1]
    )
    for type_ in map(
        pa.type_for_alias,
        ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"],
    )
}
_TEXTS = ["", "a", "A", "a ", "żółw", "日本語", "😀", "x" * 5000, "x" * 4999 + "y", "nul\0", "nul"]
_TEXTS += ["y" * 700, "z", "y" * 699 + "z"]
_BYTES = [text.encode() for text in _TEXTS] + [b"\xff\x00", b"\xff"]
_DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
_TIMES = [
    dt.datetime.fromisoformat(day)
    for day in ("1969-12-31T23:59:59", "1970-01-01", "2024-02-29", "2024-03-01", "2030-01-01T01:02")
]
_MONEY = [Decimal(text) for text in ("0.00", "-0.01", "99999999.99", "-99999999.99", "1.50")]
_WIDE = [Decimal("0.00"), Decimal("-0.01"), Decimal("9" * 28 + ".99"), Decimal("-" + "9" * 28)]
VALUES: dict[pa.DataType, list] = {
    **_INTEGERS,
    pa.string(): _TEXTS,
    pa.large_string(): _TEXTS,
    pa.binary(): _BYTES,
    pa.large_binary(): _BYTES,
    pa.bool_(): [True, False],
    pa.date32(): _DAYS,
    pa.timestamp("s"): _TIMES,
    pa.timestamp("ms"): _TIMES,
    pa.timestamp("us"): _TIMES,
    pa.timestamp("ns"): _TIMES,
    pa.timestamp("us", "UTC"): [time.replace(tzinfo=dt.UTC) for time in _TIMES],
    pa.decimal128(10, 2): _MONEY,
    pa.decimal128(30, 2): _WIDE,
    pa.float64(): [0.0, -1.5, 1e300, 5e-324],
}


def _sides(stores: Stores, type_: pa.DataType, values: list) -> tuple[pa.Table, pa.Table]:
    """Every other value in the master (one twice, one NULL), all in the stream, some twice."""
    held = [value for value in values if stores.can_index(value)]
    half = [*held[::2], held[0], None]
    master = pa.table({"k": pa.array(half, type_), "v": list(range(len(half)))})
    keys = [*values, None, *values[:3]]
    return master, pa.table({"k": pa.array(keys, type_), "id": list(range(len(keys)))})


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_every_key_type(joiner, type_):
    master, stream = _sides(joiner.stores, type_, VALUES[type_])
    if pa.types.is_boolean(type_) and not joiner.stores.has_booleans:
        with pytest.raises(KeyTypeMismatch, match="boolean"):
            joiner.run(master, stream)
        return
    joiner.check(master, stream, sizes=[2, 5], partition_bytes=64)


def test_composite_keys(joiner):
    """Columns that would be equal if glued together stay different."""
    pairs = [("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", ""), (None, "x"), ("x", None)]
    master = pa.table(
        {"a": [a for a, _ in pairs[::2]], "b": [b for _, b in pairs[::2]], "v": [1, 2, 3]}
    )
    stream = pa.table({"b": [b for _, b in pairs], "a": [a for a, _ in pairs]})
    joiner.check(master, stream, [("a", "a"), ("b", "b")])
    numbers = pa.table({"x": [1, 1, 2], "y": _DAYS[:3], "z": ["p", "q", "p"], "v": [7, 8, 9]})
    joiner.check(numbers, numbers.drop_columns(["v"]), [("z", "z"), ("x", "x"), ("y", "y")])


@pytest.mark.parametrize(
    ("stream", "master"),
    [
        (pa.int8(), pa.int64()),
        (pa.int64(), pa.int8()),
        (pa.uint64(), pa.int64()),
        (pa.int64(), pa.uint64()),
        (pa.int64(), pa.uint8()),
        (pa.uint8(), pa.int16()),
    ],
    ids=str,
)
def test_integers_of_different_widths(joiner, stream, master):
    left, right = VALUES[stream], VALUES[master]
    joiner.check(
        pa.table({"k": pa.array(right, master), "v": list(range(len(right)))}),
        pa.table({"k": pa.array(left, stream), "id": list(range(len(left)))}),
    )


@pytest.mark.parametrize(
    ("stream", "master", "matches"),
    [
        (pa.array(["a", "é"], pa.large_string()), pa.array(["é", "b"]), 1),
        (pa.array(["a", "b", "a"]).dictionary_encode(), pa.array(["a"]), 2),
        (pa.array([1, 2]), pa.array([Decimal("1.00"), Decimal("2.50")]), 1),
        (pa.array([Decimal("1.0"), Decimal("2.5")]), pa.array([1, 2]), 1),
        (pa.array([Decimal("1.5")]), pa.array([Decimal("1.50")], pa.decimal128(30, 2)), 1),
        (pa.array([_TIMES[0], _TIMES[2]], pa.timestamp("ms")), pa.array([_DAYS[2]]), 1),
        (pa.array([_DAYS[2], _DAYS[3]]), pa.array([_TIMES[2]], pa.timestamp("ns")), 1),
    ],
)
def test_like_types_are_compared_by_value(joiner, stream, master, matches):
    given = joiner.run(pa.table({"k": master}), pa.table({"s": stream}), [("s", "k")])
    assert given.joined.total() == matches
    assert given.reasons == ({"no_match": len(stream) - matches} if matches < len(stream) else {})


@pytest.mark.parametrize(
    ("stream", "master"),
    [
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int8()),
        (pa.float64(), pa.int64()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.date32(), pa.int32()),
    ],
    ids=str,
)
def test_unlike_types_are_refused(joiner, stream, master):
    store = joiner.make_store(pa.table({"k": pa.array([], master)}), ["k"])
    with pytest.raises(KeyTypeMismatch, match=r"'s'.*'k'"):
        joiner.open(store, pa.schema([("s", stream)]), [("s", "k")])
