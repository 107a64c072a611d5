"""Prepared statements over a pymysql connection, with replies as raw bytes.

pymysql speaks MySQL's text protocol and builds a Python object per value. This session keeps
pymysql's handshake, authentication and TLS, and adds the binary protocol: parameters travel beside
the statement (nothing is ever pasted into SQL), floats keep every bit, and rows stay bytes until
`decode` turns whole columns into Arrow. It leans on four private parts of pymysql that have kept
their names since 2013: `_execute_command`, `_read_packet`, `_write_bytes` and `_rfile`.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymysql
from pymysql.constants import CR

from semistream.kernels.arrays import I64Array, U8Array
from semistream.stores.mysql import packets
from semistream.stores.mysql.params import NO_PARAMS, Params

_PREPARE, _EXECUTE, _CLOSE = 0x16, 0x17, 0x19
_STATEMENTS = 48  # kept prepared on each connection
# Requests sent ahead of their replies must fit the kernel's buffers: were the server to stop
# reading because we do not read its rows yet, neither side would ever go on.
_AHEAD_BYTES, _AHEAD_REQUESTS = 32 << 10, 32
_FIRST_BUFFER_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Request:
    sql: str
    params: Params = NO_PARAMS


@dataclass(frozen=True, slots=True)
class Reply:
    """Rows of one request: `starts` are places in `data`, which replies may share."""

    data: U8Array
    starts: I64Array
    kinds: U8Array  # per result column: type and low byte of flags


class Session:
    """One connection. Not for two threads at a time; unusable after any error."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self._connection: Any = connection
        self._statements: OrderedDict[str, tuple[int, int]] = OrderedDict()

    @property
    def server_version(self) -> str:
        return str(self._connection.get_server_info())

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.server_version.lower()

    def close(self) -> None:
        """End the connection without waiting for the server, which may not be there any more."""
        self._connection._force_close()

    def rows(self, sql: str, args: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows as Python values, for the few small questions about tables and settings."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, tuple(args))
            return list(cursor.fetchall())

    def run(self, requests: Sequence[Request], expected_bytes: int = 0) -> list[Reply]:
        """All replies, complete, or an error and none: one round trip for many requests.

        Holds the bytes of all rows; `expected_bytes` saves growing to their size in steps.
        """
        replies: list[Reply] = []
        batches = self._batches(requests)
        share = max(_FIRST_BUFFER_BYTES, expected_bytes // max(1, len(batches)))
        for batch in batches:
            replies += self._exchange(batch, share)
        return replies

    def stream(self, request: Request, batch_rows: int, batch_bytes: int) -> Iterator[Reply]:
        """Rows as the server finds them, some at a time; what is not taken waits on the server.

        Holds about `batch_bytes`, or one row where that is larger. The last reply may be empty.
        """
        statement, columns = self._prepare(request.sql)
        self._connection._write_bytes(_execute_packet(statement, request.params))
        data = np.empty(batch_bytes, np.uint8)
        at = end = 0
        state = np.zeros(packets.STATE_SIZE, np.int64)
        kinds, starts = np.zeros((columns, 2), np.uint8), np.empty(batch_rows, np.int64)
        while True:
            at, why = packets.cut_reply(data, at, end, state, kinds, starts)
            rows = int(state[packets.ROWS])
            if why == packets.FAILED:
                self._fail_with(data, state)
            if why == packets.DONE:
                yield Reply(data, starts[:rows], kinds)
                return
            if why == packets.FULL or (end == len(data) and rows):
                yield Reply(data, starts[:rows], kinds)
                rest = data[at:end]
                data = np.empty(max(batch_bytes, len(rest)), np.uint8)
                data[: len(rest)] = rest
                starts = np.empty(batch_rows, np.int64)
                at, end, state[packets.ROWS] = 0, len(rest), 0
            elif end == len(data):
                data = _longer(data, end)
            if why == packets.MORE and end < len(data):
                end += self._receive(data[end:])

    def _batches(self, requests: Sequence[Request]) -> list[list[tuple[bytes, int]]]:
        batches: list[list[tuple[bytes, int]]] = []
        ahead = _AHEAD_BYTES
        for request in requests:
            statement, columns = self._prepare(request.sql)
            packet = _execute_packet(statement, request.params)
            ahead += len(packet)
            if ahead > _AHEAD_BYTES or len(batches[-1]) == _AHEAD_REQUESTS:
                batches.append([])
                ahead = len(packet)
            batches[-1].append((packet, columns))
        return batches

    def _prepare(self, sql: str) -> tuple[int, int]:
        found = self._statements.get(sql)
        if found is not None:
            self._statements.move_to_end(sql)
            return found
        if len(self._statements) == _STATEMENTS:
            _, (oldest, _) = self._statements.popitem(last=False)
            self._connection._execute_command(_CLOSE, struct.pack("<I", oldest))
        self._connection._execute_command(_PREPARE, sql)
        reply = self._connection._read_packet().get_all_data()
        statement, columns, parameters = struct.unpack_from("<IHH", reply, 1)
        for count in (parameters, columns):
            for _ in range(count + 1 if count else 0):  # and an end-of-list packet
                self._connection._read_packet()
        self._statements[sql] = statement, columns
        return statement, columns

    def _exchange(self, batch: list[tuple[bytes, int]], buffer_bytes: int) -> list[Reply]:
        self._connection._write_bytes(b"".join(packet for packet, _ in batch))
        data = np.empty(buffer_bytes, np.uint8)
        at = end = 0
        cut: list[tuple[I64Array, U8Array]] = []
        for _, columns in batch:
            state = np.zeros(packets.STATE_SIZE, np.int64)
            kinds = np.zeros((columns, 2), np.uint8)
            starts = np.empty(1024, np.int64)
            while True:
                at, why = packets.cut_reply(data, at, end, state, kinds, starts)
                if why == packets.DONE:
                    break
                if why == packets.FAILED:
                    self._fail_with(data, state)
                if why == packets.FULL:
                    starts = _longer(starts, len(starts))
                    continue
                if end == len(data):
                    data = _longer(data, end)
                end += self._receive(data[end:])
            cut.append((starts[: state[packets.ROWS]], kinds))
        return [Reply(data, starts, kinds) for starts, kinds in cut]

    def _receive(self, free: U8Array) -> int:
        try:
            count = int(self._connection._rfile.readinto1(free.data))
        except OSError as error:
            self.close()
            message = f"Lost connection to MySQL server during query ({error})"
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, message) from error
        if count == 0:
            self.close()
            message = "Lost connection to MySQL server during query"
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, message)
        return count

    def _fail_with(self, data: U8Array, state: I64Array) -> None:
        # Replies to later requests of the batch may still come: nobody may read on from here.
        self.close()
        place, length = state[packets.PAYLOAD], state[packets.PAYLOAD_BYTES]
        pymysql.err.raise_mysql_exception(data[place : place + length].tobytes())


def _execute_packet(statement: int, params: Params) -> bytes:
    count = len(params.types) // 2
    body = struct.pack("<BIBI", _EXECUTE, statement, 0, 1)
    if count:
        body += bytes((count + 7) // 8) + b"\x01" + params.types + params.values
    if len(body) >= 0xFFFFFF:
        raise ValueError(f"a request of {len(body)} bytes does not fit one packet")
    return struct.pack("<I", len(body)) + body


def _longer(array: Any, used: int) -> Any:
    longer = np.empty(2 * len(array), array.dtype)
    longer[:used] = array[:used]
    return longer
