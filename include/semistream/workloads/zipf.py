"""`zipf`: products sold by Zipf's law, the synthetic workload of papers 000, 002 and 003."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semistream.errors import InputError
from semistream.workloads.base import GeneratedWorkload, blocks
from semistream.workloads.checks import check_choice, check_number
from semistream.workloads.draws import block_generator
from semistream.workloads.permutation import Permutation
from semistream.workloads.products import (
    PLACEMENTS,
    PRODUCT_SCHEMA,
    Placement,
    product_master,
)
from semistream.workloads.ranks import ZipfRanks

LARGEST_QUANTITY = 12


class ZipfWorkload(GeneratedWorkload):
    """Stream keys with P(rank) proportional to rank^-skew over the keys of a product master.

    Master: keys 1..master_rows, once each, rows of about 120 bytes. Stream: 20 bytes per tuple
    (`event_id`, `product_id`, `quantity`). Paper 000, 5.1 and Table 1.

    Parameters: `placement` says which key has which rank: `random`, a seeded bijection, or
    `rank`, where key 1 is the most frequent, key 2 the next. `absent` is the share of tuples
    whose key is not in the master; those keys are beyond it (master_rows + 1 to twice that) and
    just as skewed, so that remembering absent keys can pay. `null` is the share of NULL keys.

    Cost: at least 10 M stream tuples and 6 M master tuples per second and core; memory: one block.
    With an empty master every stream key is absent.

    >>> workload = ZipfWorkload(master_rows=100, stream_rows=3, placement="rank", seed=1)
    >>> next(workload.stream_batches()).schema.names
    ['event_id', 'product_id', 'quantity']
    """

    name = "zipf"
    stream_key = ("product_id",)
    master_key = ("product_id",)
    master_schema = PRODUCT_SCHEMA
    stream_schema = pa.schema(
        [("event_id", pa.int64()), ("product_id", pa.int64()), ("quantity", pa.int32())]
    )

    def __init__(
        self,
        *,
        master_rows: int,
        stream_rows: int,
        skew: float = 1.0,
        seed: int = 0,
        placement: Placement = "random",
        absent: float = 0.0,
        null: float = 0.0,
    ) -> None:
        super().__init__(master_rows=master_rows, stream_rows=stream_rows, skew=skew, seed=seed)
        check_choice("placement", placement, PLACEMENTS)
        self.placement = placement
        self.absent = check_number("absent", absent, 0.0, 1.0)
        self.null = check_number("null", null, 0.0, 1.0)
        if self.absent + self.null > 1.0:
            raise InputError(
                f"absent is {self.absent:g} and null is {self.null:g}: together at most 1"
            )
        self._domain = max(self.master_rows, 1)

    @property
    def parameters(self) -> Mapping[str, object]:
        own = {"placement": self.placement, "absent": self.absent, "null": self.null}
        return {**super().parameters, **own}

    def _master_chunks(self) -> Iterator[pa.RecordBatch]:
        return product_master(self.master_rows, seed=self.seed, placement=self.placement)

    def _stream_chunks(self) -> Iterator[pa.RecordBatch]:
        ranks = ZipfRanks(self._domain, self.skew)
        place = Permutation(self._domain, seed=self.seed, purpose="placement")
        for block, start, stop in blocks(self.stream_rows):
            keys = ranks.of(block_generator(self.seed, "ranks", block).random(stop - start))
            if self.placement == "random":
                keys -= 1
                keys = place.apply(keys)
                keys += 1
            yield pa.record_batch(
                [
                    pa.array(np.arange(start, stop, dtype=np.int64)),
                    self._mark_absent_and_null(keys, block),
                    pa.array(quantities(self.seed, block, stop - start)),
                ],
                schema=self.stream_schema,
            )

    def _mark_absent_and_null(self, keys: NDArray[np.int64], block: int) -> pa.Array:
        if not self.absent and not self.null:
            return pa.array(keys)
        fate = block_generator(self.seed, "fate", block).random(len(keys))
        keys += np.where(fate < self.absent, self._domain, 0)
        return pa.array(keys, mask=fate >= 1.0 - self.null)


def quantities(seed: int, block: int, count: int) -> NDArray[np.int32]:
    """How many pieces each sale of a block has, 1 to 12."""
    generator = block_generator(seed, "quantity", block)
    return generator.integers(1, LARGEST_QUANTITY + 1, count, dtype=np.int32)
