"""What the benchmarks share: a zipf master on disk, and one measured run of a join."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

from semistream.joins.registry import algorithms, open_join
from semistream.statistics import JoinStatistics
from semistream.stores.arrow_build import PARTITION_BYTES, build_arrow_store
from semistream.stores.arrow_store import ArrowStore
from semistream.workloads import Workload, make_workload

SEED = 1


@dataclass(frozen=True, slots=True)
class Setting:
    """A workload whose master lies in an `ArrowStore` at `store`."""

    workload: Workload
    store: Path
    master_bytes: int  # of the whole master as Arrow columns in memory

    @property
    def on(self) -> list[tuple[str, str]]:
        return list(zip(self.workload.stream_key, self.workload.master_key, strict=True))

    def with_stream(self, *, stream_rows: int, skew: float) -> Setting:
        """The same master under another stream."""
        workload = zipf(self.workload.master_rows, stream_rows, skew)
        return Setting(workload, self.store, self.master_bytes)


@dataclass(frozen=True, slots=True)
class Moment:
    """Counters at one time of a run."""

    seconds: float
    rows: int
    partition_reads: int
    keys_fetched: int
    front_stage_hits: int

    def since(self, before: Moment) -> Moment:
        return Moment(
            self.seconds - before.seconds,
            self.rows - before.rows,
            self.partition_reads - before.partition_reads,
            self.keys_fetched - before.keys_fetched,
            self.front_stage_hits - before.front_stage_hits,
        )

    @property
    def rows_per_second(self) -> float:
        return self.rows / max(self.seconds, 1e-9)

    @property
    def rows_per_read(self) -> float:
        return self.rows / max(self.partition_reads, 1)

    @property
    def rows_per_fetch(self) -> float:
        return self.rows / max(self.keys_fetched, 1)

    @property
    def hit_ratio(self) -> float:
        return self.front_stage_hits / max(self.rows, 1)


@dataclass(frozen=True, slots=True)
class Measured:
    """A whole run, drain included, and its second half from a warm state, drain excluded."""

    whole: Moment
    second_half: Moment
    statistics: JoinStatistics


def zipf(master_rows: int, stream_rows: int, skew: float, placement: str = "random") -> Workload:
    """Rows of about 120 bytes, stream tuples of 20."""
    return make_workload(
        "zipf",
        master_rows=master_rows,
        stream_rows=stream_rows,
        skew=skew,
        seed=SEED,
        placement=placement,
    )


@contextmanager
def zipf_setting(
    master_rows: int,
    stream_rows: int,
    *,
    skew: float = 1.0,
    partition_bytes: int = PARTITION_BYTES,
    placement: str = "random",
) -> Iterator[Setting]:
    """A master built for the time of a `with` block."""
    workload = zipf(master_rows, stream_rows, skew, placement)
    with tempfile.TemporaryDirectory(prefix="semistream-bench-") as folder:
        sizes: list[int] = []

        def weighed() -> Iterator[pa.RecordBatch]:
            for batch in workload.master_batches():
                sizes.append(batch.nbytes)
                yield batch

        build_arrow_store(
            Path(folder) / "master",
            weighed(),
            workload.master_schema,
            list(workload.master_key),
            partition_bytes=partition_bytes,
        )
        yield Setting(workload, Path(folder) / "master", sum(sizes))


def measure(
    setting: Setting, algorithm: str, memory: int, batches: Sequence[pa.RecordBatch]
) -> Measured:
    """Join `batches`, taking every output; the wall clock runs from the first tuple to the last."""
    moments: list[Moment] = []
    with open_join(
        ArrowStore.open(setting.store),
        setting.workload.stream_schema,
        setting.on,
        algorithm=algorithm,
        memory=memory,
    ) as join:
        statistics = join.statistics

        def note() -> Moment:
            return Moment(
                time.perf_counter(),
                statistics.rows_finished,
                statistics.partition_reads,
                statistics.keys_fetched,
                statistics.front_stage_hits,
            )

        def watched() -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(batches):
                if number == len(batches) // 2:
                    moments.append(note())
                yield batch
            moments.append(note())

        start = note()
        for _ in join.run(watched()):
            pass
        end = note()
    return Measured(end.since(start), moments[1].since(moments[0]), statistics)


@cache
def warm_up() -> None:
    """A tiny join with every algorithm, so that no kernel is compiled while the clock runs."""
    with zipf_setting(20_000, 20_000, partition_bytes=8 << 10) as setting:
        batches = list(setting.workload.stream_batches(4_096))
        for name in algorithms():
            measure(setting, name, setting.master_bytes // 10, batches)
