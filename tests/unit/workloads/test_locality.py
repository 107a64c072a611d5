from __future__ import annotations

import numpy as np
import pytest

from semistream.errors import InputError
from tests.unit.workloads.conftest import Make, master_of, stream_of


def keys_of(workload) -> np.ndarray:
    return stream_of(workload)["product_id"].to_numpy()


@pytest.mark.parametrize("copies", [1, 4, 20])
def test_every_master_key_has_its_copies(make: Make, copies: int):
    keys = master_of(make("locality", master_rows=4_000, copies=copies))["product_id"].to_numpy()
    assert np.bincount(keys).tolist() == [0] + [copies] * (4_000 // copies)


def test_rows_that_do_not_divide_leave_the_last_key_short(make: Make):
    keys = master_of(make("locality", master_rows=10, copies=4))["product_id"].to_numpy()
    assert np.bincount(keys).tolist() == [0, 4, 4, 2]


@pytest.mark.parametrize(
    ("master_rows", "stream_rows", "copies"),
    [(100_000, 200_000, 1), (100_000, 70_001, 10), (1_003, 999, 1)],
)
def test_each_interval_stays_in_its_part(
    make: Make, master_rows: int, stream_rows: int, copies: int
):
    workload = make("locality", master_rows=master_rows, stream_rows=stream_rows, copies=copies)
    keys = keys_of(workload)
    domain = master_rows // copies
    for interval in range(25):
        # The paper's own formulas, from part 0.
        first, end = domain * interval // 25, domain * (interval + 1) // 25
        here = keys[stream_rows * interval // 25 : stream_rows * (interval + 1) // 25]
        assert len(here) > 0
        assert here.min() > first
        assert here.max() <= end


def test_each_interval_is_zipfian_in_itself(make: Make):
    workload = make("locality", master_rows=5_000, stream_rows=500_000, placement="rank")
    keys = keys_of(workload).reshape(25, -1)
    expected = 1 / np.arange(1, 201)
    expected *= keys.shape[1] / expected.sum()
    for interval, here in enumerate(keys):
        counts = np.bincount(here - interval * 200, minlength=201)[1:]
        chi_square = ((counts - expected) ** 2 / expected).sum()
        assert abs(chi_square - 199) < 5 * np.sqrt(2 * 199)


def test_at_random_every_interval_has_a_hot_key_of_its_own(make: Make):
    keys = keys_of(make("locality", master_rows=5_000, stream_rows=50_000)).reshape(25, -1)
    hottest = [int(np.bincount(here).argmax()) % 200 for here in keys]
    assert len(set(hottest)) > 15


def test_fewer_keys_than_intervals_share_keys(make: Make):
    keys = keys_of(make("locality", master_rows=3, stream_rows=2_500))
    assert set(keys.tolist()) == {1, 2, 3}
    assert np.all(np.diff(keys) >= 0)


@pytest.mark.parametrize("option", ["copies", "intervals"])
@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_bad_options_are_refused(make: Make, option: str, value: float):
    with pytest.raises(InputError, match=f"{option} is {value}: give a whole number from 1"):
        make("locality", **{option: value})
