"""Reads of a projection: ranges and lists of keys, each complete or not at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from semistream.kernels.arrays import BoolArray, I64Array, U64Array
from semistream.keys import Keys
from semistream.stores.mysql.bounds import Bounds
from semistream.stores.mysql.codec import TableCodec
from semistream.stores.mysql.columns import Column
from semistream.stores.mysql.decode import decode
from semistream.stores.mysql.params import Params
from semistream.stores.mysql.pool import Pool
from semistream.stores.mysql.ranges import key_list
from semistream.stores.mysql.wire import Reply, Request
from semistream.stores.protocol import MasterRows

# Keys per statement; the smallest size that fits is filled up by repeating the last key, so that
# a few prepared statements serve every number. Measured in keys/s by a BIGINT primary key:
# 36 k with 10 keys, 145 k with 100, 252 k with 1000, 269 k with 4000.
_LIST_SIZES = (1, 8, 64, 250, 1000)
_ROW_BYTES = 24  # packet header, NULL bits and the row's place; or its code and check
_NO_PARTITION = np.array([-1], np.int64)


class Projection:
    """The columns of one view: what SQL selects and how its rows become `MasterRows`."""

    def __init__(
        self, pool: Pool, table_sql: str, codec: TableCodec, columns: Sequence[Column]
    ) -> None:
        self._pool, self._table, self._codec = pool, table_sql, codec
        self._columns = tuple(columns)
        self.names = tuple(column.name for column in columns)
        self._schema = pa.schema([pa.field(c.name, c.arrow, c.is_nullable) for c in columns])
        # Columns first, then what keys need and the columns do not give.
        self._types: dict[str, pa.DataType] = {c.sql: c.arrow for c in columns}
        self._key: list[list[int]] = []
        for part in codec.parts:
            for sql, type_ in part.select:
                self._types.setdefault(sql, type_)
            self._key.append([list(self._types).index(sql) for sql, _ in part.select])
        self.fixed_bytes = sum(column.fixed_bytes for column in columns)

    def varying(self, bounds: Bounds) -> I64Array:
        """Bytes of the columns that vary in length, by partition."""
        total = np.zeros(bounds.count, np.int64)
        for column in self._columns:
            if column.length_sql and bounds.count:
                total += bounds.lengths[column.name]
        return total

    def read_bytes(self, bounds: Bounds) -> I64Array:
        """Bytes of each partition, as it comes or as it is decoded: twice that while it is read."""
        key = len(self._types) - len(self._columns)  # expressions read for keys alone
        row = self.fixed_bytes + _ROW_BYTES + 32 * max(key, 0)
        return bounds.rows * row + self.varying(bounds)

    def ranges(self, bounds: Bounds, partitions: I64Array) -> MasterRows:
        """Rows of these partitions, in one round trip for up to 32 of them."""
        requests = [
            Request(f"{self._select} WHERE {condition.sql}", condition.params)
            for condition in bounds.conditions(partitions.tolist())
        ]
        if not requests:
            return self._rows([], partitions, None)
        expected = int(self.read_bytes(bounds)[partitions].sum())
        return self._rows(
            self._pool.run(lambda session: session.run(requests, expected)), partitions, None
        )

    def keys(self, keys: Keys) -> MasterRows:
        """Rows of these keys (ascending codes), as one group of no partition."""
        count, parts = len(keys), self._codec.parts
        columns = [part.params(column) for part, column in zip(parts, keys.columns, strict=True)]
        values = [b"".join(key) for key in zip(*columns, strict=True)]
        types = b"".join(part.param_type for part in parts)
        requests, groups = [], []
        for at in range(0, count, _LIST_SIZES[-1]):
            end = min(count, at + _LIST_SIZES[-1])
            size = next(size for size in _LIST_SIZES if size >= end - at)
            filled = values[at:end] + [values[end - 1]] * (size - (end - at))
            sql = f"{self._select} WHERE {key_list(parts, size)}"
            requests.append(Request(sql, Params(types * size, b"".join(filled))))
            groups.append(keys.slice(at, end))
        return self._rows(
            self._pool.run(lambda session: session.run(requests)), _NO_PARTITION, groups
        )

    @property
    def _select(self) -> str:
        return f"SELECT {', '.join(self._types)} FROM {self._table}"  # noqa: S608 (all quoted)

    def _rows(
        self, replies: list[Reply], partitions: I64Array, asked: Sequence[Keys] | None
    ) -> MasterRows:
        """Consumes `replies`: they are gone before rows are sorted, which takes another copy."""
        types = list(self._types.values())
        counts = np.array([len(reply.starts) for reply in replies], np.int64)
        columns = decode(replies, types) if replies else [pa.array([], type_) for type_ in types]
        codes, checks, is_wanted = self._codec.of_master(
            [[columns[number] for number in numbers] for numbers in self._key]
        )
        if asked is not None:
            is_wanted &= _is_asked(codes, checks, counts, asked)
            counts = counts.sum(keepdims=True)
        groups = np.repeat(np.arange(len(counts)), counts)
        order = _sorted_rows(codes, groups, is_wanted)
        batch = self._batch(columns)
        if order is not None:
            batch = batch.take(pa.array(order))
            codes, groups = codes[order], groups[order]
            checks = None if checks is None else checks[order]
        bounds = np.searchsorted(groups, np.arange(len(partitions) + 1))
        return MasterRows(
            partitions, bounds.astype(np.int64), codes, checks, batch.select(self.names)
        )

    def _batch(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        if self._columns:
            return pa.RecordBatch.from_arrays(columns[: len(self._columns)], schema=self._schema)
        # A batch of no columns would forget how many rows it has.
        return pa.RecordBatch.from_arrays([columns[0]], names=["rows"])


def _sorted_rows(codes: U64Array, groups: np.ndarray, is_wanted: BoolArray) -> np.ndarray | None:
    """Wanted rows, codes ascending within groups; None when that is how they came."""
    if is_wanted.all():
        if (np.diff(groups).astype(bool) | (codes[1:] >= codes[:-1])).all():
            return None
        return np.lexsort((codes, groups))
    wanted = np.flatnonzero(is_wanted)
    return wanted[np.lexsort((codes[wanted], groups[wanted]))]


def _is_asked(
    codes: U64Array, checks: U64Array | None, counts: I64Array, asked: Sequence[Keys]
) -> BoolArray:
    """Which rows have a key of the list that brought them.

    A server may give more (YEAR 5 also finds 2005); were such a row kept, it would come again
    with the list that has its own key, and be joined twice.
    """
    result = np.zeros(len(codes), np.bool_)
    ends = np.cumsum(counts)
    for start, end, keys in zip(ends - counts, ends, asked, strict=True):
        place = np.searchsorted(keys.codes, codes[start:end])
        place = np.minimum(place, len(keys) - 1)
        result[start:end] = keys.codes[place] == codes[start:end]
        if checks is not None and keys.checks is not None:
            result[start:end] &= keys.checks[place] == checks[start:end]
    return result
