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

_GAP = 2  # characters between columns


def bench(
    name: Annotated[str, typer.Argument(help="limit, caching, papers, mysql, …")],
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
    """The table, in as many parts as the page needs, then one line per verdict."""
    console.print(f"[bold]{result.name}[/]: {result.title}\n")
    for columns in _parts(result, console.width):
        table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="underline")
        for column in columns:
            is_text = any(isinstance(row.get(column), str) for row in result.rows)
            table.add_column(
                column.replace("_", " "),
                justify="left" if is_text else "right",
                vertical="bottom",
                width=_width(result, column),
            )
        for row in result.rows:
            table.add_row(*(_shown(row.get(column)) for column in columns))
        console.print(table, "")
    for column, value in _constants(result).items():
        console.print(f"{column.replace('_', ' ')}: {_shown(value)} throughout")
    for text, value, target, ok in result.verdicts:
        mark = {True: "[green]reached[/]", False: "[red]missed[/]", None: ""}[ok]
        wanted = f" (target {target})" if target else ""
        console.print(f"{text}: {_shown(value)}{wanted} {mark}", soft_wrap=True)


def _constants(result: BenchResult) -> dict[str, Any]:
    """Columns with one value in all rows that have any: a line says it as well."""
    found = {}
    for column in result.columns[result.identity :]:
        values = [row[column] for row in result.rows if row.get(column) is not None]
        if len(values) > 1 and len(set(values)) == 1:
            found[column] = values[0]
    return found


def _parts(result: BenchResult, width: int) -> list[list[str]]:
    """The columns of each part: those that name a row, then as many others as fit beside them."""
    names, constants = result.columns[: result.identity], _constants(result)
    parts = [[*names]]
    for column in result.columns[result.identity :]:
        if column in constants:
            continue
        taken = sum(_width(result, each) + _GAP for each in parts[-1])
        if taken + _width(result, column) > width and len(parts[-1]) > len(names):
            parts.append([*names])
        parts[-1].append(column)
    return parts


def _width(result: BenchResult, column: str) -> int:
    """Characters a column needs: a header may break between words, a value may not."""
    words = column.split("_")
    return max(len(text) for text in (*words, *(_shown(row.get(column)) for row in result.rows)))


def _shown(value: Any) -> str:
    """Three digits, and k, M or G: enough to compare, short enough for a table.

    >>> [_shown(value) for value in (None, 0.25713, 12, 4_321, 118_042, 23_600_000, "text")]
    ['-', '0.257', '12', '4,321', '118k', '23.6M', 'text']
    """
    if value is None:
        return "-"
    if isinstance(value, bool | str):
        return str(value)
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size and abs(value) >= 1e4:
            return f"{value / size:.3g}{unit}" if abs(value) < 999.5 * size else f"{value:,.0f}"
    if isinstance(value, float) and abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:,.0f}"
