"""Rows from Parquet, CSV, JSON lines or Arrow files (one file or a folder), batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, dataset

from semistream.errors import InputError

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


@dataclass(frozen=True, slots=True)
class Source:
    """A schema and a way to read the rows, once or again, without holding them."""

    path: str
    schema: pa.Schema
    data: dataset.Dataset | None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows; read ahead is kept small, so that memory does not follow the file size."""
        if self.data is None:
            return
        scanner = self.data.scanner(batch_size=_BATCH_ROWS, batch_readahead=2, fragment_readahead=1)
        try:
            for batch in scanner.to_batches():
                if batch.num_rows:
                    yield batch
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError) as error:
            raise InputError(f"cannot read {self.path}: {_one_line(error)}") from None


def open_source(
    path: str, *, what: str, column_types: Mapping[str, pa.DataType] | None = None
) -> Source:
    """Open `path`; CSV columns named in `column_types` are read as these types."""
    place = Path(path)
    if not place.exists():
        raise InputError(f"{what} {path} does not exist: give a file or a folder")
    files = [place] if place.is_file() else _files_in(place)
    kinds = {_FORMATS.get(file.suffix.lower()) for file in files}
    if not files or None in kinds or len(kinds) != 1:
        found = ", ".join(sorted({file.suffix or file.name for file in files})) or "no files"
        raise InputError(
            f"{what} {path} holds {found}; allowed is one kind of {', '.join(_FORMATS)}"
        )
    kind = kinds.pop()
    # An empty text file has no header and no rows: Arrow would refuse the whole folder.
    files = [file for file in files if file.stat().st_size]
    if not files:
        raise InputError(f"{what} {path} is empty: it has no columns to join on")
    chosen: object = kind
    if kind == "csv":
        options = csv.ConvertOptions(
            column_types=dict(column_types or {}), strings_can_be_null=True
        )
        chosen = dataset.CsvFileFormat(convert_options=options)
    try:
        data = dataset.dataset([str(file) for file in files], format=chosen)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError) as error:
        raise InputError(f"cannot read {what} {path} as {kind}: {_one_line(error)}") from None
    return Source(path, data.schema.remove_metadata(), data)


def _files_in(folder: Path) -> list[Path]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return sorted(file for file in files if not file.name.startswith(("_", ".")))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
