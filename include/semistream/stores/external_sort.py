"""Sort more rows than fit in memory by their key codes: sorted runs on disk, then one merge."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from semistream.kernels.arrays import U64Array
from semistream.row_sizes import row_sizes

CODE, CHECK = "__semistream_code", "__semistream_check"


def codes_of(batch: pa.RecordBatch) -> U64Array:
    """The code column of rows on their way through the sort."""
    codes: U64Array = batch.column(CODE).to_numpy()
    return codes


def sort_by_code(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of all rows, ascending by code, then by check; equal keys keep their order."""
    together = pa.concat_batches(batches)
    codes = codes_of(together)
    if CHECK in together.schema.names:
        order = np.lexsort((together.column(CHECK).to_numpy(), codes))
    elif np.all(codes[1:] >= codes[:-1]):
        return together
    else:
        order = np.argsort(codes, kind="stable")
    return together.take(pa.array(order))


def give_memory_back() -> None:
    """Return what Arrow has freed to the system: its allocator may keep a run's worth of pages,
    which would count as the process's growth beside whatever comes next."""
    pa.default_memory_pool().release_unused()


class ExternalSort:
    """Takes batches that carry a code column, gives them back ascending by code.

    Holds about `memory_bytes`: a run is a third of it (a sort needs its input, its output and the
    permutation), and the merge keeps one chunk of every run in as much.
    """

    def __init__(self, memory_bytes: int, scratch: Path | None = None) -> None:
        # At most 1 GB, so that 32-bit string offsets never overflow in a run.
        self._run_bytes = min(max(memory_bytes // 3, 1 << 20), 1 << 30)
        self._scratch = tempfile.TemporaryDirectory(prefix="semistream-sort-", dir=scratch)
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._runs: list[Path] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the rows; a big batch is cut, because a run must fit the memory."""
        pieces = -(-batch.nbytes // self._run_bytes) or 1
        step = max(-(-batch.num_rows // pieces), 1)
        for start in range(0, batch.num_rows, step):
            piece = batch.slice(start, step)
            self._pending.append(piece)
            self._pending_bytes += piece.nbytes
            if self._pending_bytes >= self._run_bytes:
                self._spill()

    def sorted_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, ascending by code; ends the sort and removes its scratch files."""
        with self._scratch:
            if not self._runs:
                if self._pending:
                    yield sort_by_code(self._pending)
                return
            if self._pending:
                self._spill()
            yield from self._merge()

    def close(self) -> None:
        self._scratch.cleanup()

    def _spill(self) -> None:
        run = sort_by_code(self._pending)
        self._pending, self._pending_bytes = [], 0
        path = Path(self._scratch.name) / f"run-{len(self._runs):05d}.arrow"
        # Small chunks keep the merge within memory even with hundreds of runs.
        ends = np.cumsum(row_sizes(run))
        chunk_bytes = max(self._run_bytes // 64, 16 << 10)
        cuts = np.searchsorted(ends, np.arange(chunk_bytes, ends[-1], chunk_bytes)) + 1
        edges = np.unique(np.concatenate(([0], cuts, [run.num_rows])))
        with pa.OSFile(str(path), "wb") as sink, ipc.new_file(sink, run.schema) as writer:
            for start, stop in pairwise(edges):
                writer.write_batch(run.slice(start, stop - start))
        self._runs.append(path)
        del run
        give_memory_back()

    def _merge(self) -> Iterator[pa.RecordBatch]:
        """Each round releases every row up to the smallest last code among the loaded chunks:
        no run can still hold a smaller one, and equal ones may follow in a later round."""
        runs = [_Run.open(path) for path in self._runs]
        waiting: list[pa.RecordBatch] = []
        waiting_bytes = 0
        try:
            while runs:
                cutoff = min(run.last_code for run in runs)
                for run in runs:
                    piece = run.release(cutoff)
                    if piece is not None:
                        waiting.append(piece)
                        waiting_bytes += piece.nbytes
                for run in runs:
                    if run.is_exhausted:
                        run.close()
                runs = [run for run in runs if not run.is_exhausted]
                if waiting_bytes >= self._run_bytes // 4 or (waiting and not runs):
                    yield sort_by_code(waiting)
                    waiting, waiting_bytes = [], 0
        finally:
            for run in runs:
                run.close()


@dataclass(slots=True)
class _Run:
    file: pa.NativeFile
    reader: ipc.RecordBatchFileReader
    chunk: pa.RecordBatch
    codes: U64Array
    position: int = 0
    number: int = 0
    is_exhausted: bool = False

    @classmethod
    def open(cls, path: Path) -> _Run:
        # Plain reads, not a memory map: mapped pages would count as the process's growth.
        file = pa.OSFile(str(path), "rb")
        reader = ipc.open_file(file)
        chunk = reader.get_batch(0)
        return cls(file, reader, chunk, codes_of(chunk))

    @property
    def last_code(self) -> int:
        return int(self.codes[-1])

    def release(self, cutoff: int) -> pa.RecordBatch | None:
        """The loaded rows with codes up to `cutoff`; loads the next chunk when none is left."""
        stop = int(np.searchsorted(self.codes, np.uint64(cutoff), side="right"))
        if stop == self.position:
            return None
        piece = self.chunk.slice(self.position, stop - self.position)
        self.position = stop
        if stop == len(self.codes):
            self._advance()
        return piece

    def _advance(self) -> None:
        self.number += 1
        if self.number == self.reader.num_record_batches:
            self.is_exhausted = True
            return
        self.chunk = self.reader.get_batch(self.number)
        self.codes, self.position = codes_of(self.chunk), 0

    def close(self) -> None:
        self.file.close()
