"""Join conditions other than equality: a range between two master columns, a band around one."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from semistream.errors import InputError

_COLUMN = r'("[^"]+"|[^\s"]+)'
_BETWEEN = re.compile(rf"\s*{_COLUMN}\s+between\s+{_COLUMN}\s+and\s+{_COLUMN}\s*", re.IGNORECASE)
_WITHIN = re.compile(
    rf"\s*{_COLUMN}\s+within\s+(\d+(?:\.\d+)?)\s*([a-z]*)\s+of\s+{_COLUMN}\s*", re.IGNORECASE
)
_SECONDS = {"us": "0.000001", "ms": "0.001", "s": "1", "min": "60", "h": "3600", "d": "86400"}


@dataclass(frozen=True, slots=True)
class Between:
    """Stream column `column` lies between master columns `low` and `high`, both included."""

    column: str
    low: str
    high: str

    @property
    def master_key(self) -> str:
        """The column the master is sorted by; a NULL there matches nothing."""
        return self.low

    @property
    def master_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.low, self.high)))

    def __str__(self) -> str:
        return f"{self.column} between {self.low} and {self.high}"


@dataclass(frozen=True, slots=True)
class Within:
    """Stream column `column` is at most `distance` away from master column `of`.

    Numbers take a number, dates and times a `timedelta`. Floats are compared as the exact values
    they stand for: no rounding of the difference decides.
    """

    column: str
    distance: int | float | Decimal | timedelta
    of: str

    def __post_init__(self) -> None:
        distance = self.distance
        size = distance.total_seconds() if isinstance(distance, timedelta) else float(distance)
        if not math.isfinite(size) or size < 0:
            raise InputError(f"{self}: the distance must be a finite number, 0 or above")

    @property
    def master_key(self) -> str:
        """The column the master is sorted by; a NULL there matches nothing."""
        return self.of

    @property
    def master_columns(self) -> tuple[str, ...]:
        return (self.of,)

    def __str__(self) -> str:
        return f"{self.column} within {self.distance} of {self.of}"


Condition = Between | Within


def parse_condition(text: str) -> Condition:
    """A condition as the command line takes it.

    >>> parse_condition("price between low and high")
    Between(column='price', low='low', high='high')
    >>> parse_condition('at within 5min of "planned at"')
    Within(column='at', distance=datetime.timedelta(seconds=300), of='planned at')
    """
    if match := _BETWEEN.fullmatch(text):
        return Between(*(name.strip('"') for name in match.groups()))
    if match := _WITHIN.fullmatch(text):
        column, number, unit, of = match.groups()
        return Within(column.strip('"'), _distance(number, unit, text), of.strip('"'))
    raise InputError(
        f"condition {text!r} is not understood: give COL between LOW and HIGH, or COL within "
        "DISTANCE of MASTERCOL, for example: price within 0.5 of list_price, at within 5min of due"
    )


def _distance(number: str, unit: str, text: str) -> Decimal | timedelta:
    if not unit:
        return Decimal(number)
    if unit.lower() not in _SECONDS:
        raise InputError(
            f"condition {text!r}: unknown unit {unit!r}; there are {', '.join(_SECONDS)}"
        )
    micros = Decimal(number) * Decimal(_SECONDS[unit.lower()]) * 1_000_000
    return timedelta(microseconds=int(micros))
