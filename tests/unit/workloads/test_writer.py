from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from semistream.errors import InputError
from semistream.workloads import make_workload, workload_names, write_workload, writer
from tests.unit.workloads.conftest import Make, master_of, stream_of


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", workload_names())
def test_what_is_read_back_is_what_was_generated(make: Make, tmp_path: Path, name: str):
    workload = make(name)
    written = write_workload(workload, tmp_path / "out", None)
    assert pq.read_table(written.master).equals(master_of(workload))
    assert pq.read_table(written.stream).equals(stream_of(workload))
    assert written.on == dict(zip(workload.stream_key, workload.master_key, strict=True))


def test_the_same_workload_gives_the_same_bytes_everywhere(make: Make, tmp_path: Path):
    for folder in ("here", "there"):
        write_workload(make("bursty", seed=4), tmp_path / folder, None)
    here = files_of(tmp_path / "here")
    assert here == files_of(tmp_path / "there")
    assert set(here) == {
        "master/part-00000.parquet",
        "stream/part-00000.parquet",
        "workload.json",
    }
    assert str(tmp_path) not in here["workload.json"].decode()


def test_the_manifest_describes_the_files(make: Make, tmp_path: Path):
    write_workload(make("zipf", seed=4, absent=0.25), tmp_path, None)
    manifest = json.loads((tmp_path / "workload.json").read_text())
    part = tmp_path / "stream" / "part-00000.parquet"
    assert manifest["workload"] == "zipf"
    assert manifest["parameters"]["absent"] == 0.25
    assert manifest["on"] == {"product_id": "product_id"}
    assert (manifest["master_rows"], manifest["stream_rows"]) == (140, 1_000)
    assert manifest["stream"] == [
        {
            "name": part.name,
            "rows": 1_000,
            "bytes": part.stat().st_size,
            "sha256": hashlib.sha256(part.read_bytes()).hexdigest(),
        }
    ]


@pytest.mark.parametrize("name", [n for n in workload_names() if n != "tpch"])
def test_the_parameters_in_the_manifest_make_the_workload_again(
    make: Make, tmp_path: Path, name: str
):
    workload = make(name, seed=9, skew=0.5)
    write_workload(workload, tmp_path, None)
    parameters = json.loads((tmp_path / "workload.json").read_text())["parameters"]
    assert stream_of(make_workload(name, **parameters)).equals(stream_of(workload))


def test_large_sides_have_several_parts(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "PART_ROWS", 65_536)
    workload = make("zipf", stream_rows=150_000)
    written = write_workload(workload, tmp_path, None)
    parts = sorted(written.stream.iterdir())
    assert [pq.read_metadata(part).num_rows for part in parts] == [65_536, 65_536, 18_928]
    assert pq.read_table(written.stream).equals(stream_of(workload))


@pytest.mark.parametrize("name", workload_names())
def test_no_rows_give_valid_empty_files(make: Make, tmp_path: Path, name: str):
    workload = make(name, master_rows=0, stream_rows=0)
    written = write_workload(workload, tmp_path, None)
    assert pq.read_table(written.master).schema.equals(workload.master_schema)
    assert pq.read_table(written.stream).num_rows == 0


def test_progress_is_told_per_batch(make: Make, tmp_path: Path):
    told: list[tuple[str, int, int]] = []
    write_workload(make("zipf", stream_rows=70_000), tmp_path, lambda *news: told.append(news))
    assert told == [
        ("master", 140, 140),
        ("stream", 65_536, 70_000),
        ("stream", 70_000, 70_000),
    ]


def test_an_earlier_workload_is_replaced(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "PART_ROWS", 65_536)
    write_workload(make("zipf", stream_rows=150_000), tmp_path, None)
    written = write_workload(make("zipf", stream_rows=10), tmp_path, None)
    assert pq.read_table(written.stream).num_rows == 10


def test_files_of_others_are_neither_mixed_in_nor_removed(make: Make, tmp_path: Path):
    write_workload(make("zipf"), tmp_path, None)
    before = files_of(tmp_path)
    (tmp_path / "stream" / "sales.csv").write_text("precious")
    with pytest.raises(InputError, match=r"stream holds 'sales.csv', which no workload wrote"):
        write_workload(make("zipf", seed=1), tmp_path, None)
    after = files_of(tmp_path)
    assert after.pop("stream/sales.csv") == b"precious"
    assert after == before


def test_an_interrupted_writing_leaves_no_manifest(make: Make, tmp_path: Path):
    write_workload(make("zipf"), tmp_path, None)

    def interrupt(side: str, _done: int, _rows: int) -> None:
        if side == "stream":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_workload(make("zipf"), tmp_path, interrupt)
    assert not (tmp_path / "workload.json").exists()
    assert write_workload(make("zipf"), tmp_path, None).manifest.exists()


def test_a_file_in_the_way_is_an_input_error(make: Make, tmp_path: Path):
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="cannot make the folder"):
        write_workload(make("zipf"), tmp_path / "out", None)


def test_listing_the_workloads_imports_nothing_heavy():
    program = (
        "import sys; from semistream.workloads import workload_names; workload_names();"
        "print(sorted({'numpy', 'pyarrow'} & set(sys.modules)))"
    )
    include = Path(writer.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=include,
    )
    assert done.stdout.strip() == "[]", done.stderr
