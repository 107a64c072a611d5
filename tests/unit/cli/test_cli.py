"""The command line as other programs call it: exit codes, one line of error, right rows."""

from __future__ import annotations

import json
import sys

import duckdb
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from semistream.cli import main

MASTER = pa.table({"id": [1, 2, 3, 3], "name": ["a", "b", "c", "cc"]})
STREAM = pa.table({"id": pa.array([1, 3, 9, None, 1], pa.int32()), "n": [10, 20, 30, 40, 50]})


@pytest.fixture
def files(tmp_path):
    parquet.write_table(MASTER, tmp_path / "master.parquet")
    parquet.write_table(STREAM, tmp_path / "stream.parquet")
    return tmp_path


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["semistream", *map(str, arguments)])
        code = main()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def join(files, *more, stream="stream.parquet", master="master.parquet", on="id"):
    where = ["--stream", files / stream, "--master", files / master]
    return ["join", *where, "--on", on, "--out", files / "out", "--memory", "1MB", *more]


def rows_of(folder):
    return sorted(duckdb.sql(f"select * from '{folder}/*.parquet'").fetchall(), key=str)


@pytest.mark.parametrize("algorithm", ["auto", "inlj", "hybridjoin", "xhybridjoin", "cinlj"])
def test_join_writes_joined_and_unmatched(files, run, algorithm):
    code, out, _ = run(*join(files, "--json", "--algorithm", algorithm))
    assert code == 0
    found = json.loads(out)
    assert (found["rows_in"], found["rows_matched"], found["rows_joined"]) == (5, 3, 4)
    assert found["unmatched_by_reason"] == {"no_match": 1, "null_key": 1}
    assert rows_of(files / "out/joined") == [
        (1, 10, "a"),
        (1, 50, "a"),
        (3, 20, "c"),
        (3, 20, "cc"),
    ]
    unmatched = rows_of(files / "out/unmatched")
    assert unmatched == [(9, 30, "no_match"), (None, 40, "null_key")]


def test_left_keeps_every_stream_row(files, run):
    code, _, _ = run(*join(files, "--how", "left"))
    assert code == 0
    assert len(rows_of(files / "out/joined")) == 6


def test_csv_and_json_lines(files, run):
    csv.write_csv(MASTER, files / "master.csv")
    lines = [json.dumps(row) for row in STREAM.to_pylist()]
    (files / "stream.jsonl").write_text("\n".join(lines))
    code, out, err = run(*join(files, "--json", stream="stream.jsonl", master="master.csv"))
    assert code == 0, err
    assert json.loads(out)["rows_joined"] == 4


@pytest.mark.parametrize("empty", ["stream", "master"])
def test_empty_sides_give_a_correct_empty_result(files, run, empty):
    table = {"stream": STREAM, "master": MASTER}[empty]
    parquet.write_table(table.slice(0, 0), files / f"{empty}.parquet")
    code, out, _ = run(*join(files, "--json"))
    assert code == 0
    assert json.loads(out)["rows_joined"] == 0
    assert rows_of(files / "out/joined") == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"stream": "nowhere.parquet"}, "does not exist"),
        ({"on": "nope"}, "no column 'nope'"),
        ({"on": "n=id,"}, "is not COL"),
        ({"more": ["--memory", "lots"]}, "is not a size"),
        ({"more": ["--memory", "1KB"]}, "give at least"),
        ({"more": ["--algorithm", "magic"]}, "unknown algorithm 'magic'"),
        ({"more": ["--how", "outer"]}, "inner or left"),
        ({"more": ["--select", "nope"]}, "no column 'nope'"),
        ({"on": "n=name"}, "without loss"),
        ({"more": ["--frobnicate"]}, "No such option"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(files, run, change, says):
    more = change.pop("more", [])
    code, out, err = run(*join(files, *more, **change))
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


def test_a_broken_file_is_named(files, run):
    (files / "broken.parquet").write_bytes(b"PAR1 not really")
    code, _, err = run(*join(files, stream="broken.parquet"))
    assert code == 2
    assert "broken.parquet" in err
    assert len(err.strip().splitlines()) == 1


def test_generate_then_join(tmp_path, run):
    code, out, _ = run(
        "generate", "zipf", "--master-rows", 500, "--stream-rows", 2000, "--out", tmp_path / "w"
    )
    assert code == 0
    assert "semistream join" in out
    code, out, _ = run(
        *["join", "--stream", tmp_path / "w/stream", "--master", tmp_path / "w/master"],
        *["--on", "product_id", "--out", tmp_path / "out", "--json"],
    )
    assert code == 0
    assert json.loads(out)["rows_matched"] == 2000


def test_demo_ends_with_a_table(run):
    code, out, _ = run("demo", "--stream-rows", 5000, "--master-rows", 1000, "--memory", "1MB")
    assert code == 0
    assert "every row accounted for" in out


def test_rows_in_stream_order(files, run):
    code, out, _ = run(*join(files, "--order", "stream", "--how", "left", "--json"))
    assert code == 0
    assert json.loads(out)["bytes_by_component"]["order"] >= 0
    joined = parquet.read_table(files / "out/joined")
    assert joined["n"].to_pylist() == [10, 20, 20, 30, 40, 50]
    code, _, err = run(*join(files, "--order", "alphabetical"))
    assert (code, err.count("\n")) == (2, 1)
    assert "there are any, stream" in err


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_ranges_and_bands(tmp_path, run, suffix):
    low, high = [0.0, 10.0, 20.5], [9.5, 19.5, 30.0]
    sides = {
        "master": pa.table({"low": low, "high": high, "band": ["a", "b", "c"]}),
        "stream": pa.table({"price": [5, 10, 20, 21], "n": [1, 2, 3, 4]}),
    }
    for name, table in sides.items():
        if suffix == "csv":
            csv.write_csv(table, tmp_path / f"{name}.csv")
        else:
            types = pa.schema(
                [
                    (each.name, pa.float64() if each.name == "price" else each.type)
                    for each in table.schema
                ]
            )
            parquet.write_table(table.cast(types), tmp_path / f"{name}.parquet")
    where = ["--stream", tmp_path / f"stream.{suffix}", "--master", tmp_path / f"master.{suffix}"]
    base = ["join", *where, "--out", tmp_path / "out", "--memory", "1MB", "--select", "band"]
    code, out, _ = run(*base, "--condition", "price between low and high", "--json")
    assert (code, json.loads(out)["algorithm"]) == (0, "meshjoin")
    assert rows_of(tmp_path / "out/joined") == [(10.0, 2, "b"), (21.0, 4, "c"), (5.0, 1, "a")]
    assert rows_of(tmp_path / "out/unmatched") == [(20.0, 3, "no_match")]
    code, _, _ = run(*base, "--condition", "price within 0.5 of low", "--algorithm", "rmeshjoin")
    assert code == 0
    assert rows_of(tmp_path / "out/joined") == [
        (10.0, 2, "b"),
        (20.0, 3, "c"),
        (21.0, 4, "c"),
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "either --on"),
        (["--on", "id", "--condition", "n between id and id"], "either --on"),
        (["--condition", "n <= id"], "not understood"),
        (["--condition", "n between id and id", "--algorithm", "inlj"], "meshjoin, rmeshjoin"),
    ],
)
def test_conditions_that_cannot_be_used(files, run, arguments, says):
    where = ["--stream", files / "stream.parquet", "--master", files / "master.parquet"]
    code, _, err = run("join", *where, "--out", files / "out", *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert says in err
