"""`bursty`: self-similar sales with arrival times (paper 001, section 5 and Figure 7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semistream.workloads.arrivals import ArrivalClock, arrivals_per_step
from semistream.workloads.base import GeneratedWorkload, blocks, recut
from semistream.workloads.checks import check_choice, check_number, check_rows
from semistream.workloads.draws import block_generator
from semistream.workloads.permutation import Permutation
from semistream.workloads.products import (
    PLACEMENTS,
    PRODUCT_SCHEMA,
    Placement,
    product_master,
)
from semistream.workloads.ranks import paper_ranks
from semistream.workloads.zipf import quantities

# Any fixed day will do; it must not be today, or two runs would differ.
_FIRST_INSTANT_US = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z


class BurstyWorkload(GeneratedWorkload):
    """Sales that come in bursts and silences on every time scale, with Zipfian keys.

    Master: products as in `zipf`. Stream: `event_id`, `product_id`, `quantity`, `sold_at`; tuples
    of one step share their `sold_at`, which never decreases. All sources start together, so the
    stream begins with a burst.

    Parameters: `virtual_streams` (10 in the paper) sources with the bandwidths 2 … 2^n make
    2^n - 1 tuples per step on average and twice that at most; a stream much shorter than 4^n
    tuples sees only the faster ones change. `step_s` is a step's length in seconds.
    `placement` as in `zipf`, but by rank unless told: in the paper the master is sorted by
    frequency. Keys are drawn by the paper's inverse integral.

    Cost: about 30 M tuples per second and core; memory: one block and 1024 steps.
    """

    name = "bursty"
    stream_key = ("product_id",)
    master_key = ("product_id",)
    master_schema = PRODUCT_SCHEMA
    stream_schema = pa.schema(
        [
            ("event_id", pa.int64()),
            ("product_id", pa.int64()),
            ("quantity", pa.int32()),
            ("sold_at", pa.timestamp("us")),
        ]
    )

    def __init__(
        self,
        *,
        master_rows: int,
        stream_rows: int,
        skew: float = 1.0,
        seed: int = 0,
        virtual_streams: int = 10,
        step_s: float = 1.0,
        placement: Placement = "rank",
    ) -> None:
        super().__init__(master_rows=master_rows, stream_rows=stream_rows, skew=skew, seed=seed)
        self.virtual_streams = check_rows("virtual_streams", virtual_streams, least=1, most=16)
        self.step_s = check_number("step_s", step_s, 1e-6, 86_400.0)
        check_choice("placement", placement, PLACEMENTS)
        self.placement = placement
        self._domain = max(self.master_rows, 1)

    @property
    def parameters(self) -> Mapping[str, object]:
        own = {
            "virtual_streams": self.virtual_streams,
            "step_s": self.step_s,
            "placement": self.placement,
        }
        return {**super().parameters, **own}

    def steps(self) -> Iterator[tuple[float, pa.RecordBatch]]:
        """Every step's time in seconds from the start, and the tuples that arrive in it.

        The same tuples as `stream_batches`, in the same order. A silent step has an empty batch.
        """
        empty = pa.RecordBatch.from_pylist([], schema=self.stream_schema)
        batches = recut(self._stream_chunks(), self._step_sizes(), empty)
        for step, batch in enumerate(batches, start=1):
            yield step * self.step_s, batch

    def _step_sizes(self) -> Iterator[int]:
        remaining = self.stream_rows
        for counts in arrivals_per_step(self.seed, self.virtual_streams):
            for count in counts.tolist():
                if not remaining:
                    return
                yield min(count, remaining)
                remaining -= min(count, remaining)

    def _master_chunks(self) -> Iterator[pa.RecordBatch]:
        return product_master(self.master_rows, seed=self.seed, placement=self.placement)

    def _stream_chunks(self) -> Iterator[pa.RecordBatch]:
        clock = ArrivalClock(self.seed, self.virtual_streams)
        place = Permutation(self._domain, seed=self.seed, purpose="placement")
        for block, start, stop in blocks(self.stream_rows):
            uniform = block_generator(self.seed, "ranks", block).random(stop - start)
            keys = paper_ranks(uniform, self._domain, self.skew)
            if self.placement == "random":
                keys = place.apply(keys - 1) + 1
            yield pa.record_batch(
                [
                    pa.array(np.arange(start, stop, dtype=np.int64)),
                    pa.array(keys),
                    pa.array(quantities(self.seed, block, stop - start)),
                    self._instants(clock.take(stop - start)),
                ],
                schema=self.stream_schema,
            )

    def _instants(self, steps: NDArray[np.int64]) -> pa.Array:
        since_start = np.rint(steps * (self.step_s * 1e6)).astype(np.int64)
        return pa.array(_FIRST_INSTANT_US + since_start).cast(pa.timestamp("us"))
