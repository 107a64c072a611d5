"""SSBJ's front stage: who is in is decided by the cache inequality, not by a threshold."""

from __future__ import annotations

import numpy as np

from semistream.joins.front_stage import FrontStage
from semistream.joins.key_table import KeyTable
from semistream.kernels import tables
from semistream.kernels.arrays import I32Array, I64Array, U64Array
from semistream.slab import RowSlab
from semistream.statistics import JoinStatistics
from semistream.stores.protocol import MasterRows, MasterStore


class BalancedStage(FrontStage):
    """Holds the keys a `Migration` gave it; its weights count hits since the last eviction."""

    def __init__(self, store: MasterStore, budget_bytes: int, statistics: JoinStatistics) -> None:
        super().__init__(store, budget_bytes, statistics, sketch_share=0)
        # What a key costs here beside its values, and every row of it.
        self.key_bytes = KeyTable.entry_bytes(is_exact=store.is_exact)
        self.row_bytes = RowSlab.slot_bytes(self.schema) + 4

    @property
    def used_bytes(self) -> int:
        """The budget that what is in needs, by rows or by text, whichever fills it more."""
        rows = self.keys.used / self.keys.capacity
        text = 1 - self._slab.free_arena_bytes / max(self._slab.arena_limit, 1)
        return int(self._budget_bytes * max(rows, text))

    def consider(self, master: MasterRows, low: I64Array, high: I64Array) -> None:
        """Nobody enters on the strength of one meeting."""

    def sizes_of(self, master: MasterRows, starts: I64Array, stops: I64Array) -> I64Array:
        """Bytes the rows `starts[i]` to `stops[i]` of one key would take here."""
        arena = np.concatenate(([0], np.cumsum(RowSlab.arena_sizes(master.rows))))
        # The table is given a little more arena than its rows take.
        text = (arena[stops] - arena[starts]) * 8 // 7
        sizes: I64Array = text + (stops - starts) * self.row_bytes + self.key_bytes
        return sizes

    def admit(
        self, master: MasterRows, starts: I64Array, stops: I64Array, hits: np.ndarray
    ) -> None:
        """Take keys with all their rows; `hits` is what each would have had since the eviction."""
        heaviest = np.argsort(-hits, kind="stable")
        self._admit(master, starts[heaviest], stops[heaviest], hits[heaviest].astype(np.float32))

    def resize(self, budget_bytes: int) -> None:
        """Become larger or smaller, keeping the heaviest keys that fit."""
        content, starts, stops, weights = self._content()
        codes, checks, hits = self._absent_keys()
        super().__init__(self._store, budget_bytes, self._statistics, sketch_share=0)
        before = self._statistics.admissions
        self._admit(content, starts, stops, weights)
        self._statistics.admissions = before  # they were in already
        some = slice(0, self.absent.capacity)
        entries = self.absent.take(len(codes[some]))
        self.absent.insert(
            entries, codes[some], None if checks is None else checks[some], hits[some]
        )

    def evict(self, tuple_bytes: float, cycles: int, factor: float) -> None:
        """Let go of keys that would take less in the window (algorithm 1, lines 43 to 50)."""
        keys = self.keys
        heads = np.flatnonzero(np.isfinite(keys.weight)).astype(np.int32)
        in_window = keys.weight[heads] * np.float64(tuple_bytes)  # over all the cycles
        self._evict(heads[cycles * self._cost_here(heads) >= factor * in_window])
        keys.weight[np.isfinite(keys.weight)] = 0
        absent = self.absent
        entries = np.flatnonzero(np.isfinite(absent.weight)).astype(np.int32)
        in_window = absent.weight[entries] * np.float64(tuple_bytes)
        gone = entries[cycles * self.key_bytes >= factor * in_window]
        absent.forget(gone)
        absent.give_back(gone)
        absent.weight[np.isfinite(absent.weight)] = 0

    def _cost_here(self, heads: I32Array) -> np.ndarray:
        rows = np.empty(len(heads), np.int64)
        tables.chain_lengths(heads, self._following, rows)
        text = (self._slab.arena_limit - self._slab.free_arena_bytes) * 8 / 7
        per_row = self.row_bytes + text / max(self.keys.used, 1)
        cost: np.ndarray = rows * per_row + self.key_bytes
        return cost

    def _content(self) -> tuple[MasterRows, I64Array, I64Array, np.ndarray]:
        """All keys and rows, the heaviest first, as `_admit` takes them."""
        keys = self.keys
        heads = np.flatnonzero(np.isfinite(keys.weight)).astype(np.int32)
        heads = heads[np.argsort(-keys.weight[heads], kind="stable")]
        owner, rows = self.gather(heads)
        counts = np.ones(len(heads), np.int64) if owner is None else np.bincount(owner)
        stops = np.cumsum(counts, dtype=np.int64)
        starts = stops - counts
        index = np.repeat(heads, counts)
        checks = keys.check[index] if len(keys.check) else None
        bounds = np.array([0, len(index)])
        content = MasterRows(np.zeros(1, np.int64), bounds, keys.code[index], checks, rows)
        return content, starts, stops, keys.weight[heads]

    def _absent_keys(self) -> tuple[U64Array, U64Array | None, np.ndarray]:
        absent = self.absent
        entries = np.flatnonzero(np.isfinite(absent.weight))
        checks = absent.check[entries] if len(absent.check) else None
        return absent.code[entries], checks, absent.weight[entries]

    def _record(self, codes: U64Array, counts: np.ndarray) -> np.ndarray:
        return counts.astype(np.float32)

    def _tick(self, rows: int) -> None:
        """Weights are counts here: they are reset when keys are evicted, not aged."""
