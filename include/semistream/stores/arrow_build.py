"""Build an `ArrowStore` from record batches, in bounded memory."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash
from pyarrow import fs, ipc

from semistream.errors import InputError
from semistream.kernels.arrays import F32Array, U64Array
from semistream.keys import OK, KeyCodec, plain_array
from semistream.plain import plain_batch, plain_schema
from semistream.row_sizes import row_sizes
from semistream.stores.arrow_format import (
    ALIGNMENT,
    DATA,
    FORMAT,
    HOT,
    HOT_SCHEMA,
    INDEX,
    INDEX_SCHEMA,
    MANIFEST,
    Manifest,
)
from semistream.stores.external_sort import (
    CHECK,
    CODE,
    ExternalSort,
    codes_of,
    give_memory_back,
    sort_by_code,
)
from semistream.stores.filesystem import resolve
from semistream.stores.protocol import check_columns

PARTITION_BYTES = 128 << 10


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Estimated frequency of keys: what orders the hot part of a master."""

    codes: U64Array  # ascending
    weights: F32Array


@dataclass(slots=True)
class BuildReport:
    """What a build found and wrote."""

    rows: int = 0
    null_key_rows: int = 0
    partitions: int = 0
    hot_partitions: int = 0
    bytes: int = 0


def build_arrow_store(
    path: str | Path,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    key: Sequence[str],
    *,
    name: str | None = None,
    partition_bytes: int = PARTITION_BYTES,
    memory_bytes: int = 256 << 20,
    frequencies: Frequencies | None = None,
    hot_bytes: int = 0,
    codec: KeyCodec | None = None,
    progress: Callable[[int], None] | None = None,
) -> BuildReport:
    """Write the master's rows to `path` (a folder, local or a file-system URI), sorted by code.

    Holds about `memory_bytes`, whatever the size of the master; scratch space on disk is about
    the size of the master. Rows with a NULL in their key can match nothing: they are counted and
    left out. With `frequencies`, the most frequent keys whose rows fit `hot_bytes` come first, in
    that order. `progress` is told the rows taken so far.
    """
    where = f"master {name or Path(str(path)).name!r}"
    check_columns(schema, [*key, *schema.names], where=where)
    for taken in {CODE, CHECK}.intersection(schema.names):
        raise InputError(f"column {taken!r} of {where} has a name the store needs: rename it")
    schema = plain_schema(schema)
    codec = codec or KeyCodec([schema.field(column).type for column in key])
    sort = ExternalSort(memory_bytes)
    hot = _HotRows(frequencies, hot_bytes, partition_bytes)
    report = BuildReport()
    for batch in batches:
        batch = plain_batch(batch, schema)
        keys = codec.encode([batch.column(column) for column in key])
        batch = batch.append_column(CODE, pa.array(keys.codes))
        if keys.checks is not None:
            batch = batch.append_column(CHECK, pa.array(keys.checks))
        usable = keys.status == OK
        if not usable.all():
            report.null_key_rows += int((~usable).sum())
            batch = batch.filter(pa.array(usable))
        report.rows += batch.num_rows
        sort.add(hot.divert(batch))
        if progress is not None:
            progress(report.rows + report.null_key_rows)
    for batch in hot.overflow():
        sort.add(batch)
    file_system, root = resolve(path)
    file_system.create_dir(root, recursive=True)
    with file_system.open_output_stream(f"{root}/{DATA}") as sink:
        writer = _PartitionWriter(sink, schema, partition_bytes, is_exact=codec.is_exact)
        for batch in hot.ordered():
            writer.add(batch, sorted_by_code=False)
        writer.flush()
        writer.hot_partitions = len(writer.index["rows"])
        for batch in sort.sorted_batches():
            writer.add(batch, sorted_by_code=True)
        writer.flush()
    _write_facts(file_system, root, writer, schema, key, report, name or Path(str(path)).name)
    give_memory_back()
    return report


class _HotRows:
    """Rows of the most frequent keys, as many as fit; a key is in with all its rows or not."""

    def __init__(
        self, frequencies: Frequencies | None, limit_bytes: int, partition_bytes: int
    ) -> None:
        self._partition_bytes = partition_bytes
        self._frequencies = frequencies
        self._limit_bytes = limit_bytes
        self._rows: list[pa.RecordBatch] = []
        self._bytes = 0
        self._floor = -np.inf  # keys below it have been given up

    def divert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the hot rows of `batch`; return the others."""
        if self._frequencies is None or not len(self._frequencies.codes):
            return batch
        hot = self._weights(batch) > self._floor
        if not hot.any():
            return batch
        taken = batch.filter(pa.array(hot))
        self._rows.append(taken)
        self._bytes += taken.nbytes
        return batch.filter(pa.array(~hot))

    def _weights(self, batch: pa.RecordBatch) -> F32Array:
        assert self._frequencies is not None
        codes = codes_of(batch)
        known = self._frequencies.codes
        at = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        weights = np.where(known[at] == codes, self._frequencies.weights[at], -np.inf)
        return weights.astype(np.float32)

    def overflow(self) -> Iterator[pa.RecordBatch]:
        """The rows of the least frequent keys beyond the limit, to be sorted with the rest."""
        if not self._rows:
            return
        rows = sort_by_code(self._rows)
        weights = self._weights(rows)
        # A key that needs more than one partition is not hot: the hot index knows one per key.
        _, owner = np.unique(codes_of(rows), return_inverse=True)
        key_bytes = np.bincount(owner, weights=row_sizes(rows))[owner]
        too_wide = (key_bytes > self._partition_bytes) & (np.bincount(owner)[owner] > 1)
        if too_wide.any():
            yield rows.filter(pa.array(too_wide))
            rows = rows.filter(pa.array(~too_wide))
            weights = weights[~too_wide]
        # Group by key within equal weights, so that a key's rows stay together.
        order = np.lexsort((codes_of(rows), -weights))
        rows = rows.take(pa.array(order))
        codes = codes_of(rows)
        ends = np.cumsum(row_sizes(rows))
        fit = int(np.searchsorted(ends, self._limit_bytes, side="right"))
        while 0 < fit < len(codes) and codes[fit] == codes[fit - 1]:
            fit -= 1
        self._rows = [rows.slice(0, fit)] if fit else []
        if fit < len(codes):
            yield rows.slice(fit)

    def ordered(self) -> Iterator[pa.RecordBatch]:
        yield from self._rows


@dataclass(slots=True)
class _PartitionWriter:
    """Cuts a stream of rows into partitions, between keys wherever a partition can hold one."""

    sink: pa.NativeFile
    schema: pa.Schema
    target_bytes: int
    is_exact: bool
    hot_partitions: int = 0
    position: int = 0
    largest: int = 0
    is_unique: bool = True
    has_straddling_keys: bool = False
    index: dict[str, list[int]] = field(
        default_factory=lambda: {name: [] for name in INDEX_SCHEMA.names}
    )
    hot_codes: list[U64Array] = field(default_factory=list)
    column_bytes: dict[str, int] = field(default_factory=dict)
    _open: list[pa.RecordBatch] = field(default_factory=list)
    _open_bytes: int = 0
    _is_sorted: bool = True
    _last_code: int | None = None

    def add(self, batch: pa.RecordBatch, *, sorted_by_code: bool) -> None:
        self._is_sorted = sorted_by_code
        if batch.num_rows == 0:
            return
        self._open.append(batch)
        self._open_bytes += batch.nbytes
        if self._open_bytes >= 4 * self.target_bytes:
            self._cut(keep_last=True)

    def flush(self) -> None:
        """Write what is left, so that the next rows start a partition of their own."""
        self._cut(keep_last=False)

    def _cut(self, *, keep_last: bool) -> None:
        if not self._open:
            return
        rows = pa.concat_batches(self._open)
        codes, ends = codes_of(rows), np.cumsum(row_sizes(rows))
        starts_key = np.concatenate(([True], codes[1:] != codes[:-1]))
        key_starts = np.flatnonzero(starts_key)
        start = 0
        while start < len(codes):
            done = ends[start - 1] if start else 0
            stop = max(int(np.searchsorted(ends, done + self.target_bytes, "right")), start + 1)
            if stop >= len(codes) and keep_last:
                break
            stop = min(stop, len(codes))
            if stop < len(codes) and not starts_key[stop]:
                boundary = int(key_starts[np.searchsorted(key_starts, stop, "left") - 1])
                stop = boundary if boundary > start else stop
            self._write(rows.slice(start, stop - start))
            start = stop
        self._open = [rows.slice(start)] if start < len(codes) else []
        self._open_bytes = sum(batch.nbytes for batch in self._open)

    def _write(self, rows: pa.RecordBatch) -> None:
        # Keys that share a code may come from the merge interleaved: order them here.
        rows = sort_by_code([rows])
        codes = codes_of(rows)
        if not self._is_sorted:
            self.hot_codes.append(np.unique(codes))
        if self._last_code == int(codes[0]):
            self.has_straddling_keys, self.is_unique = True, False
        self._last_code = int(codes[-1]) if self._is_sorted else None
        self._note_repeats(rows, codes)
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            self.column_bytes[name] = self.column_bytes.get(name, 0) + column.nbytes
        if self.is_exact:
            rows = rows.drop_columns([CODE])
        message = rows.serialize()
        block = message.to_pybytes().ljust(-(-message.size // ALIGNMENT) * ALIGNMENT, b"\0")
        self.sink.write(block)
        facts = (codes[0], codes[-1], self.position, len(block), len(codes))
        for name, value in zip(INDEX_SCHEMA.names, facts, strict=False):
            self.index[name].append(int(value))
        self.index["checksum"].append(xxhash.xxh3_64_intdigest(block))
        self.position += len(block)
        self.largest = max(self.largest, len(block))

    def _note_repeats(self, rows: pa.RecordBatch, codes: U64Array) -> None:
        if not self.is_unique:
            return
        same = codes[1:] == codes[:-1]
        if same.any():
            # Different keys may share a code; one key that repeats is what breaks uniqueness.
            checks = np.zeros(len(codes)) if self.is_exact else rows.column(CHECK).to_numpy()
            at = np.flatnonzero(same)
            self.is_unique = not bool((checks[at] == checks[at + 1]).any())


def _write_facts(
    file_system: fs.FileSystem,
    root: str,
    writer: _PartitionWriter,
    schema: pa.Schema,
    key: Sequence[str],
    report: BuildReport,
    name: str,
) -> None:
    index = pa.table(writer.index, schema=INDEX_SCHEMA)
    small_files = {INDEX: _ipc_bytes(index)}
    if writer.hot_codes:
        codes = np.concatenate(writer.hot_codes)
        numbers = np.repeat(
            np.arange(len(writer.hot_codes), dtype=np.int32),
            [len(each) for each in writer.hot_codes],
        )
        order = np.argsort(codes)
        small_files[HOT] = _ipc_bytes(pa.table([codes[order], numbers[order]], schema=HOT_SCHEMA))
    fingerprint = hashlib.sha256(small_files[INDEX] + schema.serialize().to_pybytes())
    manifest = Manifest(
        format=FORMAT,
        name=name,
        version=fingerprint.hexdigest()[:16],
        key=list(key),
        row_count=report.rows,
        null_key_rows=report.null_key_rows,
        column_bytes=writer.column_bytes,
        partition_count=index.num_rows,
        hot_partitions=writer.hot_partitions,
        largest_partition_bytes=writer.largest,
        is_unique=writer.is_unique,
        has_straddling_keys=writer.has_straddling_keys,
        data_bytes=writer.position,
        checksums={each: xxhash.xxh3_64_hexdigest(data) for each, data in small_files.items()},
        schema=base64.b64encode(schema.serialize().to_pybytes()).decode(),
    )
    for each, data in {**small_files, MANIFEST: manifest.to_json().encode()}.items():
        with file_system.open_output_stream(f"{root}/{each}") as sink:
            sink.write(data)
    report.partitions, report.hot_partitions = index.num_rows, writer.hot_partitions
    report.bytes = writer.position


def _ipc_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def frequencies_of(
    table: pa.Table, key: Sequence[str], codec: KeyCodec, *, weight: str = "frequency"
) -> Frequencies:
    """Frequencies by code from a table of key columns and a weight column."""
    check_columns(table.schema, [*key, weight], where="frequency estimate")
    keys = codec.encode([plain_array(table.column(column)) for column in key])
    weights = table.column(weight).to_numpy().astype(np.float32)
    if not np.all(np.isfinite(weights)):
        raise InputError(f"frequency estimate column {weight!r} holds NULL or infinite values")
    usable = keys.status == OK
    codes, place = np.unique(keys.codes[usable], return_inverse=True)
    sums = np.zeros(len(codes), np.float32)
    np.add.at(sums, place, weights[usable])
    return Frequencies(codes, sums)
