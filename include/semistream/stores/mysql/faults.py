"""What a server's error means: *fix your input*, *try again*, or *wait and repeat the read*."""

from __future__ import annotations

import socket

import pymysql
from pymysql.constants import CR, ER

from semistream.errors import InputError, SemistreamError, StoreUnavailable

# Repeating the same read can succeed: the server was away, busy, restarting or told to stop it.
_PASSING = {
    CR.CR_CONNECTION_ERROR,
    CR.CR_CONN_HOST_ERROR,
    CR.CR_SERVER_GONE_ERROR,
    CR.CR_SERVER_LOST,
    CR.CR_SERVER_LOST_EXTENDED,
    ER.CON_COUNT_ERROR,
    ER.OUT_OF_RESOURCES,
    ER.OUTOFMEMORY,
    ER.TOO_MANY_USER_CONNECTIONS,
    ER.USER_LIMIT_REACHED,
    ER.LOCK_WAIT_TIMEOUT,
    ER.LOCK_DEADLOCK,
    ER.TABLE_DEF_CHANGED,
    ER.UNKNOWN_STMT_HANDLER,
    ER.MAX_PREPARED_STMT_COUNT_REACHED,
    ER.SERVER_SHUTDOWN,
    ER.QUERY_INTERRUPTED,
    1152,  # aborted connection
    1158,  # network: read error
    1159,  # network: read timeout
    1160,  # network: write error
    1161,  # network: write timeout
    1615,  # the statement must be prepared again
    1927,  # MariaDB: connection killed
    1969,  # MariaDB: max_statement_time exceeded
    3024,  # MySQL: max_execution_time exceeded
    4031,  # MySQL: closed for inactivity
}
_INPUT = {
    ER.ACCESS_DENIED_ERROR: "check user and password (environment SEMISTREAM_MYSQL_PASSWORD)",
    ER.DBACCESS_DENIED_ERROR: "grant SELECT on it to that user",
    ER.TABLEACCESS_DENIED_ERROR: "grant SELECT on it to that user",
    ER.COLUMNACCESS_DENIED_ERROR: "grant SELECT on it to that user",
    1698: "the server wants another way to log in for that user",
    ER.BAD_DB_ERROR: "check the database's name",
    ER.NO_SUCH_TABLE: "the table is not there (any more)",
    ER.BAD_FIELD_ERROR: "the table was altered: open it again",
    ER.HOST_NOT_PRIVILEGED: "allow this machine to connect to the server",
}


def code_of(error: BaseException) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def is_passing(error: BaseException) -> bool:
    """Whether the same read may succeed a moment later."""
    if isinstance(error, OSError | EOFError):
        return not _is_unknown_host(error)
    if isinstance(error, pymysql.InterfaceError):
        return True  # a closed connection
    if not isinstance(error, pymysql.Error):
        return False
    if isinstance(error, pymysql.InternalError) and not code_of(error):
        return True  # packets out of order: that connection is lost
    return code_of(error) in _PASSING and not _is_unknown_host(error)


def explain(error: BaseException, *, where: str) -> SemistreamError:
    """The error to raise for one that repeating does not cure."""
    reason = error.args[1] if len(error.args) > 1 else str(error)
    if _is_unknown_host(error):
        return InputError(f"cannot find the host of {where}: check its name ({reason})")
    advice = _INPUT.get(code_of(error))
    if advice is not None:
        return InputError(f"{where} refused: {reason}; {advice}")
    return StoreUnavailable(f"{where} failed with error {code_of(error)}: {reason}")


def _is_unknown_host(error: BaseException) -> bool:
    origin = getattr(error, "original_exception", error)
    return isinstance(origin, socket.gaierror) and origin.errno in (
        socket.EAI_NONAME,
        getattr(socket, "EAI_NODATA", socket.EAI_NONAME),
    )
