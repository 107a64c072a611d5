"""Columns of a table and the Arrow types that hold their values exactly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as pat

from semistream.errors import InputError, unknown_name
from semistream.stores.mysql.address import MySQLAddress, quoted
from semistream.stores.mysql.wire import Session

# `tinyint(1)` is an integer here: MySQL stores -128..127 in it, and calling it a boolean would
# make 2 and 1 the same.
_INTEGERS = {
    "tinyint": (pa.int8(), pa.uint8()),
    "smallint": (pa.int16(), pa.uint16()),
    "mediumint": (pa.int32(), pa.uint32()),
    "int": (pa.int32(), pa.uint32()),
    "bigint": (pa.int64(), pa.uint64()),
}
_PLAIN = {
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", "UTC"),
    "time": pa.duration("us"),  # -838:59:59 to 838:59:59: not a time of day
    "year": pa.int16(),
    "bit": pa.uint64(),
    "enum": pa.string(),
    "set": pa.string(),
    "json": pa.string(),
    "uuid": pa.string(),
    "inet4": pa.string(),
    "inet6": pa.string(),
}
_TEXT = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}
_NO_KEY = {"set", "json", "uuid", "inet4", "inet6"}
_LABEL = re.compile(r"'((?:[^']|'')*)'")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its MySQL type by name, and the Arrow type its values are read as."""

    name: str
    kind: str
    arrow: pa.DataType
    is_nullable: bool
    charset: str | None = None
    collation: str | None = None
    labels: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        return quoted(self.name)

    @property
    def is_text(self) -> bool:
        return self.kind in _TEXT

    @property
    def can_be_key(self) -> bool:
        """Whether equality and order of the type are known here."""
        return self.kind in _INTEGERS.keys() | (_PLAIN.keys() - _NO_KEY) | _TEXT or (
            self.kind in ("decimal", "binary", "varbinary")
        )

    @property
    def fixed_bytes(self) -> int:
        """Bytes of a value in memory that do not depend on its length."""
        if pat.is_string(self.arrow) or pat.is_binary(self.arrow):
            return 4
        return int(self.arrow.bit_width) // 8

    @property
    def length_sql(self) -> str | None:
        """Bytes of a value beyond `fixed_bytes`, as SQL; None when there are none."""
        if not (pat.is_string(self.arrow) or pat.is_binary(self.arrow)):
            return None
        if self.is_text and self.charset not in ("utf8mb4", "utf8mb3", "utf8", "ascii"):
            return f"LENGTH(CONVERT({self.sql} USING utf8mb4))"
        return f"LENGTH({self.sql})"


def read_columns(session: Session, address: MySQLAddress) -> tuple[Column, ...]:
    """All columns of the table; an error that says what there is when the table is not there."""
    found = session.rows(
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, NUMERIC_PRECISION, NUMERIC_SCALE, "
        "IS_NULLABLE, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS "
        "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        (address.database, address.table),
    )
    if not found:
        tables = session.rows(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s ORDER BY 1",
            (address.database,),
        )
        kind = f"table in database {address.database!r} of {address.server}"
        raise unknown_name(kind, address.table, _some([row[0] for row in tables]))
    return tuple(_column(*row) for row in found)


def _column(
    name: str,
    kind: str,
    full_type: str,
    precision: int | None,
    scale: int | None,
    nullable: str,
    charset: str | None,
    collation: str | None,
) -> Column:
    kind = kind.lower()
    labels: tuple[str, ...] = ()
    if kind in _INTEGERS:
        arrow = _INTEGERS[kind]["unsigned" in full_type.lower()]
    elif kind == "decimal":
        digits, places = int(precision or 10), int(scale or 0)
        arrow = (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, places)
    elif kind in _PLAIN:
        arrow = _PLAIN[kind]
        if kind == "enum":
            labels = tuple(label.replace("''", "'") for label in _LABEL.findall(full_type))
    else:
        # Anything else (blobs, geometries, types of plug-ins) is passed on as it comes.
        arrow = pa.string() if kind in _TEXT else pa.binary()
    return Column(name, kind, arrow, nullable == "YES", charset, collation, labels)


def require_key_types(columns: Sequence[Column], *, where: str) -> None:
    """Refuse key columns whose equality is not known here."""
    for column in columns:
        if not column.can_be_key:
            raise InputError(
                f"column {column.name!r} of {where} is of type {column.kind}, which cannot be a "
                "key here: allowed are numbers, bit, dates, times, year, char, varchar, binary, "
                "varbinary and enum"
            )


def _some(names: Sequence[str], limit: int = 20) -> list[str]:
    more = [f"… and {len(names) - limit} more"] if len(names) > limit else []
    return [*names[:limit], *more]
