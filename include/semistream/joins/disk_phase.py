"""What follows the front stage: the contract between the join's loop and an algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from semistream.joins.bounds import Bounds
from semistream.joins.front_stage import FrontStage
from semistream.joins.lookup import LookUp
from semistream.joins.outputs import Emitter, JoinOutput
from semistream.joins.shed_store import ShedStore
from semistream.kernels.arrays import I64Array
from semistream.keys import Keys
from semistream.statistics import JoinStatistics
from semistream.stores.protocol import MasterStore


@dataclass(frozen=True, slots=True)
class Waiting:
    """Stream tuples on their way into a disk phase: rows, keys and where the keys lie."""

    rows: pa.RecordBatch
    keys: Keys
    first: I64Array
    last: I64Array
    tags: I64Array | None = None

    def slice(self, start: int, stop: int) -> Waiting:
        return Waiting(
            self.rows.slice(start, stop - start),
            self.keys.slice(start, stop),
            self.first[start:stop],
            self.last[start:stop],
            None if self.tags is None else self.tags[start:stop],
        )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every disk phase works with."""

    store: MasterStore
    emitter: Emitter
    statistics: JoinStatistics
    front_stage: FrontStage | None
    stream_schema: pa.Schema
    stream_key: tuple[str, ...]
    shed_store: ShedStore | None = None
    bounds: Bounds | None = None  # of a condition other than equality

    def finish(self, tags: I64Array | None) -> None:
        """Tuples have left the join; those that were shed once are done for good."""
        if self.shed_store is not None and tags is not None:
            self.shed_store.finish(tags[tags >= 0])


class DiskPhase(Protocol):
    """Joins the tuples it accepted, a bounded amount of work per step."""

    @property
    def uses_index(self) -> bool:
        """Tuples come with the partitions of their keys, and only if the index has any."""

    @property
    def pending(self) -> int: ...
    @property
    def room(self) -> int:
        """About how many tuples it would take now."""

    def room_for(self, rows: pa.RecordBatch) -> int:
        """How many of the first rows can be accepted now."""

    def accept(self, waiting: Waiting, step: int) -> Iterator[JoinOutput]:
        """Take tuples that there is room for."""

    def step(self, step: int) -> Iterator[JoinOutput]:
        """Finish some pending tuples; at least one if any is pending."""

    def oldest(self) -> pa.RecordBatch | None:
        """The row of a tuple that came no later than any that is pending, asked between steps."""

    def shed(self, count: int) -> pa.RecordBatch | None:
        """Give up at most `count` of the oldest tuples; None if nothing ever stays pending."""

    def look_up_by(self, lookup: LookUp | None) -> None:
        """Choose partitions by `lookup` from now on (None: as at the start)."""

    def bytes_by_component(self) -> dict[str, int]: ...
