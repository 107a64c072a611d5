"""The pinned part of the disk buffer (X-HYBRIDJOIN): the most frequent partitions stay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from semistream.joins.disk_phase import Surroundings, Waiting
from semistream.joins.outputs import JoinOutput
from semistream.kernels.matching import match_keys
from semistream.stores.protocol import MasterRows, MasterStore

_LEARN_ROWS = 200_000  # tuples between two choices of what to pin


class PinnedPartitions:
    """Keeps up to `limit_bytes` of partitions in memory; their tuples never enter the window.

    With a master ordered by frequency the first partitions are pinned from the start, as in
    paper 003. Otherwise arrivals per partition are counted and the busiest ones are pinned.
    """

    def __init__(self, store: MasterStore, limit_bytes: int) -> None:
        self._store = store
        self._count = min(limit_bytes // max(store.partition_bytes, 1), store.partition_count)
        self._arrivals = np.zeros(store.partition_count, np.float32)
        hot = min(int(getattr(store, "hot_partitions", 0)), self._count)
        self._arrivals[:hot] = np.arange(hot, 0, -1)
        self._learned = _LEARN_ROWS if hot else 0
        self._group = np.full(store.partition_count, -1, np.int32)
        self._rows: MasterRows | None = None

    @property
    def nbytes(self) -> int:
        held = 0 if self._rows is None else self._rows.nbytes
        return held + self._arrivals.nbytes + self._group.nbytes

    def join(self, waiting: Waiting, around: Surroundings) -> tuple[Waiting, Iterator[JoinOutput]]:
        """The tuples that must wait for the disk, and the outputs of the others."""
        np.add.at(self._arrivals, waiting.first, np.float32(1))
        self._learned += len(waiting.first)
        if self._learned >= _LEARN_ROWS:
            self._learned = 0
            self._choose(around)
        group = self._group[waiting.first]
        here = (group >= 0) & (waiting.first == waiting.last)
        if not here.any():
            return waiting, iter(())
        stay = np.flatnonzero(~here)
        rest = Waiting(
            waiting.rows.take(pa.array(stay)),
            waiting.keys.take(stay),
            waiting.first[stay],
            waiting.last[stay],
            None if waiting.tags is None else waiting.tags[stay],
        )
        return rest, self._outputs(waiting, np.flatnonzero(here), group, around)

    def _outputs(
        self, waiting: Waiting, here: np.ndarray, group: np.ndarray, around: Surroundings
    ) -> Iterator[JoinOutput]:
        rows = self._rows
        assert rows is not None
        low, high = np.zeros(len(here), np.int64), np.zeros(len(here), np.int64)
        none = np.empty(0, np.uint64)
        for number in np.unique(group[here]):
            at = np.flatnonzero(group[here] == number)
            some_low, some_high = np.empty(len(at), np.int64), np.empty(len(at), np.int64)
            checks = waiting.keys.checks
            match_keys(
                waiting.keys.codes[here[at]],
                none if checks is None else checks[here[at]],
                rows.bounds,
                rows.codes,
                none if rows.checks is None else rows.checks,
                number,
                some_low,
                some_high,
            )
            low[at], high[at] = some_low, some_high
        statistics = around.statistics
        statistics.pinned_hits += len(here)
        statistics.rows_matched += int(np.count_nonzero(high > low))
        yield from around.emitter.pairs(
            lambda index: waiting.rows.take(pa.array(index)),
            here,
            low,
            high - low,
            lambda index: rows.rows.take(pa.array(index)),
        )
        if waiting.tags is not None:
            around.finish(waiting.tags[here])
        missing = here[high == low]
        yield from around.emitter.unmatched(waiting.rows.take(pa.array(missing)), "no_match")

    def _choose(self, around: Surroundings) -> None:
        if not self._count:
            return
        top = np.argpartition(-self._arrivals, self._count - 1)[: self._count]
        wanted = np.sort(top[self._arrivals[top] > 0])
        self._arrivals *= np.float32(0.5)
        now = np.flatnonzero(self._group >= 0)
        # Replacing costs a read of everything pinned: only when a fifth of it has changed.
        if len(now) and len(np.setdiff1d(wanted, now)) * 5 < len(wanted):
            return
        if not len(wanted):
            return
        self._rows = None
        self._group[:] = -1
        self._rows = self._store.read(wanted)
        around.statistics.partition_reads += len(wanted)
        around.statistics.master_rows_read += len(self._rows)
        self._group[wanted] = np.arange(len(wanted), dtype=np.int32)
