"""A benchmark's result as a picture. Needs matplotlib, which only this module imports."""

from __future__ import annotations

from pathlib import Path

from semistream.bench.registry import Benchmark
from semistream.bench.result import BenchResult
from semistream.errors import InputError


def save_plot(benchmark: Benchmark, result: BenchResult, folder: Path) -> Path:
    """Write `folder/NAME.png` and return its path."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("plots need matplotlib: install semistream[bench]") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder for plots: {error}") from None
    figure = Figure(figsize=(9, 5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    benchmark.draw(result, figure)
    figure.suptitle(f"semistream bench {result.name}\n{result.title}", fontsize=10)
    for axes in figure.axes:
        axes.grid(visible=True, alpha=0.3)
    path = folder / f"{result.name}.png"
    figure.savefig(path)
    return path
