"""The disk phase of INLJ: keyed fetches of what has gathered, nothing stays pending."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from semistream.joins.disk_phase import Surroundings, Waiting
from semistream.joins.lookup import LookUp
from semistream.joins.outputs import JoinOutput
from semistream.kernels.arrays import I64Array
from semistream.kernels.matching import match_keys
from semistream.keys import Keys
from semistream.row_sizes import row_sizes
from semistream.stores.protocol import MasterRows

_MOST_ROWS = 1 << 14


class LookupPhase:
    """Fetches the distinct keys of the tuples at hand through the master's index."""

    def __init__(self, around: Surroundings, buffer_bytes: int, fetch_bytes: int) -> None:
        self._around = around
        self._buffer_bytes, self._fetch_bytes = buffer_bytes, fetch_bytes
        self._waiting: list[Waiting] = []
        self._bytes = self._most_fetched = 0
        self.pending = 0

    def room_for(self, rows: pa.RecordBatch) -> int:
        ends = np.cumsum(row_sizes(rows) + 32)
        fit = int(np.searchsorted(ends, self._buffer_bytes - self._bytes, side="right"))
        return min(fit, _MOST_ROWS - self.pending)

    def accept(self, waiting: Waiting, step: int) -> Iterator[JoinOutput]:
        if len(waiting.keys):
            self._waiting.append(waiting)
            self._bytes += int((row_sizes(waiting.rows) + 32).sum())
            self.pending += len(waiting.keys)
        return iter(())

    def step(self, step: int) -> Iterator[JoinOutput]:
        if not self.pending:
            return
        waiting, self._waiting = self._waiting, []
        rows = pa.concat_batches([each.rows for each in waiting])
        keys = _together([each.keys for each in waiting])
        around = self._around
        matched = np.zeros(len(keys), np.bool_)
        for master in around.store.fetch(_distinct(keys, around), self._fetch_bytes):
            around.statistics.partition_reads += len(master.partitions)
            around.statistics.master_rows_read += len(master)
            self._most_fetched = max(self._most_fetched, master.nbytes)
            yield from self._join(rows, keys, master, matched)
        around.statistics.rows_matched += int(np.count_nonzero(matched))
        missing = np.flatnonzero(~matched)
        yield from around.emitter.unmatched(rows.take(pa.array(missing)), "no_match")
        if around.front_stage is not None:
            lost = keys.take(missing)
            around.front_stage.note_absent(lost.codes, lost.checks)
        for each in waiting:
            around.finish(each.tags)
        self.pending = self._bytes = 0

    def shed(self, count: int) -> pa.RecordBatch | None:
        return None

    def look_up_by(self, lookup: LookUp | None) -> None:
        """There is no queue to look into."""

    def _join(
        self, rows: pa.RecordBatch, keys: Keys, master: MasterRows, matched: np.ndarray
    ) -> Iterator[JoinOutput]:
        tuples, low, high = _ranges(keys, master)
        matched[tuples[high > low]] = True
        yield from self._around.emitter.pairs(
            lambda index: rows.take(pa.array(index)),
            tuples,
            low,
            high - low,
            lambda index: master.rows.take(pa.array(index)),
        )
        if self._around.front_stage is not None:
            self._around.front_stage.consider(master, low, high)

    def bytes_by_component(self) -> dict[str, int]:
        return {"window": self._bytes, "queue": 0, "disk_buffer": self._most_fetched}


def _together(parts: list[Keys]) -> Keys:
    checks = [part.checks for part in parts if part.checks is not None]
    return Keys(
        np.concatenate([part.codes for part in parts]),
        np.concatenate(checks) if checks else None,
        np.concatenate([part.status for part in parts]),
        tuple(
            pa.concat_arrays([part.columns[i] for part in parts])
            for i in range(len(parts[0].columns))
        ),
    )


def _distinct(keys: Keys, around: Surroundings) -> Keys:
    if keys.checks is None:
        _, index = np.unique(keys.codes, return_index=True)
    else:
        pairs = np.stack([keys.codes, keys.checks], axis=1)
        _, index = np.unique(pairs, axis=0, return_index=True)
    around.statistics.keys_fetched += len(index)
    return keys.take(index)


def _ranges(keys: Keys, master: MasterRows) -> tuple[np.ndarray, I64Array, I64Array]:
    """Tuples and their ranges of rows; a key that straddles groups has one range in each."""
    order = np.argsort(keys.codes, kind="stable")
    codes = keys.codes[order]
    none = np.empty(0, np.uint64)
    checks = none if keys.checks is None else keys.checks[order]
    row_checks = none if master.checks is None else master.checks
    bounds = master.bounds
    some = np.flatnonzero(bounds[1:] > bounds[:-1])
    begins = np.searchsorted(codes, master.codes[bounds[some]], side="left")
    ends = np.searchsorted(codes, master.codes[bounds[some + 1] - 1], side="right")
    tuples, lows, highs = [], [], []
    for group, begin, end in zip(some, begins, ends, strict=True):
        if begin == end:
            continue
        low, high = np.empty(end - begin, np.int64), np.empty(end - begin, np.int64)
        match_keys(
            codes[begin:end], checks[begin:end], bounds, master.codes, row_checks, group, low, high
        )
        tuples.append(order[begin:end])
        lows.append(low)
        highs.append(high)
    if not tuples:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(tuples), np.concatenate(lows), np.concatenate(highs)
