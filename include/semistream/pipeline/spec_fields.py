"""The kinds of value a spec's fields take, and the base of its models."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from semistream.errors import InputError
from semistream.pipeline.column_types import arrow_type
from semistream.sizes import parse_bytes

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_CONNECTION = "mysql://user@host:port/database"


class SpecModel(BaseModel):
    """A part of a spec: nothing unknown, nothing converted, nothing changed afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


def _name(text: str) -> str:
    # Names become folders, DAG ids and table keys: what all of them take.
    if not _NAME.fullmatch(text):
        raise ValueError("a lower-case letter, then letters, digits or _, at most 63 in all")
    return text


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("a size such as 256MB")
    try:
        return parse_bytes(value)
    except InputError as error:
        raise ValueError(str(error)) from None


def _type(text: str) -> str:
    try:
        arrow_type(text)
    except InputError as error:
        raise ValueError(str(error)) from None
    return text


def _connection(text: str) -> str:
    parts = urlsplit(text)
    try:
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        has_port = False
    names = parts.path.strip("/").split("/")
    if parts.scheme != "mysql" or not (parts.hostname and parts.username and has_port):
        raise ValueError(f"an address of the form {_CONNECTION}")
    if len(names) != 1 or not names[0] or parts.query or parts.fragment:
        raise ValueError(f"an address of the form {_CONNECTION}")
    return text


def _local(text: str) -> str:
    if "://" in text:
        raise ValueError("a folder that this machine can write: commits rename folders")
    return text


Name = Annotated[str, AfterValidator(_name)]
Column = Annotated[str, Field(min_length=1)]
Columns = Annotated[list[Column], Field(min_length=1)]
ColumnType = Annotated[str, AfterValidator(_type)]
Schema = Annotated[dict[Column, ColumnType], Field(min_length=1)]
Folder = Annotated[str, Field(min_length=1), AfterValidator(_local)]
ByteSize = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}], "examples": ["256MB"]}),
]


class FilePlace(SpecModel):
    """Files of one kind, one or a folder of them."""

    format: Literal["json", "csv", "parquet"]
    path: str = Field(min_length=1)

    @property
    def address(self) -> str:
        return self.path


class MySQLPlace(SpecModel):
    """A table of MySQL or MariaDB. The password is in the environment variable `password_env`, or
    in `password_file`, which only its owner may read; never here."""

    format: Literal["mysql"]
    connection: Annotated[str, AfterValidator(_connection)]
    table: str = Field(min_length=1)
    password_env: str | None = None
    password_file: str | None = None

    @property
    def address(self) -> str:
        """The table as `mysql://user@host:port/database/table`."""
        return f"{self.connection.rstrip('/')}/{quote(self.table, safe='')}"
