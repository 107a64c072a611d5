"""The samplers against the probabilities they promise."""

from __future__ import annotations

import numpy as np
import pytest

from semistream.workloads.ranks import ZipfRanks, paper_ranks

SKEWS = [0.0, 0.5, 0.99999, 1.0, 1.2]


def even_grid(points: int) -> np.ndarray:
    """Instead of random numbers: the share of points per rank is then exact but for the ends."""
    return (np.arange(points) + 0.5) / points


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("domain", [1, 2, 50, 1_023, 1_024, 1_025, 3_000])
def test_every_rank_has_its_exact_share(domain: int, skew: float):
    points = 1_000_000
    counts = np.bincount(ZipfRanks(domain, skew).of(even_grid(points)), minlength=domain + 1)
    weights = np.arange(1, domain + 1) ** -skew
    assert counts[0] == 0
    assert np.abs(counts[1:] - points * weights / weights.sum()).max() < 2


@pytest.mark.parametrize("skew", SKEWS)
def test_random_ranks_pass_a_chi_square_test(skew: float):
    domain, draws = 2_000, 1_000_000
    ranks = ZipfRanks(domain, skew).of(np.random.default_rng(3).random(draws))
    expected = np.arange(1, domain + 1) ** -skew
    expected *= draws / expected.sum()
    seen = np.bincount(ranks, minlength=domain + 1)[1:]
    chi_square = float((((seen - expected) ** 2) / expected).sum())
    freedom = domain - 1
    assert abs(chi_square - freedom) < 4 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("skew", SKEWS)
def test_a_large_domain_has_the_right_cumulated_shares(skew: float):
    domain, points = 2_000_000, 1_000_000
    ranks = ZipfRanks(domain, skew).of(even_grid(points))
    exact = np.cumsum(np.arange(1, domain + 1, dtype=np.float64) ** -skew)
    exact /= exact[-1]
    for rank in (1, 10, 1_000, 1_024, 1_030, 100_000, 1_999_999):
        share = np.searchsorted(ranks, rank, side="right") / points
        assert share == pytest.approx(exact[rank - 1], abs=2e-6)


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("domain", [1, 7, 1_024, 99_999_999, 100_000_000])
def test_the_ends_of_the_unit_interval_stay_inside(domain: int, skew: float):
    ends = np.array([0.0, np.nextafter(1.0, 0.0)])
    for ranks in (ZipfRanks(domain, skew).of(ends), paper_ranks(ends, domain, skew)):
        assert ranks[0] == 1
        assert 1 <= ranks[1] <= domain
    assert ZipfRanks(domain, skew).of(ends)[1] == domain


def test_a_number_on_a_border_belongs_to_the_rank_above():
    assert ZipfRanks(4, 0.0).of(np.array([0.0, 0.25, 0.5, 0.75])).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("skew", SKEWS)
def test_no_draws_give_no_ranks(skew: float):
    assert ZipfRanks(10, skew).of(np.empty(0)).tolist() == []


def test_the_papers_ranks_follow_the_logarithm():
    points, domain = 1_000_000, 500
    counts = np.bincount(paper_ranks(even_grid(points), domain, 1.0), minlength=domain + 1)[1:]
    rank = np.arange(1, domain + 1)
    expected = points * np.log((rank + 1) / rank) / np.log(domain + 1)
    assert np.abs(counts - expected).max() < 2


def test_the_papers_ranks_are_uniform_without_skew():
    counts = np.bincount(paper_ranks(even_grid(100_000), 10, 0.0))
    assert counts.tolist() == [0] + [10_000] * 10
