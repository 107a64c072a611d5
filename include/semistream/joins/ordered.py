"""`OrderedJoin`: any join, with its rows in the order of the stream (paper 004, section 3.3).

The paper attaches results to the entries of the window and gives them out when the entry leaves.
Here a hidden column numbers the tuples, and finished rows wait beside the join: that serves every
algorithm alike, also those whose tuples never enter a window, and what waits may go to files.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Literal, Self, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pat

from semistream.errors import BudgetTooSmall, InputError, unknown_name
from semistream.joins.core import SemiStreamJoin, require_schema
from semistream.joins.front_stage import FrontStage
from semistream.joins.held_rows import HeldRows
from semistream.joins.outputs import REASON, How, JoinOutput
from semistream.joins.shedding import Shedding
from semistream.keys import plain_array
from semistream.sizes import format_bytes
from semistream.statistics import JoinStatistics

Order = Literal["any", "stream"]
_LEAST_BYTES = 16 << 10
_SHARE = 4  # one part in so many of the budget is for rows that wait
_UNMATCHED_SHARE = 0.25  # of that
_NAME = "_sequence"


class OrderedJoin:
    """Gives out joined rows, and unmatched rows, each in the order of their stream tuples.

    A row waits until no earlier tuple is pending. A quarter of the budget holds rows that wait;
    beyond that they go to temporary files. A tuple counts as pending until its rows are out.
    """

    def __init__(
        self,
        open_join: Callable[[pa.Schema, int], SemiStreamJoin],
        stream_schema: pa.Schema,
        master_names: Sequence[str],
        *,
        budget_bytes: int,
        how: How,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`open_join` opens the join itself, for a stream schema and a budget."""
        self._stream_schema, self._how, self._clock = stream_schema, how, clock
        self._name = _free_name({*stream_schema.names, *master_names})
        self._budget_bytes = budget_bytes
        held_bytes = max(_LEAST_BYTES, budget_bytes // _SHARE)
        numbered = stream_schema.append(pa.field(self._name, pa.int64(), nullable=False))
        with self._whole_budget():
            self._join = open_join(numbered, budget_bytes - held_bytes)
        unmatched_bytes = int(held_bytes * _UNMATCHED_SHARE)
        self._joined = HeldRows(self._name, held_bytes - unmatched_bytes)
        self._unmatched = HeldRows(self._name, unmatched_bytes)
        self._reasons: Counter[str] = Counter()
        self._tuples_out = self._joined_out = 0  # tuples with joined rows; joined rows
        self._last_out = -1
        self._offered = 0
        self._seconds = 0.0
        self.statistics = JoinStatistics()
        self._settle()

    @property
    def front_stage(self) -> FrontStage | None:
        return self._join.front_stage

    @property
    def joined_schema(self) -> pa.Schema:
        return self._without_number(self._join.joined_schema)

    @property
    def unmatched_schema(self) -> pa.Schema:
        return self._without_number(self._join.unmatched_schema)

    @property
    def is_idle(self) -> bool:
        return self._join.is_idle and self._joined.is_empty and self._unmatched.is_empty

    def offer(self, batch: pa.RecordBatch) -> None:
        require_schema(batch, self._stream_schema)
        numbers = np.arange(self._offered, self._offered + batch.num_rows)
        self._offered += batch.num_rows
        field = pa.field(self._name, pa.int64(), nullable=False)
        self._join.offer(batch.append_column(field, pa.array(numbers)))
        self._settle()

    def step(self) -> Iterator[JoinOutput]:
        with self._whole_budget():
            for output in self._join.step():
                if output.kind == "shed":
                    self._settle()
                    yield JoinOutput("shed", output.rows.drop_columns([self._name]))
                    continue
                started = self._clock()
                waiting = self._joined if output.kind == "joined" else self._unmatched
                waiting.add(_plain(output.rows))
                self._seconds += self._clock() - started
        yield from self._release()

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[JoinOutput]:
        for batch in batches:
            self.offer(batch)
            while self._join.has_backlog:
                yield from self.step()
        yield from self.drain()

    def drain(self) -> Iterator[JoinOutput]:
        while not self.is_idle:
            yield from self.step()

    def acknowledge(self) -> None:
        self._join.acknowledge()

    def close(self) -> None:
        self._joined.close()
        self._unmatched.close()
        self._join.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _release(self) -> Iterator[JoinOutput]:
        """Give out the rows of all tuples before the first that is still pending."""
        oldest = self._join.oldest_pending()
        before = self._offered if oldest is None else int(oldest.column(self._name)[0].as_py())
        started = self._clock()
        for kind in ("unmatched", "joined"):
            waiting = self._joined if kind == "joined" else self._unmatched
            for rows in waiting.release(before):
                self._count(kind, rows)
                self._seconds += self._clock() - started
                self._settle()
                schema = self.joined_schema if kind == "joined" else self.unmatched_schema
                yield JoinOutput(kind, _as(rows.drop_columns([self._name]), schema))
                started = self._clock()
        matched = self._tuples_out - (self._reasons.total() if self._how == "left" else 0)
        self.statistics.rows_matched = matched
        self._seconds += self._clock() - started
        self._settle()

    def _count(self, kind: str, rows: pa.RecordBatch) -> None:
        if kind == "unmatched":
            for each in pc.value_counts(rows.column(REASON)).to_pylist():
                self._reasons[each["values"]] += each["counts"]
            return
        numbers = rows.column(self._name).to_numpy()
        changes = np.count_nonzero(np.diff(numbers, prepend=self._last_out))
        self._tuples_out += int(changes)
        self._last_out = int(numbers[-1])
        self._joined_out += rows.num_rows

    def _settle(self) -> None:
        """The join's statistics, except that what waits is not out yet."""
        own, inner = self.statistics, self._join.statistics
        peak, matched = own.peak_bytes, own.rows_matched
        for each in fields(JoinStatistics):
            setattr(own, each.name, getattr(inner, each.name))
        own.budget_bytes = self._budget_bytes
        own.rows_joined, own.rows_matched = self._joined_out, matched
        own.rows_unmatched, own.unmatched_by_reason = self._reasons.total(), dict(self._reasons)
        own.rows_pending = own.rows_in + own.rows_recovered - own.rows_finished - own.rows_shed
        order = self._joined.nbytes + self._unmatched.nbytes
        own.bytes_by_component = {**inner.bytes_by_component, "order": order}
        own.peak_bytes = max(peak, inner.peak_bytes, sum(own.bytes_by_component.values()))
        own.seconds = inner.seconds + self._seconds

    def _without_number(self, schema: pa.Schema) -> pa.Schema:
        return schema.remove(schema.get_field_index(self._name))

    @contextmanager
    def _whole_budget(self) -> Iterator[None]:
        """Errors about the budget speak of the whole, not of the part the join itself has."""
        try:
            yield
        except BudgetTooSmall as error:
            smallest = _whole(error.smallest_bytes)
            held = max(_LEAST_BYTES, self._budget_bytes // _SHARE)
            raise BudgetTooSmall(
                f"a budget of {format_bytes(self._budget_bytes)} is too small: "
                f"{format_bytes(held)} hold rows back to keep stream order and the join needs "
                f"{format_bytes(error.smallest_bytes)}; give at least {smallest} bytes "
                f"({format_bytes(smallest)})",
                smallest_bytes=smallest,
            ) from error


def require_order(order: str, shedding: Shedding | None) -> None:
    """Refuse an unknown order, and one that cannot be kept."""
    if order not in get_args(Order):
        raise unknown_name("order", order, get_args(Order))
    if order == "stream" and shedding is not None and shedding.store is not None:
        raise InputError(
            "order 'stream' cannot be kept with a shed store: a shed tuple is joined later, after "
            "tuples that came behind it; use order 'any', or shed without a store"
        )


def _whole(inner: int) -> int:
    """The smallest budget that leaves `inner` bytes to the join."""
    return max(inner + _LEAST_BYTES, _SHARE * (inner - 1) // (_SHARE - 1) + 1)


def _free_name(taken: set[str]) -> str:
    name = _NAME
    while name in taken:
        name = "_" + name
    return name


def _plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Dictionaries decoded: each part would hold a whole one, however few of its values it has."""
    if not any(pat.is_dictionary(field.type) for field in rows.schema):
        return rows
    columns = [
        plain_array(column) if pat.is_dictionary(column.type) else column for column in rows.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _as(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
