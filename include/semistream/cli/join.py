"""`semistream join`: files in, Parquet folders and statistics out."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyarrow import parquet

from semistream.errors import InputError
from semistream.joins.conditions import Condition, parse_condition
from semistream.joins.join import Join
from semistream.joins.ordered import Order
from semistream.joins.outputs import How
from semistream.joins.registry import open_join
from semistream.sizes import parse_bytes
from semistream.sources import MYSQL, Source, agree_on_keys, open_source
from semistream.statistics import JoinStatistics
from semistream.stores.arrow_build import build_arrow_store
from semistream.stores.arrow_store import ArrowStore, is_arrow_store
from semistream.stores.protocol import MasterStore

_AUTO, _AUTO_CONDITION = "chybridjoin", "meshjoin"
_PART = re.compile(r"part-\d+\.parquet")


def join_files(
    *,
    stream: str,
    master: str,
    on: str | None,
    out: Path,
    algorithm: str,
    memory: str,
    how: str,
    select: str | None,
    order: str = "any",
    condition: str | None = None,
) -> JoinStatistics:
    """Join `stream` with `master`; rows go to `joined/`, `unmatched/` and `shed/` under `out`."""
    given = _join_on(on, condition)
    budget = parse_bytes(memory)
    columns = None if select is None else [name.strip() for name in select.split(",") if name]
    by_value = isinstance(given, Condition)
    if isinstance(given, Condition):
        auto, pairs = _AUTO_CONDITION, [(given.column, given.master_key)]
    else:
        auto, pairs = _AUTO, list(given)
    name = auto if algorithm == "auto" else algorithm
    source = open_source(stream, what="stream")
    with opened_master(master, pairs, budget, source, by_value=by_value) as (store, is_text):
        # The store's own schema: a text master has taken the stream's types by now.
        source = agree_on_keys(
            source, store.schema, pairs, other_is_text=is_text, by_value=by_value
        )
        with open_join(
            store,
            source.schema,
            given,
            algorithm=name,
            memory=budget,
            how=cast(How, how),
            select=columns,
            order=cast(Order, order),
        ) as join:
            write_outputs(join, source.batches(), out)
    return join.statistics


def _join_on(on: str | None, condition: str | None) -> list[tuple[str, str]] | Condition:
    if (on is None) == (condition is None):
        raise InputError(
            "give either --on COL[=MASTERCOL][,…] for equal keys or --condition for a range or band"
        )
    return parse_on(on) if on is not None else parse_condition(str(condition))


def parse_on(text: str) -> list[tuple[str, str]]:
    """`a=b,c` as [("a", "b"), ("c", "c")]."""
    pairs = []
    for part in text.split(","):
        ours, _, theirs = part.strip().partition("=")
        if not ours or (not theirs and "=" in part):
            raise InputError(f"--on {text!r} is not COL[=MASTERCOL][,…], for example id=product_id")
        pairs.append((ours, theirs or ours))
    if len({theirs for _, theirs in pairs}) < len(pairs):
        raise InputError(f"--on {text!r} names a master column twice: give each once")
    return pairs


@contextmanager
def opened_master(
    path: str,
    pairs: Sequence[tuple[str, str]],
    budget: int,
    stream: Source,
    *,
    by_value: bool = False,
) -> Iterator[tuple[MasterStore, bool]]:
    """The master at `path`: a table or a built store as it is, files through a temporary store;
    and whether its types were guessed from text."""
    if path.startswith(MYSQL):
        from semistream.stores.mysql import MySQLStore

        table = MySQLStore.open(
            path,
            [theirs for _, theirs in pairs],
            partition_bytes=_partition_bytes(budget),
            memo_bytes=min(budget // 16, 2 << 20),
        )
        try:
            yield table, False
        finally:
            table.close()
        return
    if path and Path(path).is_dir() and is_arrow_store(path):
        store = ArrowStore.open(path)
        try:
            yield store, False
        finally:
            store.close()
        return
    source = open_source(path, what="master")
    swapped = [(theirs, ours) for ours, theirs in pairs]
    source = agree_on_keys(
        source, stream.schema, swapped, other_is_text=stream.is_text, by_value=by_value
    )
    with tempfile.TemporaryDirectory(prefix="semistream-master-") as folder:
        build_arrow_store(
            folder,
            source.batches(),
            source.schema,
            [theirs for _, theirs in pairs],
            name=Path(path).stem,
            partition_bytes=_partition_bytes(budget),
            memory_bytes=budget + (32 << 20),
        )
        store = ArrowStore.open(folder)
        try:
            yield store, source.is_text
        finally:
            store.close()


def _partition_bytes(budget: int) -> int:
    """Small budgets need small partitions: the disk buffer holds at least one, read and decoded."""
    return min(max(budget // 128, 8 << 10), 128 << 10)


def write_outputs(join: Join, batches: Iterator[pa.RecordBatch], out: Path) -> None:
    """Write every output to its folder. They appear when all is done, in place of what an earlier
    run left there: an interrupted or failed join leaves no half of a result."""
    schemas = {"joined": join.joined_schema, "unmatched": join.unmatched_schema}
    schemas["shed"] = join.unmatched_schema.remove(len(join.unmatched_schema) - 1)
    staging = out / f"_joining-{os.getpid()}"
    try:
        for kind in schemas:
            _refuse_strangers(out / kind)
        with ExitStack() as opened:
            opened.callback(shutil.rmtree, staging, ignore_errors=True)
            writers = {}
            for kind, schema in schemas.items():
                (staging / kind).mkdir(parents=True)
                writer = parquet.ParquetWriter(staging / kind / "part-00000.parquet", schema)
                writers[kind] = opened.enter_context(writer)
            for output in join.run(batches):
                writers[output.kind].write_batch(output.rows)
            for kind, writer in writers.items():
                writer.close()
                shutil.rmtree(out / kind, ignore_errors=True)
                (staging / kind).replace(out / kind)
    except pa.ArrowNotImplementedError as error:
        raise InputError(f"Parquet cannot hold these columns: {error}; leave them out") from None
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error}") from None


def _refuse_strangers(folder: Path) -> None:
    """Only what a join wrote may be replaced."""
    if not folder.is_dir():
        return
    strange = [each.name for each in folder.iterdir() if not _PART.fullmatch(each.name)]
    if strange:
        raise InputError(
            f"{folder} holds {strange[0]!r}, which no join wrote: choose another --out or remove it"
        )
