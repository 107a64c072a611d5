"""`semistream demo`: a bursty sales stream meets a product master."""

from __future__ import annotations

import tempfile

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from semistream.cli.report import print_statistics
from semistream.errors import SemistreamError
from semistream.joins.registry import open_join
from semistream.sizes import parse_bytes
from semistream.stores.arrow_build import build_arrow_store
from semistream.stores.arrow_store import ArrowStore
from semistream.workloads import make_workload


def run_demo(stream_rows: int, master_rows: int, memory: str, seed: int, console: Console) -> None:
    """Generate, build, join, report; leaves nothing behind."""
    budget = parse_bytes(memory)
    work = make_workload("bursty", master_rows=master_rows, stream_rows=stream_rows, seed=seed)
    with (
        tempfile.TemporaryDirectory(prefix="semistream-demo-") as folder,
        Progress(
            TextColumn("{task.description:<28}"),
            BarColumn(),
            TextColumn("{task.completed:>11,.0f} rows"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
        ) as progress,
    ):
        build = progress.add_task("product master", total=master_rows, note="")
        build_arrow_store(
            folder,
            work.master_batches(),
            work.master_schema,
            work.master_key,
            name="products",
            partition_bytes=max(min(budget // 128, 128 << 10), 8 << 10),
            progress=lambda rows: progress.update(build, completed=rows),
        )
        store = ArrowStore.open(folder)
        pairs = list(zip(work.stream_key, work.master_key, strict=True))
        with open_join(store, work.stream_schema, pairs, memory=budget) as join:
            bar = progress.add_task("sales joined", total=stream_rows, note="")
            statistics = join.statistics
            for _ in join.run(work.stream_batches()):
                share = statistics.front_stage_hits / max(statistics.rows_finished, 1)
                progress.update(
                    bar, completed=statistics.rows_finished, note=f"front stage {share:.0%}"
                )
    print_statistics(statistics, console)
    if not statistics.balances or statistics.rows_in != stream_rows:
        raise SemistreamError("the demo lost or doubled rows: this is a defect, please report it")
