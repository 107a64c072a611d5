"""The product master of the sales workloads: about 120 bytes per row, as in papers 000 to 003."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semistream.workloads.base import blocks
from semistream.workloads.draws import Bits, hash_words
from semistream.workloads.permutation import Permutation
from semistream.workloads.text import numbered

Placement = Literal["random", "rank"]
PLACEMENTS: tuple[Placement, ...] = ("random", "rank")

PRODUCT_SCHEMA = pa.schema(
    [
        ("product_id", pa.int64()),
        ("surrogate_key", pa.int64()),
        ("sku", pa.string()),
        ("name", pa.string()),
        ("brand", pa.string()),
        ("category", pa.string()),
        ("supplier_id", pa.int64()),
        ("sale_price", pa.float64()),
        ("cost_price", pa.float64()),
        ("stock", pa.int32()),
        ("listed_on", pa.date32()),
    ]
)

_LOOKS = "amber azure bright charcoal coral crimson faded golden indigo ivory matt olive pale plain"
_STUFFS = "aluminium bamboo beech brass canvas ceramic copper cotton glass leather linen oak steel"
_THINGS = "basket blanket bottle bowl chair clock cushion kettle lamp mirror shelf stool table vase"
_SYLLABLES = "bel cor dan fen gal hov ilm jor kes lun mar nor ost pel rin sol"
_RANGES = "bath kitchen garden office nursery hallway bedroom outdoor"
_CLASSES = "basic family premium classic"
_FIRST_LISTING_DAY = 14_610  # 2010-01-01, in days since 1970-01-01


@lru_cache(maxsize=1)
def _vocabularies() -> tuple[pa.Array, pa.Array, pa.Array]:
    def combine(separator: str, *lists: str) -> list[str]:
        phrases = [""]
        for words in lists:
            phrases = [f"{p}{separator}{w}" if p else w for p in phrases for w in words.split()]
        return phrases

    names = combine(" ", _LOOKS, _STUFFS, _THINGS)
    brands = combine("", _SYLLABLES, _SYLLABLES)
    categories = combine("/", _RANGES, _CLASSES)
    return pa.array(names), pa.array(brands), pa.array(categories)


def product_batch(
    keys: NDArray[np.int64], surrogates: NDArray[np.int64], seed: int
) -> pa.RecordBatch:
    """Master tuples for `keys`; all but the surrogate key is a function of seed and key."""
    names, brands, categories = _vocabularies()
    words = Bits(hash_words(seed, "product", keys))
    numbers = Bits(hash_words(seed, "product numbers", keys))
    # Cents, so that prices print and compare exactly as they were made.
    cents = 99 + numbers.below(50_000, 20)
    margin = 50 + numbers.below(40, 10)
    columns = [
        pa.array(keys),
        pa.array(surrogates),
        numbered("SKU-", keys, digits=12),
        names.take(pa.array(words.below(len(names), 24))),
        brands.take(pa.array(words.below(len(brands), 8))),
        categories.take(pa.array(words.below(len(categories), 8))),
        pa.array(1 + words.below(10_000, 24)),
        pa.array(cents / 100.0),
        pa.array((cents * margin // 100) / 100.0),
        pa.array(numbers.take(12).astype(np.int32)),
        pa.array((_FIRST_LISTING_DAY + numbers.take(12)).astype(np.int32)).cast(pa.date32()),
    ]
    return pa.record_batch(columns, schema=PRODUCT_SCHEMA)


def product_master(
    rows: int, *, seed: int, placement: Placement, copies: int = 1
) -> Iterator[pa.RecordBatch]:
    """`rows` products with the keys 1, 2, …, each `copies` times (the last may have fewer).

    With placement `rank` they come in key order, the most frequent first (paper 001, section 5);
    with `random` the table is unsorted (paper 000, 5.1). Surrogate keys are 1, 2, … as they come.
    """
    scatter = Permutation(rows, seed=seed, purpose="master order")
    for _, start, stop in blocks(rows):
        positions = np.arange(start, stop, dtype=np.int64)
        slots = scatter.apply(positions) if placement == "random" else positions
        yield product_batch(slots // copies + 1, positions + 1, seed)
