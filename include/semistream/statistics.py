"""One statistics object for all algorithms."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class JoinStatistics:
    """What a join has done so far, and what it holds.

    Every tuple is somewhere: `rows_in + rows_recovered` is always `rows_matched + rows_unmatched
    + rows_shed + rows_pending`.
    """

    algorithm: str = ""
    budget_bytes: int = 0
    master_rows: int = 0
    rows_in: int = 0  # stream tuples offered
    rows_joined: int = 0  # output rows
    rows_matched: int = 0  # stream tuples with at least one master tuple
    rows_unmatched: int = 0
    unmatched_by_reason: dict[str, int] = field(default_factory=dict)
    rows_pending: int = 0  # in the window or waiting before it
    rows_shed: int = 0  # now set aside
    rows_shed_total: int = 0  # ever set aside
    rows_reloaded: int = 0  # taken back
    rows_recovered: int = 0  # found in the shed store at the start
    front_stage_hits: int = 0
    front_stage_absent_hits: int = 0
    front_stage_rows: int = 0
    front_stage_threshold: float = 0.0
    evictions: int = 0
    admissions: int = 0
    index_rejections: int = 0  # the index alone showed that no master tuple exists
    steps: int = 0
    partition_reads: int = 0
    pinned_hits: int = 0  # tuples finished by partitions already in memory
    keys_fetched: int = 0
    master_rows_read: int = 0
    window_rows: int = 0
    window_capacity: int = 0
    queue_age_steps: int = 0
    queue_age_seconds: float = 0.0
    queue_age_steps_max: int = 0
    bytes_by_component: dict[str, int] = field(default_factory=dict)
    peak_bytes: int = 0
    seconds: float = 0.0

    @property
    def rows_finished(self) -> int:
        return self.rows_matched + self.rows_unmatched

    @property
    def rows_per_second(self) -> float:
        return self.rows_finished / self.seconds if self.seconds else 0.0

    @property
    def balances(self) -> bool:
        there = self.rows_finished + self.rows_shed + self.rows_pending
        return self.rows_in + self.rows_recovered == there

    def to_dict(self) -> dict[str, Any]:
        """All fields and the derived rates, ready for JSON."""
        return {**asdict(self), "rows_per_second": round(self.rows_per_second, 1)}
