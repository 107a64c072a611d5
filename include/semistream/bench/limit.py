"""`bench limit`: every algorithm beside the whole master in memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from semistream.bench.registry import benchmark
from semistream.bench.result import BenchResult
from semistream.bench.setting import Setting, measure, warm_up, zipf_setting
from semistream.joins.registry import algorithms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IN_MEMORY = "in memory"
TARGET = 0.25
MEMORY_SHARE = 0.1
# Keyed look-ups are slow by design: a prefix of the stream shows their rate as well.
_PREFIX_ALGORITHMS, _PREFIX = frozenset({"inlj", "cinlj"}), 16


def draw(result: BenchResult, figure: Figure) -> None:
    axes = figure.subplots()
    rows = sorted(result.rows, key=lambda row: row["rows_per_second"])
    names = [row["algorithm"] for row in rows]
    bars = axes.barh(names, [row["rows_per_second"] / 1e6 for row in rows], color="tab:blue")
    axes.bar_label(bars, [f"{row['ratio']:.3f}" for row in rows], padding=4)
    fastest = max(row["rows_per_second"] for row in rows) / 1e6
    axes.axvline(TARGET * fastest, color="tab:red", linestyle="--", label=f"target {TARGET:g}")
    axes.set_xlim(0, 1.12 * fastest)
    axes.set_xlabel("million stream rows per second (label: ratio to in memory)")
    axes.legend(loc="lower right")


@benchmark("limit", "every algorithm beside the whole master in memory", draw=draw)
def limit(quick: bool) -> BenchResult:
    """Same batches for all, in one run; the budget is a tenth of the master; skew 1."""
    master_rows, stream_rows = (40_000, 30_000) if quick else (2_000_000, 4_000_000)
    warm_up()
    with zipf_setting(
        master_rows, stream_rows, partition_bytes=(8 if quick else 128) << 10
    ) as setting:
        batches = list(setting.workload.stream_batches())
        budget = int(setting.master_bytes * MEMORY_SHARE)
        in_memory = _InMemory(setting, batches)
        result = BenchResult(
            "limit",
            f"{stream_rows:,} stream rows, {master_rows:,} master rows of "
            f"{setting.master_bytes / master_rows:.0f} bytes, budget {MEMORY_SHARE:.0%}, skew 1",
            [
                *("algorithm", "stream_rows", "rows_per_second", "ratio", "warm_rows_per_second"),
                *("partition_reads", "hit_ratio", "keys_fetched", "peak_bytes", "budget_bytes"),
            ],
        )
        for name in algorithms():
            some = batches
            if name in _PREFIX_ALGORITHMS:
                some = batches[: max(len(batches) // _PREFIX, 1)]
            in_memory.run()  # between the others: what else the machine does befalls both
            result.rows.append(_row(setting, name, budget, some))
        in_memory.run()
        result.rows.insert(
            0,
            {
                "algorithm": IN_MEMORY,
                "stream_rows": stream_rows,
                "rows_per_second": round(in_memory.rows_per_second),
                "peak_bytes": setting.master_bytes,
            },
        )
    for row in result.rows:
        row["ratio"] = round(row["rows_per_second"] / in_memory.rows_per_second, 4)
    ratios = {row["algorithm"]: row["ratio"] for row in result.rows}
    result.at_least("chybridjoin : in memory, rows per second", ratios["chybridjoin"], TARGET)
    result.at_most(
        "largest peak : budget, bytes",
        max(row["peak_bytes"] / budget for row in result.rows if row["algorithm"] != IN_MEMORY),
        1.0,
    )
    return result


def _row(
    setting: Setting,
    name: str,
    budget: int,
    batches: Sequence[pa.RecordBatch],
) -> dict[str, Any]:
    measured = measure(setting, name, budget, batches)
    whole = measured.whole
    return {
        "algorithm": name,
        "stream_rows": whole.rows,
        "rows_per_second": round(whole.rows_per_second),
        "warm_rows_per_second": round(measured.second_half.rows_per_second),
        "partition_reads": whole.partition_reads,
        "hit_ratio": round(whole.hit_ratio, 4),
        "keys_fetched": whole.keys_fetched,
        "peak_bytes": measured.statistics.peak_bytes,
        "budget_bytes": budget,
    }


class _InMemory:
    """The whole master under a pandas index, rows gathered by an Arrow take."""

    def __init__(self, setting: Setting, batches: Sequence[pa.RecordBatch]) -> None:
        workload = setting.workload
        self._batches, self._key = batches, workload.stream_key[0]
        self._rows = workload.stream_rows
        self._master = pa.Table.from_batches(list(workload.master_batches())).combine_chunks()
        self._index = pd.Index(self._master[workload.master_key[0]].to_numpy())
        self._seconds: list[float] = []
        self._index.get_indexer(np.zeros(1, np.int64))  # builds its hash table

    def run(self) -> None:
        started = time.perf_counter()
        for batch in self._batches:
            at = self._index.get_indexer(batch.column(self._key).to_numpy())
            self._master.take(pa.array(at))
        self._seconds.append(time.perf_counter() - started)

    @property
    def rows_per_second(self) -> float:
        return self._rows / statistics.median(self._seconds)
