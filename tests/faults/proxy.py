"""A TCP proxy on the loopback interface that cuts connections where it is told to."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class CuttingProxy:
    """Passes bytes on to `target`; `cut_after(n)` ends the next connections after n reply bytes.

    Each call of `cut_after` arms one cut. A connection without a cut waiting for it is passed on
    unharmed, so that a client that comes back finds a working server.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._limits: list[int] = []
        self._open: list[socket.socket] = []
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        self._thread(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._open):
            _end(each)

    def cut_after(self, reply_bytes: int) -> None:
        """The next connection ends in the middle of what it says after `reply_bytes` bytes."""
        self._limits.append(reply_bytes)

    def drop_all(self) -> None:
        """End every connection there is."""
        connections, self._open = self._open, []
        for each in connections:
            _end(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed by __exit__
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._open += [client, server]
                limit = self._limits.pop(0) if self._limits else None
                self._thread(self._pass_on, client, server, None)
                self._thread(self._pass_on, server, client, limit)

    def _pass_on(self, source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        with contextlib.suppress(OSError):  # one of the two has gone: the other follows
            while data := source.recv(1 << 16):
                if limit is not None and len(data) >= limit:
                    sink.sendall(data[:limit])
                    self.cuts += 1
                    break
                limit = None if limit is None else limit - len(data)
                sink.sendall(data)
        _end(source)
        _end(sink)

    def _thread(self, work, *args: object) -> None:
        threading.Thread(target=work, args=args, daemon=True).start()


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may be gone already
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
