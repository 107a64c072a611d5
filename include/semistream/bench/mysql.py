"""`bench mysql`: `chybridjoin` on a MariaDB table beside look-ups with a cache as large."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import csv

from semistream.bench.lru import LruLookup, Row, held_bytes
from semistream.bench.mariadb import PrivateMariaDB
from semistream.bench.registry import benchmark
from semistream.bench.result import BenchResult
from semistream.bench.setting import zipf
from semistream.errors import SemistreamError
from semistream.joins.join import Join
from semistream.joins.registry import open_join
from semistream.stores.mysql import MySQLAddress, MySQLStore, Password
from semistream.workloads import Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JOIN, ROW_BY_ROW, IN_LISTS = "chybridjoin", "row by row, LRU", "IN lists, LRU"
# The same with a cache that is charged for the data of its rows alone: none can be that small.
LEAN_ROW_BY_ROW, LEAN_IN_LISTS = "row by row, lean LRU", "IN lists, lean LRU"
TARGETS = {ROW_BY_ROW: 20.0, IN_LISTS: 1.5, LEAN_ROW_BY_ROW: None, LEAN_IN_LISTS: None}
MEMORY_SHARE = 0.1
_ROUNDS = 8  # the first warms everything up and does not count
_TABLE = "products"
_BUFFER_POOL_BYTES = 128 << 20  # as MariaDB is installed
_COLUMNS = {
    "product_id": "BIGINT PRIMARY KEY",
    "surrogate_key": "BIGINT NOT NULL",
    "sku": "VARCHAR(40) NOT NULL",
    "name": "VARCHAR(80) NOT NULL",
    "brand": "VARCHAR(20) NOT NULL",
    "category": "VARCHAR(40) NOT NULL",
    "supplier_id": "BIGINT NOT NULL",
    "sale_price": "DOUBLE NOT NULL",
    "cost_price": "DOUBLE NOT NULL",
    "stock": "INT NOT NULL",
    "listed_on": "DATE NOT NULL",
}


def draw(result: BenchResult, figure: Figure) -> None:
    axes = figure.subplots()
    rows = sorted(result.rows, key=lambda row: row["rows_per_second"])
    rates = [row["rows_per_second"] / 1e3 for row in rows]
    bars = axes.barh([row["way"] for row in rows], rates, color="tab:blue")
    axes.bar_label(bars, [f"{rate:,.0f} k" for rate in rates], padding=4)
    axes.set_xlim(0, 1.15 * max(rates))
    axes.set_xlabel("thousand stream rows per second")


@dataclass(slots=True)
class _Run:
    """What one way of joining did, summed over the rounds that count."""

    rows: int = 0
    seconds: float = 0.0
    hits: int = 0
    reads: int = 0
    peak_bytes: int | None = None

    @property
    def rows_per_second(self) -> float:
        return self.rows / max(self.seconds, 1e-9)


@benchmark("mysql", "chybridjoin on a MariaDB table beside cached look-ups", draw=draw)
def mysql(quick: bool) -> BenchResult:
    """Same table, same stream, same bytes for the cache or the budget, in one run; skew 1.

    All work in turns, a round each, so that whatever else the machine does befalls all of them,
    and all are measured warm. The join takes the whole stream; look-ups take as much of each round
    as shows their rate. Bytes are those of the process, for the cache as for the join; a lean
    cache, which pays for nothing but the data of its rows, is shown as well.
    """
    master_rows, stream_rows = (20_000, 64_000) if quick else (1_000_000, 4_000_000)
    workload = zipf(master_rows, stream_rows, 1.0)
    runs = {way: _Run() for way in (JOIN, *TARGETS)}
    with PrivateMariaDB(buffer_pool_bytes=_BUFFER_POOL_BYTES) as server:
        master_bytes = load(server, workload)
        budget = int(master_bytes * MEMORY_SHARE)
        with _Contest(server, workload, budget, master_bytes / master_rows, runs) as contest:
            contest.run(list(workload.stream_batches(stream_rows // _ROUNDS)))
    return _result(runs, workload, master_bytes, budget)


def load(server: PrivateMariaDB, workload: Workload) -> int:
    """Fill the table with the master in the order of its key; the bytes it has as Arrow columns."""
    master = pa.Table.from_batches(list(workload.master_batches())).sort_by(workload.master_key[0])
    columns = ", ".join(f"`{name}` {kind}" for name, kind in _COLUMNS.items())
    with (
        tempfile.TemporaryDirectory(prefix="semistream-bench-") as folder,
        server.connect(autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        path = Path(folder) / "master.csv"
        csv.write_csv(master, path, csv.WriteOptions(include_header=False))
        cursor.execute(f"CREATE TABLE `{_TABLE}` ({columns})")
        cursor.execute(
            f"LOAD DATA LOCAL INFILE %s INTO TABLE `{_TABLE}` "
            "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'",
            (str(path),),
        )
        cursor.execute(f"ANALYZE TABLE `{_TABLE}`")
    return int(master.nbytes)


class _Contest:
    """All ways of joining one stream with one table, each with its own connections."""

    def __init__(
        self,
        server: PrivateMariaDB,
        workload: Workload,
        budget: int,
        row_bytes: float,
        runs: dict[str, _Run],
    ) -> None:
        self._runs = runs
        self._key = workload.stream_key[0]
        self._connection = server.connect(autocommit=True)
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM `{_TABLE}` LIMIT 1000")  # noqa: S608 (a constant)
            real = held_bytes(cursor.fetchall())
        self._caches = [
            LruLookup(self._connection, _TABLE, workload.master_key[0], int(budget / size))
            for size in (real, row_bytes)
        ]
        self._store = MySQLStore.open(
            MySQLAddress(server.host, server.port, server.user, server.database, _TABLE),
            workload.master_key,
            password=Password(server.password),
            partition_bytes=min(max(budget // 128, 8 << 10), 128 << 10),
        )
        self._join: Join = open_join(
            self._store,
            workload.stream_schema,
            list(zip(workload.stream_key, workload.master_key, strict=True)),
            algorithm=JOIN,
            memory=budget,
        )

    def __enter__(self) -> _Contest:
        return self

    def __exit__(self, *_: object) -> None:
        self._join.close()
        self._store.close()
        self._connection.close()

    def run(self, rounds: Sequence[pa.RecordBatch]) -> None:
        joined = 0
        for number, batch in enumerate(rounds):
            is_warm, is_last = number > 0, number == len(rounds) - 1
            with self._watched_join(self._runs[JOIN] if is_warm else _Run()):
                self._join.offer(batch)
                joined += self._step_while(self._has_backlog)
                if is_last:
                    joined += self._step_while(lambda: not self._join.is_idle)
            lists, rows = batch.num_rows // (8 if is_warm else 1), batch.num_rows // 128
            for cache, one_by_one, in_lists in zip(
                self._caches,
                (ROW_BY_ROW, LEAN_ROW_BY_ROW),
                (IN_LISTS, LEAN_IN_LISTS),
                strict=True,
            ):
                keys = batch.column(self._key).slice(0, lists + rows).to_pylist()
                runs = self._runs if is_warm else {one_by_one: _Run(), in_lists: _Run()}
                _look_up(cache, cache.in_lists, keys[:lists], runs[in_lists])
                _look_up(cache, cache.one_by_one, keys[lists:], runs[one_by_one])
        _complete(joined, sum(int(batch.num_rows) for batch in rounds))

    def _has_backlog(self) -> bool:
        statistics = self._join.statistics
        return statistics.rows_pending > statistics.window_rows

    def _step_while(self, is_more: Callable[[], bool]) -> int:
        rows = 0
        while is_more():
            rows += sum(int(output.rows.num_rows) for output in self._join.step())
        return rows

    @contextmanager
    def _watched_join(self, run: _Run) -> Iterator[None]:
        statistics, started = self._join.statistics, time.perf_counter()
        rows, hits = statistics.rows_finished, statistics.front_stage_hits
        reads = statistics.partition_reads
        yield
        run.seconds += time.perf_counter() - started
        run.rows += statistics.rows_finished - rows
        run.hits += statistics.front_stage_hits - hits
        run.reads += statistics.partition_reads - reads
        run.peak_bytes = statistics.peak_bytes


def _look_up(
    cache: LruLookup, ask: Callable[[list[int]], list[Row]], keys: list[int], run: _Run
) -> None:
    hits, statements, started = cache.hits, cache.statements, time.perf_counter()
    found = len(ask(keys))
    run.seconds += time.perf_counter() - started
    run.rows += _complete(found, len(keys))
    run.hits += cache.hits - hits
    run.reads += cache.statements - statements


def _complete(found: int, wanted: int) -> int:
    if found != wanted:
        raise SemistreamError(f"{found} rows came for {wanted} stream rows: this is a defect")
    return wanted


def _result(
    runs: dict[str, _Run], workload: Workload, master_bytes: int, budget: int
) -> BenchResult:
    result = BenchResult(
        "mysql",
        f"{workload.stream_rows:,} stream rows, MariaDB table of {workload.master_rows:,} rows of "
        f"{master_bytes / workload.master_rows:.0f} bytes, budget {MEMORY_SHARE:.0%}, skew 1",
        ["way", "stream_rows", "rows_per_second", "hit_ratio", "reads", "peak_bytes"],
    )
    for way, run in runs.items():
        result.rows.append(
            {
                "way": way,
                "stream_rows": run.rows,
                "rows_per_second": round(run.rows_per_second),
                "hit_ratio": round(run.hits / max(run.rows, 1), 4),
                "reads": run.reads,
                "peak_bytes": run.peak_bytes,
            }
        )
    for way, least in TARGETS.items():
        ratio = runs[JOIN].rows_per_second / runs[way].rows_per_second
        text = f"{JOIN} : {way}, rows per second"
        if least is None:
            result.note(text, ratio)
        else:
            result.at_least(text, ratio, least)
    result.at_most("peak : budget, bytes", (runs[JOIN].peak_bytes or 0) / budget, 1.0)
    return result
