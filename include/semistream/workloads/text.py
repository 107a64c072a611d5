"""Arrow text columns built from numbers, without a Python string per row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# "0000" to "9999" as bytes: four digits per table look-up.
_QUADS = np.frombuffer("".join(f"{n:04d}" for n in range(10_000)).encode(), np.uint8).reshape(-1, 4)


def numbered(prefix: str, numbers: NDArray[np.int64], digits: int) -> pa.Array:
    """`prefix` and the number with leading zeros; `digits` is a multiple of 4.

    >>> numbered("SKU-", np.array([7, 12345]), digits=8).to_pylist()
    ['SKU-00000007', 'SKU-00012345']
    """
    head = np.frombuffer(prefix.encode(), np.uint8)
    text = np.empty((len(numbers), len(head) + digits), dtype=np.uint8)
    text[:, : len(head)] = head
    rest = numbers
    for end in range(len(head) + digits, len(head), -4):
        rest, quad = np.divmod(rest, 10_000)
        text[:, end - 4 : end] = _QUADS[quad]
    return fixed_width(text)


def fixed_width(text: NDArray[np.uint8]) -> pa.Array:
    """A string column from one row of bytes per string (ASCII)."""
    rows, width = text.shape
    offsets = np.arange(0, (rows + 1) * width, max(width, 1), dtype=np.int32)
    data = np.ascontiguousarray(text)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(data))
