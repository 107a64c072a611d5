"""`tpch`: customers as master, orders as stream, from a real TPC-H generator (paper 000, 5.1)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from semistream.errors import InputError, TransientError
from semistream.workloads.base import BLOCK_ROWS, GeneratedWorkload

TOOL = "tpchgen-cli"
_CUSTOMERS_PER_SCALE = 150_000
_ORDERS_PER_CUSTOMER = 10
# Smaller scales leave so few customers that their orders lose the benchmark's shape.
_SMALLEST_SCALE_MILLIONTHS = 1_000
# A part is one run of the tool and one file on disk: 100 to 200 MB.
_PART_ROWS = {"customer": 1_000_000, "orders": 3_000_000}
# Order keys use 8 of every 32 numbers (TPC-H, 4.2.3).
_KEYS_PER_ORDER = 4


class TpchWorkload(GeneratedWorkload):
    """TPC-H orders joined with their customers: `o_custkey` = `c_custkey`.

    The scale factor is the smallest with at least `master_rows` customers (150,000 × scale, at
    least 0.001). The master is customers 1..master_rows, about 190 bytes each; the stream is the
    first `stream_rows` of their orders, about 130 bytes each, so every order has its customer (a
    third of the customers has no orders). There are 10 orders per customer; a longer stream
    replays them, with order keys that go on counting. With an empty master every order is
    unmatched.

    `skew` and `seed` are accepted and have no effect: the benchmark fixes both.

    Cost: each run of the tool starts in about 1.5 s, then makes about 0.8 M orders per second.
    Memory: one block; disk: one part of at most 200 MB, in the system's temporary folder.
    """

    name = "tpch"
    stream_key = ("o_custkey",)
    master_key = ("c_custkey",)
    master_schema = pa.schema(
        [
            ("c_custkey", pa.int64()),
            ("c_name", pa.string()),
            ("c_address", pa.string()),
            ("c_nationkey", pa.int64()),
            ("c_phone", pa.string()),
            ("c_acctbal", pa.decimal128(15, 2)),
            ("c_mktsegment", pa.string()),
            ("c_comment", pa.string()),
        ]
    )
    stream_schema = pa.schema(
        [
            ("o_orderkey", pa.int64()),
            ("o_custkey", pa.int64()),
            ("o_orderstatus", pa.string()),
            ("o_totalprice", pa.decimal128(15, 2)),
            ("o_orderdate", pa.date32()),
            ("o_orderpriority", pa.string()),
            ("o_clerk", pa.string()),
            ("o_shippriority", pa.int32()),
            ("o_comment", pa.string()),
        ]
    )

    def __init__(
        self, *, master_rows: int, stream_rows: int, skew: float = 1.0, seed: int = 0
    ) -> None:
        super().__init__(master_rows=master_rows, stream_rows=stream_rows, skew=skew, seed=seed)
        # Millionths, one more than needed: the tool multiplies in floating point, rounds down.
        needed = self.master_rows * 1_000_000 // _CUSTOMERS_PER_SCALE + 1
        self._scale_millionths = max(needed, _SMALLEST_SCALE_MILLIONTHS)
        find_tool()

    @property
    def scale(self) -> str:
        """The scale factor, as the tool is given it."""
        return f"{self._scale_millionths / 1e6:.6f}"

    @property
    def parameters(self) -> Mapping[str, object]:
        own = {"scale_factor": self.scale}
        return {"master_rows": self.master_rows, "stream_rows": self.stream_rows, **own}

    def _master_chunks(self) -> Iterator[pa.RecordBatch]:
        remaining = self.master_rows
        if not remaining:
            return
        for _, batch in self._passes("customer", self.master_schema):
            wanted = batch.slice(0, remaining)
            remaining -= wanted.num_rows
            yield wanted
            if not remaining:
                return

    def _stream_chunks(self) -> Iterator[pa.RecordBatch]:
        remaining = self.stream_rows
        if not remaining:
            return
        key_span = _KEYS_PER_ORDER * self._expected_rows("orders")
        for number, batch in self._passes("orders", self.stream_schema):
            if number and remaining == self.stream_rows:
                raise InputError(
                    f"no TPC-H order belongs to the first {self.master_rows} customers: "
                    "ask for more master rows"
                )
            wanted = self._of_our_customers(batch).slice(0, remaining)
            remaining -= wanted.num_rows
            if wanted.num_rows:
                yield _advance_order_keys(wanted, number * key_span)
            if not remaining:
                return

    def _of_our_customers(self, orders: pa.RecordBatch) -> pa.RecordBatch:
        if not self.master_rows:
            return orders
        return orders.filter(pc.less_equal(orders["o_custkey"], pa.scalar(self.master_rows)))

    def _expected_rows(self, table: str) -> int:
        customers = -(-self._scale_millionths * _CUSTOMERS_PER_SCALE // 1_000_000)
        return customers if table == "customer" else customers * _ORDERS_PER_CUSTOMER

    def _passes(self, table: str, schema: pa.Schema) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The table's batches over and over, with the number of the pass.

        At most one part is on disk. A table of a single part is generated once for all passes.
        """
        parts = -(-self._expected_rows(table) // _PART_ROWS[table])
        with tempfile.TemporaryDirectory(prefix="semistream-tpch-") as folder:
            file = Path(folder) / "none"
            for number in count():
                for part in range(1, parts + 1):
                    if parts > 1 or not number:
                        file.unlink(missing_ok=True)
                        file = run_tool(table, self.scale, part, parts, Path(folder))
                    with pq.ParquetFile(file) as parquet:
                        for batch in parquet.iter_batches(BLOCK_ROWS, columns=schema.names):
                            yield number, batch.cast(schema)


def find_tool() -> str:
    """Where the generator is: beside this Python, else on the PATH."""
    beside = shutil.which(TOOL, path=str(Path(sys.executable).parent))
    found = beside or shutil.which(TOOL)
    if not found:
        raise InputError(
            f"the tpch workload needs {TOOL}, which is neither beside {sys.executable} nor on the "
            f"PATH: install it with `pip install {TOOL}`"
        )
    return found


def run_tool(table: str, scale: str, part: int, parts: int, folder: Path) -> Path:
    """Generate one part of a table into `folder`; the file it was written to."""
    command = [find_tool(), "parquet", "--scale-factor", scale, "--tables", table]
    command += ["--parts", str(parts), "--part", str(part), "--output-dir", str(folder), "--quiet"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    files = sorted(folder.rglob("*.parquet"))
    if done.returncode or len(files) != 1:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise TransientError(
            f"{TOOL} made no {table} table (exit {done.returncode}), saying: {said}"
        )
    return files[0]


def _advance_order_keys(batch: pa.RecordBatch, offset: int) -> pa.RecordBatch:
    if not offset:
        return batch
    position = batch.schema.get_field_index("o_orderkey")
    return batch.set_column(position, "o_orderkey", pc.add(batch["o_orderkey"], pa.scalar(offset)))
