"""Workloads by name."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING

from semistream.errors import unknown_name

if TYPE_CHECKING:
    from semistream.workloads.base import Workload

_CLASSES = {
    "zipf": "ZipfWorkload",
    "bursty": "BurstyWorkload",
    "tpch": "TpchWorkload",
    "locality": "LocalityWorkload",
    "weather": "WeatherWorkload",
}


def workload_names() -> tuple[str, ...]:
    """The names `make_workload` knows."""
    return tuple(_CLASSES)


def make_workload(
    name: str,
    *,
    master_rows: int,
    stream_rows: int,
    skew: float = 1.0,
    seed: int = 0,
    **options: object,
) -> Workload:
    """The workload of that name; nothing is generated yet.

    `options` are the workload's own parameters (its class documents them). An unknown name, an
    unknown option or a value out of range is an `InputError`.

    >>> make_workload("zipf", master_rows=10, stream_rows=10, placement="rank").stream_key
    ('product_id',)
    """
    if name not in _CLASSES:
        raise unknown_name("workload", name, _CLASSES)
    workload_class = getattr(import_module(f"semistream.workloads.{name}"), _CLASSES[name])
    shared = {"self", "master_rows", "stream_rows", "skew", "seed"}
    known = [o for o in inspect.signature(workload_class.__init__).parameters if o not in shared]
    for option in options:
        if option not in known:
            raise unknown_name(f"option of workload {name}:", option, known)
    workload: Workload = workload_class(
        master_rows=master_rows, stream_rows=stream_rows, skew=skew, seed=seed, **options
    )
    return workload
