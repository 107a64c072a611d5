"""`semistream join`: files in, Parquet folders and statistics out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyarrow import parquet

from semistream.errors import InputError
from semistream.joins.core import SemiStreamJoin
from semistream.joins.outputs import How
from semistream.joins.registry import open_join
from semistream.sizes import parse_bytes
from semistream.sources import open_source
from semistream.statistics import JoinStatistics
from semistream.stores.arrow_build import build_arrow_store
from semistream.stores.arrow_store import ArrowStore, is_arrow_store
from semistream.stores.protocol import MasterStore

_AUTO = "chybridjoin"


def join_files(
    *,
    stream: str,
    master: str,
    on: str,
    out: Path,
    algorithm: str,
    memory: str,
    how: str,
    select: str | None,
) -> JoinStatistics:
    """Join `stream` with `master`; rows go to `joined/`, `unmatched/` and `shed/` under `out`."""
    pairs = parse_on(on)
    budget = parse_bytes(memory)
    columns = select.split(",") if select else None
    name = _AUTO if algorithm == "auto" else algorithm
    with opened_master(master, [theirs for _, theirs in pairs], budget) as store:
        types = {
            ours: store.schema.field(theirs).type
            for ours, theirs in pairs
            if theirs in store.schema.names
        }
        source = open_source(stream, what="stream", column_types=types)
        join = open_join(
            store,
            source.schema,
            pairs,
            algorithm=name,
            memory=budget,
            how=cast(How, how),
            select=columns,
        )
        write_outputs(join, source.batches(), out)
    return join.statistics


def parse_on(text: str) -> list[tuple[str, str]]:
    """`a=b,c` as [("a", "b"), ("c", "c")]."""
    pairs = []
    for part in text.split(","):
        ours, _, theirs = part.strip().partition("=")
        if not ours or (not theirs and "=" in part):
            raise InputError(f"--on {text!r} is not COL[=MASTERCOL][,…], for example id=product_id")
        pairs.append((ours, theirs or ours))
    return pairs


@contextmanager
def opened_master(path: str, key: Sequence[str], budget: int) -> Iterator[MasterStore]:
    """The master at `path`: a built store as it is, files by way of a temporary store."""
    if path.startswith("mysql://"):
        raise InputError(f"master {path}: MySQL masters cannot be joined yet; export it to Parquet")
    if Path(path).is_dir() and is_arrow_store(path):
        store = ArrowStore.open(path)
        try:
            yield store
        finally:
            store.close()
        return
    source = open_source(path, what="master")
    with tempfile.TemporaryDirectory(prefix="semistream-master-") as folder:
        build_arrow_store(
            folder,
            source.batches(),
            source.schema,
            key,
            name=Path(path).stem,
            partition_bytes=_partition_bytes(budget),
            memory_bytes=budget + (32 << 20),
        )
        store = ArrowStore.open(folder)
        try:
            yield store
        finally:
            store.close()


def _partition_bytes(budget: int) -> int:
    """Small budgets need small partitions: the disk buffer holds at least one, read and decoded."""
    return min(max(budget // 128, 8 << 10), 128 << 10)


def write_outputs(join: SemiStreamJoin, batches: Iterator[pa.RecordBatch], out: Path) -> None:
    """Write every output to its folder; what an earlier run left there is replaced."""
    schemas = {"joined": join.joined_schema, "unmatched": join.unmatched_schema}
    schemas["shed"] = join.unmatched_schema.remove(len(join.unmatched_schema) - 1)
    writers = {}
    try:
        for kind, schema in schemas.items():
            folder = out / kind
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            writers[kind] = parquet.ParquetWriter(folder / "part-00000.parquet", schema)
        for output in join.run(batches):
            writers[output.kind].write_batch(output.rows)
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error}") from None
    finally:
        for writer in writers.values():
            writer.close()
