"""Parameters are checked once, here, with errors that name the value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsFloat, SupportsIndex

from semistream.errors import InputError

MOST_ROWS = 1 << 40


def _as_int(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    return value.__index__()


def check_rows(what: str, value: object, *, least: int = 0, most: int = MOST_ROWS) -> int:
    """`value` as a count of rows (or of something else) from `least` to `most`."""
    count = _as_int(value)
    if count is None or not least <= count <= most:
        raise InputError(f"{what} is {value!r}: give a whole number from {least} to {most}")
    return count


def check_seed(value: object) -> int:
    seed = _as_int(value)
    if seed is None or not 0 <= seed < 1 << 63:
        raise InputError(f"seed is {value!r}: give a whole number from 0 to 2^63 - 1")
    return seed


def check_number(what: str, value: object, least: float, most: float) -> float:
    """`value` as a number from `least` to `most`; NaN is in no range."""
    is_number = isinstance(value, SupportsFloat) and not isinstance(value, bool | str)
    number = float(value) if is_number and isinstance(value, SupportsFloat) else math.nan
    if not least <= number <= most:
        raise InputError(f"{what} is {value!r}: give a number from {least:g} to {most:g}")
    return number


def check_choice(what: str, value: object, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise InputError(f"{what} is {value!r}: give one of {', '.join(allowed)}")
    return str(value)
