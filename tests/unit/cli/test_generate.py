"""`semistream generate` from the command line."""

from __future__ import annotations

import sys

import pytest
from pyarrow import parquet

from semistream.cli import main


@pytest.fixture
def generate(monkeypatch, capsys, tmp_path):
    def call(workload, *more):
        rows = ["--master-rows", "200", "--stream-rows", "2000", "--out", str(tmp_path / "w")]
        monkeypatch.setattr(sys, "argv", ["semistream", "generate", workload, *rows, *more])
        return main(), capsys.readouterr().err

    return call


def test_the_most_frequent_keys_can_be_the_lowest(generate, tmp_path):
    assert generate("zipf", "--placement", "rank") == (0, "")
    keys = parquet.read_table(tmp_path / "w/stream")["product_id"].to_numpy()
    assert (keys <= 10).mean() > 0.4


@pytest.mark.parametrize(
    ("workload", "placement", "says"),
    [("zipf", "rnk", "random, rank"), ("weather", "rank", "unknown option of workload weather")],
)
def test_placements_are_checked(generate, workload, placement, says):
    code, error = generate(workload, "--placement", placement)
    assert code == 2
    assert says in error
