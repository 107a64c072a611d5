"""How Arrow values come into a slab and out of it again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from semistream.kernels.arrays import I32Array, I64Array
from semistream.keys import plain_array
from semistream.row_sizes import fixed_width


def storage_type(type_: pa.DataType) -> pa.DataType:
    """The type a slab keeps values in: plain, with offsets instead of views."""
    if isinstance(type_, pa.BaseExtensionType):
        return storage_type(type_.storage_type)
    if pat.is_dictionary(type_) or pat.is_run_end_encoded(type_):
        return storage_type(type_.value_type)
    if pat.is_string_view(type_):
        return pa.string()
    if pat.is_binary_view(type_):
        return pa.binary()
    return type_


def stored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """`values` as storage type `kind`."""
    if values.type == kind:
        return values
    values = plain_array(values)
    return values if values.type == kind else values.cast(kind)


def restored(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """The reverse of `stored`."""
    if values.type == type_:
        return values
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, restored(values, type_.storage_type))
    if pat.is_run_end_encoded(type_):
        return pa.compute.run_end_encode(values, type_.run_end_type)
    return values.cast(type_)


def is_large(kind: pa.DataType) -> bool:
    return bool(pat.is_large_string(kind) or pat.is_large_binary(kind))


def raw_fixed(values: pa.Array, kind: pa.DataType) -> tuple[int, object]:
    """The address of the first of some values of one width, and what keeps it alive."""
    if pat.is_boolean(kind):
        values = values.fill_null(False).cast(pa.uint8())
    buffer = values.buffers()[1]
    return (0 if buffer is None else buffer.address + values.offset * _width(kind)), buffer


def _width(kind: pa.DataType) -> int:
    width = fixed_width(kind)
    assert width is not None
    return width


def raw_bytes(values: pa.Array) -> tuple[I64Array, int, object]:
    """64-bit offsets of string or binary values, the address they count from, and its keeper;
    NULLs take no bytes."""
    _, offsets, data = values.buffers()
    if offsets is None or not len(values):
        return np.zeros(len(values) + 1, np.int64), 0, None
    if values.null_count:
        # A NULL may cover bytes; rewriting them as empty keeps the accounting exact.
        values = values.fill_null(b"" if "binary" in str(values.type) else "")
        _, offsets, data = values.buffers()
    raw = np.frombuffer(offsets, np.int64 if is_large(values.type) else np.int32)
    window = raw[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return window, (0 if data is None else data.address), data


@dataclass(slots=True)
class Validity:
    """Which values are NULL, a bit each; takes no memory until the first NULL arrives."""

    capacity: int
    columns: int
    _valid: np.ndarray | None = None

    @staticmethod
    def slot_bytes(columns: int) -> int:
        return -(-columns // 8)

    @property
    def nbytes(self) -> int:
        return 0 if self._valid is None else self._valid.nbytes

    def put(self, slots: I32Array, values: dict[int, pa.Array]) -> None:
        nullable = [number for number, column in values.items() if column.null_count]
        if self._valid is None:
            if not nullable:
                return
            self._valid = np.full((self.capacity, self.slot_bytes(self.columns)), 255, np.uint8)
        bits = np.full((len(slots), self._valid.shape[1]), 255, np.uint8)
        for number in nullable:
            is_null = values[number].is_null().to_numpy(zero_copy_only=False)
            bits[is_null, number >> 3] &= np.uint8(255 - (1 << (number & 7)))
        self._valid[slots] = bits

    def bitmap(self, slots: I32Array, number: int) -> tuple[pa.Buffer | None, int]:
        """Arrow's validity bitmap of column `number` of `slots`, and how many are NULL."""
        if self._valid is None:
            return None, 0
        valid = (self._valid[slots, number >> 3] >> np.uint8(number & 7)) & np.uint8(1)
        nulls = len(valid) - int(np.count_nonzero(valid))
        return (pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None), nulls


class NestedColumn:
    """Values that have no place in a row of bytes (lists, structs, maps, NULL type): an Arrow
    array with a row number per slot, rewritten when the living values are less than half of it."""

    SLOT_BYTES = 8

    def __init__(self, kind: pa.DataType, capacity: int) -> None:
        self._kind = kind
        self._values = pa.array([], kind)
        self._row = np.full(capacity, -1, np.int32)
        self._weight = np.zeros(capacity, np.int32)
        self._living = 0  # weight of the living values

    @staticmethod
    def weight_of(values: pa.Array) -> int:
        """What each of some values counts: as many bytes again may be dead for a while."""
        return 2 * -(-int(values.nbytes) // len(values))

    def put(self, slots: I32Array, values: pa.Array) -> int:
        """Store the values; what they count."""
        values = stored(values, self._kind)
        if not len(values):
            return 0
        weight = self.weight_of(values)
        # Before the new ones come, so that living, dead and new together stay within the weights.
        if int(self._values.nbytes) > self._living:
            used = np.flatnonzero(self._row >= 0)
            self._values = self._values.take(pa.array(self._row[used]))
            self._row[used] = np.arange(len(used), dtype=np.int32)
        base = len(self._values)
        self._values = pa.concat_arrays([self._values, values])
        self._row[slots] = np.arange(base, base + len(values), dtype=np.int32)
        self._weight[slots] = weight
        self._living += weight * len(slots)
        return weight * len(slots)

    def gather(self, slots: I32Array) -> pa.Array:
        return self._values.take(pa.array(self._row[slots]))

    def clear(self, slots: I32Array) -> int:
        """Give values up; what they counted."""
        given_up = int(self._weight[slots].sum())
        self._row[slots] = -1
        self._living -= given_up
        return given_up

    def sizes(self, slots: I32Array) -> np.ndarray:
        return self._weight[slots] // 2

    @property
    def nbytes(self) -> int:
        return int(self._values.nbytes) + self._row.nbytes + self._weight.nbytes
