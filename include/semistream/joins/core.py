"""`SemiStreamJoin`: the loop every algorithm shares."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from semistream.errors import BudgetTooSmall, InputError
from semistream.joins.disk_phase import DiskPhase, Surroundings, Waiting
from semistream.joins.front_stage import FrontStage
from semistream.joins.outputs import JoinOutput
from semistream.joins.shed_store import ShedStore
from semistream.joins.shedding import Shedding
from semistream.kernels.arrays import I64Array
from semistream.keys import NO_MATCH, NULL_KEY, OK, Keys
from semistream.plain import plain_batch, plain_schema
from semistream.row_sizes import row_sizes
from semistream.sizes import format_bytes

_MOST_ROWS, _FEWEST_ROWS = 1 << 15, 1 << 10


@dataclass(slots=True)
class _Backlog:
    rows: pa.RecordBatch
    tags: I64Array | None = None
    keys: Keys | None = None
    position: int = 0


class SemiStreamJoin:
    """Joins stream batches with a master, inside a byte budget.

    `offer` takes tuples at any time; each `step` serves what the front stage can, fills the
    window and does one bounded piece of disk work. `run` does both over an iterator, `drain`
    finishes whatever is pending. Outputs come as `JoinOutput`s, in no particular order.
    """

    def __init__(
        self,
        around: Surroundings,
        disk: DiskPhase,
        on: Sequence[tuple[str, str]],
        *,
        budget_bytes: int,
        encode: Callable[[Sequence[pa.Array]], Keys] | None = None,
        shedding: Shedding | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._around, self._disk, self._on = around, disk, tuple(on)
        self._encode = encode or around.store.encode
        self._clock = clock
        self._budget_bytes = budget_bytes
        self._backlog: deque[_Backlog] = deque()
        self._miss_ratio = 1.0
        self._shedding = shedding
        self._shed_store = around.shed_store
        self._backlog_rows = 0
        self._step_starts: deque[float] = deque()  # since the oldest pending tuple came
        self._last_loop = 0  # tuples finished (or else taken in) by the last step
        if self._shed_store is not None:
            left = self._shed_store.outstanding
            around.statistics.rows_recovered = around.statistics.rows_shed = left
        self.statistics = around.statistics

    @property
    def front_stage(self) -> FrontStage | None:
        return self._around.front_stage

    @property
    def joined_schema(self) -> pa.Schema:
        return self._around.emitter.joined_schema

    @property
    def unmatched_schema(self) -> pa.Schema:
        return self._around.emitter.unmatched_schema

    @property
    def is_idle(self) -> bool:
        """Nothing is pending: another step would do nothing."""
        has_shed = self._shed_store is not None and self._shed_store.has_unloaded
        return not self._backlog and not self._disk.pending and not has_shed

    @property
    def has_backlog(self) -> bool:
        """Tuples were offered that no step has looked at."""
        return bool(self._backlog)

    def oldest_pending(self) -> pa.RecordBatch | None:
        """The row that has been pending longest, without shedding the first to have been offered.

        Holds between steps; within one, tuples may be out whose rows are not.
        """
        row = self._disk.oldest()
        if row is None and self._backlog:
            row = self._backlog[0].rows.slice(self._backlog[0].position, 1)
        return row

    def offer(self, batch: pa.RecordBatch) -> None:
        """Take stream tuples; they are worked on by the next steps."""
        require_schema(batch, self._around.stream_schema)
        batch = plain_batch(batch, self._around.stream_schema)
        self.statistics.rows_in += batch.num_rows
        self.statistics.rows_pending += batch.num_rows
        if batch.num_rows:
            self._backlog.append(_Backlog(batch))
            self._backlog_rows += batch.num_rows

    def step(self) -> Iterator[JoinOutput]:
        """One loop: the front stage, then the disk phase; yields what they finish."""
        statistics = self.statistics
        statistics.steps += 1
        started = self._clock()
        self._step_starts.append(started)
        if self._shedding is not None and self._shedding.auto_acknowledge:
            self.acknowledge()
        finished, waiting = statistics.rows_finished, self._backlog_rows
        for outputs in (
            self._balance_load(),
            self._intake(),
            self._disk.step(statistics.steps),
        ):
            for output in outputs:
                statistics.seconds += self._clock() - started
                self._settle()
                yield output
                started = self._clock()
        self._settle()
        # A scan takes tuples for a whole cycle before it finishes the first.
        self._last_loop = (statistics.rows_finished - finished) or (waiting - self._backlog_rows)
        statistics.seconds += self._clock() - started

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[JoinOutput]:
        """Join everything `batches` gives, then drain."""
        for batch in batches:
            self.offer(batch)
            while self._backlog:
                yield from self.step()
        yield from self.drain()

    def drain(self) -> Iterator[JoinOutput]:
        """Finish all pending tuples; needs no new ones to arrive."""
        while not self.is_idle:
            yield from self.step()

    def acknowledge(self) -> None:
        """All outputs so far are safe: what was shed and what was finished becomes permanent."""
        if self._shed_store is not None:
            self._shed_store.commit()

    def close(self) -> None:
        if self._shedding is not None and self._shedding.auto_acknowledge:
            self.acknowledge()
        self._around.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _settle(self) -> None:
        """Bring the statistics up to date with what is held now."""
        statistics, front = self.statistics, self.front_stage
        statistics.rows_pending = (
            statistics.rows_in
            + statistics.rows_recovered
            - statistics.rows_finished
            - statistics.rows_shed
        )
        held = {"index": self._around.store.index_bytes, **self._disk.bytes_by_component()}
        held["front_stage"] = 0 if front is None else front.nbytes
        statistics.bytes_by_component = held
        statistics.peak_bytes = max(statistics.peak_bytes, sum(held.values()))
        while len(self._step_starts) > statistics.queue_age_steps + 1:
            self._step_starts.popleft()
        waits = statistics.window_rows and self._step_starts
        statistics.queue_age_seconds = self._clock() - self._step_starts[0] if waits else 0.0
        if front is not None:
            statistics.front_stage_rows = front.keys.used
            statistics.front_stage_threshold = front.threshold

    def _balance_load(self) -> Iterator[JoinOutput]:
        """Shed above twice the tuples of the last loop, reload below (paper 000, algorithm 2)."""
        shedding, store = self._shedding, self._shed_store
        if shedding is None:
            return
        excess = self._backlog_rows - 2 * self._last_loop
        if excess > 0 and self._last_loop:
            self._disk.look_up_by(shedding.lookup)
            rows = None if shedding.mode == "upfront" else self._disk.shed(excess)
            yield from self._set_aside([rows] if rows is not None else self._shed_backlog(excess))
        elif excess <= 0:
            self._disk.look_up_by(None)
            if store is not None and store.has_unloaded:
                self._reload(store, max(2 * self._last_loop, _FEWEST_ROWS))

    def _set_aside(self, batches: Iterable[pa.RecordBatch]) -> Iterator[JoinOutput]:
        statistics = self.statistics
        for rows in batches:
            if not rows.num_rows:
                continue
            statistics.rows_shed += rows.num_rows
            statistics.rows_shed_total += rows.num_rows
            if self._shed_store is None:
                yield JoinOutput("shed", rows)
            else:
                self._shed_store.put(rows)

    def _shed_backlog(self, count: int) -> Iterator[pa.RecordBatch]:
        """The oldest rows of the backlog, at most `count`; none is shed a second time."""
        kept: deque[_Backlog] = deque()
        while self._backlog:
            entry = self._backlog.popleft()
            rows = min(count, entry.rows.num_rows - entry.position) if entry.tags is None else 0
            count -= rows
            if rows:
                yield entry.rows.slice(entry.position, rows)
                entry.position += rows
                self._backlog_rows -= rows
            if entry.position < entry.rows.num_rows:
                kept.append(entry)
        self._backlog = kept

    def _reload(self, store: ShedStore, wanted: int) -> None:
        for rows, tags in store.take(wanted, self._around.stream_schema):
            self.statistics.rows_shed -= rows.num_rows
            self.statistics.rows_reloaded += rows.num_rows
            self._backlog.append(_Backlog(rows, tags))
            self._backlog_rows += rows.num_rows

    def _intake(self) -> Iterator[JoinOutput]:
        """Serve the backlog until the disk phase has no room for another miss."""
        while self._backlog:
            entry = self._backlog[0]
            if entry.keys is None:
                names = [ours for ours, _ in self._on]
                entry.keys = self._encode([entry.rows.column(name) for name in names])
            stop = min(entry.position + self._chunk_rows(), entry.rows.num_rows)
            taken, outputs = self._take(
                entry.rows.slice(entry.position, stop - entry.position),
                entry.keys.slice(entry.position, stop),
                None if entry.tags is None else entry.tags[entry.position : stop],
            )
            yield from outputs
            entry.position += taken
            self._backlog_rows -= taken
            if entry.position == entry.rows.num_rows:
                self._backlog.popleft()
            if entry.position < stop:
                return

    def _chunk_rows(self) -> int:
        wanted = 1.2 * self._disk.room / max(self._miss_ratio, 0.01)
        return int(np.clip(wanted, _FEWEST_ROWS, _MOST_ROWS))

    def _take(
        self, rows: pa.RecordBatch, keys: Keys, tags: I64Array | None
    ) -> tuple[int, Iterator[JoinOutput]]:
        """Work on the first rows, as many as the disk phase has room for their misses."""
        count = rows.num_rows
        front = self.front_stage
        heads = np.full(count, -1, np.int32)
        absent = keys.status == NO_MATCH
        usable = np.flatnonzero(keys.status == OK)
        if front is not None and len(usable):
            some = keys if len(usable) == count else keys.take(usable)
            heads[usable], absent[usable] = front.probe(some)
        wait = np.flatnonzero((heads < 0) & ~absent & (keys.status == OK))
        missed = keys.take(wait)
        if self._disk.uses_index:
            first, last = self._around.store.locate(missed)
        else:
            first = last = np.zeros(len(missed), np.int64)
        unlocated = wait[first < 0]
        here = np.flatnonzero(first >= 0)
        wait = wait[here]
        waiting = Waiting(
            rows.take(pa.array(wait)),
            missed.take(here),
            first[here],
            last[here],
            None if tags is None else tags[wait],
        )
        room = self._disk.room_for(waiting.rows) if len(wait) else 0
        taken = count if room >= len(wait) else int(wait[room])
        if room == 0 and len(wait) and taken == 0 and not self._disk.pending:
            size = int(row_sizes(waiting.rows.slice(0, 1))[0])
            raise BudgetTooSmall(
                f"a stream tuple of {format_bytes(size)} does not fit the window of a budget of "
                f"{format_bytes(self._budget_bytes)}; give at least "
                f"{format_bytes(self._budget_bytes + 4 * size)}",
                smallest_bytes=self._budget_bytes + 4 * size,
            )
        self._miss_ratio += 0.2 * (len(wait) / count - self._miss_ratio)
        absent[unlocated] = True
        served = None
        if tags is not None:
            is_served = np.ones(taken, np.bool_)
            is_served[wait[wait < taken]] = False
            served = tags[:taken][is_served]
        return taken, self._serve(
            rows.slice(0, taken),
            keys.status[:taken],
            heads[:taken],
            absent[:taken],
            len(unlocated[unlocated < taken]),
            waiting.slice(0, min(room, len(wait))),
            served,
        )

    def _serve(
        self,
        rows: pa.RecordBatch,
        status: np.ndarray,
        heads: np.ndarray,
        absent: np.ndarray,
        unlocated: int,
        waiting: Waiting,
        served: I64Array | None,
    ) -> Iterator[JoinOutput]:
        emitter, statistics, front = self._around.emitter, self.statistics, self.front_stage
        hits = np.flatnonzero(heads >= 0)
        if front is not None and len(hits):
            statistics.front_stage_hits += len(hits)
            statistics.rows_matched += len(hits)
            sizes = front.sizes(heads[hits], -(-rows.nbytes // rows.num_rows))
            for part in emitter.portions(sizes):
                some = hits[part]
                owner, master = front.gather(heads[some])
                index = some if owner is None else some[owner]
                yield from emitter.joined(rows.take(pa.array(index)), master)
        nulls = np.flatnonzero(status == NULL_KEY)
        yield from emitter.unmatched(rows.take(pa.array(nulls)), "null_key")
        gone = np.flatnonzero(absent)
        statistics.index_rejections += unlocated
        statistics.front_stage_absent_hits += (
            len(gone) - unlocated - int(np.count_nonzero(status == NO_MATCH))
        )
        yield from emitter.unmatched(rows.take(pa.array(gone)), "no_match")
        # Only now: whoever acknowledges between two outputs must not lose the later one.
        self._around.finish(served)
        if len(waiting.keys):
            yield from self._disk.accept(waiting, statistics.steps)


def require_schema(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    """Refuse a batch of other columns."""
    if not plain_schema(batch.schema).equals(plain_schema(schema)):
        raise InputError(
            f"a stream batch has other columns than the join was opened with: it has "
            f"({_describe(batch.schema)}), expected ({_describe(schema)})"
        )


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
