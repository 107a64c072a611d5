"""Column types as a spec writes them: Spark's SQL names, one Arrow type each."""

from __future__ import annotations

import re

import pyarrow as pa

from semistream.errors import InputError

_TYPES = {
    "string": pa.string(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}
TYPE_NAMES = (*_TYPES, "decimal(p,s)")
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a type name.

    >>> arrow_type("long"), arrow_type("decimal(10,2)")
    (DataType(int64), Decimal128Type(decimal128(10, 2)))
    """
    if name in _TYPES:
        return _TYPES[name]
    match = _DECIMAL.fullmatch(name)
    if match is not None and 1 <= int(match[1]) <= 38 and int(match[2]) <= int(match[1]):
        return pa.decimal128(int(match[1]), int(match[2]))
    raise InputError(f"unknown type {name!r}: there are {', '.join(TYPE_NAMES)} with p up to 38")


def arrow_schema(columns: dict[str, str]) -> pa.Schema:
    """The Arrow schema of a spec's `schema`."""
    return pa.schema([(name, arrow_type(type_)) for name, type_ in columns.items()])
