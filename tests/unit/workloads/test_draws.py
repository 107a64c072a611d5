from __future__ import annotations

import numpy as np
import pytest

from semistream.workloads.draws import Bits, block_generator, hash_words
from semistream.workloads.text import numbered


def test_blocks_and_purposes_draw_differently():
    draws = [
        block_generator(1, "a", 0).random(),
        block_generator(1, "a", 1).random(),
        block_generator(1, "b", 0).random(),
        block_generator(2, "a", 0).random(),
    ]
    assert len(set(draws)) == 4


def test_every_bit_of_a_hash_is_balanced():
    words = hash_words(5, "test", np.arange(20_000))
    ones = [int(((words >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(64)]
    assert max(abs(count - 10_000) for count in ones) < 350  # 5 standard deviations


def test_bits_are_disjoint():
    bits = Bits(np.array([0xABCD], dtype=np.uint64))
    assert [bits.take(4).tolist() for _ in range(4)] == [[0xD], [0xC], [0xB], [0xA]]


def test_bits_run_out_with_an_error():
    bits = Bits(np.zeros(1, dtype=np.uint64))
    bits.take(60)
    with pytest.raises(ValueError, match="5 more bits after 60 of 64"):
        bits.take(5)


def test_below_reaches_every_value():
    bits = Bits(np.arange(1 << 12, dtype=np.uint64))
    assert np.bincount(bits.below(8, 12)).tolist() == [512] * 8


def test_numbered_text_of_no_rows():
    assert numbered("SKU-", np.empty(0, dtype=np.int64), digits=8).to_pylist() == []


def test_numbered_text_keeps_every_digit():
    numbers = np.array([0, 9_999, 10_000, 123_456_789_012])
    assert numbered("x", numbers, digits=12).to_pylist() == [f"x{n:012d}" for n in numbers]
