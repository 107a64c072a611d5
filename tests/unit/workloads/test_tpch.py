from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.compute as pc
import pytest

from semistream.errors import InputError, TransientError
from semistream.workloads import tpch
from tests.unit.workloads.conftest import Make, master_of, stream_of


@pytest.mark.parametrize(
    ("master_rows", "stream_rows"), [(140, 1_000), (40, 100), (149, 1_450), (2, 15)]
)
def test_every_order_has_its_customer(make: Make, master_rows: int, stream_rows: int):
    workload = make("tpch", master_rows=master_rows, stream_rows=stream_rows)
    assert master_of(workload)["c_custkey"].to_pylist() == list(range(1, master_rows + 1))
    orders = stream_of(workload)
    assert orders.num_rows == stream_rows
    assert pc.max(orders["o_custkey"]).as_py() <= master_rows
    assert pc.min(orders["o_custkey"]).as_py() >= 1


def test_the_rows_are_those_of_the_benchmark(make: Make):
    workload = make("tpch")
    customer = master_of(workload).slice(0, 1).to_pylist()[0]
    # Customer 1 of the benchmark is the same at every scale.
    assert customer["c_name"] == "Customer#000000001"
    assert customer["c_address"] == "IVhzIApeRb ot,c,E"
    assert customer["c_mktsegment"] == "BUILDING"
    assert str(customer["c_acctbal"]) == "711.56"
    assert stream_of(workload)["o_orderkey"].to_pylist()[:9] == [1, 2, 3, 4, 5, 6, 7, 32, 33]


@pytest.mark.parametrize(
    ("master_rows", "scale"),
    [
        (0, "0.001000"),
        (150, "0.001001"),
        (149, "0.001000"),
        (150_000, "1.000001"),
        (1_000, "0.006667"),
    ],
)
def test_the_scale_has_enough_customers(make: Make, master_rows: int, scale: str):
    assert make("tpch", master_rows=master_rows).parameters["scale_factor"] == scale
    assert int(float(scale) * 150_000) >= master_rows


def test_a_longer_stream_replays_the_orders_under_new_keys(make: Make):
    # All 150 customers of the scale but one, so nearly all of its 1500 orders.
    orders = stream_of(make("tpch", master_rows=149, stream_rows=4_000))
    keys, customers = orders["o_orderkey"].to_pylist(), orders["o_custkey"].to_pylist()
    assert keys == sorted(set(keys))
    again = keys.index(keys[0] + 4 * 1_500)
    assert 1_450 < again <= 1_500
    assert customers[again : 2 * again] == customers[:again]


def test_a_table_in_parts_is_the_same_table(make: Make, monkeypatch: pytest.MonkeyPatch):
    whole = stream_of(make("tpch", stream_rows=1_400))
    monkeypatch.setattr(tpch, "_PART_ROWS", {"customer": 1_000, "orders": 800})
    assert stream_of(make("tpch", stream_rows=1_400)).equals(whole)


def test_temporary_files_go_when_the_reader_stops(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    batches = make("tpch").stream_batches(10)
    next(batches)
    assert len(list(tmp_path.iterdir())) == 1
    del batches
    assert list(tmp_path.iterdir()) == []


def test_a_missing_tool_is_named_with_its_remedy(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"needs tpchgen-cli.*pip install tpchgen-cli"):
        make("tpch")


def test_a_tool_on_the_path_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    tool = fake_tool(tmp_path, "exit 0")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "elsewhere" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tpch.find_tool() == str(tool)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo one >&2; echo disk full >&2; exit 3", r"\(exit 3\), saying: disk full"),
        ("exit 0", r"\(exit 0\), saying: nothing"),
    ],
)
def test_a_tool_that_fails_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, said: str
):
    fake_tool(tmp_path, script)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(TransientError, match=said):
        tpch.run_tool("orders", "0.01", 1, 1, out)


def fake_tool(folder: Path, script: str) -> Path:
    tool = folder / tpch.TOOL
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    return tool


def test_no_orders_for_the_customers_is_an_error_and_not_an_endless_search(
    make: Make, monkeypatch: pytest.MonkeyPatch
):
    workload = make("tpch")
    monkeypatch.setattr(
        type(workload), "_of_our_customers", lambda _self, orders: orders.slice(0, 0)
    )
    with pytest.raises(InputError, match="no TPC-H order belongs to the first 140 customers"):
        next(workload.stream_batches())
