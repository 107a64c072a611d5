"""`bench caching`: what the front stage saves, in reads rather than in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from semistream.bench.registry import benchmark
from semistream.bench.result import BenchResult
from semistream.bench.setting import Measured, Setting, measure, warm_up, zipf_setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0)
_READ_TARGETS = {0.01: 2.4, 0.1: 2.7}  # memory share: least ratio at skew 1
_FETCH_TARGET = 2.5
_SWEEP_SHARE = 0.1
_COLUMNS = [
    *("compared", "unit", "memory", "skew", "stream_rows", "with_front_stage", "without"),
    *("ratio", "warm_with_front_stage", "warm_without", "warm_ratio", "hit_ratio"),
]


def draw(result: BenchResult, figure: Figure) -> None:
    axes = figure.subplots()
    sweep = _sweep(result)
    skews = [row["skew"] for row in sweep]
    axes.plot(skews, [row["ratio"] for row in sweep], "o-", label="whole run")
    axes.plot(skews, [row["warm_ratio"] for row in sweep], "s--", label="second half (warm)")
    axes.axhline(1.0, color="grey", linewidth=1, label="no difference")
    axes.axhline(_READ_TARGETS[_SWEEP_SHARE], color="tab:red", linestyle=":", label="target at 1")
    axes.set_xlabel("skew (Zipf exponent)")
    axes.set_ylabel("chybridjoin : hybridjoin, stream rows per partition read")
    axes.set_ylim(bottom=0)
    axes.legend()


@benchmark("caching", "what the front stage saves in reads, over memory and skew", draw=draw)
def caching(quick: bool) -> BenchResult:
    """Counts, not seconds: the same on every machine."""
    master_rows, stream_rows = (200_000, 24_000) if quick else (2_000_000, 4_000_000)
    lookup_rows = stream_rows // (4 if quick else 16)
    result = BenchResult(
        "caching",
        f"{master_rows:,} master rows; stream rows per partition read or per keyed fetch",
        _COLUMNS,
        identity=4,
    )
    warm_up()
    with zipf_setting(
        master_rows, stream_rows, partition_bytes=(16 if quick else 128) << 10
    ) as setting:
        for share in _READ_TARGETS:  # a smaller front stage is warm sooner
            result.rows.append(
                _reads(setting, share, 1.0, stream_rows // (4 if share < 0.1 else 1))
            )
        for skew in SKEWS[:-1]:
            result.rows.append(_reads(setting, _SWEEP_SHARE, skew, stream_rows // 4))
        result.rows.append(_fetches(setting, lookup_rows))
    _judge(result)
    return result


def _judge(result: BenchResult) -> None:
    for row in result.rows:
        if row["skew"] == 1.0:
            reads = row["unit"] == "partition read"
            least = _READ_TARGETS[row["memory"]] if reads else _FETCH_TARGET
            text = f"{row['compared']}, stream rows per {row['unit']}, memory {row['memory']:.0%}"
            result.at_least(text, row["ratio"], least)
            result.note(f"{text}, second half", row["warm_ratio"])
    points = [(row["skew"], row["ratio"]) for row in _sweep(result)]
    result.note("skew from which chybridjoin reads less", crossing(points))


def _sweep(result: BenchResult) -> list[dict[str, Any]]:
    reads = (row for row in result.rows if row["unit"] == "partition read")
    return sorted(
        (row for row in reads if row["memory"] == _SWEEP_SHARE), key=lambda row: float(row["skew"])
    )


def crossing(points: list[tuple[float, float]]) -> float | None:
    """Where a ratio, given as ascending (skew, ratio), first reaches 1; None if it never does.

    >>> crossing([(0.0, 0.5), (0.5, 0.75), (1.0, 1.25)])
    0.75
    """
    previous: tuple[float, float] | None = None
    for skew, ratio in points:
        if ratio >= 1:
            if previous is None:
                return skew
            return previous[0] + (skew - previous[0]) * (1 - previous[1]) / (ratio - previous[1])
        previous = (skew, ratio)
    return None


def _reads(setting: Setting, share: float, skew: float, stream_rows: int) -> dict[str, Any]:
    front, plain = _both(setting, ("chybridjoin", "hybridjoin"), share, skew, stream_rows)
    return _row(
        ("chybridjoin : hybridjoin", "partition read", share, skew, stream_rows),
        (front.whole.rows_per_read, plain.whole.rows_per_read),
        (front.second_half.rows_per_read, plain.second_half.rows_per_read),
        front.whole.hit_ratio,
    )


def _fetches(setting: Setting, stream_rows: int) -> dict[str, Any]:
    front, plain = _both(setting, ("cinlj", "inlj"), _SWEEP_SHARE, 1.0, stream_rows)
    return _row(
        ("cinlj : inlj", "keyed fetch", _SWEEP_SHARE, 1.0, stream_rows),
        (front.whole.rows_per_fetch, plain.whole.rows_per_fetch),
        (front.second_half.rows_per_fetch, plain.second_half.rows_per_fetch),
        front.whole.hit_ratio,
    )


def _both(
    setting: Setting, names: tuple[str, str], share: float, skew: float, stream_rows: int
) -> tuple[Measured, Measured]:
    stream = setting.with_stream(stream_rows=stream_rows, skew=skew)
    batches = list(stream.workload.stream_batches(min(65_536, max(stream_rows // 8, 1))))
    budget = int(setting.master_bytes * share)
    first, second = (measure(stream, name, budget, batches) for name in names)
    return first, second


def _row(
    what: tuple[str, str, float, float, int],
    whole: tuple[float, float],
    warm: tuple[float, float],
    hit_ratio: float,
) -> dict[str, Any]:
    numbers = (*whole, whole[0] / max(whole[1], 1e-9), *warm, warm[0] / max(warm[1], 1e-9))
    values = (*what, *(round(number, 3) for number in numbers), round(hit_ratio, 4))
    return dict(zip(_COLUMNS, values, strict=True))
