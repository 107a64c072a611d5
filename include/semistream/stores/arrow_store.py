"""`ArrowStore`: the embedded master store, sorted partitions in files with a small index."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash
from pyarrow import fs, ipc

from semistream.errors import InputError, StoreCorrupt, StoreUnavailable
from semistream.kernels.arrays import I64Array, U64Array
from semistream.kernels.matching import last_not_above
from semistream.keys import KeyCodec, Keys
from semistream.stores.arrow_format import DATA, HOT, INDEX, MANIFEST, Manifest
from semistream.stores.external_sort import CHECK, CODE
from semistream.stores.filesystem import resolve
from semistream.stores.protocol import MasterRows, check_columns


@dataclass(frozen=True, slots=True)
class _Index:
    first_code: U64Array
    last_code: U64Array
    offset: I64Array
    length: np.ndarray
    rows: np.ndarray
    checksum: U64Array
    hot_code: U64Array
    hot_partition: np.ndarray
    hot_partitions: int

    @property
    def nbytes(self) -> int:
        arrays = (self.first_code, self.last_code, self.offset, self.length, self.rows)
        more = (self.checksum, self.hot_code, self.hot_partition)
        return sum(array.nbytes for array in (*arrays, *more))


class ArrowStore:
    """A master in files, built by `build_arrow_store`; opening reads the index only.

    Reads are plain positioned reads (no memory map), so that the process holds what it asked for
    and nothing else. Every partition's checksum is verified on every read.
    """

    def __init__(
        self,
        root: str,
        file_system: fs.FileSystem,
        manifest: Manifest,
        index: _Index,
        data: pa.NativeFile,
        columns: Sequence[str] | None = None,
        codec: KeyCodec | None = None,
    ) -> None:
        self._root, self._file_system = root, file_system
        self._manifest, self._index, self._data = manifest, index, data
        self.schema = _schema_of(manifest, root)
        self.columns = tuple(self.schema.names if columns is None else columns)
        self.key = tuple(manifest.key)
        self._codec = codec or KeyCodec([self.schema.field(column).type for column in self.key])
        self.is_exact = self._codec.is_exact
        fingerprints = [] if self.is_exact else [CODE, CHECK]
        self._stored_schema = pa.schema(
            [*self.schema, *(pa.field(name, pa.uint64()) for name in fingerprints)]
        )
        self.name, self.version = manifest.name, manifest.version
        self.row_count, self.is_unique = manifest.row_count, manifest.is_unique
        self.has_straddling_keys = manifest.has_straddling_keys
        self.partition_count = manifest.partition_count
        self.hot_partitions = manifest.hot_partitions
        self.partition_bytes = manifest.largest_partition_bytes
        self.index_bytes = index.nbytes
        held = sum(manifest.column_bytes.get(column, 0) for column in self.columns)
        self.row_bytes = held / max(self.row_count, 1)

    @classmethod
    def open(
        cls,
        path: str | Path,
        columns: Sequence[str] | None = None,
        *,
        codec: KeyCodec | None = None,
    ) -> ArrowStore:
        """Open the store at `path`, to read `columns` (None: all) of its rows."""
        file_system, root = resolve(path)
        text = _small_file(file_system, root, MANIFEST)
        manifest = Manifest.from_json(text, f"{root}/{MANIFEST}")
        index = _read_index(file_system, root, manifest)
        data = _open_data(file_system, root, manifest)
        store = cls(root, file_system, manifest, index, data, None, codec)
        return store if columns is None else store.select(columns)

    def select(self, columns: Sequence[str] | None) -> ArrowStore:
        if columns is not None:
            check_columns(self.schema, columns, where=f"master {self.name!r}")
        return ArrowStore(
            self._root,
            self._file_system,
            self._manifest,
            self._index,
            self._data,
            columns,
            self._codec,
        )

    @property
    def codec(self) -> KeyCodec:
        return self._codec

    def require(self, types: Sequence[pa.DataType], pairs: Sequence[tuple[str, str]]) -> None:
        self._codec.require(types, pairs)

    def encode(self, columns: Sequence[pa.Array]) -> Keys:
        # Codes are all this store needs to find a key again.
        return replace(self._codec.encode(columns), columns=())

    def locate(self, keys: Keys) -> tuple[I64Array, I64Array]:
        index, hot = self._index, self._index.hot_partitions
        last = np.empty(len(keys), np.int64)
        last_not_above(index.first_code[hot:], keys.codes, last)
        if self.has_straddling_keys or not len(index.last_code[hot:]):
            first = np.searchsorted(index.last_code[hot:], keys.codes, side="left")
            absent = first > last
        else:
            first = last.copy()
            absent = (last < 0) | (keys.codes > index.last_code[hot:][last])
        first += hot
        last += hot
        first[absent] = -1
        last[absent] = -1
        if len(index.hot_code):
            at = np.minimum(np.searchsorted(index.hot_code, keys.codes), len(index.hot_code) - 1)
            is_hot = index.hot_code[at] == keys.codes
            first[is_hot] = last[is_hot] = index.hot_partition[at[is_hot]]
        return first, last

    def read(self, partitions: Sequence[int] | np.ndarray) -> MasterRows:
        numbers = np.asarray(partitions, np.int64)
        batches = [batch for run in _adjacent(numbers) for batch in self._read_run(run)]
        counts = self._index.rows[numbers]
        bounds = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        if not batches:
            batches = [pa.RecordBatch.from_pylist([], schema=self._stored_schema)]
        whole = pa.concat_batches(batches) if len(batches) > 1 else batches[0]
        return self._master_rows(numbers, bounds, whole)

    def fetch(self, keys: Keys, limit_bytes: int) -> Iterator[MasterRows]:
        first, last = self.locate(keys)
        wanted = np.unique(first[first >= 0])
        if self.has_straddling_keys:
            wide = np.flatnonzero(last > first)
            lengths = last[wide] - first[wide] + 1
            starts = np.repeat(first[wide] - np.cumsum(lengths) + lengths, lengths)
            wanted = np.union1d(wanted, starts + np.arange(lengths.sum()))
        yield from self._read_pieces(wanted, limit_bytes)

    def scan(self, start: int = 0) -> Iterator[MasterRows]:
        for step in range(self.partition_count):
            yield self.read([(start + step) % self.partition_count])

    def close(self) -> None:
        self._data.close()

    def _read_pieces(self, partitions: I64Array, limit_bytes: int) -> Iterator[MasterRows]:
        ends = np.cumsum(self._index.length[partitions], dtype=np.int64)
        start = 0
        while start < len(partitions):
            done = ends[start - 1] if start else 0
            stop = max(int(np.searchsorted(ends, done + limit_bytes, "right")), start + 1)
            yield self.read(partitions[start:stop])
            start = stop

    def _read_run(self, run: I64Array) -> Iterator[pa.RecordBatch]:
        """One positioned read for adjacent partitions, each verified and decoded in place."""
        index = self._index
        begin = int(index.offset[run[0]])
        size = int(index.offset[run[-1]]) + int(index.length[run[-1]]) - begin
        try:
            block = pa.py_buffer(self._data.read_at(size, begin))
        except OSError as error:
            raise StoreUnavailable(f"cannot read {self._root}/{DATA}: {error}; try again") from None
        for number in run:
            message = block.slice(int(index.offset[number]) - begin, int(index.length[number]))
            if xxhash.xxh3_64_intdigest(message) != int(index.checksum[number]):
                raise StoreCorrupt(
                    f"{self._root}/{DATA}: partition {number} (bytes {index.offset[number]} to "
                    f"{index.offset[number] + index.length[number]}) is not what was written "
                    "(checksum differs): build the store anew"
                )
            yield ipc.read_record_batch(message, self._stored_schema)

    def _master_rows(
        self, partitions: I64Array, bounds: I64Array, batch: pa.RecordBatch
    ) -> MasterRows:
        rows = batch.select(list(self.columns))
        if self.is_exact:
            codes = self._codec.encode([batch.column(column) for column in self.key]).codes
            return MasterRows(partitions, bounds, codes, None, rows)
        codes, checks = batch.column(CODE).to_numpy(), batch.column(CHECK).to_numpy()
        return MasterRows(partitions, bounds, codes, checks, rows)


def is_arrow_store(path: str | Path) -> bool:
    """Whether a store was (completely) built at `path`."""
    file_system, root = resolve(path)
    return bool(file_system.get_file_info(f"{root}/{MANIFEST}").type == fs.FileType.File)


def _adjacent(numbers: I64Array) -> list[I64Array]:
    return np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1) if len(numbers) else []


def _small_file(file_system: fs.FileSystem, root: str, name: str) -> bytes:
    if file_system.get_file_info(root).type != fs.FileType.Directory:
        raise InputError(f"no master store at {root}: the folder does not exist")
    try:
        with file_system.open_input_stream(f"{root}/{name}") as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        raise StoreCorrupt(
            f"{root}/{name} is missing: the store is incomplete, build it anew"
        ) from None


def _checked_table(file_system: fs.FileSystem, root: str, name: str, wanted: str) -> pa.Table:
    data = _small_file(file_system, root, name)
    if xxhash.xxh3_64_hexdigest(data) != wanted:
        raise StoreCorrupt(f"{root}/{name} is not what was written: build the store anew")
    return ipc.open_stream(data).read_all()


def _read_index(file_system: fs.FileSystem, root: str, manifest: Manifest) -> _Index:
    table = _checked_table(file_system, root, INDEX, manifest.checksums.get(INDEX, ""))
    if table.num_rows != manifest.partition_count:
        raise StoreCorrupt(
            f"{root}/{INDEX} lists {table.num_rows} partitions, the manifest "
            f"{manifest.partition_count}: build the store anew"
        )
    columns = {name: _column(table, name) for name in table.column_names}
    hot_code, hot_partition = np.empty(0, np.uint64), np.empty(0, np.int32)
    if manifest.hot_partitions:
        hot = _checked_table(file_system, root, HOT, manifest.checksums.get(HOT, ""))
        hot_code, hot_partition = _column(hot, "code"), _column(hot, "partition")
    return _Index(
        **columns,
        hot_code=hot_code,
        hot_partition=hot_partition,
        hot_partitions=manifest.hot_partitions,
    )


def _column(table: pa.Table, name: str) -> np.ndarray:
    values: np.ndarray = table.column(name).to_numpy().copy()
    return values


def _open_data(file_system: fs.FileSystem, root: str, manifest: Manifest) -> pa.NativeFile:
    path = f"{root}/{DATA}"
    found = file_system.get_file_info(path)
    if found.type != fs.FileType.File:
        raise StoreCorrupt(f"{path} is missing: the store is incomplete, build it anew")
    if found.size != manifest.data_bytes:
        raise StoreCorrupt(
            f"{path} has {found.size} bytes, the manifest says {manifest.data_bytes}: "
            "build the store anew"
        )
    return file_system.open_input_file(path)


def _schema_of(manifest: Manifest, root: str) -> pa.Schema:
    try:
        return ipc.read_schema(pa.py_buffer(base64.b64decode(manifest.schema)))
    except (ValueError, pa.ArrowInvalid, OSError) as error:
        raise StoreCorrupt(f"{root}/{MANIFEST}: schema unreadable ({error})") from None
