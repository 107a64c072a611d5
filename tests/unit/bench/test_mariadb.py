"""The private MariaDB server: it starts, survives what tests do to it, and leaves nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pymysql
import pytest

from semistream.bench import mariadb as module
from semistream.bench.mariadb import PrivateMariaDB
from semistream.errors import InputError, TransientError


def wait_until(condition, *, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)


def folder_of(server: PrivateMariaDB) -> Path:
    assert server._home is not None
    return server._home


def answer(server: PrivateMariaDB, query: str, **options) -> object:
    with server.connect(**options) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        connection.commit()
        row = cursor.fetchone()
        return row and row[0]


def test_it_listens_on_loopback_only(mariadb):
    listening = {
        connection.laddr.ip
        for connection in psutil.Process(mariadb.pid).net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_repr_and_process_list_hide_the_password(mariadb):
    assert mariadb.password not in repr(mariadb)
    assert mariadb.password not in " ".join(psutil.Process(mariadb.pid).cmdline())
    assert not (folder_of(mariadb) / "setup.sql").exists()


@pytest.mark.parametrize("credentials", [{"password": ""}, {"user": "root", "password": ""}])
def test_nobody_else_gets_in(mariadb, credentials):
    with pytest.raises(pymysql.OperationalError):
        mariadb.connect(**credentials)


def test_rows_load_from_a_local_file(mariadb, tmp_path):
    rows = tmp_path / "rows.tsv"
    rows.write_text("1\tone\n2\ttwo\n")
    answer(mariadb, "CREATE TABLE loaded (id BIGINT PRIMARY KEY, name VARCHAR(9))")
    answer(mariadb, f"LOAD DATA LOCAL INFILE '{rows}' INTO TABLE loaded")
    assert answer(mariadb, "SELECT COUNT(*) FROM loaded") == 2


@pytest.mark.parametrize("end", ["stop", "kill", None], ids=["stopped", "killed", "running"])
def test_restart_keeps_port_and_committed_rows(own_mariadb, end):
    answer(own_mariadb, "CREATE TABLE kept (id BIGINT PRIMARY KEY)")
    answer(own_mariadb, "INSERT INTO kept VALUES (7)")
    port, pid = own_mariadb.port, own_mariadb.pid
    if end:
        getattr(own_mariadb, end)()
        assert not own_mariadb.is_running
        with pytest.raises(pymysql.OperationalError):
            own_mariadb.connect()
    own_mariadb.restart()
    assert (own_mariadb.port, own_mariadb.pid != pid) == (port, True)
    assert answer(own_mariadb, "SELECT id FROM kept") == 7


def test_a_paused_server_is_silent_and_then_goes_on(own_mariadb):
    own_mariadb.pause()
    with pytest.raises(pymysql.OperationalError):
        answer(own_mariadb, "SELECT 1", connect_timeout=1, read_timeout=1)
    own_mariadb.resume()
    assert answer(own_mariadb, "SELECT 1") == 1


def test_a_paused_server_stops(own_mariadb):
    own_mariadb.pause()
    own_mariadb.stop()
    assert not own_mariadb.is_running


@pytest.mark.parametrize("call", ["pause", "resume"])
def test_a_stopped_server_says_so(own_mariadb, call):
    own_mariadb.stop()
    with pytest.raises(InputError, match="not running"):
        getattr(own_mariadb, call)()


def test_an_exception_leaves_no_process_and_no_folder(mariadb):
    seen: list[tuple[int, Path]] = []

    def fail_inside() -> None:
        with PrivateMariaDB() as server:
            seen.append((server.pid, folder_of(server)))
            raise KeyError("boom")

    with pytest.raises(KeyError, match="boom"):
        fail_inside()
    [(pid, folder)] = seen
    assert not psutil.pid_exists(pid)
    assert not folder.exists()


def test_a_server_that_cannot_start_names_the_reason_and_leaves_nothing(
    mariadb, monkeypatch, tmp_path
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with (
        pytest.raises(TransientError, match="no-such-option"),
        PrivateMariaDB(options=["--no-such-option=1"]),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_is_not_fatal(mariadb, monkeypatch):
    real = module._free_port
    calls: list[None] = []

    def first_a_taken_one() -> int:
        calls.append(None)
        return mariadb.port if len(calls) == 1 else real()

    monkeypatch.setattr(module, "_free_port", first_a_taken_one)
    with PrivateMariaDB() as server:
        assert server.port != mariadb.port
    assert len(calls) == 2


def test_starting_spares_the_temporary_tables_of_other_servers(mariadb, monkeypatch, tmp_path):
    # A server empties its tmpdir of such files; in a shared one, parallel starts break each other.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    of_another_server = tmp_path / "#sql-temptable-1-1-1.MAI"
    of_another_server.touch()
    with PrivateMariaDB() as server:
        assert folder_of(server).parent == tmp_path
    assert list(tmp_path.iterdir()) == [of_another_server]


def test_a_killed_owner_leaves_no_process_and_no_folder(mariadb):
    program = (
        "import sys\n"
        "from semistream.bench.mariadb import PrivateMariaDB\n"
        "with PrivateMariaDB() as server:\n"
        "    print(server.pid, server._home, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        os.kill(owner.pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(int(pid)) and not Path(folder).exists())


def test_missing_programs_are_named_with_the_next_step(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path: None)
    with pytest.raises(InputError, match=r"mariadbd and mariadb-install-db not found.*install"):
        PrivateMariaDB().__enter__()
