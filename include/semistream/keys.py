"""Keys of any type as 64-bit codes: what makes every algorithm type-blind.

A key whose value fits one machine word (integers, booleans, dates, times, timestamps, floats,
decimals of at most 18 digits) has an *exact*, order-preserving code: equal codes are equal keys.
Any other key (strings, binary, wide decimals, several columns) is fingerprinted with 128 bits;
one half is its code, the other its `check`, and both must agree for a match.

The master's column types decide. Stream values are brought to them only where nothing is lost: a
value the master's type cannot hold has no match, and types of different families (text and
numbers, numbers and booleans, floats and integers, zoned and naive times) are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pat

from semistream.errors import InputError, KeyTypeMismatch
from semistream.kernels.arrays import BoolArray, U8Array, U64Array
from semistream.kernels.hashing import hash_bytes, hash_words

OK, NULL_KEY, NO_MATCH = np.uint8(0), np.uint8(1), np.uint8(2)
_SIGN = np.uint64(1 << 63)

BytesHash = Callable[[np.ndarray, np.ndarray], tuple[U64Array, U64Array]]
WordsHash = Callable[[np.ndarray], tuple[U64Array, U64Array]]


@dataclass(frozen=True, slots=True)
class Keys:
    """Encoded keys of a batch; `columns` keeps the values for stores that must send them on."""

    codes: U64Array
    checks: U64Array | None
    status: U8Array  # OK, NULL_KEY, or NO_MATCH: a value the master's type cannot hold
    columns: tuple[pa.Array, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: np.ndarray) -> Keys:
        index = pa.array(rows)
        return Keys(
            self.codes[rows],
            None if self.checks is None else self.checks[rows],
            self.status[rows],
            tuple(column.take(index) for column in self.columns),
        )

    def slice(self, start: int, stop: int) -> Keys:
        return Keys(
            self.codes[start:stop],
            None if self.checks is None else self.checks[start:stop],
            self.status[start:stop],
            tuple(column.slice(start, stop - start) for column in self.columns),
        )


class KeyCodec:
    """Turns key columns into codes, by the master's key types.

    >>> codec = KeyCodec([pa.int64()])
    >>> keys = codec.encode([pa.array([-1, None, 7], pa.int16())])
    >>> codec.is_exact, keys.status.tolist()
    (True, [0, 1, 0])
    """

    def __init__(
        self,
        types: Sequence[pa.DataType],
        *,
        bytes_hash: BytesHash = hash_bytes,
        words_hash: WordsHash = hash_words,
    ) -> None:
        self.types = tuple(plain_type(type_) for type_ in types)
        self.families = tuple(family_of(type_) for type_ in self.types)
        self._bytes_hash, self._words_hash = bytes_hash, words_hash
        self.is_exact = len(self.types) == 1 and _fits_a_word(self.types[0])

    def require(self, types: Sequence[pa.DataType], pairs: Sequence[tuple[str, str]]) -> None:
        """Refuse stream key types that cannot be compared with the master's without loss."""
        for type_, master, family, (stream_name, master_name) in zip(
            types, self.types, self.families, pairs, strict=True
        ):
            if pat.is_null(plain_type(type_)):
                continue
            other = family_of(type_)
            if other != family:
                raise KeyTypeMismatch(
                    f"cannot join stream column {stream_name!r} ({type_}, {other}) with master "
                    f"column {master_name!r} ({master}, {family}) without loss: "
                    "cast one side so that both are of the same kind"
                )

    def encode(self, columns: Sequence[pa.Array]) -> Keys:
        """Codes of the rows of `columns`; nothing raises for a value, it gets a status."""
        plain = tuple(plain_array(column) for column in columns)
        rows = len(plain[0])
        status = np.zeros(rows, np.uint8)
        parts: list[U64Array] = []
        for column, type_ in zip(plain, self.types, strict=True):
            if column.null_count:
                status[pc.is_null(column).to_numpy(zero_copy_only=False)] = NULL_KEY
            if pat.is_null(column.type):
                column = pa.nulls(rows, type_)
            if _fits_a_word(type_):
                words, held = words_of(column, type_)
                parts.append(words)
            else:
                values, held = _values_of(column, type_)
                parts += self._bytes_hash(*values)
            if held is not None:
                status[~held & (status == OK)] = NO_MATCH
        if self.is_exact:
            return Keys(parts[0], None, status, plain)
        single_value = len(self.types) == 1
        codes, checks = parts if single_value else self._words_hash(np.stack(parts, axis=1))
        return Keys(codes, checks, status, plain)


def family_of(type_: pa.DataType) -> str:
    """The kind of values a key type holds; only like kinds are compared."""
    type_ = plain_type(type_)
    if pat.is_boolean(type_):
        return "boolean"
    if pat.is_integer(type_) or (pat.is_decimal(type_) and type_.scale >= 0):
        return "exact number"
    if pat.is_floating(type_):
        return "floating number"
    if _is_bytes(type_):
        return "text or bytes"
    if pat.is_date(type_) or (pat.is_timestamp(type_) and type_.tz is None):
        return "date or time without zone"
    if pat.is_timestamp(type_):
        return "time with zone"
    if pat.is_time(type_):
        return "time of day"
    if pat.is_duration(type_):
        return "duration"
    raise InputError(
        f"type {type_} cannot be a key: allowed are integers, floats, booleans, decimals "
        "of no negative scale, text, binary, dates, times, timestamps and durations"
    )


def plain_type(type_: pa.DataType) -> pa.DataType:
    """`type_` without dictionary, run-end or extension wrapping."""
    if pat.is_dictionary(type_) or pat.is_run_end_encoded(type_):
        return plain_type(type_.value_type)
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    return type_


def plain_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """`array` in one chunk, without dictionary, run-end or extension wrapping."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if isinstance(array.type, pa.BaseExtensionType):
        return plain_array(array.storage)
    if pat.is_dictionary(array.type):
        return plain_array(array.dictionary_decode())
    if pat.is_run_end_encoded(array.type):
        return plain_array(pc.run_end_decode(array))
    return array


def words_of(column: pa.Array, type_: pa.DataType) -> tuple[U64Array, BoolArray | None]:
    """Order-preserving 64-bit words of `column` read as `type_`, and which values it can hold."""
    if pat.is_boolean(type_):
        return _fill(column, False).cast(pa.uint8()).to_numpy().astype(np.uint64), None
    if pat.is_floating(type_):
        values = _fill(column, 0).cast(pa.float64()).to_numpy() + 0.0  # -0.0 becomes 0.0
        values[np.isnan(values)] = np.nan  # one bit pattern for all of them
        bits = values.view(np.uint64)
        return np.where(bits & _SIGN, ~bits, bits ^ _SIGN), None
    if pat.is_integer(type_) and pat.is_integer(column.type):
        return _integer_words(_fill(column, 0).to_numpy(), np.dtype(type_.to_pandas_dtype()))
    if pat.is_integer(type_) or pat.is_decimal(type_):
        return _decimal_words(column, type_)
    return _temporal_words(column, type_)


def integers_of(codes: U64Array, *, is_signed: bool) -> np.ndarray:
    """The integers that codes stand for; the master's key type is signed or not."""
    return (codes ^ _SIGN).view(np.int64) if is_signed else codes


def _fits_a_word(type_: pa.DataType) -> bool:
    return not _is_bytes(type_) and not (pat.is_decimal(type_) and type_.precision > 18)


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(
        pat.is_string(type_)
        or pat.is_large_string(type_)
        or pat.is_string_view(type_)
        or pat.is_binary(type_)
        or pat.is_large_binary(type_)
        or pat.is_binary_view(type_)
        or pat.is_fixed_size_binary(type_)
    )


def _fill(column: pa.Array, value: object) -> pa.Array:
    return pc.fill_null(column, pa.scalar(value, column.type)) if column.null_count else column


def _integer_words(
    values: np.ndarray, master: np.dtype[np.signedinteger]
) -> tuple[U64Array, BoolArray | None]:
    wanted, given = np.iinfo(master), np.iinfo(values.dtype)
    held: BoolArray | None = None
    if given.min < wanted.min or given.max > wanted.max:
        low, high = max(wanted.min, given.min), min(wanted.max, given.max)
        held = (values >= low) & (values <= high)
    if wanted.min < 0:
        return values.astype(np.int64, copy=False).view(np.uint64) ^ _SIGN, held
    return values.astype(np.uint64), held


def _unscaled(column: pa.Array, scale: int) -> tuple[pa.Array, BoolArray]:
    """`column` as 256-bit decimals of `scale`, and where that lost no digit."""
    source = plain_type(column.type)
    wide = column
    if pat.is_integer(source):
        wide = column.cast(pa.decimal128(20, 0)).cast(pa.decimal256(76, 0))
    elif not pat.is_decimal256(source):
        wide = column.cast(pa.decimal128(38, source.scale)).cast(pa.decimal256(76, source.scale))
    if wide.type.scale == scale:
        return wide, np.ones(len(column), np.bool_)
    scaled = wide.cast(pa.decimal256(76, scale), safe=False)
    back = scaled.cast(wide.type, safe=False)
    same = pc.fill_null(pc.equal(back, wide), True)
    return scaled, same.to_numpy(zero_copy_only=False)


def _decimal_words(column: pa.Array, type_: pa.DataType) -> tuple[U64Array, BoolArray | None]:
    is_decimal = pat.is_decimal(type_)
    scaled, held = _unscaled(column, type_.scale if is_decimal else 0)
    limbs = np.frombuffer(scaled.buffers()[1], np.int64)
    limbs = limbs[4 * scaled.offset : 4 * (scaled.offset + len(scaled))].reshape(-1, 4)
    low = limbs[:, 0]
    if is_decimal:
        limit = 10**type_.precision - 1
        held &= (
            (limbs[:, 1:] == (low >> 63)[:, None]).all(axis=1) & (low <= limit) & (low >= -limit)
        )
        return low.view(np.uint64) ^ _SIGN, held
    bounds = np.iinfo(np.dtype(type_.to_pandas_dtype()))
    if bounds.min == 0:
        held &= (limbs[:, 1:] == 0).all(axis=1) & (low.view(np.uint64) <= np.uint64(bounds.max))
        return low.view(np.uint64).copy(), held
    held &= (limbs[:, 1:] == (low >> 63)[:, None]).all(axis=1)
    held &= (low >= bounds.min) & (low <= bounds.max)
    return low.view(np.uint64) ^ _SIGN, held


def _temporal_words(column: pa.Array, type_: pa.DataType) -> tuple[U64Array, BoolArray | None]:
    held: BoolArray | None = None
    if pat.is_timestamp(type_):
        type_ = pa.timestamp(type_.unit, column.type.tz if pat.is_timestamp(column.type) else None)
    if column.type != type_:
        cast = column.cast(type_, safe=False)
        back = cast.cast(column.type, safe=False)
        held = pc.fill_null(pc.equal(back, column), True).to_numpy(zero_copy_only=False)
        column = cast
    width = np.int32 if type_.bit_width == 32 else np.int64
    values = np.frombuffer(column.buffers()[1] or b"", width)
    values = values[column.offset : column.offset + len(column)].astype(np.int64)
    return values.view(np.uint64) ^ _SIGN, held


def _values_of(
    column: pa.Array, type_: pa.DataType
) -> tuple[tuple[np.ndarray, np.ndarray], BoolArray | None]:
    """Offsets and bytes of a column whose values do not fit a word."""
    if not pat.is_decimal(type_):
        # Fixed-size binary has no direct cast to large binary.
        if pat.is_fixed_size_binary(column.type):
            column = column.cast(pa.binary())
        return _offsets_and_data(column.cast(pa.large_binary())), None
    scaled, held = _unscaled(column, type_.scale)
    data = np.frombuffer(scaled.buffers()[1], np.uint8)
    data = data[32 * scaled.offset : 32 * (scaled.offset + len(scaled))]
    return (np.arange(len(scaled) + 1, dtype=np.int64) * 32, data), held


def _offsets_and_data(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    _, offsets, data = column.buffers()
    window = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return window if len(window) else np.zeros(1, np.int64), raw
