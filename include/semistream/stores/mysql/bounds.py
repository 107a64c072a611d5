"""Where partitions begin, and which partition a key is in.

A bound is a key, so a key's rows are never in two partitions. One key with more rows than fit
makes one partition as large as needed, and the store's `partition_bytes` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from semistream.errors import InputError
from semistream.kernels.arrays import I64Array
from semistream.stores.mysql.codec import TableCodec
from semistream.stores.mysql.components import Component, compare_neighbours, find_bounds
from semistream.stores.mysql.ranges import Condition, key_range


@dataclass(frozen=True, slots=True)
class Bounds:
    """First keys of the partitions, in the order of the index, and how much each holds."""

    codec: TableCodec
    values: tuple[pa.Array, ...]
    components: tuple[Component, ...]
    shared: I64Array  # leading columns in which bound i and bound i + 1 agree
    rows: I64Array
    lengths: Mapping[str, I64Array] = field(default_factory=dict)  # bytes by column

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        values = sum(int(column.nbytes) for column in self.values)
        components = sum(component.nbytes for component in self.components)
        lengths = sum(column.nbytes for column in self.lengths.values())
        return values + components + lengths + self.shared.nbytes + self.rows.nbytes

    def locate(self, components: Sequence[Component]) -> I64Array:
        """The partition of each key: the first and the last are open to keys that came later."""
        if not self.count:
            raise InputError("an empty table has no partitions")
        return np.maximum(find_bounds(components, self.components, self.count), 0)

    def conditions(self, partitions: Sequence[int]) -> list[Condition]:
        """SQL for the rows of each of these partitions."""
        parts = [self.codec.parts[number] for number in self.codec.in_index_order]
        wanted = sorted({bound for p in partitions for bound in (p, p + 1) if bound < self.count})
        index = pa.array(wanted, pa.int64())
        columns = [
            part.params(values.take(index)) for part, values in zip(parts, self.values, strict=True)
        ]
        bounds: dict[int, tuple[bytes, ...]] = dict(
            zip(wanted, zip(*columns, strict=True), strict=True)
        )
        return [
            key_range(
                parts,
                bounds[p] if p > 0 else None,
                bounds.get(p + 1),
                shared=int(self.shared[p]) if p + 1 < self.count else 0,
            )
            for p in partitions
        ]


def index_components(codec: TableCodec, values: Sequence[pa.Array]) -> list[Component]:
    by_key: list[pa.Array] = [None] * len(values)
    for number, column in zip(codec.in_index_order, values, strict=True):
        by_key[number] = column
    return codec.components(by_key)


def shared_columns(codec: TableCodec, values: Sequence[pa.Array]) -> I64Array:
    """Leading columns in which neighbours agree, for values in the order of the index."""
    rows = len(values[0])
    shared, is_same = np.zeros(max(rows - 1, 0), np.int64), np.ones(max(rows - 1, 0), np.bool_)
    for number, column in zip(codec.in_index_order, values, strict=True):
        found, _ = codec.parts[number].of_stream(column)
        is_same &= compare_neighbours(found, rows) == 0
        shared += is_same
    return shared
