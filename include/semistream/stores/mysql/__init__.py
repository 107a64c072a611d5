"""Tables of MariaDB or MySQL as master stores and as streams, over pymysql."""

from semistream.stores.mysql.address import PASSWORD_VARIABLE, MySQLAddress, Password
from semistream.stores.mysql.pool import Patience
from semistream.stores.mysql.source import TableSource
from semistream.stores.mysql.store import MySQLStore

__all__ = [
    "PASSWORD_VARIABLE",
    "MySQLAddress",
    "MySQLStore",
    "Password",
    "Patience",
    "TableSource",
]
