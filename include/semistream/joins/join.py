"""What every join offers, whatever it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, Self

import pyarrow as pa

from semistream.joins.front_stage import FrontStage
from semistream.joins.outputs import JoinOutput
from semistream.statistics import JoinStatistics


class Join(Protocol):
    """Takes stream batches, gives `JoinOutput`s, and accounts for every tuple."""

    @property
    def statistics(self) -> JoinStatistics:
        """One object, the same for the life of the join."""

    @property
    def front_stage(self) -> FrontStage | None: ...
    @property
    def joined_schema(self) -> pa.Schema: ...
    @property
    def unmatched_schema(self) -> pa.Schema: ...
    @property
    def is_idle(self) -> bool:
        """Nothing is pending: another step would do nothing."""

    def offer(self, batch: pa.RecordBatch) -> None:
        """Take stream tuples; they are worked on by the next steps."""

    def step(self) -> Iterator[JoinOutput]:
        """One loop; yields what it finishes."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[JoinOutput]:
        """Join everything `batches` gives, then drain."""

    def drain(self) -> Iterator[JoinOutput]:
        """Finish all pending tuples; needs no new ones to arrive."""

    def acknowledge(self) -> None:
        """All outputs so far are safe."""

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
