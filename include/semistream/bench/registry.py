"""Benchmarks by name. A new one is a file with a `@benchmark` function; nothing else changes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from semistream.bench.result import BenchResult
from semistream.errors import unknown_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Run = Callable[[bool], BenchResult]  # told whether a small scale will do
Draw = Callable[[BenchResult, "Figure"], None]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A name, what it shows, how it is run and how its result is drawn."""

    name: str
    summary: str
    run: Run
    draw: Draw


_BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(name: str, summary: str, *, draw: Draw) -> Callable[[Run], Run]:
    """Register the decorated function as benchmark `name`."""

    def register(run: Run) -> Run:
        _BENCHMARKS[name] = Benchmark(name, summary, run, draw)
        return run

    return register


@cache
def _discover() -> None:
    import semistream.bench as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"semistream.bench.{module.name}")


def benchmarks() -> dict[str, Benchmark]:
    """Every registered benchmark, by name."""
    _discover()
    return dict(sorted(_BENCHMARKS.items()))


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of that name; an unknown one is an `InputError`."""
    known = benchmarks()
    if name not in known:
        raise unknown_name("benchmark", name, known)
    return known[name]
