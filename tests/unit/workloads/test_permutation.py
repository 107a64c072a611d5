from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.workloads.permutation import Permutation


@given(size=st.integers(1, 5_000), seed=st.integers(0, 2**63 - 1))
def test_it_is_a_bijection(size: int, seed: int):
    places = Permutation(size, seed=seed, purpose="test").apply(np.arange(size))
    assert np.array_equal(np.sort(places), np.arange(size))


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_that_leave_no_choice(size: int):
    values = np.arange(size)
    assert np.array_equal(Permutation(size, seed=1, purpose="test").apply(values), values)


def test_arguments_are_left_alone():
    values = np.arange(100)
    Permutation(100, seed=1, purpose="test").apply(values)
    assert np.array_equal(values, np.arange(100))


def test_seed_and_purpose_matter():
    values = np.arange(1_000)
    first = Permutation(1_000, seed=1, purpose="test").apply(values)
    assert not np.array_equal(first, Permutation(1_000, seed=2, purpose="test").apply(values))
    assert not np.array_equal(first, Permutation(1_000, seed=1, purpose="other").apply(values))


@pytest.mark.parametrize("size", [1_000_003, 1 << 20, 100_000_000])
def test_neighbouring_ranks_scatter_like_random_numbers(size: int):
    # Throw the first 2000 values into 200 bins: random placement has variance = mean. Evenly
    # spread placement (a multiplication modulo the size) has almost none, clusters have more.
    dispersions = []
    for seed in range(30):
        places = Permutation(size, seed=seed, purpose="test").apply(np.arange(2_000))
        counts = np.bincount(places * 200 // size, minlength=200)
        dispersions.append(counts.var() / counts.mean())
    assert 0.9 < np.mean(dispersions) < 1.1


def test_the_place_of_the_first_value_is_uniform_over_seeds():
    first = np.zeros(1, dtype=np.int64)
    places = [Permutation(10, seed=s, purpose="test").apply(first)[0] for s in range(2_000)]
    counts = np.bincount(places, minlength=10)
    assert ((counts - 200) ** 2 / 200).sum() < 30  # 9 degrees of freedom: 28 is 1 in 1000
