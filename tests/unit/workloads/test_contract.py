"""Laws that hold for every workload in the registry."""

from __future__ import annotations

import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semistream.errors import InputError
from semistream.workloads import make_workload, workload_names
from semistream.workloads.base import BLOCK_ROWS
from tests.unit.workloads.conftest import Make, master_of, stream_of

SEEDED = [name for name in workload_names() if name != "tpch"]

every_workload = pytest.mark.parametrize("name", workload_names())
seeded_workload = pytest.mark.parametrize("name", SEEDED)
few_examples = settings(
    max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def test_the_registry_has_the_five_workloads():
    assert set(workload_names()) == {"zipf", "bursty", "tpch", "locality", "weather"}


@every_workload
def test_rows_and_schema_are_those_promised(make: Make, name: str):
    workload = make(name)
    assert workload.name == name
    for batches, schema, rows in (
        (workload.master_batches(), workload.master_schema, workload.master_rows),
        (workload.stream_batches(), workload.stream_schema, workload.stream_rows),
    ):
        table = pa.Table.from_batches(batches)
        table.validate(full=True)
        assert table.schema.equals(schema)
        assert table.num_rows == rows


@every_workload
def test_key_columns_exist_and_have_one_type(make: Make, name: str):
    workload = make(name)
    for stream_column, master_column in zip(workload.stream_key, workload.master_key, strict=True):
        stream_type = workload.stream_schema.field(stream_column).type
        assert stream_type == workload.master_schema.field(master_column).type


@every_workload
def test_some_stream_tuples_match(make: Make, name: str):
    workload = make(name)
    stream_keys = set(stream_of(workload)[workload.stream_key[0]].to_pylist())
    assert stream_keys & set(master_of(workload)[workload.master_key[0]].to_pylist())


@every_workload
@few_examples
@given(batch_rows=st.integers(1, 3_000), rows=st.integers(0, 1_000))
def test_batch_size_changes_only_the_cuts(make: Make, name: str, batch_rows: int, rows: int):
    workload = make(name, stream_rows=rows)
    whole = stream_of(workload)
    batches = list(workload.stream_batches(batch_rows))
    assert all(batch.num_rows == batch_rows for batch in batches[:-1])
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    assert pa.Table.from_batches(batches, workload.stream_schema).equals(whole)
    assert master_of(workload, batch_rows).equals(master_of(workload))


@seeded_workload
@pytest.mark.parametrize("batch_rows", [50_000, 1_000_000])
def test_batches_across_blocks_hold_the_same_rows(make: Make, name: str, batch_rows: int):
    rows = 2 * BLOCK_ROWS + 17
    workload = make(name, master_rows=rows, stream_rows=rows)
    for whole, batches in (
        (stream_of(workload), list(workload.stream_batches(batch_rows))),
        (master_of(workload), list(workload.master_batches(batch_rows))),
    ):
        assert pa.Table.from_batches(batches).equals(whole)
        assert all(batch.num_rows == batch_rows for batch in batches[:-1])


@seeded_workload
@few_examples
@given(seed=st.integers(0, 2**63 - 1))
def test_the_seed_decides_everything(make: Make, name: str, seed: int):
    first, again = (make(name, seed=seed) for _ in range(2))
    other = make(name, seed=(seed + 1) % 2**63)
    assert stream_of(first).equals(stream_of(again))
    assert master_of(first).equals(master_of(again))
    assert not stream_of(first).equals(stream_of(other))
    assert not master_of(first).equals(master_of(other))


@pytest.mark.parametrize("name", ["zipf", "bursty"])
def test_a_longer_stream_begins_like_a_shorter_one(make: Make, name: str):
    longer = stream_of(make(name, stream_rows=BLOCK_ROWS + 900))
    assert longer.slice(0, BLOCK_ROWS + 5).equals(stream_of(make(name, stream_rows=BLOCK_ROWS + 5)))


@every_workload
@pytest.mark.parametrize(("master_rows", "stream_rows"), [(0, 0), (0, 10), (10, 0), (1, 9)])
def test_few_rows_or_none(make: Make, name: str, master_rows: int, stream_rows: int):
    workload = make(name, master_rows=master_rows, stream_rows=stream_rows)
    assert master_of(workload).num_rows == master_rows
    assert stream_of(workload).num_rows == stream_rows


@every_workload
@pytest.mark.parametrize(
    ("parameter", "value", "allowed"),
    [
        ("master_rows", -1, "from 0 to"),
        ("stream_rows", -1, "from 0 to"),
        ("stream_rows", 1.5, "whole number"),
        ("stream_rows", "10", "whole number"),
        ("stream_rows", True, "whole number"),
        ("skew", -0.1, "from 0 to 1.2"),
        ("skew", 1.21, "from 0 to 1.2"),
        ("skew", float("nan"), "from 0 to 1.2"),
        ("skew", "1", "from 0 to 1.2"),
        ("seed", -1, "from 0 to 2^63 - 1"),
        ("seed", 2**63, "from 0 to 2^63 - 1"),
    ],
)
def test_bad_parameters_are_refused(
    make: Make, name: str, parameter: str, value: object, allowed: str
):
    with pytest.raises(InputError) as refused:
        make(name, **{parameter: value})
    assert f"{parameter} is {value!r}" in str(refused.value)
    assert allowed in str(refused.value)


@every_workload
@pytest.mark.parametrize("batch_rows", [0, -5, 2.0])
def test_bad_batch_size_is_refused_at_the_call(make: Make, name: str, batch_rows: int):
    for batches in (make(name).master_batches, make(name).stream_batches):
        with pytest.raises(InputError, match="batch_rows is"):
            batches(batch_rows)


def test_an_unknown_workload_lists_the_known_ones():
    with pytest.raises(InputError, match="'zip': there are zipf, bursty, tpch, locality, weather"):
        make_workload("zip", master_rows=1, stream_rows=1)


def test_an_unknown_option_lists_the_known_ones():
    with pytest.raises(InputError, match=r"'copies': there are placement, absent, null$"):
        make_workload("zipf", master_rows=1, stream_rows=1, copies=2)


@pytest.mark.parametrize(
    ("name", "master_rows", "stream_rows"),
    [
        ("zipf", 100_000_000, 5_000_000),
        ("bursty", 100_000_000, 5_000_000),
        ("locality", 100_000_000, 5_000_000),
        ("weather", 100_000_000, 1_000_000),
    ],
)
def test_memory_does_not_grow_with_the_stream(name: str, master_rows: int, stream_rows: int):
    workload = make_workload(name, master_rows=master_rows, stream_rows=stream_rows)
    arrow_before, arrow_peak, rows = pa.total_allocated_bytes(), 0, 0
    tracemalloc.start()
    try:
        for batch in workload.stream_batches():
            rows += batch.num_rows
            arrow_peak = max(arrow_peak, pa.total_allocated_bytes() - arrow_before)
        numpy_peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows == stream_rows
    row_bytes = 128 if name == "weather" else 28
    # Eight blocks, for the batch and what it is made from; the whole stream has 15 or 76.
    assert numpy_peak + arrow_peak < 8 * BLOCK_ROWS * row_bytes


def test_memory_does_not_grow_with_the_master():
    workload = make_workload("zipf", master_rows=1_000_000, stream_rows=0)
    arrow_before, arrow_peak = pa.total_allocated_bytes(), 0
    tracemalloc.start()
    try:
        for _ in workload.master_batches():
            arrow_peak = max(arrow_peak, pa.total_allocated_bytes() - arrow_before)
        numpy_peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert numpy_peak + arrow_peak < 4 * BLOCK_ROWS * 120
