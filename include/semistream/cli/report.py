"""Statistics as a table worth reading."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from semistream.sizes import format_bytes
from semistream.statistics import JoinStatistics


def print_statistics(statistics: JoinStatistics, console: Console) -> None:
    """What happened to every row, and what it took."""
    table = Table(title=f"{statistics.algorithm}, budget {format_bytes(statistics.budget_bytes)}")
    table.add_column("what")
    table.add_column("value", justify="right")
    finished = max(statistics.rows_finished, 1)
    rows = {
        "stream rows in": f"{statistics.rows_in:,}",
        "matched": f"{statistics.rows_matched:,}",
        **{
            f"unmatched ({reason})": f"{count:,}"
            for reason, count in sorted(statistics.unmatched_by_reason.items())
        },
        "set aside (shed)": f"{statistics.rows_shed:,}",
        "output rows": f"{statistics.rows_joined:,}",
        "served by the front stage": f"{statistics.front_stage_hits / finished:.1%}",
        "partition reads": f"{statistics.partition_reads:,}",
        "stream rows per partition read": (
            f"{finished / statistics.partition_reads:,.0f}" if statistics.partition_reads else "-"
        ),
        "peak memory of the join": format_bytes(statistics.peak_bytes),
        "rows per second": f"{statistics.rows_per_second:,.0f}",
        "every row accounted for": "yes" if statistics.balances else "NO",
    }
    for what, value in rows.items():
        table.add_row(what, value)
    console.print(table)
