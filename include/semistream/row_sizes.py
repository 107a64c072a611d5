"""What rows really weigh: bytes per row of an Arrow batch, variable-width columns included."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from semistream.kernels.arrays import I64Array


def fixed_width(type_: pa.DataType) -> int | None:
    """Bytes of a value whose type has one width (a boolean takes one), else None."""
    if pat.is_boolean(type_):
        return 1
    if pat.is_primitive(type_) or pat.is_decimal(type_) or pat.is_fixed_size_binary(type_):
        return int(type_.bit_width) // 8
    return None


def is_bytes_like(type_: pa.DataType) -> bool:
    """Strings and binary with 32- or 64-bit offsets."""
    return bool(
        pat.is_string(type_)
        or pat.is_binary(type_)
        or pat.is_large_string(type_)
        or pat.is_large_binary(type_)
    )


def row_sizes(batch: pa.RecordBatch) -> I64Array:
    """Bytes of each row: exact for fixed and variable width, an even share for nested columns."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        width = fixed_width(column.type)
        if width is not None:
            sizes += width
        elif is_bytes_like(column.type):
            if len(column):
                # The offsets alone: this runs once per partition read. A NULL may cover bytes,
                # which are held like any others.
                is_large = pat.is_large_string(column.type) or pat.is_large_binary(column.type)
                offsets = np.frombuffer(column.buffers()[1], np.int64 if is_large else np.int32)
                sizes += np.diff(offsets[column.offset : column.offset + len(column) + 1])
                sizes += 4
        elif len(column):
            sizes += -(-column.nbytes // len(column))
    return sizes
