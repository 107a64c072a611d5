"""A workload as files: Parquet folders for both sides, and a manifest that describes them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from semistream.errors import InputError
from semistream.workloads.base import Workload

PART_ROWS = 1_048_576
_PART_NAME = re.compile(r"part-\d{5,}\.parquet")
_MANIFEST = "workload.json"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class WrittenWorkload:
    """Where a workload was written, and how its sides are joined (stream column: master column)."""

    folder: Path
    on: dict[str, str]
    master_rows: int
    stream_rows: int

    @property
    def master(self) -> Path:
        return self.folder / "master"

    @property
    def stream(self) -> Path:
        return self.folder / "stream"

    @property
    def manifest(self) -> Path:
        return self.folder / _MANIFEST


def write_workload(
    workload: Workload, out: Path, progress: Progress | None = None
) -> WrittenWorkload:
    """Write `out/master/part-*.parquet`, `out/stream/part-*.parquet` and `out/workload.json`.

    The same workload gives the same bytes wherever it is written. The manifest is written last:
    where it exists, the files are complete. Parts of an earlier workload in `out` are replaced;
    anything else in those folders is refused rather than mixed in or deleted. `progress` is told
    (side, rows so far, rows in all) after each batch. Memory: one row group.
    """
    written = WrittenWorkload(
        folder=out,
        on=dict(zip(workload.stream_key, workload.master_key, strict=True)),
        master_rows=workload.master_rows,
        stream_rows=workload.stream_rows,
    )
    earlier = [*_earlier_parts(written.master), *_earlier_parts(written.stream)]
    written.manifest.unlink(missing_ok=True)
    for part in earlier:
        part.unlink()

    master = _telling(progress, "master", workload.master_rows, workload.master_batches())
    stream = _telling(progress, "stream", workload.stream_rows, workload.stream_batches())
    master_parts = _write_parts(written.master, workload.master_schema, master)
    stream_parts = _write_parts(written.stream, workload.stream_schema, stream)
    manifest = {
        "workload": workload.name,
        "parameters": dict(workload.parameters),
        "on": written.on,
        "master_rows": workload.master_rows,
        "stream_rows": workload.stream_rows,
        "master": [_describe(part) for part in master_parts],
        "stream": [_describe(part) for part in stream_parts],
    }
    written.manifest.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return written


def _earlier_parts(folder: Path) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}") from error
    found = sorted(folder.iterdir())
    for path in found:
        if not _PART_NAME.fullmatch(path.name):
            raise InputError(
                f"{folder} holds {path.name!r}, which no workload wrote: "
                "choose another folder or remove it"
            )
    return found


def _telling(
    progress: Progress | None, side: str, rows: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        if progress:
            progress(side, done, rows)


def _write_parts(
    folder: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[Path]:
    """Write the batches, a new file whenever one has `PART_ROWS`; an empty side has one file."""
    batch = next(batches, None)
    number = 0
    while batch is not None or number == 0:
        path = folder / f"part-{number:05d}.parquet"
        with pq.ParquetWriter(path, schema) as writer:
            rows = 0
            while batch is not None and rows < PART_ROWS:
                writer.write_batch(batch)
                rows += batch.num_rows
                batch = next(batches, None)
        yield path
        number += 1


def _describe(part: Path) -> dict[str, object]:
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    rows = pq.read_metadata(part).num_rows
    return {"name": part.name, "rows": rows, "bytes": part.stat().st_size, "sha256": digest}
