"""`bench adaptation`: the hit ratio before, during and after the hot keys are replaced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from semistream.bench.registry import benchmark
from semistream.bench.result import BenchResult
from semistream.bench.setting import Setting, warm_up, zipf_setting
from semistream.joins.registry import open_join
from semistream.stores.arrow_store import ArrowStore

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALGORITHMS = ("chybridjoin", "cinlj")
_BEFORE, _AFTER = 8, 16  # stretches of the stream on either side of the change
_RECOVERED = 0.9  # of the hit ratio before the change
_MEMORY_SHARE = 0.1


def draw(result: BenchResult, figure: Figure) -> None:
    axes = figure.subplots()
    ends = [row["stream_rows"] / 1e6 for row in result.rows]
    for name in ALGORITHMS:
        axes.plot(ends, [row[name] for row in result.rows], "o-", label=name)
    change = max(row["stream_rows"] for row in result.rows if row["phase"] == "before") / 1e6
    axes.axvline(change, color="tab:red", linestyle="--", label="hot keys replaced")
    axes.set_xlabel("million stream rows")
    axes.set_ylabel("share of the last stretch served by the front stage")
    axes.set_ylim(0, 1)
    axes.legend(loc="lower right")


@benchmark("adaptation", "hit ratio before, during and after the hot set is replaced", draw=draw)
def adaptation(quick: bool) -> BenchResult:
    """Counts, not seconds. Half-way every key is exchanged for another: no hot key stays hot."""
    master_rows, stretch = (10_000, 8_000) if quick else (200_000, 150_000)
    result = BenchResult(
        "adaptation",
        f"{master_rows:,} master rows, budget {_MEMORY_SHARE:.0%}, skew 1; hit ratio of each "
        f"{stretch:,} stream rows, all keys exchanged after {_BEFORE * stretch:,}",
        ["stream_rows", "phase", *ALGORITHMS],
    )
    warm_up()
    with zipf_setting(
        master_rows, stretch * (_BEFORE + _AFTER), partition_bytes=(8 if quick else 32) << 10
    ) as setting:
        ratios = {name: _hit_ratios(setting, name, stretch) for name in ALGORITHMS}
    for number in range(_BEFORE + _AFTER):
        phase = "before" if number < _BEFORE else "during" if number == _BEFORE else "after"
        row: dict[str, Any] = {"stream_rows": (number + 1) * stretch, "phase": phase}
        row |= {name: round(ratios[name][number], 4) for name in ALGORITHMS}
        result.rows.append(row)
    for name in ALGORITHMS:
        _judge(result, name, ratios[name], stretch)
    return result


def _judge(result: BenchResult, name: str, ratios: list[float], stretch: int) -> None:
    before, during = ratios[_BEFORE - 1], ratios[_BEFORE]
    result.at_most(f"{name}: hit ratio during : before", during / before, _RECOVERED)
    result.at_least(f"{name}: hit ratio after : before", ratios[-1] / before, _RECOVERED)
    back = [number for number in range(_BEFORE, len(ratios)) if ratios[number] >= 0.9 * before]
    rows = None if not back else (back[0] - _BEFORE + 1) * stretch
    result.note(f"{name}: stream rows until {_RECOVERED:.0%} of it is back", rows)


def _hit_ratios(setting: Setting, algorithm: str, stretch: int) -> list[float]:
    """The share of each stretch of the stream that the front stage served."""
    ratios, hits, rows = [], 0, 0
    with open_join(
        ArrowStore.open(setting.store),
        setting.workload.stream_schema,
        setting.on,
        algorithm=algorithm,
        memory=int(setting.master_bytes * _MEMORY_SHARE),
    ) as join:
        statistics = join.statistics
        for part in _stretches(setting, stretch):
            for _ in join.run([part]):  # drained, so that a stretch is not judged by the next
                pass
            found = statistics.front_stage_hits - hits
            ratios.append(found / (statistics.rows_finished - rows))
            hits, rows = statistics.front_stage_hits, statistics.rows_finished
    return ratios


def _stretches(setting: Setting, stretch: int) -> Iterator[pa.RecordBatch]:
    workload = setting.workload
    name = workload.stream_key[0]
    place = workload.stream_schema.get_field_index(name)
    for number, batch in enumerate(workload.stream_batches(stretch)):
        if number >= _BEFORE:
            keys = batch.column(place).to_numpy()
            # Keys are 1 .. master_rows and placed at random: half the master further, every
            # frequency falls on a key that is unrelated.
            moved = (keys - 1 + workload.master_rows // 2) % workload.master_rows + 1
            batch = batch.set_column(place, name, pa.array(moved.astype(np.int64)))
        yield batch
