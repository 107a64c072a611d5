"""`RowSlab`: rows in numbered slots of preallocated memory, replaced in place.

Both the front stage and the window keep their rows in one. Fixed-width values live in numpy
arrays, text and binary in one byte arena that is compacted in place, anything nested in
an Arrow array that is rewritten when half of it is dead. Bytes are those really held.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from semistream.kernels.arrays import I32Array, I64Array
from semistream.kernels.gathering import compact, gather_bytes, gather_offsets, put_bytes
from semistream.keys import plain_array
from semistream.row_sizes import fixed_width, is_bytes_like


class _Column(Protocol):
    def put(self, slots: I32Array, values: pa.Array) -> None: ...
    def gather(self, slots: I32Array) -> pa.Array: ...
    def clear(self, slots: I32Array) -> None: ...
    @property
    def nbytes(self) -> int: ...


class RowSlab:
    """Rows of one schema in `capacity` slots, with `arena_bytes` for variable-width values.

    The caller owns the slot numbers: it puts rows into free slots, gathers any slots in any order
    (repeats allowed), and clears slots whose rows it no longer needs.
    """

    def __init__(self, schema: pa.Schema, capacity: int, arena_bytes: int = 0) -> None:
        self.schema = schema
        self.capacity = capacity
        self._arena = _Arena(arena_bytes)
        self._columns = [self._column(field.type) for field in schema]

    @property
    def nbytes(self) -> int:
        return self._arena.nbytes + sum(column.nbytes for column in self._columns)

    @property
    def free_arena_bytes(self) -> int:
        return self._arena.limit - self._arena.live

    @staticmethod
    def slot_bytes(schema: pa.Schema) -> int:
        """Bytes every slot takes, whatever its values are."""
        return sum(_slot_bytes(storage_type(field.type)) for field in schema)

    @staticmethod
    def arena_bytes(schema: pa.Schema, row_bytes: float) -> float:
        """Arena to give per row, slack included, when a row takes `row_bytes` in Arrow."""
        fixed = sum(
            fixed_width(storage_type(field.type)) or (4 if is_bytes_like(field.type) else 0)
            for field in schema
        )
        return max(row_bytes - fixed, 0.0) * 8 / 7 * 1.03

    @staticmethod
    def arena_sizes(batch: pa.RecordBatch) -> I64Array:
        """Bytes of the arena each row of `batch` will take."""
        sizes = np.zeros(batch.num_rows, np.int64)
        for column in batch.columns:
            kind = storage_type(column.type)
            if is_bytes_like(kind):
                offsets, _ = _raw_bytes(_stored(column, kind))
                sizes += np.diff(offsets)
            elif fixed_width(kind) is None and batch.num_rows:
                sizes += -(-column.nbytes // batch.num_rows)
        return sizes

    def put(self, slots: I32Array, rows: pa.RecordBatch) -> None:
        """Store row i of `rows` in `slots[i]`; the slots must be free (cleared or never used)."""
        for column, values in zip(self._columns, rows.columns, strict=True):
            column.put(slots, values)

    def gather(self, slots: I32Array) -> pa.RecordBatch:
        """The rows of `slots`, in that order."""
        arrays = [
            _restored(column.gather(slots), field.type)
            for column, field in zip(self._columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def clear(self, slots: I32Array) -> None:
        """Give up the rows of `slots`."""
        for column in self._columns:
            column.clear(slots)

    def _column(self, type_: pa.DataType) -> _Column:
        kind = storage_type(type_)
        if fixed_width(kind) is not None:
            return _FixedColumn(kind, self.capacity)
        if is_bytes_like(kind):
            return _BytesColumn(kind, self.capacity, self._arena)
        return _ArrowColumn(kind, self.capacity, self._arena)


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


def _slot_bytes(kind: pa.DataType) -> int:
    width = fixed_width(kind)
    if width is not None:
        return width + 1  # and its validity
    return 13 if is_bytes_like(kind) else 8


def _stored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    values = plain_array(values)
    return values if values.type == kind else values.cast(kind)


def _restored(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if values.type == type_:
        return values
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, _restored(values, type_.storage_type))
    if pat.is_run_end_encoded(type_):
        return pa.compute.run_end_encode(values, type_.run_end_type)
    return values.cast(type_)


def _validity(values: pa.Array) -> np.ndarray:
    valid: np.ndarray = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


class _Validity:
    """Which slots hold a value; takes no memory until the first NULL arrives."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._valid: np.ndarray | None = None

    def put(self, slots: I32Array, values: pa.Array) -> None:
        if values.null_count and self._valid is None:
            self._valid = np.ones(self._capacity, np.bool_)
        if self._valid is not None:
            self._valid[slots] = _validity(values) if values.null_count else True

    def bitmap(self, slots: I32Array) -> tuple[pa.Buffer | None, int]:
        """Arrow's validity bitmap of `slots` and their number of NULLs."""
        if self._valid is None:
            return None, 0
        valid = self._valid[slots]
        nulls = len(valid) - int(np.count_nonzero(valid))
        return (pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None), nulls

    @property
    def nbytes(self) -> int:
        return 0 if self._valid is None else self._valid.nbytes


_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class _FixedColumn:
    def __init__(self, kind: pa.DataType, capacity: int) -> None:
        self._kind = kind
        width = fixed_width(kind)
        assert width is not None
        self._width = width
        # Machine words move fastest; other widths (decimals, fixed binary) move as rows of bytes.
        word = _WORDS.get(width)
        self._values = (
            np.zeros(capacity, word) if word is not None else np.zeros((capacity, width), np.uint8)
        )
        self._validity = _Validity(capacity)

    def put(self, slots: I32Array, values: pa.Array) -> None:
        values = _stored(values, self._kind)
        self._values[slots] = self._raw(values)
        self._validity.put(slots, values)

    def _raw(self, values: pa.Array) -> np.ndarray:
        if pat.is_boolean(self._kind):
            as_bytes: np.ndarray = values.fill_null(False).cast(pa.uint8()).to_numpy()
            return as_bytes
        buffer = values.buffers()[1]
        if buffer is None or not len(values):
            return self._values[:0]
        raw = np.frombuffer(buffer, self._values.dtype)
        if self._values.ndim == 2:
            raw = raw.reshape(-1, self._width) if self._width else raw
        return raw[values.offset : values.offset + len(values)]

    def gather(self, slots: I32Array) -> pa.Array:
        values = self._values[slots]
        bitmap, nulls = self._validity.bitmap(slots)
        if pat.is_boolean(self._kind):
            values = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(
            self._kind, len(slots), [bitmap, pa.py_buffer(values)], null_count=nulls
        )

    def clear(self, slots: I32Array) -> None:
        """A dead fixed-width value keeps its place and is overwritten later."""

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._validity.nbytes


class _Arena:
    """Bytes shared by the variable-width columns of a slab; compacted when it is full."""

    def __init__(self, size: int) -> None:
        self.bytes = np.zeros(size, np.uint8)
        self.size = size
        # An eighth stays slack, so that one compaction makes room for many puts.
        self.limit = size - size // 8
        self.tail = 0
        self.live = 0
        self.users: list[_BytesColumn] = []

    @property
    def nbytes(self) -> int:
        return self.bytes.nbytes

    def reserve(self, wanted: int) -> None:
        if self.tail + wanted <= self.size:
            return
        starts = np.concatenate([user.starts for user in self.users])
        lengths = np.concatenate([user.lengths for user in self.users])
        used = np.flatnonzero(lengths > 0)
        order = used[np.argsort(starts[used], kind="stable")]
        self.tail = int(compact(order, starts, lengths, self.bytes))
        at = 0
        for user in self.users:
            user.starts[:] = starts[at : at + len(user.starts)]
            at += len(user.starts)
        if self.tail + wanted > self.size:
            raise AssertionError("arena overrun: the caller must check free_arena_bytes first")


class _BytesColumn:
    def __init__(self, kind: pa.DataType, capacity: int, arena: _Arena) -> None:
        self._kind = kind
        self._arena = arena
        self.starts = np.zeros(capacity, np.int64)
        self.lengths = np.zeros(capacity, np.int32)
        self._validity = _Validity(capacity)
        arena.users.append(self)

    def put(self, slots: I32Array, values: pa.Array) -> None:
        values = _stored(values, self._kind)
        offsets, data = _raw_bytes(values)
        wanted = int(offsets[-1] - offsets[0])
        self._arena.reserve(wanted)
        self._arena.tail = int(
            put_bytes(
                offsets, data, slots, self.starts, self.lengths, self._arena.bytes, self._arena.tail
            )
        )
        self._arena.live += wanted
        self._validity.put(slots, values)

    def gather(self, slots: I32Array) -> pa.Array:
        is_large = pat.is_large_string(self._kind) or pat.is_large_binary(self._kind)
        offsets = np.empty(len(slots) + 1, np.int64 if is_large else np.int32)
        total = gather_offsets(slots, self.lengths, offsets)
        data = np.empty(total, np.uint8)
        gather_bytes(slots, self.starts, self.lengths, self._arena.bytes, data)
        bitmap, nulls = self._validity.bitmap(slots)
        buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(self._kind, len(slots), buffers, null_count=nulls)

    def clear(self, slots: I32Array) -> None:
        self._arena.live -= int(self.lengths[slots].sum())
        self.lengths[slots] = 0

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes + self.lengths.nbytes + self._validity.nbytes


def _raw_bytes(values: pa.Array) -> tuple[I64Array, np.ndarray]:
    """64-bit offsets and data of a string or binary array; NULLs take no bytes."""
    _, offsets, data = values.buffers()
    if offsets is None or not len(values):
        return np.zeros(len(values) + 1, np.int64), np.empty(0, np.uint8)
    if values.null_count:
        # A NULL may cover bytes; rewriting them as empty keeps the accounting exact.
        values = values.fill_null(b"" if "binary" in str(values.type) else "")
        _, offsets, data = values.buffers()
    is_large = pat.is_large_string(values.type) or pat.is_large_binary(values.type)
    raw = np.frombuffer(offsets, np.int64 if is_large else np.int32)
    window = raw[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return window, (np.frombuffer(data, np.uint8) if data and data.size else np.empty(0, np.uint8))


class _ArrowColumn:
    """Values numpy cannot hold in place (lists, structs, maps, NULL type): an Arrow array with a
    row number per slot, rewritten with the living rows when it has grown to twice their size."""

    def __init__(self, kind: pa.DataType, capacity: int, arena: _Arena) -> None:
        self._kind = kind
        self._arena = arena
        self._values = pa.array([], kind)
        self._row = np.full(capacity, -1, np.int32)
        self._weight = np.zeros(capacity, np.int32)
        self._living = 0

    def put(self, slots: I32Array, values: pa.Array) -> None:
        values = _stored(values, self._kind)
        if not len(values):
            return
        if len(self._values) > 2 * self._living + 64:
            used = np.flatnonzero(self._row >= 0)
            self._values = self._values.take(pa.array(self._row[used]))
            self._row[used] = np.arange(len(used), dtype=np.int32)
        base = len(self._values)
        self._values = pa.concat_arrays([self._values, values])
        self._row[slots] = np.arange(base, base + len(values), dtype=np.int32)
        self._weight[slots] = -(-values.nbytes // len(values))
        self._arena.live += int(self._weight[slots].sum())
        self._living += len(slots)

    def gather(self, slots: I32Array) -> pa.Array:
        return self._values.take(pa.array(self._row[slots]))

    def clear(self, slots: I32Array) -> None:
        self._arena.live -= int(self._weight[slots].sum())
        self._row[slots] = -1
        self._living -= len(slots)

    @property
    def nbytes(self) -> int:
        return int(self._values.nbytes) + self._row.nbytes + self._weight.nbytes
