"""Load shedding: what to set aside when tuples arrive faster than they can be joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from semistream.errors import InputError, unknown_name
from semistream.joins.lookup import LookUp, Oldest, QueuePosition
from semistream.joins.shed_store import ShedStore

Mode = Literal["tuned", "untuned", "upfront"]


@dataclass(frozen=True, slots=True)
class Shedding:
    """Paper 000, section 4. Overload is a backlog above twice the tuples of the last loop.

    `tuned` sheds the oldest tuples of the queue, which have been considered and not joined, and
    looks up partitions at `position` of the queue meanwhile; `untuned` keeps looking at the
    oldest; `upfront` sheds from the backlog, before any work. Without a store the rows leave the
    join as `shed` outputs; with one they come back when the backlog is small again.

    With `auto_acknowledge` a step takes the outputs of the step before as delivered. A pipeline
    that commits outputs itself sets it to False and calls `SemiStreamJoin.acknowledge`.
    """

    store: ShedStore | None = None
    mode: Mode = "tuned"
    position: float = 0.15
    auto_acknowledge: bool = True

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise unknown_name("shedding mode", self.mode, get_args(Mode))
        if not 0 <= self.position <= 1:
            raise InputError(f"look-up position {self.position} is outside 0 to 1 (0.15 is usual)")

    @property
    def lookup(self) -> LookUp:
        """How to choose partitions while shedding: what is too old will be shed anyway."""
        return QueuePosition(self.position, relief=0) if self.mode == "tuned" else Oldest()
