"""`RowSlab`: rows in numbered slots of preallocated memory, replaced in place.

Both the front stage and the window keep their rows in one. All fixed-width values of a row lie
side by side, so that a row costs one or two cache misses however many columns it has; its text
and binary values lie side by side in a byte arena that is compacted in place; anything nested is
an Arrow array of its own. Bytes are those really held.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from semistream.kernels import rows as kernels
from semistream.kernels.arrays import I32Array, I64Array
from semistream.row_sizes import fixed_width, is_bytes_like
from semistream.slab_values import (
    NestedColumn,
    Validity,
    is_large,
    raw_bytes,
    raw_fixed,
    restored,
    storage_type,
    stored,
)

_ALIGNMENT = 64


class RowSlab:
    """Rows of one schema in `capacity` slots, with `arena_bytes` for variable-width values.

    The caller owns the slot numbers: it puts rows into free slots, gathers any slots in any order
    (repeats allowed), and clears slots whose rows it no longer needs.
    """

    def __init__(self, schema: pa.Schema, capacity: int, arena_bytes: int = 0) -> None:
        self.schema = schema
        self.capacity = capacity
        self._kinds = [storage_type(field.type) for field in schema]
        self._fixed, self._bytes, nested = _columns_of(self._kinds)
        self._nested = {number: NestedColumn(self._kinds[number], capacity) for number in nested}
        self._validity = Validity(capacity, len(self._kinds))
        self._widths, self._offsets, self._stride = _layout(self._kinds, self._fixed, self._bytes)
        self._rows, self._base = _aligned(capacity * self._stride)
        # Nested columns hold their bytes themselves and count against the arena: beside them it
        # starts empty and grows with the text it really takes, so that nothing is held twice.
        self._held = 0 if nested else arena_bytes
        self._arena, self._arena_base = _aligned(self._held)
        # An eighth stays slack, so that one compaction makes room for many puts.
        self._limit = arena_bytes - arena_bytes // 8
        self._size, self._tail, self._live = arena_bytes, 0, 0

    @property
    def nbytes(self) -> int:
        held = self._held + self.capacity * self._stride + self._validity.nbytes
        return held + sum(column.nbytes for column in self._nested.values())

    @property
    def arena_limit(self) -> int:
        """Bytes of variable-width values it may hold."""
        return self._limit

    @property
    def free_arena_bytes(self) -> int:
        return self._limit - self._live

    @staticmethod
    def slot_bytes(schema: pa.Schema) -> int:
        """Bytes every slot takes, whatever its values are."""
        kinds = [storage_type(field.type) for field in schema]
        fixed, strings, nested = _columns_of(kinds)
        *_, stride = _layout(kinds, fixed, strings)
        return stride + Validity.slot_bytes(len(kinds)) + NestedColumn.SLOT_BYTES * len(nested)

    @staticmethod
    def arena_bytes(schema: pa.Schema, row_bytes: float) -> float:
        """Arena to give per row, slack included, when a row takes `row_bytes` in Arrow."""
        kinds = [storage_type(field.type) for field in schema]
        fixed = sum(fixed_width(kind) or (4 if is_bytes_like(kind) else 0) for kind in kinds)
        header = kernels.HEADER if any(is_bytes_like(kind) for kind in kinds) else 0
        return (max(row_bytes - fixed, 0.0) + header) * 8 / 7 * 1.03

    @staticmethod
    def arena_sizes(batch: pa.RecordBatch) -> I64Array:
        """Bytes of the arena each row of `batch` will take."""
        sizes = np.zeros(batch.num_rows, np.int64)
        header = 0
        for column in batch.columns:
            kind = storage_type(column.type)
            if is_bytes_like(kind):
                offsets, *_ = raw_bytes(stored(column, kind))
                sizes += np.diff(offsets)
                header = kernels.HEADER
            elif fixed_width(kind) is None and batch.num_rows:
                sizes += NestedColumn.weight_of(column)
        sizes += header
        return sizes

    def put(self, slots: I32Array, rows: pa.RecordBatch) -> None:
        """Store row i of `rows` in `slots[i]`; the slots must be free (cleared or never used)."""
        if not len(slots):
            return
        for number, nested in self._nested.items():
            self._live += nested.put(slots, rows.column(number))
        values = {
            number: stored(rows.column(number), self._kinds[number])
            for number in (*self._fixed, *self._bytes)
        }
        self._validity.put(slots, values)
        raw = [raw_fixed(values[number], self._kinds[number]) for number in self._fixed]
        sources = np.array([address for address, _ in raw], np.int64)
        kernels.put_fixed(slots, self._base, self._stride, self._offsets, self._widths, sources)
        if self._bytes:
            self._put_bytes(slots, [values[number] for number in self._bytes])

    def _put_bytes(self, slots: I32Array, columns: list[pa.Array]) -> None:
        raw = [raw_bytes(column) for column in columns]
        offsets = np.stack([offsets for offsets, *_ in raw])
        wanted = int((offsets[:, -1] - offsets[:, 0]).sum()) + kernels.HEADER * len(slots)
        rows = (self._base, self._stride)
        if self._tail + wanted > self._held:
            self._tail = int(kernels.compact(*rows, len(self._bytes), self._arena_base, self._tail))
        if self._tail + wanted > self._size:
            raise AssertionError("arena overrun: the caller must check free_arena_bytes first")
        if self._tail + wanted > self._held:
            self._grow_arena(self._tail + wanted)
        sources = np.array([address for _, address, _ in raw], np.int64)
        kernels.put_bytes(slots, *rows, offsets, sources, self._arena_base, self._tail)
        self._tail += wanted
        self._live += wanted

    def _grow_arena(self, wanted: int) -> None:
        self._held = min(wanted + wanted // 4, self._size)
        arena, base = _aligned(self._held)
        old = self._arena_base - int(self._arena.ctypes.data)
        new = base - int(arena.ctypes.data)
        arena[new : new + self._tail] = self._arena[old : old + self._tail]
        self._arena, self._arena_base = arena, base

    def sizes(self, slots: I32Array) -> I64Array:
        """Bytes of the rows of `slots`, about."""
        sizes = np.full(len(slots), int(self._widths.sum()), np.int64)
        if self._bytes:
            kernels.add_sizes(slots, self._base, self._stride, len(self._bytes), sizes)
        for nested in self._nested.values():
            sizes += nested.sizes(slots)
        return sizes

    def gather(self, slots: I32Array) -> pa.RecordBatch:
        """The rows of `slots`, in that order."""
        count = len(slots)
        data: dict[int, list[pa.Buffer]] = {}
        targets = np.empty(len(self._fixed), np.int64)
        for place, number in enumerate(self._fixed):
            buffer = pa.allocate_buffer(count * int(self._widths[place]))
            targets[place] = buffer.address
            data[number] = [buffer]
        kernels.gather_fixed(slots, self._base, self._stride, self._offsets, self._widths, targets)
        if self._bytes:
            data.update(self._gather_bytes(slots))
        arrays = [
            restored(self._array(number, slots, data), field.type)
            for number, field in enumerate(self.schema)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _gather_bytes(self, slots: I32Array) -> dict[int, list[pa.Buffer]]:
        are_large = [is_large(self._kinds[number]) for number in self._bytes]
        shape = (len(self._bytes), len(slots) + 1)
        offsets = np.empty(shape, np.int64 if any(are_large) else np.int32)
        places = np.empty(len(slots), np.int64)
        totals = kernels.gather_offsets(slots, self._base, self._stride, places, offsets)
        buffers = [pa.allocate_buffer(int(total) + kernels.SLACK) for total in totals]
        targets = np.array([buffer.address for buffer in buffers], np.int64)
        kernels.gather_bytes(places, offsets, self._arena_base, targets)
        return {
            number: [
                pa.py_buffer(own if large else own.astype(np.int32, copy=False)),
                buffer.slice(0, int(total)),
            ]
            for number, own, large, buffer, total in zip(
                self._bytes, offsets, are_large, buffers, totals, strict=True
            )
        }

    def _array(self, number: int, slots: I32Array, data: dict[int, list[pa.Buffer]]) -> pa.Array:
        nested = self._nested.get(number)
        if nested is not None:
            return nested.gather(slots)
        kind, buffers = self._kinds[number], data[number]
        if pat.is_boolean(kind):
            flags = np.frombuffer(buffers[0], np.uint8) if len(slots) else np.empty(0, np.uint8)
            buffers = [pa.py_buffer(np.packbits(flags, bitorder="little"))]
        bitmap, nulls = self._validity.bitmap(slots, number)
        return pa.Array.from_buffers(kind, len(slots), [bitmap, *buffers], null_count=nulls)

    def clear(self, slots: I32Array) -> None:
        """Give up the rows of `slots`."""
        for nested in self._nested.values():
            self._live -= nested.clear(slots)
        if self._bytes:
            self._live -= int(
                kernels.clear_bytes(
                    slots, self._base, self._stride, len(self._bytes), self._arena_base
                )
            )


def _columns_of(kinds: list[pa.DataType]) -> tuple[list[int], list[int], list[int]]:
    """The numbers of the fixed-width, the text and binary, and the nested columns."""
    numbers = range(len(kinds))
    fixed = [number for number in numbers if fixed_width(kinds[number]) is not None]
    strings = [number for number in numbers if is_bytes_like(kinds[number])]
    return fixed, strings, [number for number in numbers if number not in {*fixed, *strings}]


def _layout(
    kinds: list[pa.DataType], fixed: list[int], strings: list[int]
) -> tuple[I64Array, I64Array, int]:
    """Widths and offsets of the fixed-width columns in a row, and the bytes of a row."""
    widths = np.array([fixed_width(kinds[number]) for number in fixed], np.int64)
    head = kernels.LENGTHS + 4 * len(strings) if strings else 0
    offsets = head + np.concatenate(([0], np.cumsum(widths)))
    return widths, offsets[:-1].astype(np.int64), int(offsets[-1])


def _aligned(size: int) -> tuple[np.ndarray, int]:
    """Zeroed memory and the address in it where `size` bytes start on a cache line."""
    memory = np.zeros(size + _ALIGNMENT + kernels.SLACK, np.uint8)
    address = int(memory.ctypes.data)
    return memory, address + -address % _ALIGNMENT
