"""`bench mysql` at a small scale, and that what it compares with is a fair opponent."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from semistream.bench.lru import LruLookup, held_bytes
from semistream.bench.mysql import JOIN, TARGETS, mysql
from semistream.bench.plots import save_plot
from semistream.bench.registry import find_benchmark
from semistream.cli.bench import print_result


@pytest.fixture(scope="module")
def result(private_mariadb):
    return mysql(True)


def test_every_way_joins_every_row_it_was_given(result):
    rows = {row["way"]: row for row in result.rows}
    assert set(rows) == {JOIN, *TARGETS}
    assert all(row["stream_rows"] > 0 and row["reads"] > 0 for row in rows.values())
    assert {verdict.target for verdict in result.verdicts} == {"≥ 20", "≥ 1.5", "≤ 1", ""}


def test_the_join_stays_inside_its_budget(result):
    assert result.verdicts[-1].text.startswith("peak : budget")
    assert result.verdicts[-1].ok


def test_json_table_and_picture(result, tmp_path):
    assert json.loads(json.dumps(result.to_dict()))["rows"] == result.rows
    out = io.StringIO()
    print_result(result, Console(file=out, width=300))
    assert all(verdict.text in out.getvalue() for verdict in result.verdicts)
    pytest.importorskip("matplotlib")
    path = save_plot(find_benchmark("mysql"), result, tmp_path)
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def numbers(mariadb):
    with mariadb.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE numbers (k BIGINT PRIMARY KEY, v TEXT)")
        cursor.execute("INSERT INTO numbers SELECT seq, REPEAT('x', seq) FROM seq_1_to_50")
        yield connection
        cursor.execute("DROP TABLE numbers")


def test_both_kinds_of_look_up_give_the_same_rows(numbers):
    keys = [3, 50, 3, 99, 7, 3, 1, 50]
    expected = [(key, "x" * key) for key in keys if key <= 50]
    for capacity in (1, 2, 100):
        for how in ("one_by_one", "in_lists"):
            cache = LruLookup(numbers, "numbers", "k", capacity)
            assert getattr(cache, how)(keys) == expected
            assert getattr(cache, how)(keys) == expected


def test_the_least_recently_used_row_goes_first(numbers):
    cache = LruLookup(numbers, "numbers", "k", 2)
    cache.one_by_one([1, 2, 1, 3])  # 2 goes, 1 was used since
    assert cache.statements == 3
    cache.one_by_one([1, 3])
    assert (cache.statements, cache.hits) == (3, 3)
    cache.one_by_one([2])
    assert cache.statements == 4


def test_bytes_held_are_more_than_the_data():
    rows = [(number, "text of some length") for number in range(100)]
    assert 8 + 19 < held_bytes(rows) < 1000
