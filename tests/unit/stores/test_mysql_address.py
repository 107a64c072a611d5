"""Addresses, names and passwords, without a server."""

from __future__ import annotations

import pickle

import pytest

from semistream.errors import InputError
from semistream.stores.mysql import MySQLAddress, Password, Patience
from semistream.stores.mysql.address import quoted


def test_parts_may_hold_odd_characters():
    address = MySQLAddress.parse("mysql://a%40b@[::1]:3307/my%20shop/caf%C3%A9%2Ftable")
    assert address == MySQLAddress("::1", 3307, "a@b", "my shop", "café/table")


def test_the_port_may_be_left_out():
    assert MySQLAddress.parse("mysql://u@db/shop/products").port == 3306


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://u@db/shop", "lacks a part"),
        ("mysql://db/shop/products", "lacks a part"),
        ("mysql://u@db/shop/products/more", "one too many"),
        ("mysql://u@db:port/shop/products", "no valid host or port"),
        ("mysql://u@db:99999/shop/products", "no valid host or port"),
        ("postgres://u@db/shop/products", "'postgres' is not the scheme"),
        ("mysql://u@db/shop/products?ssl=1", "takes no options"),
        ("mysql://u:geheim@db/shop/products", "SEMISTREAM_MYSQL_PASSWORD"),
        ("mysql://u:geheim@db:port/shop/products", "no valid host or port"),
    ],
)
def test_bad_addresses_say_how_to_write_them(url, says):
    with pytest.raises(InputError, match=says) as caught:
        MySQLAddress.parse(url)
    assert "mysql://user@host:port/database/table" in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_identifiers_are_quoted_whatever_they_hold():
    assert quoted("a`; DROP TABLE b; --") == "`a``; DROP TABLE b; --`"
    with pytest.raises(InputError, match="NUL"):
        quoted("a\0b")


def test_a_password_shows_nowhere():
    password = Password("geheim")
    assert "geheim" not in f"{password} {password!r}"
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(password)


@pytest.mark.parametrize("name", ["read_timeout_s", "first_wait_s"])
def test_patience_wants_positive_times(name):
    with pytest.raises(InputError, match=name):
        Patience(**{name: 0})
