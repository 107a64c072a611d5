"""`locality`: the hot keys move from interval to interval (paper 000, 5.2.1, temporal locality)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semistream.workloads.base import GeneratedWorkload, blocks
from semistream.workloads.checks import check_choice, check_rows
from semistream.workloads.draws import block_generator
from semistream.workloads.permutation import Permutation
from semistream.workloads.products import (
    PLACEMENTS,
    PRODUCT_SCHEMA,
    Placement,
    product_master,
)
from semistream.workloads.ranks import ZipfRanks
from semistream.workloads.zipf import ZipfWorkload, quantities


class LocalityWorkload(GeneratedWorkload):
    """A stream in equal intervals, each Zipfian over its own part of the master's keys.

    Master: the keys 1..master_rows / copies, each exactly `copies` times (the paper's N; the last
    key has fewer if the rows do not divide). Stream: `intervals` intervals of equal length;
    interval i draws only from the i-th of `intervals` equal parts of the keys, with the exponent
    `skew` (1 in the paper). The paper numbers the parts from 1, so that its last one lies beyond
    the keys; here they cover the keys exactly.

    Parameters: `copies` ≥ 1; `intervals` ≥ 1, 25 in the paper; `placement` says where in its part
    an interval's frequent keys lie, as in `zipf`. Cost and memory as in `zipf`.

    >>> workload = LocalityWorkload(master_rows=100, stream_rows=100, intervals=10)
    >>> workload.interval_keys(0), workload.interval_keys(9)
    (range(1, 11), range(91, 101))
    """

    name = "locality"
    stream_key = ("product_id",)
    master_key = ("product_id",)
    master_schema = PRODUCT_SCHEMA
    stream_schema = ZipfWorkload.stream_schema

    def __init__(
        self,
        *,
        master_rows: int,
        stream_rows: int,
        skew: float = 1.0,
        seed: int = 0,
        copies: int = 1,
        intervals: int = 25,
        placement: Placement = "random",
    ) -> None:
        super().__init__(master_rows=master_rows, stream_rows=stream_rows, skew=skew, seed=seed)
        self.copies = check_rows("copies", copies, least=1)
        self.intervals = check_rows("intervals", intervals, least=1, most=1_000_000)
        check_choice("placement", placement, PLACEMENTS)
        self.placement = placement
        self.domain = max(-(-self.master_rows // self.copies), 1)

    @property
    def parameters(self) -> Mapping[str, object]:
        own = {"copies": self.copies, "intervals": self.intervals, "placement": self.placement}
        return {**super().parameters, **own}

    def interval_rows(self, interval: int) -> range:
        """The stream rows of an interval, counted from 0; lengths differ by at most one."""
        first, end = (self.stream_rows * i // self.intervals for i in (interval, interval + 1))
        return range(first, end)

    def interval_keys(self, interval: int) -> range:
        """The keys an interval draws from; never empty, so that few keys are shared instead."""
        first, end = (self.domain * i // self.intervals for i in (interval, interval + 1))
        return range(first + 1, max(end, first + 1) + 1)

    def _master_chunks(self) -> Iterator[pa.RecordBatch]:
        return product_master(
            self.master_rows, seed=self.seed, placement=self.placement, copies=self.copies
        )

    def _stream_chunks(self) -> Iterator[pa.RecordBatch]:
        # Parts have at most two sizes, and a sampler depends on the size alone.
        ranks_over = lru_cache(maxsize=2)(lambda size: ZipfRanks(size, self.skew))
        interval = 0
        for block, start, stop in blocks(self.stream_rows):
            uniform = block_generator(self.seed, "ranks", block).random(stop - start)
            keys = np.empty(stop - start, dtype=np.int64)
            row = start
            while row < stop:
                end = min(stop, self.interval_rows(interval).stop)
                here = slice(row - start, end - start)
                ranks = ranks_over(len(self.interval_keys(interval)))
                keys[here] = self._place(interval, ranks.of(uniform[here]))
                row = end
                interval += end == self.interval_rows(interval).stop
            yield pa.record_batch(
                [
                    pa.array(np.arange(start, stop, dtype=np.int64)),
                    pa.array(keys),
                    pa.array(quantities(self.seed, block, stop - start)),
                ],
                schema=self.stream_schema,
            )

    def _place(self, interval: int, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        part = self.interval_keys(interval)
        if self.placement == "random" and len(ranks):
            scatter = Permutation(len(part), seed=self.seed, purpose=f"placement {interval}")
            return scatter.apply(ranks - 1) + part.start
        return ranks + (part.start - 1)
