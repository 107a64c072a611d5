"""Byte notation."""

from __future__ import annotations

import pytest

from semistream.errors import InputError
from semistream.sizes import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MB", 64 << 20),
        ("64mb", 64 << 20),
        ("64 MiB", 64 << 20),
        ("1.5k", 1536),
        ("1GB", 1 << 30),
        ("4096", 4096),
        (4096, 4096),
        ("10B", 10),
    ],
)
def test_parse(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "0", 0, -5, "1 parsec", "1e3", "nan"])
def test_refused(text):
    with pytest.raises(InputError, match="not a size"):
        parse_bytes(text)


@pytest.mark.parametrize("size", [1, 1023, 1024, 64 << 20, 5 << 30, 2 << 40])
def test_formatted_sizes_parse_back(size):
    assert parse_bytes(format_bytes(size)) == size
