"""SipHash-2-4 with 128-bit output, over variable-width values and over rows of words.

A keyed, well-mixed 128-bit fingerprint lets joins compare keys of any type as two integers: one
is the key's code (hash tables, sort order), the other its check. Two different keys agree in both
with probability 2**-128 per pair.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.kernels.arrays import U64Array

_U = np.uint64
_C0 = np.uint64(0x736F6D6570736575)
_C1 = np.uint64(0x646F72616E646F6D)
_C2 = np.uint64(0x6C7967656E657261)
_C3 = np.uint64(0x7465646279746573)


@njit(inline="always")
def _rotl(x, b):  # type: ignore[no-untyped-def]
    return (x << _U(b)) | (x >> _U(64 - b))


@njit(inline="always")
def _round(v0, v1, v2, v3):  # type: ignore[no-untyped-def]
    v0 += v1
    v1 = _rotl(v1, 13) ^ v0
    v0 = _rotl(v0, 32)
    v2 += v3
    v3 = _rotl(v3, 16) ^ v2
    v0 += v3
    v3 = _rotl(v3, 21) ^ v0
    v2 += v1
    v1 = _rotl(v1, 17) ^ v2
    v2 = _rotl(v2, 32)
    return v0, v1, v2, v3


@njit(inline="always")
def _absorb(v0, v1, v2, v3, word):  # type: ignore[no-untyped-def]
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@njit(inline="always")
def _finish(v0, v1, v2, v3):  # type: ignore[no-untyped-def]
    v2 ^= _U(0xEE)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= _U(0xDD)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3


@njit(cache=True, nogil=True)
def _hash_bytes(offsets, data, k0, k1, codes, checks):  # type: ignore[no-untyped-def]
    for i in range(len(codes)):
        at, end = offsets[i], offsets[i + 1]
        length = end - at
        v0, v1, v2, v3 = k0 ^ _C0, k1 ^ _C1 ^ _U(0xEE), k0 ^ _C2, k1 ^ _C3
        while at + 8 <= end:
            word = _U(0)
            for j in range(8):
                word |= _U(data[at + j]) << _U(8 * j)
            v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word)
            at += 8
        word = _U(length & 0xFF) << _U(56)
        for j in range(end - at):
            word |= _U(data[at + j]) << _U(8 * j)
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word)
        codes[i], checks[i] = _finish(v0, v1, v2, v3)


@njit(cache=True, nogil=True)
def _hash_words(words, k0, k1, codes, checks):  # type: ignore[no-untyped-def]
    rows, width = words.shape
    tail = _U((8 * width) & 0xFF) << _U(56)
    for i in range(rows):
        v0, v1, v2, v3 = k0 ^ _C0, k1 ^ _C1 ^ _U(0xEE), k0 ^ _C2, k1 ^ _C3
        for j in range(width):
            v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, words[i, j])
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, tail)
        codes[i], checks[i] = _finish(v0, v1, v2, v3)


# The seed is public and fixed: it gives one layout for one master wherever it is built.
SEED = (np.uint64(0x73656D6973747265), np.uint64(0x616D6A6F696E6B65))


def hash_bytes(
    offsets: np.ndarray, data: np.ndarray, seed: tuple[np.uint64, np.uint64] = SEED
) -> tuple[U64Array, U64Array]:
    """128-bit fingerprints of `data[offsets[i]:offsets[i + 1]]`, as (codes, checks)."""
    count = len(offsets) - 1
    codes, checks = np.empty(count, np.uint64), np.empty(count, np.uint64)
    _hash_bytes(offsets.astype(np.int64, copy=False), data, seed[0], seed[1], codes, checks)
    return codes, checks


def hash_words(
    words: np.ndarray, seed: tuple[np.uint64, np.uint64] = SEED
) -> tuple[U64Array, U64Array]:
    """128-bit fingerprints of the rows of a 2-d array of 64-bit words, as (codes, checks)."""
    codes, checks = np.empty(len(words), np.uint64), np.empty(len(words), np.uint64)
    _hash_words(np.ascontiguousarray(words), seed[0], seed[1], codes, checks)
    return codes, checks
