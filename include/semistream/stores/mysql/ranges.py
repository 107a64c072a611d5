"""Conditions that an index can answer: key ranges as intervals on one column each.

MySQL and MariaDB do not use an index for `(a, b) >= (1, 2)`. A range of a composite key is
therefore taken apart into intervals that fix the leading columns and range over the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from semistream.stores.mysql.params import NO_PARAMS, Params, number_params
from semistream.stores.mysql.parts import EnumPart, Part

# A date that does not exist cannot be a key; these are the first ones that do.
_FIRST = {
    "date": "'0000-01-01'",
    "datetime": "'0000-01-01 00:00:00'",
    "timestamp": "'1970-01-01 00:00:01'",
}


@dataclass(frozen=True, slots=True)
class Condition:
    sql: str
    params: Params = NO_PARAMS


def key_range(
    parts: Sequence[Part],
    low: Sequence[bytes] | None,
    high: Sequence[bytes] | None,
    *,
    shared: int = 0,
    is_after: bool = False,
) -> Condition:
    """Whole keys from `low` (without it if `is_after`) up to but without `high`.

    None is no limit. `parts` are in the order of the index; `low` and `high` are parameters and
    agree in their first `shared` columns. The intervals do not overlap.
    """
    last = len(parts) - 1
    if low is not None and high is not None:
        if shared == last:
            least = ">" if is_after else ">="
            span = _span(parts[last], low[last], least, high[last])
            intervals = [(*_fixed(parts, low, last), span)]
        else:
            span = _span(parts[shared], low[shared], ">", high[shared])
            intervals = [
                *_above(parts, low, shared + 1, is_after=is_after),
                (*_fixed(parts, low, shared), span),
                *_below(parts, high, shared + 1),
            ]
    elif low is not None:
        intervals = _above(parts, low, 0, is_after=is_after)
    elif high is not None:
        intervals = _below(parts, high, 0)
    else:
        return Condition(_has_key(parts) or "TRUE")
    found = [_all(interval) for interval in intervals if interval[-1].sql]
    sql = " OR ".join(each.sql for each in found) or "FALSE"
    if whole := _has_key(parts):
        sql = f"({sql}) AND {whole}"
    return Condition(sql, _joined(found))


def key_list(parts: Sequence[Part], count: int) -> str:
    """SQL that is true of `count` keys given as parameters, key by key."""
    names = ", ".join(part.column.sql for part in parts)
    if len(parts) == 1:
        return f"{names} IN ({', '.join('?' * count)})"
    marks = f"({', '.join('?' * len(parts))})"
    return f"({names}) IN ({', '.join([marks] * count)})"


def _above(
    parts: Sequence[Part], low: Sequence[bytes], first: int, *, is_after: bool
) -> list[tuple[Condition, ...]]:
    last = len(parts) - 1
    return [
        (
            *_fixed(parts, low, number),
            _span(parts[number], low[number], ">" if is_after or number < last else ">=", None),
        )
        for number in range(last, first - 1, -1)
    ]


def _below(parts: Sequence[Part], high: Sequence[bytes], first: int) -> list[tuple[Condition, ...]]:
    return [
        (*_fixed(parts, high, number), _span(parts[number], None, "", high[number]))
        for number in range(first, len(parts))
    ]


def _fixed(parts: Sequence[Part], values: Sequence[bytes], count: int) -> list[Condition]:
    return [
        Condition(f"{part.column.sql} = ?", Params(part.param_type, value))
        for part, value in zip(parts[:count], values[:count], strict=True)
    ]


def _span(part: Part, low: bytes | None, least: str, high: bytes | None) -> Condition:
    """An interval of one column; no SQL when it is empty."""
    if isinstance(part, EnumPart):
        return _labels(part, low, least, high)
    limits = [] if low is None else [(least, low)]
    limits += [] if high is None else [("<", high)]
    return _all(
        [
            Condition(f"{part.column.sql} {sign} ?", Params(part.param_type, value))
            for sign, value in limits
        ]
    )


def _labels(part: EnumPart, low: bytes | None, least: str, high: bytes | None) -> Condition:
    # An index on an ENUM answers `=` and IN, but not `<`.
    first = 0 if low is None else int.from_bytes(low, "little") + (least == ">")
    end = part.count + 1 if high is None else int.from_bytes(high, "little")
    if first >= end:
        return Condition("")
    # Filled up to a power of two, so that few different statements are prepared.
    size = 1 << (end - first - 1).bit_length()
    numbers = np.minimum(np.arange(first, first + size), end - 1)
    return Condition(
        f"{part.column.sql} IN ({', '.join('?' * size)})",
        Params(part.param_type * size, b"".join(number_params(numbers))),
    )


def _has_key(parts: Sequence[Part]) -> str:
    """SQL that is true of rows whose whole key can match; empty when all rows can."""
    conditions = []
    for part in parts:
        column = part.column
        if column.kind in _FIRST:
            conditions.append(f"{column.sql} >= {_FIRST[column.kind]}")
        elif column.is_nullable:
            conditions.append(f"{column.sql} IS NOT NULL")
    return " AND ".join(conditions)


def _all(conditions: Sequence[Condition]) -> Condition:
    return Condition(" AND ".join(each.sql for each in conditions), _joined(conditions))


def _joined(conditions: Sequence[Condition]) -> Params:
    return Params(
        b"".join(each.params.types for each in conditions),
        b"".join(each.params.values for each in conditions),
    )
