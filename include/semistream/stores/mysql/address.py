"""Where a master table is and who asks for it; the password never travels with it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from semistream.errors import InputError

PASSWORD_VARIABLE = "SEMISTREAM_MYSQL_PASSWORD"
_FORM = "mysql://user@host:port/database/table"


class Password:
    """A password that shows up in no message, log or traceback.

    >>> Password("geheim")
    Password(***)
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def from_environment(cls) -> Password:
        """The one in `SEMISTREAM_MYSQL_PASSWORD`; empty when that is not set."""
        return cls(os.environ.get(PASSWORD_VARIABLE, ""))

    def reveal(self) -> bytes:
        """The password as the server gets it: UTF-8, while pymysql would assume latin1."""
        return self._text.encode()

    def __repr__(self) -> str:
        return "Password(***)"

    def __reduce__(self) -> str:
        raise TypeError("a Password cannot be pickled: pass it by the environment")


@dataclass(frozen=True, slots=True)
class MySQLAddress:
    """One table of one server.

    >>> MySQLAddress.parse("mysql://etl@db.example:3307/shop/products")
    MySQLAddress(host='db.example', port=3307, user='etl', database='shop', table='products')
    """

    host: str
    port: int
    user: str
    database: str
    table: str

    @classmethod
    def parse(cls, url: str) -> MySQLAddress:
        """The address in `mysql://user@host:port/database/table`; odd characters as `%20`."""
        # No message quotes the URL as given: what stands before the @ may hold a password.
        try:
            parts = urlsplit(url)
            port = parts.port or 3306
        except ValueError:
            raise InputError(f"the MySQL address has no valid host or port: use {_FORM}") from None
        if parts.password is not None:
            raise InputError(
                "a password in a MySQL address would show in process lists and logs: "
                f"use {_FORM} and put the password into the environment as {PASSWORD_VARIABLE}"
            )
        if parts.scheme != "mysql":
            raise InputError(f"{parts.scheme or '(none)'!r} is not the scheme mysql: use {_FORM}")
        if parts.query or parts.fragment:
            raise InputError(
                "a MySQL address takes no options (? or #): "
                f"use {_FORM}, with %3F and %23 for such characters in a name"
            )
        names = parts.path.split("/")
        if len(names) != 3 or not all((parts.hostname, parts.username, *names[1:])):
            raise InputError(f"the MySQL address lacks a part or has one too many: use {_FORM}")
        user = unquote(str(parts.username))
        return cls(str(parts.hostname), port, user, unquote(names[1]), unquote(names[2]))

    @property
    def server(self) -> str:
        return f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"mysql://{self.user}@{self.server}/{self.database}/{self.table}"


def quoted(name: str) -> str:
    """`name` as an SQL identifier, whatever it contains."""
    if "\0" in name:
        raise InputError(f"{name!r} cannot be a name: it has a NUL character")
    return "`" + name.replace("`", "``") + "`"
