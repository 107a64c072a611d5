"""What keys are made of once types are gone: words and byte strings, each with an order.

The components of a key, compared one after the other, give the database's equality and the order
of its index. A value of a number, date or enum is one word; of a text, one byte string per level
of its collation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from semistream.kernels.arrays import I64Array, U8Array, U64Array
from semistream.kernels.hashing import hash_bytes, hash_words
from semistream.stores.mysql import weights


@dataclass(frozen=True, slots=True)
class Words:
    values: U64Array

    @property
    def nbytes(self) -> int:
        return self.values.nbytes


@dataclass(frozen=True, slots=True)
class Bytes:
    """Byte strings; `pad` is what a shorter one counts as continued with, if anything.

    Trailing `pad`s are cut off already.
    """

    offsets: I64Array
    data: U8Array
    pad: bytes = b""

    @classmethod
    def of(cls, column: pa.Array, pad: bytes = b"") -> Bytes:
        """Text or binary `column`, with trailing `pad`s cut off."""
        offsets, data = raw_values(column)
        if not pad:
            return cls(offsets, data)
        cut, out = np.empty(len(column) + 1, np.int64), np.empty(len(data), np.uint8)
        used = weights.cut_padding(offsets, data, as_array(pad), cut, out)
        return cls(cut, out[:used], pad)

    @property
    def nbytes(self) -> int:
        return self.offsets.nbytes + self.data.nbytes


Component = Words | Bytes


def raw_values(column: pa.Array) -> tuple[I64Array, U8Array]:
    """Offsets and bytes of a text or binary column."""
    if pat.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    if offsets is None or not len(column):
        return np.zeros(len(column) + 1, np.int64), np.empty(0, np.uint8)
    window = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return window, raw


def as_array(text: bytes) -> U8Array:
    return np.frombuffer(text, np.uint8)


def fingerprints(components: Sequence[Component]) -> tuple[U64Array, U64Array | None]:
    """Codes and checks, by the scheme of `KeyCodec`; no checks for one word, which is exact."""
    parts: list[U64Array] = []
    for component in components:
        if isinstance(component, Words):
            parts.append(component.values)
        else:
            parts += hash_bytes(component.offsets, component.data)
    if len(components) > 1:
        return hash_words(np.stack(parts, axis=1))
    return parts[0], (parts[1] if len(parts) > 1 else None)


def find_bounds(
    components: Sequence[Component], bounds: Sequence[Component], count: int
) -> I64Array:
    """For each key the last of `count` ascending bounds that is not above it, or -1.

    Cost: a binary search per key; a composite key searches only among bounds that agree so far.
    """
    first = components[0]
    rows = len(first.values) if isinstance(first, Words) else len(first.offsets) - 1
    low, high = np.zeros(rows, np.int64), np.full(rows, count, np.int64)
    for component, bound in zip(components, bounds, strict=True):
        if isinstance(component, Words) and isinstance(bound, Words):
            weights.narrow_words(component.values, bound.values, low, high)
        elif isinstance(component, Bytes) and isinstance(bound, Bytes):
            pad = as_array(bound.pad)
            weights.narrow_bytes(
                component.offsets, component.data, bound.offsets, bound.data, pad, low, high
            )
    return np.where(low < high, low, low - 1)


def compare_neighbours(components: Sequence[Component], rows: int) -> np.ndarray:
    """How key i compares with key i + 1 (-1, 0, 1), for all but the last of `rows`."""
    result = np.zeros(max(rows - 1, 0), np.int8)
    for component in components:
        signs = np.empty(len(result), np.int8)
        if isinstance(component, Words):
            left, right = component.values[:-1], component.values[1:]
            signs[:] = (left > right).astype(np.int8) - (left < right)
        else:
            pad = as_array(component.pad)
            weights.compare_neighbours(component.offsets, component.data, pad, signs)
        result = np.where(result == 0, signs, result)
    return result
