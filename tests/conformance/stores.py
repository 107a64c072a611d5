"""Masters for the laws, in every kind of store; `STORES` is the list that the laws run over."""

from __future__ import annotations

import hashlib
import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import types as pat

from semistream import ArrowStore, build_arrow_store
from semistream.bench.mariadb import PrivateMariaDB
from semistream.stores.mysql import MySQLStore, Password
from semistream.stores.protocol import MasterStore

_KEPT_TABLES = 24
_LONGEST_KEY_BYTES = 3072  # of an InnoDB index
# As DuckDB compares: byte by byte, trailing spaces included.
EXACT = "utf8mb4_nopad_bin"


class Stores(Protocol):
    """One kind of store: makes masters of it, and says what it cannot hold."""

    has_booleans: bool
    has_nested_columns: bool

    def make(
        self, master: pa.Table, key: Sequence[str], partition_bytes: int = 2048
    ) -> MasterStore: ...
    def can_index(self, value: object) -> bool:
        """Whether a master can have `value` in a key column."""


class ArrowStores:
    """Built in a folder."""

    has_booleans = has_nested_columns = True

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._folder: Path = request.getfixturevalue("tmp_path")
        self._number = itertools.count()

    def make(
        self, master: pa.Table, key: Sequence[str], partition_bytes: int = 2048
    ) -> MasterStore:
        path = self._folder / f"master{next(self._number)}"
        batches = master.to_batches(max_chunksize=500)
        build_arrow_store(path, batches, master.schema, key, partition_bytes=partition_bytes)
        return ArrowStore.open(path)

    def can_index(self, value: object) -> bool:
        return True


class MySQLStores:
    """Tables of a real server. Laws share tables: most ask about the same few masters."""

    has_booleans = has_nested_columns = False

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._tables: MySQLTables = request.getfixturevalue("mysql_tables")

    def make(
        self, master: pa.Table, key: Sequence[str], partition_bytes: int = 2048
    ) -> MasterStore:
        return self._tables.open(master, key, partition_bytes)

    def can_index(self, value: object) -> bool:
        if isinstance(value, str | bytes):
            size = 4 * len(value) if isinstance(value, str) else len(value)
            return size <= _LONGEST_KEY_BYTES
        # A TIMESTAMP begins in 1970.
        return getattr(value, "tzinfo", None) is None or value.timestamp() > 0  # type: ignore[attr-defined]


STORES: dict[str, Callable[[pytest.FixtureRequest], Stores]] = {
    "arrow": ArrowStores,
    "mysql": MySQLStores,
}


class MySQLTables:
    """Arrow tables as tables of a server, made once and opened once; each use gets its own view."""

    def __init__(self, server: PrivateMariaDB) -> None:
        self.server = server
        self.connection = server.connect(autocommit=True)
        self._numbers = itertools.count()
        self._made: OrderedDict[str, tuple[str, dict[int, MySQLStore]]] = OrderedDict()
        self._run("SET time_zone = '+00:00'")

    def open(
        self,
        master: pa.Table,
        key: Sequence[str],
        partition_bytes: int,
        collation: str = EXACT,
    ) -> MySQLStore:
        name, opened = self._table(master, tuple(key), collation)
        if partition_bytes not in opened:
            opened[partition_bytes] = MySQLStore.open(
                self.url(name),
                key,
                password=Password(self.server.password),
                partition_bytes=partition_bytes,
                memo_bytes=4096,
            )
        return opened[partition_bytes].select(None)

    def url(self, name: str) -> str:
        server = self.server
        return f"mysql://{server.user}@{server.host}:{server.port}/{server.database}/{name}"

    def load(
        self, rows: pa.Table, key: Sequence[str], collation: str, name: str | None = None
    ) -> str:
        """The name of a new table that holds `rows`, with an index on `key`."""
        name = name or f"master{next(self._numbers)}"
        columns = ", ".join(
            f"`{field.name}` {_sql_type(rows, field, field.name in key, collation)}"
            for field in rows.schema
        )
        names = ", ".join(f"`{column}`" for column in key)
        is_unique = rows.select(list(key)).group_by(list(key)).aggregate([]).num_rows == len(rows)
        has_nulls = any(rows[column].null_count for column in key)
        # Both kinds of index are in use out there, and they are read in different ways.
        kind = "PRIMARY KEY" if is_unique and not has_nulls and len(rows) else "KEY"
        self._run(f"CREATE TABLE `{name}` ({columns}, {kind} ({names}))")
        values = list(zip(*(_sql_values(column) for column in rows.columns), strict=True))
        if values:
            marks = ", ".join(["%s"] * rows.num_columns)
            with self.connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO `{name}` VALUES ({marks})", values)
        return name

    def close(self) -> None:
        for _, opened in self._made.values():
            for store in opened.values():
                store.close()
        self.connection.close()

    def _table(
        self, master: pa.Table, key: tuple[str, ...], collation: str
    ) -> tuple[str, dict[int, MySQLStore]]:
        identity = _digest(master, key, collation)
        if identity not in self._made:
            self._made[identity] = self.load(master, key, collation), {}
        self._made.move_to_end(identity)
        if len(self._made) > _KEPT_TABLES:
            _, (oldest, opened) = self._made.popitem(last=False)
            for store in opened.values():
                store.close()
            self._run(f"DROP TABLE `{oldest}`")
        return self._made[identity]

    def _run(self, sql: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)


def _digest(master: pa.Table, key: tuple[str, ...], collation: str) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, master.schema) as writer:
        writer.write_table(master.combine_chunks())
    digest = hashlib.sha256(sink.getvalue())
    digest.update(repr((key, collation)).encode())
    return digest.hexdigest()


def _sql_type(rows: pa.Table, field: pa.Field, is_key: bool, collation: str) -> str:
    type_ = field.type.value_type if pat.is_dictionary(field.type) else field.type
    if pat.is_boolean(type_):
        return "BOOLEAN"
    if pat.is_integer(type_):
        width = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[type_.bit_width]
        return width + (" UNSIGNED" if pat.is_unsigned_integer(type_) else "")
    if pat.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pat.is_floating(type_):
        return "DOUBLE"
    if pat.is_date(type_):
        return "DATE"
    if pat.is_timestamp(type_):
        return "TIMESTAMP(6) NULL" if type_.tz else "DATETIME(6)"
    is_text = pat.is_string(type_) or pat.is_large_string(type_)
    if not is_key:
        return f"MEDIUMTEXT COLLATE {collation}" if is_text else "MEDIUMBLOB"
    column = rows[field.name]
    lengths = pc.utf8_length(column) if is_text else pc.binary_length(column)
    longest = pc.max(lengths).as_py() or 1
    return f"VARCHAR({longest}) COLLATE {collation}" if is_text else f"VARBINARY({longest})"


def _sql_values(column: pa.ChunkedArray) -> list:
    if pat.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz))
    return column.to_pylist()
