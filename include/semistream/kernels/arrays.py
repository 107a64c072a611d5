"""Names for the numpy array types that cross module borders."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

U64Array: TypeAlias = NDArray[np.uint64]
I64Array: TypeAlias = NDArray[np.int64]
I32Array: TypeAlias = NDArray[np.int32]
F32Array: TypeAlias = NDArray[np.float32]
U8Array: TypeAlias = NDArray[np.uint8]
BoolArray: TypeAlias = NDArray[np.bool_]
