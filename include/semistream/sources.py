"""Rows from Parquet, CSV, JSON lines or Arrow files (one file or a folder), batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyarrow import csv, dataset, fs, json
from pyarrow import types as pat

from semistream.errors import InputError
from semistream.keys import family_of, plain_type

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "ipc",
    ".feather": "ipc",
}
_BATCH_ROWS = 1 << 15
MYSQL = "mysql://"
_READ_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError)


class Source(Protocol):
    """A schema and a way to read the rows, once or again, without holding them."""

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def is_text(self) -> bool:
        """CSV or JSON: types are guessed, and can be chosen."""

    def batches(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files of one kind."""

    path: str
    schema: pa.Schema
    data: dataset.FileSystemDataset
    is_text: bool

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows; read ahead is kept small, so that memory does not follow the file size."""
        is_json = isinstance(self.data.format, dataset.JsonFileFormat)
        try:
            for batch in self._json_batches() if is_json else self._scanned_batches():
                if batch.num_rows:
                    yield batch
        except _READ_ERRORS as error:
            raise InputError(f"cannot read {self.path}: {_one_line(error)}") from None

    def _scanned_batches(self) -> Iterator[pa.RecordBatch]:
        scanner = self.data.scanner(batch_size=_BATCH_ROWS, batch_readahead=2, fragment_readahead=1)
        yield from scanner.to_batches()

    def _json_batches(self) -> Iterator[pa.RecordBatch]:
        """Not by a dataset's scanner: it turns a file of one line without a newline into NULLs."""
        options = json.ParseOptions(explicit_schema=self.schema, unexpected_field_behavior="ignore")
        for file in self.data.files:
            with json.open_json(file, parse_options=options) as reader:
                for batch in reader:
                    yield batch.select(self.schema.names)

    def with_types(self, types: Mapping[str, pa.DataType]) -> FileSource:
        """The same rows with these columns read as these types; only text can be."""
        fields = [field.with_type(types.get(field.name, field.type)) for field in self.schema]
        schema = pa.schema(fields)
        data = _dataset(self.data.files, schema, self.data.format)
        return replace(self, schema=schema, data=data)


def open_source(path: str, *, what: str) -> Source:
    """Open `path`, a file, a folder or a table; columns are those of all files together."""
    if path.startswith(MYSQL):
        from semistream.stores.mysql import TableSource

        return TableSource.open(path)
    place = Path(path)
    if not path or not place.exists():
        raise InputError(f"{what} {path!r} does not exist: give a file or a folder")
    files = [place] if place.is_file() else _files_in(place)
    kinds = {_FORMATS.get(file.suffix.lower()) for file in files}
    if not files or None in kinds or len(kinds) != 1:
        found = ", ".join(sorted({file.suffix or file.name for file in files})) or "no files"
        raise InputError(
            f"{what} {path} holds {found}; allowed is one kind of {', '.join(_FORMATS)}"
        )
    kind = str(kinds.pop())
    is_text = kind in ("csv", "json")
    # An empty text file has no header and no rows: Arrow would refuse the whole folder.
    files = [file for file in files if file.stat().st_size]
    if not files:
        raise InputError(f"{what} {path} is empty: it has no columns to join on")
    try:
        reader, places = _reader(kind), [str(file.absolute()) for file in files]
        schemas = [
            reader.inspect(place, fs.LocalFileSystem()).remove_metadata() for place in places
        ]
        schema = _united(schemas, is_text=is_text)
        return FileSource(path, schema, _dataset(places, schema, reader), is_text)
    except _READ_ERRORS as error:
        raise InputError(f"cannot read {what} {path} as {kind}: {_one_line(error)}") from None


def agree_on_keys(
    source: Source,
    other: pa.Schema,
    pairs: Sequence[tuple[str, str]],
    *,
    other_is_text: bool,
    by_value: bool = False,
) -> Source:
    """`source` with guessed key types changed to suit the other side's; `pairs` name a column of
    `source` first. Where both sides are guessed and differ, they are compared as text; `by_value`
    (a range or band, which text has none of) reads whole numbers beside floats as floats."""
    if not isinstance(source, FileSource) or not source.is_text:
        return source
    chosen = {}
    for ours, theirs in pairs:
        if ours not in source.schema.names or theirs not in other.names:
            continue
        own, wanted = source.schema.field(ours).type, plain_type(other.field(theirs).type)
        if pat.is_null(own):
            chosen[ours] = pa.string() if pat.is_null(wanted) else wanted
        elif not pat.is_null(wanted) and family_of(own) != family_of(wanted):
            if not by_value:
                chosen[ours] = pa.string() if other_is_text else wanted
            elif (pat.is_integer(own) and pat.is_floating(wanted)) or (
                not other_is_text and _kind_of(own) != _kind_of(wanted)
            ):
                chosen[ours] = wanted
    return source.with_types(chosen) if chosen else source


def _dataset(
    files: Sequence[str], schema: pa.Schema, reader: dataset.FileFormat
) -> dataset.FileSystemDataset:
    return dataset.FileSystemDataset.from_paths(
        files, schema=schema, format=reader, filesystem=fs.LocalFileSystem()
    )


def _reader(kind: str) -> dataset.FileFormat:
    if kind == "csv":
        return dataset.CsvFileFormat(convert_options=csv.ConvertOptions(strings_can_be_null=True))
    formats = {"parquet": dataset.ParquetFileFormat, "json": dataset.JsonFileFormat}
    return formats.get(kind, dataset.IpcFileFormat)()


def _united(schemas: Sequence[pa.Schema], *, is_text: bool) -> pa.Schema:
    """One schema for all files. What looks like a number in one text file and like something else
    in another is text in both."""
    if is_text:
        types: dict[str, set[str]] = {}
        for field in (field for schema in schemas for field in schema):
            if not pat.is_null(field.type):
                types.setdefault(field.name, set()).add(_kind_of(field.type))
        mixed = {name for name, kinds in types.items() if len(kinds) > 1}
        schemas = [
            pa.schema([f.with_type(pa.string()) if f.name in mixed else f for f in schema])
            for schema in schemas
        ]
    return pa.unify_schemas(list(schemas), promote_options="permissive")


def _kind_of(type_: pa.DataType) -> str:
    if pat.is_integer(type_) or pat.is_floating(type_):
        return "number"
    return str(type_) if pat.is_nested(type_) else family_of(type_)


def _files_in(folder: Path) -> list[Path]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return sorted(file for file in files if not file.name.startswith(("_", ".")))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
