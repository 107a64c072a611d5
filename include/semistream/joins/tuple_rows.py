"""Rows of pending tuples without the key column where the key's code tells its value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from semistream.kernels.arrays import U64Array
from semistream.keys import integers_of
from semistream.stores.protocol import MasterStore


@dataclass(frozen=True, slots=True)
class TupleRows:
    """What a window keeps of a stream tuple: all columns, or all but a whole-number key.

    The window needs the code of every key to find it, and the code of a single integer is that
    integer: keeping both would take eight bytes more a tuple.
    """

    schema: pa.Schema
    key: int | None = None  # the column left out
    is_signed: bool = True

    @classmethod
    def of(cls, schema: pa.Schema, key: tuple[str, ...], store: MasterStore) -> TupleRows:
        master = store.schema.field(store.key[0]).type
        stream = schema.field(key[0]).type
        is_integer = pat.is_integer(stream) and pat.is_integer(master)
        left_out = schema.get_field_index(key[0]) if len(key) == 1 and is_integer else None
        return cls(schema, left_out, pat.is_signed_integer(master))

    @property
    def kept(self) -> pa.Schema:
        return self.schema if self.key is None else self.schema.remove(self.key)

    def strip(self, rows: pa.RecordBatch, codes: U64Array) -> pa.RecordBatch:
        """`rows` without what their codes tell."""
        if self.key is None:
            return rows
        given = rows.column(self.key)
        if not given.equals(self._values(codes)):
            # A store with codes of another kind would make up keys: better none at all.
            raise AssertionError("the codes of integer keys are not the integers themselves")
        return rows.remove_column(self.key)

    def restore(self, rows: pa.RecordBatch, codes: U64Array) -> pa.RecordBatch:
        if self.key is None:
            return rows
        columns = list(rows.columns)
        columns.insert(self.key, self._values(codes))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _values(self, codes: U64Array) -> pa.Array:
        assert self.key is not None
        kind = self.schema.field(self.key).type
        values = integers_of(codes, is_signed=self.is_signed)
        return pa.array(values.astype(np.dtype(kind.to_pandas_dtype()), copy=False), kind)
