"""What a join asks of a master, whatever holds it.

A store numbers its partitions 0 .. `partition_count` - 1. All rows of a key lie in consecutive
partitions, usually one. Codes (see `semistream.keys`) identify keys on both sides; the store
decides what equality means, because only it knows, for example, a database's collation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from semistream.errors import InputError
from semistream.kernels.arrays import I64Array, U64Array
from semistream.kernels.matching import match_groups
from semistream.keys import Keys


@dataclass(frozen=True, slots=True)
class MasterRows:
    """Master tuples in memory, grouped by the partition they came from.

    Rows ascend by code, then check, within each group; group g is rows `bounds[g]` to
    `bounds[g + 1]` and came from `partitions[g]`. Rows with a NULL in their key are never part of
    it: they cannot match.
    """

    partitions: I64Array
    bounds: I64Array
    codes: U64Array
    checks: U64Array | None
    rows: pa.RecordBatch  # only the selected columns

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        checks = 0 if self.checks is None else self.checks.nbytes
        return int(self.rows.nbytes) + self.codes.nbytes + checks

    def ranges(
        self, codes: U64Array, checks: U64Array | None, ends: I64Array
    ) -> tuple[I64Array, I64Array]:
        """The range of rows of every key; the keys up to `ends[g]` are looked for in group g."""
        low, high = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64)
        none = codes[:0]
        match_groups(
            codes,
            none if checks is None else checks,
            ends,
            self.bounds,
            self.codes,
            none if self.checks is None else self.checks,
            low,
            high,
        )
        return low, high


class MasterStore(Protocol):
    """A read-only master of one version, opened with the columns a join needs."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str:
        """Changes whenever the content may have changed."""

    @property
    def schema(self) -> pa.Schema:
        """All columns of the master, selected or not."""

    @property
    def key(self) -> tuple[str, ...]: ...
    @property
    def columns(self) -> tuple[str, ...]:
        """The selected columns, in the order `MasterRows.rows` has them."""

    @property
    def row_count(self) -> int:
        """Rows that can match (those without NULL in the key)."""

    @property
    def row_bytes(self) -> float:
        """Average bytes of a row of the selected columns in memory."""

    @property
    def partition_count(self) -> int: ...
    @property
    def partition_bytes(self) -> int:
        """Bytes the largest partition takes in memory while it is read."""

    @property
    def index_bytes(self) -> int:
        """Bytes the store holds as long as it is open."""

    @property
    def is_exact(self) -> bool:
        """Equal codes are equal keys, and `checks` is None everywhere."""

    @property
    def is_unique(self) -> bool:
        """No key has two rows; False when not known."""

    @property
    def has_straddling_keys(self) -> bool:
        """Some key's rows lie in more than one partition; True when not known."""

    def require(self, types: Sequence[pa.DataType], pairs: Sequence[tuple[str, str]]) -> None:
        """Refuse stream key types that cannot be compared with the master's without loss."""

    def encode(self, columns: Sequence[pa.Array]) -> Keys:
        """Codes of stream keys, by this store's idea of equality."""

    def locate(self, keys: Keys) -> tuple[I64Array, I64Array]:
        """First and last partition that may hold each key; -1 and -1 when surely none does."""

    def read(self, partitions: Sequence[int] | np.ndarray) -> MasterRows:
        """The rows of these partitions (ascending, distinct), one group each."""

    def fetch(self, keys: Keys, limit_bytes: int) -> Iterator[MasterRows]:
        """All rows of these (distinct, OK) keys, in pieces of about `limit_bytes`; a piece may
        hold further rows."""

    def scan(self, start: int = 0) -> Iterator[MasterRows]:
        """Every partition once, from `start` to the last and on from 0, sequentially."""

    def select(self, columns: Sequence[str] | None) -> MasterStore:
        """The same master reading only `columns` (None: all of them)."""

    def close(self) -> None: ...


def check_columns(schema: pa.Schema, wanted: Sequence[str], *, where: str) -> None:
    """Refuse names that `schema` does not have, or has twice."""
    for name in wanted:
        found = schema.get_all_field_indices(name)
        if not found:
            there = ", ".join(schema.names) or "(none)"
            raise InputError(f"no column {name!r} in {where}; there are {there}")
        if len(found) > 1:
            raise InputError(f"column {name!r} appears {len(found)} times in {where}; rename one")
