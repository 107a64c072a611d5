"""Files as people have them: guessed types, folders of unlike files, outputs in use."""

from __future__ import annotations

import json
import sys
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from semistream.cli import main
from semistream.errors import InputError
from semistream.sources import open_source


@pytest.fixture
def join(monkeypatch, capsys, tmp_path):
    """Join `stream` with `master` on `id`: exit code, joined rows, the error."""

    def call(stream, master, *more):
        where = ["--stream", tmp_path / stream, "--master", tmp_path / master]
        command = ["join", *where, "--on", "id", "--out", tmp_path / "out", "--memory", "1MB"]
        monkeypatch.setattr(sys, "argv", ["semistream", *map(str, [*command, *more])])
        code = main()
        error = capsys.readouterr().err
        assert len(error.splitlines()) == (1 if code else 0), error
        rows = [] if code else parquet.read_table(tmp_path / "out/joined").to_pylist()
        return code, sorted(rows, key=str), error

    return call


def write(folder, **files):
    """Text as `name_csv` or `name_jsonl`; a dict of columns as Parquet."""
    for name, content in files.items():
        if isinstance(content, str):
            (folder / name.replace("_", ".")).write_text(content)
        else:
            parquet.write_table(pa.table(content), folder / f"{name}.parquet")


@pytest.mark.parametrize(
    ("stream", "master", "ids"),
    [
        ("id\n007\n7\n", {"id": ["007", "8"]}, ["007"]),
        ({"id": ["007", "7"]}, "id\n007\n8\n", ["007"]),
        ("id\n1\nA7\n", "id\n1\n2\n", ["1"]),
        ("id\n1\n2\n", "id\n1\nA7\n", ["1"]),
        ("id\n1\n300\n", {"id": pa.array([1, 2], pa.int8())}, [1]),
        ("id\n1.50\n2.25\n", {"id": [Decimal("1.50"), Decimal("3.00")]}, [Decimal("1.50")]),
        ({"id": [1, 2]}, "id\n", []),
        ("id\n", "id\n", []),
    ],
)
def test_guessed_keys_follow_the_other_side(join, tmp_path, stream, master, ids):
    names = ["stream_csv" if isinstance(stream, str) else "stream"]
    names.append("master_csv" if isinstance(master, str) else "master")
    write(tmp_path, **dict(zip(names, [stream, master], strict=True)))
    paths = [n.replace("_", ".") if "_" in n else f"{n}.parquet" for n in names]
    code, rows, error = join(*paths)
    assert code == 0, error
    assert [row["id"] for row in rows] == ids


def test_a_stream_of_one_json_line_without_a_newline(join, tmp_path):
    write(tmp_path, s_jsonl='{"id": 5}', m={"id": [5], "v": ["a"]})
    assert join("s.jsonl", "m.parquet")[1] == [{"id": 5, "v": "a"}]


def test_json_keys_follow_the_master(join, tmp_path):
    big = 2**64 - 1
    write(tmp_path, s_jsonl=f'{{"id": {big}}}\n{{"id": 3}}\n', m={"id": pa.array([big], "uint64")})
    assert join("s.jsonl", "m.parquet")[1] == [{"id": big}]
    write(tmp_path, s_jsonl='{"id": "2024-01-01"}\n', m={"id": ["2024-01-01", "x"]})
    assert join("s.jsonl", "m.parquet")[1] == [{"id": "2024-01-01"}]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_folder_has_the_columns_of_all_its_files(tmp_path, suffix):
    tables = [{"id": [1], "n": [1]}, {"id": [3], "n": [2.5], "late": ["q"]}]
    for number, table in enumerate(tables):
        path = tmp_path / f"{number}.{suffix}"
        if suffix == "parquet":
            parquet.write_table(pa.table(table), path)
        elif suffix == "csv":
            values = ",".join(str(column[0]) for column in table.values())
            path.write_text(f"{','.join(table)}\n{values}\n")
        else:
            path.write_text(json.dumps({name: column[0] for name, column in table.items()}))
    rows = [
        row for batch in open_source(str(tmp_path), what="x").batches() for row in batch.to_pylist()
    ]
    assert sorted(rows, key=str) == [
        {"id": 1, "n": 1.0, "late": None},
        {"id": 3, "n": 2.5, "late": "q"},
    ]


def test_a_number_in_one_file_and_text_in_another_is_text(tmp_path):
    (tmp_path / "a.csv").write_text("id\n1\n")
    (tmp_path / "b.csv").write_text("id\nx9\n")
    (tmp_path / "c.csv").write_text("")
    source = open_source(str(tmp_path), what="stream")
    assert source.schema.field("id").type == pa.string()
    assert sorted(row["id"] for b in source.batches() for row in b.to_pylist()) == ["1", "x9"]


def test_a_failed_join_leaves_the_earlier_result(join, tmp_path):
    write(tmp_path, m={"id": [1], "v": ["a"]}, s={"id": [1]})
    assert join("s.parquet", "m.parquet")[0] == 0
    (tmp_path / "t").mkdir()
    write(tmp_path / "t", a_csv="id,n\n" + "1,1\n" * 400_000 + "1,x\n")
    code, _, error = join("t", "m.parquet")
    assert code == 2
    assert "invalid value 'x'" in error
    assert parquet.read_table(tmp_path / "out/joined").to_pylist() == [{"id": 1, "v": "a"}]
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        *("joined", "shed", "unmatched")
    ]


def test_a_result_can_be_joined_in_place(join, tmp_path):
    write(tmp_path, m={"id": [1], "v": ["a"]}, s={"id": [1]})
    assert join("s.parquet", "m.parquet")[0] == 0
    assert join("out/joined", "m.parquet")[1] == [{"id": 1, "v": "a", "v_master": "a"}]


def test_what_no_join_wrote_is_not_deleted(join, tmp_path):
    write(tmp_path, m={"id": [1]}, s={"id": [1]})
    (tmp_path / "out/joined").mkdir(parents=True)
    (tmp_path / "out/joined/thesis.doc").write_text("years of work")
    code, _, error = join("s.parquet", "m.parquet")
    assert code == 2
    assert "thesis.doc" in error
    assert (tmp_path / "out/joined/thesis.doc").exists()


def test_columns_parquet_cannot_hold_are_refused(join, tmp_path):
    write(tmp_path, m={"id": [1]})
    spans = pa.table({"id": [1], "span": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with ipc.new_file(tmp_path / "s.arrow", spans.schema) as writer:
        writer.write_table(spans)
    code, _, error = join("s.arrow", "m.parquet")
    assert code == 2
    assert "Parquet cannot hold" in error


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--memory", "9999TB"], "more than the memory of this machine"),
        (["--on", "id,id"], "twice"),
    ],
)
def test_other_refusals(join, tmp_path, more, says):
    write(tmp_path, m={"id": [1]}, s={"id": [1]})
    code, _, error = join("s.parquet", "m.parquet", *more)
    assert code == 2
    assert says in error


def test_no_master_columns_can_be_asked_for(join, tmp_path):
    write(tmp_path, m={"id": [1], "v": ["a"]}, s={"id": [1]})
    assert join("s.parquet", "m.parquet", "--select", "")[1] == [{"id": 1}]
    assert join("s.parquet", "m.parquet", "--select", "v, id")[1] == [
        {"id": 1, "v": "a", "id_master": 1}
    ]


def test_no_path_is_no_folder():
    with pytest.raises(InputError, match="does not exist"):
        open_source("", what="stream")
