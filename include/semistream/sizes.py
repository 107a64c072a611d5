"""Bytes in and out of human notation: `64MB`, `1.5 GiB`, `4096`."""

from __future__ import annotations

import re

from semistream.errors import InputError

# Decimal and binary prefixes both mean powers of 1024 here, as in Spark's and Java's settings:
# nobody who writes `64MB` of memory wants 61.04 MiB.
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_NOTATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)


def parse_bytes(text: str | int, *, what: str = "memory") -> int:
    """Bytes of `text`, e.g. `64MB`, `1.5GiB`, `4096`.

    >>> parse_bytes("64MB"), parse_bytes("1.5k"), parse_bytes(4096)
    (67108864, 1536, 4096)
    """
    match = _NOTATION.fullmatch(str(text))
    size = round(float(match[1]) * 1024 ** _POWERS[match[2].lower()]) if match else 0
    if size <= 0:
        raise InputError(
            f"{what} {str(text)!r} is not a size: give a positive number with an optional unit "
            "B, KB, MB, GB or TB, for example 64MB"
        )
    return size


def format_bytes(size: float) -> str:
    """`size` in the largest unit that keeps it readable.

    >>> format_bytes(67108864), format_bytes(1536), format_bytes(100)
    ('64.0 MB', '1.5 KB', '100 B')
    """
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KB", "MB", "GB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TB"
