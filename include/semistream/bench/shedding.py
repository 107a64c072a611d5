"""`bench shedding`: what is set aside under overload decides how much is served meanwhile."""

from __future__ import annotations

import tempfile
from itertools import islice
from typing import TYPE_CHECKING, Any

from semistream.bench.registry import benchmark
from semistream.bench.result import BenchResult
from semistream.bench.setting import Setting, warm_up, zipf_setting
from semistream.joins.registry import Options, open_join
from semistream.joins.shed_store import ShedStore
from semistream.joins.shedding import Mode, Shedding
from semistream.stores.arrow_store import ArrowStore

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODES: tuple[Mode, ...] = ("tuned", "untuned", "upfront")


def draw(result: BenchResult, figure: Figure) -> None:
    axes = figure.subplots()
    names = [row["mode"] for row in result.rows]
    bars = axes.bar(names, [row["rows_per_read"] for row in result.rows], color="tab:blue")
    axes.bar_label(bars, [f"{row['rows_per_read']:,.0f}" for row in result.rows], padding=3)
    axes.set_ylabel("stream rows finished per partition read")


@benchmark("shedding", "service rate under overload: tuned, untuned and upfront", draw=draw)
def shedding(quick: bool) -> BenchResult:
    """A permanent overload, the same for each mode; counts, not seconds, over its second half."""
    master_rows, steps, arrival = (20_000, 40, 2_000) if quick else (1_000_000, 400, 3_000)
    result = BenchResult(
        "shedding",
        f"chybridjoin, {master_rows:,} master rows, budget 2 %, skew 1, "
        f"{arrival:,} stream rows arrive per loop for {steps} loops",
        ["mode", "rows_per_read", "rows_in", "rows_finished", "rows_shed_total", "partition_reads"],
    )
    warm_up()
    with zipf_setting(
        master_rows, steps * arrival, partition_bytes=16 << 10, placement="rank"
    ) as setting:
        result.rows = [_overload(setting, mode, steps, arrival) for mode in MODES]
    rate = {row["mode"]: row["rows_per_read"] for row in result.rows}
    result.at_least("tuned : untuned, rows per read", rate["tuned"] / rate["untuned"], 1.3)
    result.at_least("tuned : upfront, rows per read", rate["tuned"] / rate["upfront"], 3.0)
    return result


def _overload(setting: Setting, mode: Mode, steps: int, arrival: int) -> dict[str, Any]:
    budget = max(int(setting.master_bytes * 0.02), 400_000)
    with tempfile.TemporaryDirectory(prefix="semistream-shed-") as folder:
        options = Options(shedding=Shedding(ShedStore(folder), mode))
        workload = setting.workload
        join = open_join(
            ArrowStore.open(setting.store),
            workload.stream_schema,
            setting.on,
            algorithm="chybridjoin",
            memory=budget,
            options=options,
        )
        statistics = join.statistics
        finished = reads = 0
        for number, batch in enumerate(islice(workload.stream_batches(arrival), steps)):
            if number == steps // 2:
                finished, reads = statistics.rows_finished, statistics.partition_reads
            join.offer(batch)
            for _ in join.step():
                pass
        row = {
            "mode": mode,
            "rows_per_read": round(
                (statistics.rows_finished - finished) / (statistics.partition_reads - reads), 2
            ),
            "rows_in": statistics.rows_in,
            "rows_finished": statistics.rows_finished,
            "rows_shed_total": statistics.rows_shed_total,
            "partition_reads": statistics.partition_reads,
        }
        join.close()
    return row
