"""A bounded table of keys with weights: who is in, who is least wanted."""

from __future__ import annotations

import numpy as np

from semistream.kernels import tables
from semistream.kernels.arrays import I32Array, U64Array

_POOL = 4096


class KeyTable:
    """Up to `capacity` numbered entries; entry numbers double as slots of a slab.

    A weight is how often the key was met, halved from time to time; entries that are no key of
    their own (free, or further rows of a key) weigh infinity, so that nobody evicts them.
    """

    def __init__(self, capacity: int, *, is_exact: bool) -> None:
        self.capacity = capacity
        bits = max(int(np.ceil(np.log2(max(capacity, 1) * 1.6))), 3)
        self._shift = 64 - bits
        self._table = np.full(1 << bits, -1, np.int32)
        self.code = np.zeros(capacity, np.uint64)
        self.check = np.zeros(0 if is_exact else capacity, np.uint64)
        self.weight = np.full(capacity, np.inf, np.float32)
        self._free = np.arange(capacity, dtype=np.int32)[::-1].copy()
        self.free_count = capacity
        self._pool = np.empty(0, np.int32)
        self._pool_weight = np.empty(0, np.float32)

    @staticmethod
    def entry_bytes(*, is_exact: bool) -> int:
        return 8 + (0 if is_exact else 8) + 4 + 4 + 13  # the last: table cells at 1.6 to 3.2 each

    @property
    def nbytes(self) -> int:
        arrays = (self._table, self.code, self.check, self.weight, self._free)
        return sum(array.nbytes for array in arrays)

    @property
    def used(self) -> int:
        return self.capacity - self.free_count

    def probe(self, codes: U64Array, checks: U64Array | None) -> I32Array:
        """Entries of the keys, -1 for a miss; every hit makes its entry heavier."""
        return self._find(codes, checks, self.weight)

    def _find(self, codes: U64Array, checks: U64Array | None, weight: np.ndarray) -> I32Array:
        found = np.empty(len(codes), np.int32)
        wanted = self.check[:0] if checks is None else checks
        tables.probe(codes, wanted, self._table, self._shift, self.code, self.check, weight, found)
        return found

    def has(self, codes: U64Array, checks: U64Array | None) -> np.ndarray:
        """Which keys are in; looking does not make them heavier."""
        return self._find(codes, checks, self.weight[:0]) >= 0

    def take(self, count: int) -> I32Array:
        """`count` free entries."""
        self.free_count -= count
        return self._free[self.free_count : self.free_count + count].copy()

    def give_back(self, entries: I32Array) -> None:
        self.weight[entries] = np.inf
        self._free[self.free_count : self.free_count + len(entries)] = entries
        self.free_count += len(entries)

    def insert(
        self, entries: I32Array, codes: U64Array, checks: U64Array | None, weights: np.ndarray
    ) -> None:
        self.code[entries] = codes
        if checks is not None:
            self.check[entries] = checks
        self.weight[entries] = weights
        tables.insert(entries, self._table, self._shift, self.code, self.check)

    def forget(self, entries: I32Array) -> None:
        """Keys are no longer found; their entries still have to be given back."""
        tables.remove(entries, self._table, self._shift, self.code, self.check)
        self.weight[entries] = np.inf

    def lightest(self, count: int) -> I32Array:
        """At most `count` of the least heavy keys, the lightest first.

        A pool is drawn at once and used up over many calls; who gained weight since is passed over.
        """
        self._draw()
        some, weights = self._pool[:count], self._pool_weight[:count]
        self._pool, self._pool_weight = self._pool[count:], self._pool_weight[count:]
        return some[self.weight[some] <= weights]

    def beaten_by(self, rivals: np.ndarray) -> I32Array:
        """The least heavy keys, the lightest first, the i-th lighter than `rivals[i]`.

        Rivals come the heaviest first, so that as many as possible find somebody to displace.
        """
        self._draw()
        some, weights = self._pool[: len(rivals)], self._pool_weight[: len(rivals)]
        candidates = np.flatnonzero(self.weight[some] <= weights)
        beaten = int(np.count_nonzero(weights[candidates] < rivals[: len(candidates)]))
        used = len(some) if beaten == len(candidates) else int(candidates[beaten])
        self._pool, self._pool_weight = self._pool[used:], self._pool_weight[used:]
        victims: I32Array = some[candidates[:beaten]]
        return victims

    @property
    def floor(self) -> np.float32:
        """No key is lighter, as far as the present pool knows."""
        self._draw()
        return np.float32(self._pool_weight[0]) if len(self._pool) else np.float32(0)

    def _draw(self) -> None:
        if not len(self._pool):
            size = min(_POOL, self.capacity)
            pool = np.argpartition(self.weight, size - 1)[:size].astype(np.int32)
            pool = pool[np.isfinite(self.weight[pool])]
            self._pool = pool[np.argsort(self.weight[pool], kind="stable")]
            self._pool_weight = self.weight[self._pool]

    def age(self) -> None:
        self.weight *= np.float32(0.5)
        self._pool_weight = self._pool_weight * np.float32(0.5)
