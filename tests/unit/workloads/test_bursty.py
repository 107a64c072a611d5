from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from semistream.errors import InputError
from semistream.workloads.bursty import BurstyWorkload
from tests.unit.workloads.conftest import Make, master_of, stream_of

START = np.datetime64("2024-01-01T00:00:00", "us")


def bursty(**options: object) -> BurstyWorkload:
    few: dict = {"master_rows": 1_000, "stream_rows": 20_000, "virtual_streams": 5}
    return BurstyWorkload(**(few | options))


def seconds_of(table: pa.Table) -> np.ndarray:
    return (table["sold_at"].to_numpy() - START) / np.timedelta64(1, "s")


def test_steps_and_batches_hold_the_same_tuples():
    workload = bursty(stream_rows=150_000)
    steps = pa.Table.from_batches([batch for _, batch in workload.steps()])
    assert steps.equals(stream_of(workload))


@pytest.mark.parametrize("step_s", [1.0, 0.25, 60.0])
def test_every_tuple_is_sold_at_the_time_of_its_step(step_s: float):
    times = []
    for time_s, batch in bursty(step_s=step_s).steps():
        times.append(time_s)
        assert np.allclose(seconds_of(pa.Table.from_batches([batch])), time_s)
    assert np.allclose(times, step_s * np.arange(1, len(times) + 1))


def test_silent_steps_are_seen_as_empty_batches():
    workload = bursty(virtual_streams=3)
    sizes = [batch.num_rows for _, batch in workload.steps()]
    assert 0.05 < sizes.count(0) / len(sizes) < 0.25  # all three off: 1 in 8
    assert sum(sizes) == 20_000
    assert all(batch.schema.equals(workload.stream_schema) for _, batch in workload.steps())


def test_no_step_follows_the_last_tuple():
    *_, (_, last) = bursty(virtual_streams=2, stream_rows=501).steps()
    assert last.num_rows > 0
    assert list(bursty(stream_rows=0).steps()) == []


def test_sold_at_never_goes_back():
    assert np.all(np.diff(seconds_of(stream_of(bursty(stream_rows=200_000)))) >= 0)


def test_arrivals_within_minutes_are_not_poisson():
    seconds = seconds_of(stream_of(bursty(stream_rows=500_000, virtual_streams=6)))
    per_minute = np.bincount((seconds / 60).astype(int))[:-1]
    assert per_minute.var() / per_minute.mean() > 50  # 1 for a Poisson process


def test_keys_follow_the_inverse_integral_by_rank():
    keys = stream_of(bursty(stream_rows=400_000))["product_id"].to_numpy()
    rank = np.arange(1, 1_001)
    expected = 400_000 * np.log((rank + 1) / rank) / np.log(1_001)
    counts = np.bincount(keys, minlength=1_001)[1:]
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square - 999) < 4 * np.sqrt(2 * 999)


def test_a_fifth_of_the_products_makes_most_of_the_sales():
    keys = stream_of(bursty(stream_rows=100_000))["product_id"].to_numpy()
    assert 0.7 < (keys <= 200).mean() < 0.85


def test_keys_can_be_placed_at_random():
    keys = stream_of(bursty(placement="random"))["product_id"].to_numpy()
    assert np.bincount(keys).argmax() != 1
    assert np.median(keys) > 100


def test_the_master_is_sorted_by_frequency():
    assert master_of(bursty())["product_id"].to_pylist() == list(range(1, 1_001))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"virtual_streams": 0}, "virtual_streams is 0: give a whole number from 1 to 16"),
        ({"virtual_streams": 17}, "virtual_streams is 17: give a whole number from 1 to 16"),
        ({"step_s": 0}, "step_s is 0: give a number from 1e-06 to 86400"),
        ({"placement": "hot"}, "placement is 'hot': give one of random, rank"),
    ],
)
def test_bad_options_are_refused(make: Make, options: dict, message: str):
    with pytest.raises(InputError, match=message):
        make("bursty", **options)
