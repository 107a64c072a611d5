"""Connections that are kept, limited in time, and replaced when the server goes away.

A read is repeated as a whole until it is complete or `Patience.give_up_after_s` is over: the
caller gets all rows or `StoreUnavailable`, never a part and never "no rows" from a lost server.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pymysql
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from semistream.errors import InputError, SemistreamError, StoreUnavailable
from semistream.stores.mysql.address import MySQLAddress, Password
from semistream.stores.mysql.faults import explain, is_passing
from semistream.stores.mysql.wire import Reply, Request, Session

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # or Python prints to stderr what nobody set up a log for
_T = TypeVar("_T")
_MAY_BE_ZERO = ("give_up_after_s", "first_contact_s")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a server, in seconds.

    `read_timeout_s` limits each silence of the server and, on the server, each statement.
    No new attempt starts after `give_up_after_s`; one under way may still use up its timeout.
    A server that never answered yet is more likely a wrong address than one that is away for a
    moment: opening gives up after `first_contact_s`.
    Waits between attempts grow from `first_wait_s` to `longest_wait_s`, with jitter, so that many
    clients do not all return to a restarted server at once.
    """

    connect_timeout_s: float = 10.0
    read_timeout_s: float = 20.0
    give_up_after_s: float = 60.0
    first_contact_s: float = 10.0
    first_wait_s: float = 0.1
    longest_wait_s: float = 2.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            # A server keeps limits in milliseconds: less would round to "no limit".
            if not value >= (0 if name in _MAY_BE_ZERO else 0.001):
                raise InputError(f"{name} is {value}: give a positive number of seconds")


class Pool:
    """Sessions with one server. Safe for several threads; keeps at most `idle_sessions` open."""

    def __init__(
        self,
        address: MySQLAddress,
        password: Password,
        patience: Patience,
        *,
        idle_sessions: int = 4,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.address = address
        self._password = password
        self._patience = patience
        self._idle_sessions = idle_sessions
        self._clock, self._sleep = clock, sleep
        self._idle: list[Session] = []
        self._lock = threading.Lock()
        self._is_closed = self._has_answered = False

    def run(self, work: Callable[[Session], _T]) -> _T:
        """What `work` returns from one session, started again whenever the server fails it."""
        return self._persist(partial(self._attempt, work))

    def stream(self, request: Request, batch_rows: int, batch_bytes: int) -> Iterator[Reply]:
        """Rows of one statement as they come, on a connection of its own.

        A server that goes away in the middle is a `StoreUnavailable`: rows without an order cannot
        be taken up again where they ended.
        """
        session = self._persist(self._connect)
        try:
            # The scan takes as long as its reader does.
            names = ["max_statement_time"] if session.is_mariadb else ["max_execution_time"]
            limits = ", ".join(f"SESSION {name} = 0" for name in names)
            session.rows(f"SET {limits}, SESSION net_write_timeout = 86400")
            yield from session.stream(request, batch_rows, batch_bytes)
        except (pymysql.Error, OSError) as error:
            raise self._explained(error, "ended in the middle of a scan of") from error
        finally:
            session.close()

    def _persist(self, attempt: Callable[[], _T]) -> _T:
        started, patience = self._clock(), self._patience
        limit_s = patience.give_up_after_s
        if not self._has_answered:
            limit_s = min(limit_s, patience.first_contact_s)

        def is_over(_: RetryCallState) -> bool:
            return self._clock() - started >= limit_s

        retrying = Retrying(
            retry=retry_if_exception(is_passing),
            stop=is_over,
            wait=wait_random_exponential(
                multiplier=patience.first_wait_s, max=patience.longest_wait_s
            ),
            sleep=self._sleep,
            before_sleep=self._warn,
            reraise=True,
        )
        try:
            result: _T = retrying(attempt)
            return result
        except (pymysql.Error, OSError) as error:
            waited = f"did not answer in {self._clock() - started:.1f} s of trying to read"
            raise self._explained(error, waited) from error

    def _explained(self, error: pymysql.Error | OSError, what: str) -> SemistreamError:
        if not is_passing(error):
            return explain(error, where=str(self.address))
        table = f"{self.address.database}.{self.address.table}"
        return StoreUnavailable(
            f"the MySQL server {self.address.server} {what} {table}; last error: {_reason(error)}"
        )

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self.drop_idle()

    def _attempt(self, work: Callable[[Session], _T]) -> _T:
        session = self._take()
        try:
            result = work(session)
        except BaseException:
            # Whatever happened, replies may be under way on it. The idle ones are as old as it.
            session.close()
            self.drop_idle()
            raise
        self._has_answered = True
        self._give_back(session)
        return result

    def _take(self) -> Session:
        with self._lock:
            if self._is_closed:
                raise InputError(f"the store of {self.address} is closed: open it again")
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, session: Session) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < self._idle_sessions:
                self._idle.append(session)
                return
        session.close()

    def drop_idle(self) -> None:
        """End the connections that nobody uses now."""
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def _connect(self) -> Session:
        address, patience = self.address, self._patience
        try:
            connection: pymysql.Connection[Any] = pymysql.connect(
                host=address.host,
                port=address.port,
                user=address.user,
                password=self._password.reveal(),
                database=address.database,
                charset="utf8mb4",
                autocommit=True,
                sql_mode="",  # no PAD_CHAR_TO_FULL_LENGTH, no ANSI_QUOTES
                connect_timeout=patience.connect_timeout_s,
                read_timeout=patience.read_timeout_s,
                write_timeout=patience.read_timeout_s,  # equal: pymysql need not switch
            )
        except RuntimeError as error:  # so pymysql says that a login needs `cryptography`
            raise InputError(f"cannot log in to {address}: {error}") from None
        except pymysql.Error as error:
            # Frames of pymysql hold the password; a traceback that shows variables would print it.
            raise error.with_traceback(None) from None
        session = Session(connection)
        try:
            self._set_up(session)
        except BaseException:
            session.close()
            raise
        return session

    def _set_up(self, session: Session) -> None:
        limit_s = self._patience.read_timeout_s
        settings: dict[str, object] = {"time_zone": "+00:00"}
        if session.is_mariadb:
            settings["max_statement_time"] = limit_s
            # A list turned into a temporary table could be compared by another collation.
            settings["in_predicate_conversion_threshold"] = 0
        else:
            settings["max_execution_time"] = max(1, int(limit_s * 1000))
            settings["information_schema_stats_expiry"] = 0  # else UPDATE_TIME may be a day old
        names = ", ".join(f"SESSION {name} = %s" for name in settings)
        session.rows(f"SET {names}", list(settings.values()))
        session.rows("SET SESSION TRANSACTION READ ONLY")

    def _warn(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        _log.warning(
            "waiting for the MySQL server %s (attempt %d): %s",
            self.address.server,
            state.attempt_number,
            _reason(error),
        )


def _reason(error: BaseException | None) -> str:
    if error is None:
        return "unknown"
    return str(error.args[1]) if len(error.args) > 1 else str(error) or type(error).__name__
