"""Key codes: exact where a value fits a word, SipHash fingerprints elsewhere."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from semistream.errors import InputError, KeyTypeMismatch
from semistream.kernels.hashing import hash_bytes
from semistream.keys import NO_MATCH, NULL_KEY, OK, KeyCodec


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", "a3817f04ba25a8e66df67214c7550293"),
        (b"\0", "da87c1d86b99af44347659119b22fc45"),
    ],
)
def test_official_siphash_vectors(data, digest):
    seed = tuple(np.frombuffer(bytes(range(16)), "<u8"))
    codes, checks = hash_bytes(np.array([0, len(data)]), np.frombuffer(data, np.uint8), seed)
    assert (codes.astype("<u8").tobytes() + checks.astype("<u8").tobytes()).hex() == digest


@pytest.mark.parametrize(
    ("type_", "ascending"),
    [
        (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
        (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
        (pa.int8(), [-128, -1, 0, 127]),
        (pa.bool_(), [False, True]),
        (pa.float64(), [float("-inf"), -1.5, 0.0, 5e-324, 2.0, float("inf")]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 1, 1)]),
        (pa.decimal128(18, 2), [Decimal("-1.50"), Decimal(0), Decimal("0.01")]),
        (pa.time32("s"), [dt.time(0), dt.time(1)]),
        (pa.duration("s"), [dt.timedelta(-1), dt.timedelta(1)]),
    ],
    ids=str,
)
def test_exact_codes_keep_order(type_, ascending):
    codec = KeyCodec([type_])
    keys = codec.encode([pa.array(ascending, type_)])
    assert codec.is_exact
    assert keys.checks is None
    assert np.all(keys.codes[1:] > keys.codes[:-1])
    assert not keys.status.any()


def test_zeros_are_one_key_and_so_are_nans():
    codes = KeyCodec([pa.float64()]).encode([pa.array([0.0, -0.0, np.nan, -np.nan])]).codes
    assert codes[0] == codes[1]
    assert codes[2] == codes[3]


@pytest.mark.parametrize(
    ("master", "stream", "status"),
    [
        (pa.int8(), pa.array([127, 128, -129, None]), [OK, NO_MATCH, NO_MATCH, NULL_KEY]),
        (pa.uint64(), pa.array([-1, 0]), [NO_MATCH, OK]),
        (pa.int64(), pa.array([2**63, 1], pa.uint64()), [NO_MATCH, OK]),
        (pa.int64(), pa.array([Decimal("1.5"), Decimal("2.0")]), [NO_MATCH, OK]),
        (pa.decimal128(4, 2), pa.array([99, 100]), [OK, NO_MATCH]),
        (pa.decimal128(30, 0), pa.array([Decimal("1.5"), Decimal("2.0")]), [NO_MATCH, OK]),
        (
            pa.date32(),
            pa.array([-315532800 * 10**6 + 1, -315532800 * 10**6], pa.timestamp("us")),
            [NO_MATCH, OK],
        ),
        (pa.timestamp("ns"), pa.array([dt.date(9999, 1, 1), dt.date(1999, 1, 1)]), [NO_MATCH, OK]),
        (pa.timestamp("s"), pa.array([1, 1_000_000], pa.timestamp("us")), [NO_MATCH, OK]),
        (pa.string(), pa.nulls(2), [NULL_KEY, NULL_KEY]),
    ],
)
def test_values_the_master_cannot_hold(master, stream, status):
    assert KeyCodec([master]).encode([stream]).status.tolist() == status


def test_the_smallest_word_is_no_decimal():
    keys = KeyCodec([pa.decimal128(18, 0)]).encode([pa.array([-(2**63)])])
    assert keys.status.tolist() == [NO_MATCH]


@pytest.mark.parametrize(
    "same",
    [pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view()],
    ids=str,
)
def test_text_has_one_code_in_every_layout(same):
    values = pa.array(["", "é", None, "x" * 300])
    codec = KeyCodec([pa.string()])
    one, other = codec.encode([values]), codec.encode([values.cast(same).slice(1)])
    valid = [0, 2]
    assert np.array_equal(one.codes[1:][valid], other.codes[valid])
    assert np.array_equal(one.checks[1:][valid], other.checks[valid])


def test_require_and_key_types():
    KeyCodec([pa.int64()]).require([pa.null()], [("a", "b")])
    with pytest.raises(KeyTypeMismatch, match=r"'a' \(string"):
        KeyCodec([pa.int64()]).require([pa.string()], [("a", "b")])
    with pytest.raises(InputError, match="cannot be a key"):
        KeyCodec([pa.list_(pa.int8())])


def test_take_and_slice():
    keys = KeyCodec([pa.string()]).encode([pa.array(["a", None, "c"])])
    assert keys.take(np.array([2, 1])).status.tolist() == [OK, NULL_KEY]
    assert keys.slice(1, 3).codes.tolist() == keys.codes[1:].tolist()
    assert keys.slice(1, 3).columns[0].to_pylist() == [None, "c"]
