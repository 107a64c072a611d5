"""`semistream bench`: run a benchmark, show its table and its verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from semistream.bench.result import BenchResult


def bench(
    name: Annotated[str, typer.Argument(help="limit, caching, memory, …")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
    plots: Annotated[Path | None, typer.Option(help="Folder for a picture")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small scale; proves nothing")] = False,
) -> None:
    """Run a benchmark and compare it with its targets."""
    from semistream.bench.registry import find_benchmark

    chosen = find_benchmark(name)
    result = chosen.run(quick)
    picture = None
    if plots is not None:
        from semistream.bench.plots import save_plot

        picture = save_plot(chosen, result, plots)
    if as_json:
        print(json.dumps(result.to_dict(), ensure_ascii=False))
        return
    console = Console()
    print_result(result, console)
    if picture is not None:
        console.print(f"picture: {picture}", soft_wrap=True)


def print_result(result: BenchResult, console: Console) -> None:
    """The table, then one line per verdict."""
    table = Table(title=f"{result.name}: {result.title}")
    for column in result.columns:
        texts = any(isinstance(row.get(column), str) for row in result.rows)
        table.add_column(column.replace("_", " "), justify="left" if texts else "right")
    for row in result.rows:
        table.add_row(*(_shown(row.get(column)) for column in result.columns))
    console.print(table)
    for text, value, target, ok in result.verdicts:
        mark = {True: "[green]reached[/]", False: "[red]missed[/]", None: ""}[ok]
        wanted = f" (target {target})" if target else ""
        console.print(f"{text}: {_shown(value)}{wanted} {mark}", soft_wrap=True)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
