"""The benchmarks at a small scale: rows, verdicts, JSON, tables, pictures. No timing is judged."""

from __future__ import annotations

import io
import json

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from semistream.bench.caching import SKEWS, crossing
from semistream.bench.plots import save_plot
from semistream.bench.registry import benchmarks, find_benchmark
from semistream.bench.result import BenchResult
from semistream.cli.bench import _shown, bench, print_result
from semistream.errors import InputError
from semistream.joins.registry import algorithms

MINE = ("adaptation", "caching", "limit", "memory")


@pytest.fixture(scope="module")
def results():
    return {name: find_benchmark(name).run(True) for name in MINE}


@pytest.mark.parametrize("name", MINE)
def test_gives_rows_with_known_columns_and_plain_json(results, name):
    result = results[name]
    assert result.rows
    assert result.verdicts
    assert all(set(row) <= set(result.columns) for row in result.rows)
    back = json.loads(json.dumps(result.to_dict()))
    assert back["name"] == name
    assert back["rows"] == result.rows


@pytest.mark.parametrize("name", MINE)
def test_prints_a_table_with_every_verdict(results, name):
    out = io.StringIO()
    print_result(results[name], Console(file=out, width=300))
    assert all(verdict.text in out.getvalue() for verdict in results[name].verdicts)


@pytest.mark.parametrize("name", MINE)
def test_the_table_fits_80_columns_with_no_value_broken(results, name):
    out = io.StringIO()
    print_result(results[name], Console(file=out, width=80))
    lines = out.getvalue().splitlines()
    verdicts = tuple(verdict.text for verdict in results[name].verdicts)
    assert all(len(line.rstrip()) <= 80 for line in lines if not line.startswith(verdicts))
    first = results[name].columns[0]
    for row in results[name].rows:
        start = _shown(row[first])
        assert any(line.strip().startswith(start) for line in lines)
    text = out.getvalue()
    for row in results[name].rows:
        assert all(_shown(value) in text for value in row.values())


def test_adaptation_shows_before_during_and_after(results):
    phases = [row["phase"] for row in results["adaptation"].rows]
    assert set(phases) == {"before", "during", "after"}
    assert phases == sorted(phases, key=["before", "during", "after"].index)
    at = phases.index("during")
    for name in ("chybridjoin", "cinlj"):
        ratios = [row[name] for row in results["adaptation"].rows]
        assert ratios[at] < ratios[at - 1]
        assert ratios[-1] > 0.9 * ratios[at - 1]


@pytest.mark.parametrize("name", MINE)
def test_draws_a_picture(results, name, tmp_path):
    pytest.importorskip("matplotlib")
    path = save_plot(find_benchmark(name), results[name], tmp_path / "new" / "folder")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_limit_has_every_algorithm_inside_its_budget(results):
    rows = {row["algorithm"]: row for row in results["limit"].rows}
    assert set(rows) == {"in memory", *algorithms()}
    assert all(
        row["peak_bytes"] <= row["budget_bytes"] for row in rows.values() if "budget_bytes" in row
    )


def test_caching_sweeps_the_skew(results):
    swept = {row["skew"] for row in results["caching"].rows if row["memory"] == 0.1}
    assert swept == set(SKEWS)


def test_memory_joins_every_stream_row(results):
    assert {row["rows"] for row in results["memory"].rows} == {"plain", "wide"}
    assert all(row["output_rows"] == row["stream_rows"] for row in results["memory"].rows)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(0.0, 1.5), (1.0, 2.0)], 0.0),
        ([(0.0, 0.5), (1.0, 0.9)], None),
        ([(0.0, 0.5), (0.5, 0.5), (1.0, 1.5)], 0.75),
        ([(0.0, 0.5), (0.5, 1.0)], 0.5),
    ],
)
def test_crossing(points, expected):
    assert crossing(points) == expected


def test_unknown_benchmark_lists_the_known_ones():
    with pytest.raises(InputError, match=r"unknown benchmark 'nope': there are .*limit"):
        find_benchmark("nope")
    assert set(MINE) <= set(benchmarks())


def test_verdicts_compare_with_their_targets():
    result = BenchResult("x", "title", ["a"])
    result.note("seen", None)
    assert result.ok
    result.at_least("enough", 2.5, 2.5)
    assert result.ok
    result.at_most("too much", 3.0, 2.5)
    assert not result.ok


def test_command_prints_one_json_object():
    app = typer.Typer()
    app.command()(bench)
    done = CliRunner().invoke(app, ["caching", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["name"] == "caching"
