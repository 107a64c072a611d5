"""The disk phase of INLJ: keyed fetches of what has gathered, nothing stays pending."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from semistream.joins.disk_phase import Surroundings, Waiting
from semistream.joins.lookup import LookUp
from semistream.joins.outputs import JoinOutput
from semistream.kernels.arrays import I64Array, U64Array
from semistream.keys import Keys
from semistream.row_sizes import row_sizes
from semistream.stores.protocol import MasterRows

_MOST_ROWS = 1 << 16  # a fetch is shared by as many tuples as there is memory for, up to here
_TUPLE_BYTES = 32  # of a tuple beside its row: code, check, place in the order


@dataclass(slots=True)
class _Round:
    """The tuples of one fetch, and how many of its pieces are out.

    It outlives a step that the store broke off, so that the next one goes on where that stopped.
    """

    rows: pa.RecordBatch
    sizes: I64Array
    keys: Keys
    order: np.ndarray  # of the codes
    ascending: U64Array
    matched: np.ndarray
    tags: list[I64Array | None]
    pieces: int = 0

    @classmethod
    def of(cls, waiting: list[Waiting]) -> _Round:
        rows = pa.concat_batches([each.rows for each in waiting])
        keys = _together([each.keys for each in waiting])
        order = np.argsort(keys.codes, kind="stable")
        matched = np.zeros(len(keys), np.bool_)
        tags = [each.tags for each in waiting]
        return cls(rows, row_sizes(rows), keys, order, keys.codes[order], matched, tags)


class LookupPhase:
    """Fetches the distinct keys of the tuples at hand through the master's index."""

    uses_index = True

    def __init__(self, around: Surroundings, buffer_bytes: int, fetch_bytes: int) -> None:
        self._around = around
        self._buffer_bytes, self._fetch_bytes = buffer_bytes, fetch_bytes
        self._waiting: list[Waiting] = []
        self._round: _Round | None = None
        self._bytes = self._most_fetched = 0
        self.pending = 0

    @property
    def room(self) -> int:
        return _MOST_ROWS - self.pending

    def room_for(self, rows: pa.RecordBatch) -> int:
        ends = np.cumsum(row_sizes(rows) + _TUPLE_BYTES)
        fit = int(np.searchsorted(ends, self._buffer_bytes - self._bytes, side="right"))
        return min(fit, _MOST_ROWS - self.pending)

    def accept(self, waiting: Waiting, step: int) -> Iterator[JoinOutput]:
        if len(waiting.keys):
            self._waiting.append(waiting)
            self._bytes += int((row_sizes(waiting.rows) + _TUPLE_BYTES).sum())
            self.pending += len(waiting.keys)
        return iter(())

    def step(self, step: int) -> Iterator[JoinOutput]:
        if not self.pending:
            return
        if self._round is None:
            self._round, self._waiting = _Round.of(self._waiting), []
        now, around = self._round, self._around
        # A store that failed is asked again for the same keys, and gives the same pieces, unless
        # its table was changed meanwhile: that case is not covered.
        pieces = around.store.fetch(_distinct(now.keys, around), self._fetch_bytes)
        for number, master in enumerate(pieces):
            around.statistics.partition_reads += len(master.partitions)
            around.statistics.master_rows_read += len(master)
            if number < now.pieces:
                continue
            self._most_fetched = max(self._most_fetched, master.nbytes)
            tuples, low, high = _ranges(now.keys, now.order, now.ascending, master)
            now.matched[tuples[high > low]] = True
            yield from self._join(now.rows, now.sizes, tuples, low, high, master)
            now.pieces += 1
        around.statistics.rows_matched += int(np.count_nonzero(now.matched))
        missing = np.flatnonzero(~now.matched)
        yield from around.emitter.unmatched(now.rows.take(pa.array(missing)), "no_match")
        if around.front_stage is not None:
            lost = now.keys.take(missing)
            around.front_stage.note_absent(lost.codes, lost.checks)
        for tags in now.tags:
            around.finish(tags)
        self.pending -= len(now.keys)
        self._bytes -= int((now.sizes + _TUPLE_BYTES).sum())
        self._round = None

    def oldest(self) -> pa.RecordBatch | None:
        if self._round is not None:
            return self._round.rows.slice(0, 1)
        return self._waiting[0].rows.slice(0, 1) if self._waiting else None

    def shed(self, count: int) -> pa.RecordBatch | None:
        return None

    def look_up_by(self, lookup: LookUp | None) -> None:
        """There is no queue to look into."""

    def _join(
        self,
        rows: pa.RecordBatch,
        sizes: I64Array,
        tuples: np.ndarray,
        low: I64Array,
        high: I64Array,
        master: MasterRows,
    ) -> Iterator[JoinOutput]:
        yield from self._around.emitter.pairs(
            lambda index: rows.take(pa.array(index)),
            tuples,
            low,
            high - low,
            lambda index: master.rows.take(pa.array(index)),
            sizes=(sizes.take, row_sizes(master.rows).take),
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


def _ranges(
    keys: Keys, order: np.ndarray, codes: U64Array, master: MasterRows
) -> tuple[np.ndarray, I64Array, I64Array]:
    """Tuples and their ranges of rows; a key that straddles groups has one range in each.

    `codes` are those of the keys, ascending, `order` says whose.
    """
    bounds = master.bounds
    some = np.flatnonzero(bounds[1:] > bounds[:-1])
    begins = np.searchsorted(codes, master.codes[bounds[some]], side="left")
    counts = np.zeros(len(bounds) - 1, np.int64)
    counts[some] = np.searchsorted(codes, master.codes[bounds[some + 1] - 1], side="right") - begins
    ends = np.cumsum(counts)
    places = np.arange(counts.sum()) + np.repeat(begins - (ends - counts)[some], counts[some])
    tuples = order[places]
    checks = None if keys.checks is None else keys.checks[tuples]
    low, high = master.ranges(codes[places], checks, ends)
    return tuples, low, high
