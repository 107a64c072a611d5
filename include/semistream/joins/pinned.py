"""The pinned part of the disk buffer (X-HYBRIDJOIN): the most frequent partitions stay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from semistream.joins.disk_phase import Surroundings, Waiting
from semistream.joins.outputs import JoinOutput
from semistream.row_sizes import row_sizes
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
        self._row_sizes = np.zeros(0, np.int64)

    @staticmethod
    def overhead(store: MasterStore) -> int:
        """Bytes of the counts of arrivals and of what is pinned."""
        return 8 * store.partition_count

    @property
    def nbytes(self) -> int:
        held = 0 if self._rows is None else self._rows.nbytes
        return held + self._row_sizes.nbytes + self._arrivals.nbytes + self._group.nbytes

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
        here = here[np.argsort(group[here], kind="stable")]
        ends = np.searchsorted(group[here], np.arange(len(rows.partitions)), side="right")
        checks = waiting.keys.checks
        low, high = rows.ranges(
            waiting.keys.codes[here], None if checks is None else checks[here], ends
        )
        statistics = around.statistics
        statistics.pinned_hits += len(here)
        statistics.rows_matched += int(np.count_nonzero(high > low))
        yield from around.emitter.pairs(
            lambda index: waiting.rows.take(pa.array(index)),
            here,
            low,
            high - low,
            lambda index: rows.rows.take(pa.array(index)),
            sizes=(row_sizes(waiting.rows).take, self._row_sizes.take),
        )
        missing = here[high == low]
        yield from around.emitter.unmatched(waiting.rows.take(pa.array(missing)), "no_match")
        if waiting.tags is not None:
            around.finish(waiting.tags[here])

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
        self._row_sizes = row_sizes(self._rows.rows)
        around.statistics.partition_reads += len(wanted)
        around.statistics.master_rows_read += len(self._rows)
        self._group[wanted] = np.arange(len(wanted), dtype=np.int32)
