from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from semistream.errors import InputError
from tests.unit.workloads.conftest import Make, master_of, stream_of

KEYS = "product_id"


def counts_by_key(workload) -> np.ndarray:
    keys = stream_of(workload)[KEYS].to_numpy()
    return np.bincount(keys, minlength=workload.master_rows + 1)[1:]


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0, 1.2])
@pytest.mark.parametrize("placement", ["random", "rank"])
def test_frequencies_follow_the_law_at_their_keys(make: Make, placement: str, skew: float):
    rows = 300_000
    workload = make("zipf", master_rows=500, stream_rows=rows, skew=skew, placement=placement)
    counts = counts_by_key(workload)
    if placement == "random" and skew:
        assert abs(np.corrcoef(counts, np.arange(500))[0, 1]) < 0.2
        counts = np.sort(counts)[::-1]
    expected = np.arange(1, 501) ** -skew
    expected *= rows / expected.sum()
    # Sorting flatters the fit (and, without skew, spoils it), hence a bound from above only.
    assert ((counts - expected) ** 2 / expected).sum() < 499 + 4 * np.sqrt(2 * 499)


def test_by_rank_the_smallest_keys_are_the_most_frequent(make: Make):
    counts = counts_by_key(make("zipf", stream_rows=50_000, placement="rank"))
    assert np.argsort(-counts)[:5].tolist() == [0, 1, 2, 3, 4]


def test_at_random_the_seed_moves_the_most_frequent_key(make: Make):
    hottest = {
        int(counts_by_key(make("zipf", stream_rows=5_000, seed=s)).argmax()) for s in range(8)
    }
    assert len(hottest) > 4


@pytest.mark.parametrize("placement", ["random", "rank"])
def test_the_master_has_each_key_once(make: Make, placement: str):
    keys = master_of(make("zipf", master_rows=70_000, placement=placement))[KEYS].to_numpy()
    assert np.array_equal(np.sort(keys), np.arange(1, 70_001))
    assert np.array_equal(keys, np.sort(keys)) == (placement == "rank")


def test_rows_have_the_sizes_of_the_papers(make: Make):
    workload = make("zipf", master_rows=20_000, stream_rows=20_000)
    assert stream_of(workload).nbytes == 20 * 20_000
    assert 115 < master_of(workload).nbytes / 20_000 < 125


def test_attributes_belong_to_the_key_and_not_to_the_order(make: Make):
    ordered, scattered = (
        master_of(make("zipf", placement=placement)).sort_by(KEYS).drop(["surrogate_key"])
        for placement in ("rank", "random")
    )
    assert ordered.equals(scattered)


def test_surrogate_keys_are_dense_and_prices_are_whole_cents(make: Make):
    master = master_of(make("zipf", master_rows=5_000))
    assert master["surrogate_key"].to_pylist() == list(range(1, 5_001))
    prices = master["sale_price"].to_numpy()
    assert np.array_equal(prices, np.round(prices, 2))
    assert pc.all(pc.less(master["cost_price"], master["sale_price"])).as_py()
    assert len(set(prices)) > 2_000
    assert len(set(master["name"].to_pylist())) > 1_000


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_absent_keys_have_their_share_and_are_beyond_the_master(make: Make, share: float):
    workload = make("zipf", stream_rows=40_000, absent=share, placement="rank")
    keys = stream_of(workload)[KEYS].to_numpy()
    absent = keys[keys > workload.master_rows]
    assert len(absent) / 40_000 == pytest.approx(share, abs=0.01)
    assert absent.max() <= 2 * workload.master_rows
    assert np.bincount(absent - workload.master_rows).argmax() == 1


def test_the_other_keys_stay_when_some_become_absent_or_null(make: Make):
    plain = stream_of(make("zipf"))[KEYS].to_numpy()
    mixed = stream_of(make("zipf", absent=0.3, null=0.2))[KEYS].to_pylist()
    kept = [(p, m) for p, m in zip(plain, mixed, strict=True) if m is not None and m <= 140]
    assert 400 < len(kept) < 600
    assert all(p == m for p, m in kept)


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_null_keys_have_their_share(make: Make, share: float):
    keys = stream_of(make("zipf", stream_rows=40_000, null=share))[KEYS]
    assert keys.null_count / 40_000 == pytest.approx(share, abs=0.01)


def test_without_shares_every_key_matches(make: Make):
    keys = stream_of(make("zipf", stream_rows=20_000))[KEYS]
    assert keys.null_count == 0
    assert pc.min(keys).as_py() >= 1
    assert pc.max(keys).as_py() <= 140


def test_event_ids_count_the_tuples(make: Make):
    assert stream_of(make("zipf"))["event_id"].to_pylist() == list(range(1_000))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"placement": "sorted"}, "placement is 'sorted': give one of random, rank"),
        ({"absent": 1.5}, "absent is 1.5: give a number from 0 to 1"),
        ({"null": -0.5}, "null is -0.5: give a number from 0 to 1"),
        ({"absent": 0.6, "null": 0.6}, "absent is 0.6 and null is 0.6: together at most 1"),
    ],
)
def test_bad_options_are_refused(make: Make, options: dict, message: str):
    with pytest.raises(InputError, match=message):
        make("zipf", **options)
