"""One budget in a process of its own: `python -m semistream.bench.memory_probe BYTES KIND …`.

Prints one JSON object: by how many bytes the process grew, at its highest, while it built a
master of a multiple of the budget and joined a stream with it.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

from semistream.bench.setting import SEED, zipf
from semistream.joins.registry import open_join
from semistream.stores.arrow_build import build_arrow_store
from semistream.stores.arrow_store import ArrowStore

KINDS = {"plain": 118, "wide": 2_100}  # kinds of master rows, and their bytes about
_BATCH_BYTES = 1 << 20
_LONGEST = 4_096


class Tables:
    """A master and a stream of a kind; wide ones have text keys and texts of uneven length."""

    def __init__(self, kind: str, master_rows: int, stream_rows: int) -> None:
        self._workload = zipf(master_rows, stream_rows, 1.0)
        self._is_wide = kind == "wide"
        self._batch_rows = _BATCH_BYTES // KINDS[kind]
        master, stream = self._workload.master_schema, self._workload.stream_schema
        if self._is_wide:
            master = pa.schema([("product_id", pa.string()), ("text", pa.string())])
            stream = stream.set(1, pa.field("product_id", pa.string()))
        self.master_schema, self.stream_schema = master, stream

    def master(self) -> Iterator[pa.RecordBatch]:
        if not self._is_wide:
            yield from self._workload.master_batches(self._batch_rows)
            return
        generator = np.random.default_rng(SEED)
        source = bytes(generator.integers(97, 123, 1 << 16, dtype=np.uint8)).decode()
        rows = self._workload.master_rows
        for start in range(0, rows, self._batch_rows):
            keys = np.arange(start + 1, min(start + self._batch_rows, rows) + 1)
            begins = generator.integers(0, len(source) - _LONGEST, len(keys))
            sizes = generator.integers(0, _LONGEST + 1, len(keys))
            texts = [source[at : at + size] for at, size in zip(begins, sizes, strict=True)]
            yield pa.record_batch([_text_keys(keys), pa.array(texts)], schema=self.master_schema)

    def stream(self) -> Iterator[pa.RecordBatch]:
        for batch in self._workload.stream_batches(16_384):
            if self._is_wide:
                keys = _text_keys(batch.column(1).to_numpy())
                columns = [batch.column(0), keys, batch.column(2)]
                yield pa.record_batch(columns, schema=self.stream_schema)
            else:
                yield batch


def _text_keys(keys: np.ndarray) -> pa.Array:
    return pa.array([f"product-{key:012d}" for key in keys])


def build_and_join(tables: Tables, memory: int, algorithm: str, partition_bytes: int) -> int:
    """Output rows; build and join each have `memory` bytes."""
    with tempfile.TemporaryDirectory(prefix="semistream-bench-") as folder:
        path = Path(folder) / "master"
        build_arrow_store(
            path,
            tables.master(),
            tables.master_schema,
            ["product_id"],
            memory_bytes=memory,
            partition_bytes=partition_bytes,
        )
        with open_join(
            ArrowStore.open(path),
            tables.stream_schema,
            [("product_id", "product_id")],
            algorithm=algorithm,
            memory=memory,
        ) as join:
            return sum(output.rows.num_rows for output in join.run(tables.stream()))


def _reset_peak() -> bool:
    """Forget the process's highest resident size so far, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _peak_bytes(was_reset: bool) -> int:
    if was_reset:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def probe(memory: int, kind: str, master_rows: int, stream_rows: int, algorithm: str) -> None:
    build_and_join(Tables(kind, 2_000, 20_000), 2 << 20, algorithm, 16 << 10)  # compiles kernels
    before = psutil.Process().memory_info().rss
    was_reset = _reset_peak()
    tables = Tables(kind, master_rows, stream_rows)
    rows = build_and_join(tables, memory, algorithm, 128 << 10)
    growth = _peak_bytes(was_reset) - before
    print(json.dumps({"growth_bytes": growth, "before_bytes": before, "output_rows": rows}))


if __name__ == "__main__":
    budget, kind_name, masters, streams, name = sys.argv[1:]
    probe(int(budget), kind_name, int(masters), int(streams), name)
