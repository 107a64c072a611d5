"""Look-ups as they are usually written: pymysql and a cache of the least recently used rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from sys import getsizeof
from typing import Any

from pymysql.connections import Connection

from semistream.stores.mysql.address import quoted

Row = tuple[Any, ...]
# More tuples at a time give fuller lists, but a small cache then forgets within one batch.
_KEYS_AT_ONCE = 4096
_KEYS_PER_LIST = 1000  # measured: 100 are slower, 10,000 not faster


class LruLookup:
    """Joins keys with a table of unique keys, whose first column is the key; caches some rows."""

    def __init__(self, connection: Connection[Any], table: str, key: str, capacity: int) -> None:
        self._connection = connection
        self._select = f"SELECT * FROM {quoted(table)} WHERE {quoted(key)}"  # noqa: S608 (quoted)
        self._capacity = max(capacity, 1)
        self._rows: OrderedDict[int, Row] = OrderedDict()
        self.hits = self.statements = 0

    def one_by_one(self, keys: list[int]) -> list[Row]:
        """The row of each key; a statement for each that is not cached."""
        found: list[Row] = []
        with self._connection.cursor() as cursor:
            for key in keys:
                row = self._rows.get(key)
                if row is None:
                    cursor.execute(f"{self._select} = %s", (key,))
                    self.statements += 1
                    row = cursor.fetchone()
                    if row is None:
                        continue
                    self._keep(key, row)
                else:
                    self._rows.move_to_end(key)
                    self.hits += 1
                found.append(row)
        return found

    def in_lists(self, keys: list[int]) -> list[Row]:
        """The row of each key; the distinct ones that are not cached are asked for in lists."""
        found: list[Row] = []
        for some in _slices(keys, _KEYS_AT_ONCE):
            found += self._in_lists(some)
        return found

    def _in_lists(self, keys: list[int]) -> list[Row]:
        here: dict[int, Row] = {}
        missing: dict[int, None] = {}
        rows = self._rows
        for key in keys:
            row = rows.get(key)
            if row is None:
                missing[key] = None
            else:
                rows.move_to_end(key)
                here[key] = row
                self.hits += 1
        with self._connection.cursor() as cursor:
            for some in _slices(list(missing), _KEYS_PER_LIST):
                cursor.execute(f"{self._select} IN %s", (some,))
                self.statements += 1
                for row in cursor.fetchall():
                    here[row[0]] = row
                    self._keep(row[0], row)
        return [here[key] for key in keys if key in here]

    def _keep(self, key: int, row: Row) -> None:
        if len(self._rows) >= self._capacity:
            self._rows.popitem(last=False)
        self._rows[key] = row


def held_bytes(rows: Sequence[Row]) -> float:
    """Bytes of memory such a cache takes for a row: its tuple, its values and its entry."""
    entries = 1 << 16
    entry = getsizeof(OrderedDict.fromkeys(range(entries))) / entries
    values = sum(getsizeof(value) for row in rows for value in row)
    return entry + (values + sum(map(getsizeof, rows))) / max(len(rows), 1)


def _slices(keys: list[int], size: int) -> Iterator[list[int]]:
    for at in range(0, len(keys), size):
        yield keys[at : at + size]
