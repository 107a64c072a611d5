"""A private MariaDB server: made for one run, thrown away after it."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pymysql

from semistream.errors import InputError, TransientError

if TYPE_CHECKING:
    from pymysql.connections import Connection

HOST = "127.0.0.1"
# Servers live in sbin on Debian, which is not on the PATH of ordinary users.
_PROGRAM_DIRS = (
    "/usr/local/sbin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/bin",
    "/usr/local/mysql/bin",
)
# Below Linux's ephemeral range: no outgoing connection can take the port between stop and restart.
_PORTS = range(20_000, 32_000)
_POLL_S = 0.02
_PORT_ATTEMPTS = 5


def find_programs() -> tuple[Path, Path]:
    """The paths of `mariadbd` and `mariadb-install-db`; `InputError` when one is missing."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *_PROGRAM_DIRS])
    found = {name: shutil.which(name, path=path) for name in ("mariadbd", "mariadb-install-db")}
    server, installer = found.values()
    if server is None or installer is None:
        missing = " and ".join(name for name, place in found.items() if place is None)
        raise InputError(
            f"{missing} not found on PATH or in {', '.join(_PROGRAM_DIRS)}: "
            "install Debian's mariadb-server-core and mariadb-client-core"
        )
    return Path(server), Path(installer)


class PrivateMariaDB:
    """A MariaDB server of one's own on the loopback interface, with a random password.

    Data, socket and log live in a temporary folder that goes away with the context, on success,
    on an exception and when this process is killed. Starting takes about a second.

    Parameters
    ----------
    buffer_pool_bytes
        InnoDB's cache; small by default, so that a benchmark's reads are not all cache hits.
    options
        More `mariadbd` options, each as `--name=value`; later ones win over the built-in ones.
    start_timeout_s
        How long a start or restart may take before it is given up.

    Example
    -------
        with PrivateMariaDB() as server, server.connect() as connection:
            connection.cursor().execute("CREATE TABLE products (id BIGINT PRIMARY KEY)")
    """

    def __init__(
        self,
        *,
        buffer_pool_bytes: int = 64 << 20,
        options: Sequence[str] = (),
        start_timeout_s: float = 60.0,
    ) -> None:
        self.host = HOST
        self.port = 0
        self.user = "semistream"
        self.password = secrets.token_urlsafe(24)
        self.database = "semistream"
        self._buffer_pool_bytes = buffer_pool_bytes
        self._options = tuple(options)
        self._start_timeout_s = start_timeout_s
        self._home: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        state = "running" if self.is_running else "stopped"
        return f"PrivateMariaDB({self.user}@{self.host}:{self.port}/{self.database}, {state})"

    def __enter__(self) -> Self:
        server, installer = find_programs()
        self._home = Path(tempfile.mkdtemp(prefix="semistream-mariadb-"))
        try:
            self._install(installer)
            self._start_on_free_port(server)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """Whether the server process is there; a paused one is."""
        return self._server is not None and self._server.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._running().pid

    def connect(self, **options: Any) -> Connection[Any]:
        """A new connection to the private database; `options` are those of `pymysql.connect`."""
        settings: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "charset": "utf8mb4",
            "local_infile": True,
        }
        return pymysql.connect(**settings | options)

    def stop(self) -> None:
        """Shut down in order; data and port are kept for `restart`."""
        if self._server is not None and self.is_running:
            # A stopped process sees SIGTERM only after SIGCONT.
            self._server.send_signal(signal.SIGCONT)
            self._server.terminate()
        self._reap()

    def kill(self) -> None:
        """End the server at once with SIGKILL, as a crash would."""
        if self._server is not None:
            self._server.kill()
        self._reap()

    def restart(self) -> None:
        """Stop if running, then start again on the same port and data."""
        self.stop()
        self._launch(find_programs()[0])

    def pause(self) -> None:
        """Freeze the server (SIGSTOP): connections stay open and nothing answers."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the server and remove its folder; harmless when repeated."""
        self.kill()  # nobody reads the data again, so an orderly shutdown is wasted time
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    def _install(self, installer: Path) -> None:
        home = self._folder()
        command = [
            str(installer),
            "--no-defaults",  # must come first
            f"--datadir={home / 'data'}",
            # A starting server deletes the temporary tables of all others in a shared tmpdir.
            f"--tmpdir={home}",
            "--skip-test-db",
            "--skip-name-resolve",
            "--innodb-log-file-size=8M",  # writing the default 96 MB costs more than all the rest
            *_as_root(),
        ]
        result = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if result.returncode:
            raise TransientError(f"mariadb-install-db failed: {_errors_in(result.stdout)}")

    def _start_on_free_port(self, server: Path) -> None:
        # A file, not an argument: process lists show arguments. mkdtemp's folder is ours alone.
        account = f"'{self.user}'@'{self.host}'"
        setup = self._folder() / "setup.sql"
        setup.write_text(
            f"CREATE DATABASE `{self.database}`;\n"
            f"CREATE USER {account} IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION;\n"
        )
        for attempt in range(_PORT_ATTEMPTS):
            self.port = _free_port()
            try:
                self._launch(server, f"--init-file={setup}")
                break
            except TransientError as error:
                # Another process may have bound the port since `_free_port` tried it.
                if "already in use" not in str(error) or attempt == _PORT_ATTEMPTS - 1:
                    raise
        setup.unlink()

    def _launch(self, server: Path, *extra: str) -> None:
        home = self._folder()
        command = [
            str(server),
            "--no-defaults",  # must come first
            f"--datadir={home / 'data'}",
            f"--tmpdir={home}",
            f"--log-error={home / 'error.log'}",
            "--pid-file=mariadb.pid",
            # Relative to the data folder: a full path can exceed the 107 bytes a socket may have.
            "--socket=mariadb.sock",
            f"--bind-address={self.host}",
            f"--port={self.port}",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--local-infile=1",
            # The built-in default is latin1; these are what an installed server uses.
            "--character-set-server=utf8mb4",
            "--collation-server=utf8mb4_general_ci",
            f"--innodb-buffer-pool-size={self._buffer_pool_bytes}",
            "--innodb-log-file-size=32M",
            # Commits survive a killed server, which is all a temporary one needs to survive.
            "--innodb-flush-log-at-trx-commit=2",
            *_as_root(),
            *extra,
            *self._options,
        ]
        # A session of its own: Ctrl-C in the terminal must reach us, not the server under us.
        self._server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._watchdog = _watch(self._server.pid, home)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while True:
            try:
                self.connect(connect_timeout=1, read_timeout=1).close()
                return
            except pymysql.Error:
                if not self.is_running or time.monotonic() > deadline:
                    self.kill()
                    reason = _errors_in(self._log())
                    raise TransientError(f"the private MariaDB did not start: {reason}") from None
            time.sleep(_POLL_S)

    def _log(self) -> str:
        log = self._folder() / "error.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def _reap(self) -> None:
        if self._server is not None:
            self._server.wait()
            self._server = None
        # Only now: until the server is gone, the watchdog still has a reason to be there.
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._server is None or self._server.poll() is not None:
            raise InputError("the private MariaDB is not running: enter its context or restart it")
        return self._server

    def _folder(self) -> Path:
        if self._home is None:
            raise InputError("the private MariaDB is closed: enter its context first")
        return self._home


def _as_root() -> tuple[str, ...]:
    """MariaDB refuses to run as root unless told so by name."""
    return ("--user=root",) if os.geteuid() == 0 else ()


def _errors_in(log: str) -> str:
    """What a server's log complains about, in one line."""
    lines = log.splitlines()
    return " / ".join([line for line in lines if "ERROR" in line] or lines[-5:]) or "it left no log"


def _free_port() -> int:
    for _ in range(100):
        port = secrets.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise TransientError(f"no free port found on {HOST} from {_PORTS.start} to {_PORTS.stop - 1}")


def _watch(pid: int, home: Path) -> subprocess.Popen[bytes]:
    """A shell that ends the server and its folder when this process is gone.

    It waits on a pipe that only we hold open, so it notices even SIGKILL.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read -r _; kill -9 "$1"; rm -rf "$2"', "sh", str(pid), str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
