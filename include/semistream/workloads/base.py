"""What every workload offers, and the template the generators extend.

A generator makes chunks of whatever size suits it; the template cuts them into the batches that
were asked for. So what is generated depends on the parameters and the seed, never on `batch_rows`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Protocol

import pyarrow as pa

from semistream.workloads.checks import check_number, check_rows, check_seed

# Draws are made in blocks of this many rows, each with its own generator: large enough that
# numpy's cost per call vanishes, small enough that a block's arrays stay in the cache.
BLOCK_ROWS = 65_536

# The papers sweep the exponent from 0 to 1; a little beyond 1 shows short tails.
LARGEST_SKEW = 1.2


class Workload(Protocol):
    """A master table and a stream to join with it, both generated in batches.

    Same parameters and seed give the same rows in the same order, for every `batch_rows`.
    Memory is bounded by the batch, not by the number of rows. Each call starts from the beginning.
    """

    @property
    def name(self) -> str: ...
    @property
    def stream_key(self) -> tuple[str, ...]: ...
    @property
    def master_key(self) -> tuple[str, ...]: ...
    @property
    def master_rows(self) -> int: ...
    @property
    def stream_rows(self) -> int: ...
    @property
    def master_schema(self) -> pa.Schema: ...
    @property
    def stream_schema(self) -> pa.Schema: ...
    @property
    def parameters(self) -> Mapping[str, object]: ...
    def master_batches(self, batch_rows: int = BLOCK_ROWS) -> Iterator[pa.RecordBatch]: ...
    def stream_batches(self, batch_rows: int = BLOCK_ROWS) -> Iterator[pa.RecordBatch]: ...


class GeneratedWorkload(ABC):
    """Validates once, then cuts the chunks of a generator into batches.

    A generator sets the class attributes and writes `_master_chunks` and `_stream_chunks`; each
    yields record batches of any size, in order, with `master_rows` and `stream_rows` rows in all.

    Parameters: `master_rows` and `stream_rows` may be 0; `skew` is the Zipf exponent, 0 (uniform)
    to 1.2; `seed` is any integer from 0 to 2^63 - 1.
    """

    name: str
    stream_key: tuple[str, ...]
    master_key: tuple[str, ...]
    master_schema: pa.Schema
    stream_schema: pa.Schema

    def __init__(
        self, *, master_rows: int, stream_rows: int, skew: float = 1.0, seed: int = 0
    ) -> None:
        self.master_rows = check_rows("master_rows", master_rows)
        self.stream_rows = check_rows("stream_rows", stream_rows)
        self.skew = check_number("skew", skew, 0.0, LARGEST_SKEW)
        self.seed = check_seed(seed)

    @property
    def parameters(self) -> Mapping[str, object]:
        """Everything the rows depend on."""
        return {
            "master_rows": self.master_rows,
            "stream_rows": self.stream_rows,
            "skew": self.skew,
            "seed": self.seed,
        }

    def master_batches(self, batch_rows: int = BLOCK_ROWS) -> Iterator[pa.RecordBatch]:
        """The master, `batch_rows` rows at a time (the last batch may be shorter)."""
        return recut(self._master_chunks(), repeat(check_rows("batch_rows", batch_rows, least=1)))

    def stream_batches(self, batch_rows: int = BLOCK_ROWS) -> Iterator[pa.RecordBatch]:
        """The stream in arrival order, `batch_rows` tuples at a time."""
        return recut(self._stream_chunks(), repeat(check_rows("batch_rows", batch_rows, least=1)))

    @abstractmethod
    def _master_chunks(self) -> Iterator[pa.RecordBatch]: ...

    @abstractmethod
    def _stream_chunks(self) -> Iterator[pa.RecordBatch]: ...


def recut(
    chunks: Iterator[pa.RecordBatch], sizes: Iterable[int], empty: pa.RecordBatch | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of `chunks`, in order, in batches of the given sizes, until either side ends.

    Cuts without copying where a batch lies inside one chunk. A size of 0 yields `empty`.
    """
    chunk, used = next(chunks, None), 0
    for size in sizes:
        pieces, wanted = [], size
        while wanted and chunk is not None:
            piece = chunk.slice(used, wanted)
            if piece.num_rows:
                pieces.append(piece)
            wanted -= piece.num_rows
            used += piece.num_rows
            if used == chunk.num_rows:
                chunk, used = next(chunks, None), 0
        if pieces:
            yield pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
        elif size == 0 and empty is not None:
            yield empty
        elif chunk is None:
            return


def blocks(rows: int) -> Iterator[tuple[int, int, int]]:
    """Number, first row and end row of each block of a table of `rows` rows.

    >>> list(blocks(70_000))
    [(0, 0, 65536), (1, 65536, 70000)]
    """
    for block, start in enumerate(range(0, rows, BLOCK_ROWS)):
        yield block, start, min(start + BLOCK_ROWS, rows)
