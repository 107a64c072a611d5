"""`bench memory`: by how much the process grows, each budget in a fresh one."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from semistream.bench.registry import benchmark
from semistream.bench.result import BenchResult
from semistream.errors import SemistreamError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MB = 1 << 20
BUDGETS_MB = (16, 64, 256)
_ROW_BYTES = {"plain": 118, "wide": 2_100}
_ALGORITHM = "chybridjoin"


def limit_mb(budget_mb: float) -> float:
    """What a process may grow by under a budget.

    >>> limit_mb(64)
    144.0
    """
    return 1.25 * budget_mb + 64


def draw(result: BenchResult, figure: Figure) -> None:
    axes = figure.subplots()
    budgets = sorted({row["budget_mb"] for row in result.rows})
    for kind in _ROW_BYTES:
        rows = [row for row in result.rows if row["rows"] == kind]
        axes.plot(
            [row["budget_mb"] for row in rows],
            [row["growth_mb"] for row in rows],
            "o-",
            label=f"{kind} rows",
        )
    axes.plot(budgets, [limit_mb(each) for each in budgets], "r--", label="1.25 × budget + 64 MB")
    axes.set_xlabel("budget, MB")
    axes.set_ylabel("growth of the process, MB")
    axes.set_ylim(bottom=0)
    axes.legend()


@benchmark("memory", "growth of the process under budgets of 16 to 256 MB", draw=draw)
def memory(quick: bool) -> BenchResult:
    """Build and join a master of at least twice the budget, after imports and compilation."""
    result = BenchResult(
        "memory",
        f"{_ALGORITHM}: growth of the process while it builds a store and joins",
        [
            *("rows", "budget_mb", "master_mb", "stream_rows", "output_rows"),
            *("growth_mb", "limit_mb", "share_of_limit"),
        ],
        identity=2,
    )
    for kind, row_bytes in _ROW_BYTES.items():
        for budget_mb in BUDGETS_MB[:1] if quick else BUDGETS_MB:
            master_mb = budget_mb if quick else max(2 * budget_mb, 128)
            master_rows = master_mb * _MB // row_bytes
            stream_rows = 50_000 if quick else 1_000_000
            found = _probe(budget_mb * _MB, kind, master_rows, stream_rows)
            growth = found["growth_bytes"] / _MB
            result.rows.append(
                {
                    "rows": kind,
                    "budget_mb": budget_mb,
                    "master_mb": master_mb,
                    "stream_rows": stream_rows,
                    "output_rows": found["output_rows"],
                    "growth_mb": round(growth, 1),
                    "limit_mb": limit_mb(budget_mb),
                    "share_of_limit": round(growth / limit_mb(budget_mb), 3),
                }
            )
            result.at_most(f"{kind} rows, budget {budget_mb} MB: MB", growth, limit_mb(budget_mb))
    return result


def _probe(budget: int, kind: str, master_rows: int, stream_rows: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "semistream.bench.memory_probe"]
    arguments = [str(budget), kind, str(master_rows), str(stream_rows), _ALGORITHM]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SemistreamError(f"the probe of {kind} rows failed: {done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
