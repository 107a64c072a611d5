"""Finds the bounds of partitions once, by walking the index, with a few bytes in the client.

A walk asks for the key a step further on (`LIMIT 1 OFFSET step`, read from the index alone), then
for the number and bytes of the rows in between. Steps adapt, so that partitions come out even in
bytes, however uneven the rows. Both questions are small: a restarted server costs one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from semistream.errors import InputError
from semistream.stores.mysql.bounds import Bounds, index_components, shared_columns
from semistream.stores.mysql.codec import TableCodec
from semistream.stores.mysql.columns import Column
from semistream.stores.mysql.components import compare_neighbours
from semistream.stores.mysql.decode import decode
from semistream.stores.mysql.params import SIGNED, Params, number_params
from semistream.stores.mysql.pool import Pool
from semistream.stores.mysql.ranges import Condition, key_range
from semistream.stores.mysql.wire import Request, Session

_FIRST_STEP = 1000
_TRIES = 12  # steps tried for one partition before any size is taken
_MEASURES_AHEAD = 256

Key = tuple[pa.Array, ...]  # one value a column, in the order of the index


class Walk:
    """Finds the bounds of one table through one index."""

    def __init__(
        self,
        pool: Pool,
        table_sql: str,
        codec: TableCodec,
        columns: Sequence[Column],
        *,
        partition_bytes: int,
        partition_rows: int | None,
    ) -> None:
        self._pool, self._table, self._codec = pool, table_sql, codec
        self._parts = [codec.parts[number] for number in codec.in_index_order]
        self._columns = columns
        self._target, self._rows = partition_bytes, partition_rows
        self._fixed = sum(column.fixed_bytes for column in columns)

    def bounds(self) -> Bounds:
        """All bounds. Cost: the index read once, and once more with the columns that vary."""
        starts: list[Key] = []
        measures: list[tuple[int, ...]] = []
        start = self._key(None, 0)
        step = self._rows or _FIRST_STEP
        while start is not None:
            end, measure, step = self._partition(start, step, is_first=not starts)
            starts.append(start)
            measures.append(measure)
            start = end
        return self._collect(starts, measures)

    def _partition(
        self, start: Key, step: int, *, is_first: bool
    ) -> tuple[Key | None, tuple[int, ...], int]:
        """Where the partition from `start` ends, its measures, and the step for the next."""
        too_short, too_long, kept = 0, 0, None
        for _ in range(_TRIES):
            end = self._key(start, step)
            is_one_key = end is not None and self._shared(start, end) == len(self._parts)
            if is_one_key:
                end = self._key(start, 0, is_after=True)
            measure = self._measure(None if is_first else start, end)
            size = max(1, measure[0] * self._fixed + sum(measure[1:]))
            even = max(1, measure[0] * self._target // size)
            if self._rows:
                return end, measure, step
            # The largest partition decides how many fit the disk buffer: none may stand out.
            if 4 * size > 5 * self._target and step > 1 and not is_one_key:
                too_long = step
            elif size < self._target // 2 and end is not None:
                too_short, kept = step, (end, measure, even)
            else:
                return end, measure, min(even, 8 * step)
            if not too_long:
                step = min(even, 8 * step)
            elif too_short < even < too_long:
                step = even
            else:  # where rows turn wide, the last ones mislead
                step = max(1, int((too_short * too_long) ** 0.5))
            if step in (too_short, too_long):
                break
        return kept or (end, measure, even)

    def _key(self, start: Key | None, step: int, *, is_after: bool = False) -> Key | None:
        """The key `step` rows on, or None at the end."""
        low = None if start is None else self._params(start)
        condition = key_range(self._parts, low, None, is_after=is_after)
        selected = [part.value for part in self._parts]
        order = ", ".join(part.column.sql for part in self._parts)
        names = ", ".join(sql for sql, _ in selected)
        offset = Params(SIGNED, number_params(np.array([step]))[0])
        request = Request(
            f"SELECT {names} FROM {self._table} WHERE {condition.sql} "  # noqa: S608 (all quoted)
            f"ORDER BY {order} LIMIT 1 OFFSET ?",
            condition.params + offset,
        )
        replies = self._pool.run(lambda session: session.run([request]))
        key = tuple(decode(replies, [type_ for _, type_ in selected]))
        if not len(key[0]):
            return None
        if any(value.null_count for value in key):
            raise InputError(
                f"a key of {self._pool.address} has a date that does not exist (such as "
                "2020-00-00): no stream can hold it; correct or remove those rows"
            )
        return key

    def _shared(self, low: Key, high: Key) -> int:
        both = [pa.concat_arrays(pair) for pair in zip(low, high, strict=True)]
        return int(shared_columns(self._codec, both)[0])

    def measure_more(self, bounds: Bounds, columns: Sequence[Column]) -> Bounds:
        """`bounds` with the bytes of further columns."""
        missing = [c for c in columns if c.length_sql and c.name not in bounds.lengths]
        if not missing or not bounds.count:
            return bounds
        conditions = bounds.conditions(range(bounds.count))
        found = np.array(self._ask_measures(conditions, missing), np.int64)
        lengths = {c.name: found[:, number + 1].copy() for number, c in enumerate(missing)}
        return Bounds(
            bounds.codec,
            bounds.values,
            bounds.components,
            bounds.shared,
            bounds.rows,
            {**bounds.lengths, **lengths},
        )

    def _measure(self, low: Key | None, high: Key | None) -> tuple[int, ...]:
        """Rows from `low` to `high`, and the bytes of each column that varies."""
        limits = [None if key is None else self._params(key) for key in (low, high)]
        shared = self._shared(low, high) if low is not None and high is not None else 0
        condition = key_range(self._parts, *limits, shared=shared)
        return self._ask_measures([condition], [c for c in self._columns if c.length_sql])[0]

    def _params(self, key: Key) -> list[bytes]:
        return [part.params(value)[0] for part, value in zip(self._parts, key, strict=True)]

    def _ask_measures(
        self, conditions: Sequence[Condition], columns: Sequence[Column]
    ) -> list[tuple[int, ...]]:
        sums = "".join(f", CAST(COALESCE(SUM({c.length_sql}), 0) AS SIGNED)" for c in columns)
        requests = [
            Request(
                f"SELECT COUNT(*){sums} FROM {self._table} WHERE {each.sql}",  # noqa: S608
                each.params,
            )
            for each in conditions
        ]
        found: list[tuple[int, ...]] = []
        for at in range(0, len(requests), _MEASURES_AHEAD):
            batch = requests[at : at + _MEASURES_AHEAD]
            replies = self._pool.run(partial(Session.run, requests=batch))
            arrays = decode(replies, [pa.int64()] * (1 + len(columns)))
            found += zip(*(array.to_pylist() for array in arrays), strict=True)
        return found

    def _collect(self, starts: list[Key], measures: list[tuple[int, ...]]) -> Bounds:
        if not starts:
            empty = tuple(pa.array([], part.value[1]) for part in self._parts)
            none = np.zeros(0, np.int64)
            return Bounds(self._codec, empty, (), none, none)
        values = tuple(pa.concat_arrays(column) for column in zip(*starts, strict=True))
        components = index_components(self._codec, values)
        if (compare_neighbours(components, len(starts)) >= 0).any():
            raise InputError(
                f"the index of {self._pool.address} is not in the order of its keys as computed "
                "here: it changed while it was read, or its collation is not supported"
            )
        found = np.array(measures, np.int64)
        varying = [column for column in self._columns if column.length_sql]
        lengths = {c.name: found[:, number + 1].copy() for number, c in enumerate(varying)}
        shared = shared_columns(self._codec, values)
        return Bounds(self._codec, values, tuple(components), shared, found[:, 0].copy(), lengths)
