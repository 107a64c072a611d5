"""Seeded, streaming workloads: a master table and the stream that is joined with it.

>>> from semistream.workloads import make_workload
>>> workload = make_workload("zipf", master_rows=1_000, stream_rows=5_000, skew=1.0, seed=7)
>>> sum(batch.num_rows for batch in workload.stream_batches(batch_rows=512))
5000
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semistream.workloads.base import Workload
    from semistream.workloads.registry import make_workload, workload_names
    from semistream.workloads.writer import WrittenWorkload, write_workload

__all__ = ["Workload", "WrittenWorkload", "make_workload", "workload_names", "write_workload"]

_HOME = {
    "Workload": "base",
    "WrittenWorkload": "writer",
    "make_workload": "registry",
    "workload_names": "registry",
    "write_workload": "writer",
}


def __getattr__(name: str) -> object:
    # Lazy: the command line lists the workloads without paying for numpy and pyarrow.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
