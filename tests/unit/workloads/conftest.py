"""Factories for small workloads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from semistream.workloads import Workload, make_workload, tpch

Make = Callable[..., Workload]


@pytest.fixture(scope="session")
def tpch_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`run_tool`, which takes a second to start, run once per table, scale and part."""
    run_tool, made = tpch.run_tool, {}

    def run_once(table: str, scale: str, part: int, parts: int, folder: Path) -> Path:
        wanted = (table, scale, part, parts)
        if wanted not in made:
            made[wanted] = run_tool(*wanted, tmp_path_factory.mktemp("tpch"))
        return Path(shutil.copy(made[wanted], folder))

    return run_once


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tpch_files: Callable[..., Path]) -> Make:
    """`make_workload` with few rows unless told."""
    monkeypatch.setattr(tpch, "run_tool", tpch_files)

    def small(name: str, **options: object) -> Workload:
        few: dict = {"master_rows": 140, "stream_rows": 1_000}
        return make_workload(name, **(few | options))

    return small


def master_of(workload: Workload, batch_rows: int = 65_536) -> pa.Table:
    return pa.Table.from_batches(workload.master_batches(batch_rows), workload.master_schema)


def stream_of(workload: Workload, batch_rows: int = 65_536) -> pa.Table:
    return pa.Table.from_batches(workload.stream_batches(batch_rows), workload.stream_schema)
