"""Random numbers that depend on where a row stands, not on how the rows were asked for."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

# SplitMix64's finaliser (Steele, Lea, Flood 2014): every input bit reaches every output bit.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def purpose_id(purpose: str) -> int:
    """A number for a purpose (a column, a permutation), so that no two share their draws."""
    return zlib.crc32(purpose.encode())


def block_generator(seed: int, purpose: str, block: int = 0) -> np.random.Generator:
    """The generator of one block of one column.

    A shorter last block draws a prefix of the full block, so a longer stream begins like a
    shorter one. Costs about 20 µs.
    """
    return np.random.default_rng([seed, purpose_id(purpose), block])


def hash_words(seed: int, purpose: str, values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """64 well-mixed bits per value: attributes that are a function of seed and key alone."""
    salt = block_generator(seed, purpose).integers(0, 1 << 64, dtype=np.uint64)
    words = values.astype(np.uint64)
    words *= _GOLDEN
    words += salt
    words ^= words >> np.uint64(30)
    words *= _FIRST
    words ^= words >> np.uint64(27)
    words *= _SECOND
    words ^= words >> np.uint64(31)
    return words


class Bits:
    """Hands out disjoint groups of bits of 64-bit words, lowest first."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words
        self._used = 0

    def take(self, count: int) -> NDArray[np.int64]:
        """The next `count` bits of each word, as integers below 2^count."""
        if self._used + count > 64:
            raise ValueError(f"{count} more bits after {self._used} of 64")
        bits = self._words >> np.uint64(self._used)
        bits &= np.uint64((1 << count) - 1)
        self._used += count
        return bits.astype(np.int64)

    def below(self, bound: int, count: int) -> NDArray[np.int64]:
        """Integers below `bound`, evenly but for 1 in 2^count / bound, from `count` bits."""
        return (self.take(count) * bound) >> count
