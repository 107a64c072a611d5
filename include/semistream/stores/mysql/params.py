"""Values as the binary protocol takes them: beside a statement, never pasted into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

# A type code and a byte of flags (0x80: unsigned).
SIGNED, UNSIGNED, DOUBLE = b"\x08\x00", b"\x08\x80", b"\x05\x00"
DATE, DATETIME, TIME = b"\x0a\x00", b"\x0c\x00", b"\x0b\x00"
DECIMAL, TEXT, BINARY = b"\xf6\x00", b"\xfd\x00", b"\xfc\x00"

_DATE = np.dtype([("size", "u1"), ("year", "<u2"), ("month", "u1"), ("day", "u1")])
_CLOCK: list[tuple[str, str]] = [("hour", "u1"), ("minute", "u1"), ("second", "u1")]
_DATETIME = np.dtype([*_DATE.descr, *_CLOCK, ("micro", "<u4")])
_TIME = np.dtype([("size", "u1"), ("negative", "u1"), ("days", "<u4"), *_CLOCK, ("micro", "<u4")])
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Params:
    """Values for the `?` of a statement, none of them NULL: two type bytes each, and the values."""

    types: bytes = b""
    values: bytes = b""

    def __add__(self, other: Params) -> Params:
        return Params(self.types + other.types, self.values + other.values)


NO_PARAMS = Params()


def number_params(values: np.ndarray) -> list[bytes]:
    """64-bit integers or doubles."""
    return _records(values.astype(values.dtype.newbyteorder("<"), copy=False))


def text_params(values: Sequence[bytes]) -> list[bytes]:
    """Text, binary and decimals: a length and the bytes."""
    return [_length(len(value)) + value for value in values]


def date_params(days: np.ndarray) -> list[bytes]:
    """Days since 1970. A day that MySQL has no name for is sent as the date that never is."""
    return _records(_civil(days, _DATE, 4))


def datetime_params(micros: np.ndarray) -> list[bytes]:
    """Microseconds since 1970, in the session's zone, UTC."""
    days, of_day = np.divmod(micros, _DAY_US)
    records = _civil(days, _DATETIME, 11)
    _clock(records, np.where(records["month"] > 0, of_day, 0))
    return _records(records)


def time_params(micros: np.ndarray) -> list[bytes]:
    """Microseconds of a TIME, negative ones too."""
    records = np.zeros(len(micros), _TIME)
    records["size"], records["negative"] = 12, micros < 0
    days, of_day = np.divmod(np.abs(micros), _DAY_US)
    records["days"] = np.minimum(days, 35)  # beyond the 34 days and 22 hours a TIME can hold
    _clock(records, of_day)
    return _records(records)


def decimal_params(values: pa.Array) -> list[bytes]:
    """Decimals, as digits."""
    return text_params([format(value, "f").encode() for value in values.to_pylist()])


def _civil(days: np.ndarray, layout: np.dtype[np.void], size: int) -> np.ndarray:
    records = np.zeros(len(days), layout)
    records["size"] = size
    first, last = np.datetime64("0000-01-01").astype(int), np.datetime64("9999-12-31").astype(int)
    is_held = (days >= first) & (days <= last)
    dates = np.where(is_held, days, 0).astype("M8[D]")
    months = dates.astype("M8[M]")
    years = dates.astype("M8[Y]")
    records["year"] = np.where(is_held, years.astype(np.int64) + 1970, 0)
    records["month"] = np.where(is_held, (months - years.astype("M8[M]")).astype(int) + 1, 0)
    records["day"] = np.where(is_held, (dates - months.astype("M8[D]")).astype(int) + 1, 0)
    return records


def _clock(records: np.ndarray, of_day: np.ndarray) -> None:
    seconds, records["micro"] = np.divmod(of_day, 1_000_000)
    minutes, records["second"] = np.divmod(seconds, 60)
    records["hour"], records["minute"] = np.divmod(minutes, 60)


def _records(records: np.ndarray) -> list[bytes]:
    data, width = records.tobytes(), records.dtype.itemsize
    return [data[at : at + width] for at in range(0, len(data), width)]


def _length(size: int) -> bytes:
    if size < 0xFB:
        return bytes([size])
    if size < 1 << 16:
        return b"\xfc" + size.to_bytes(2, "little")
    return b"\xfd" + size.to_bytes(3, "little")
