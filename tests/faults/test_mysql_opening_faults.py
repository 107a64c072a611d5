"""What cannot be opened says so in one line that a log may keep: no password in it."""

from __future__ import annotations

import socket
import traceback

import pytest

from semistream.errors import InputError, SemistreamError, StoreUnavailable
from semistream.stores.mysql import PASSWORD_VARIABLE, MySQLStore, Password, Patience
from tests.faults.conftest import Waits

SECRET = "tr0ub4dor&3"
WRONG = Password(SECRET)


def assert_says_nothing(error: SemistreamError, *secrets: str) -> None:
    """Not in the message, its causes, or the variables of any frame a reporter might print."""
    shown = "".join(
        traceback.TracebackException.from_exception(error, capture_locals=True).format()
    )
    assert len(str(error).splitlines()) == 1
    for secret in secrets:
        assert secret not in str(error)
        assert secret not in shown


def open_url(url: str, password: Password, key=("k",), **patience: float) -> MySQLStore:
    return MySQLStore.open(
        url, key, password=password, patience=Patience(**patience), sleep=Waits()
    )


@pytest.fixture
def right(server):
    return Password(server.password)


@pytest.fixture
def url(server):
    return f"mysql://{server.user}@{server.host}:{server.port}/{server.database}/products"


def test_a_wrong_password(server, url):
    with pytest.raises(InputError, match=f"Access denied.*{PASSWORD_VARIABLE}") as caught:
        open_url(url, WRONG)
    assert_says_nothing(caught.value, SECRET)


def test_the_password_of_the_environment_is_used(server, url, monkeypatch):
    monkeypatch.setenv(PASSWORD_VARIABLE, server.password)
    with MySQLStore.open(url, ["k"]) as store:
        assert store.row_count == 3000
        assert server.password not in repr(store)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("/products", "/nothing"), r"unknown table .*'nothing'.*loose, products"),
        (("/semistream/", "/elsewhere/"), r"Unknown database 'elsewhere'.*check the database"),
        (("/products", "/loose"), r"no index that starts with the key k.*CREATE INDEX"),
        (("127.0.0.1", "no-such-host.invalid"), r"cannot find the host"),
    ],
)
def test_what_the_user_must_correct(server, url, right, change, says):
    with pytest.raises(InputError, match=says) as caught:
        open_url(url.replace(*change), right)
    assert_says_nothing(caught.value, server.password)


def test_a_key_column_that_is_not_there(url, right):
    with pytest.raises(InputError, match=r"no column 'q'.*there are k, v"):
        open_url(url, right, key=("q",))


def test_no_server_there(server, url):
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        dead = url.replace(str(server.port), str(taken.getsockname()[1]))
        with pytest.raises(StoreUnavailable, match="did not answer") as caught:
            open_url(dead, WRONG, first_contact_s=0)
    assert_says_nothing(caught.value, SECRET)


def test_something_else_is_listening(server, url):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dead = url.replace(str(server.port), str(silent.getsockname()[1]))
        with pytest.raises(StoreUnavailable, match="did not answer") as caught:
            open_url(dead, WRONG, first_contact_s=0, read_timeout_s=0.1, connect_timeout_s=0.1)
    assert_says_nothing(caught.value, SECRET)


def test_a_user_without_the_right_to_read(server, url):
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE USER guest@'127.0.0.1' IDENTIFIED BY %s", (SECRET,))
        with pytest.raises(InputError, match=r"denied|unknown table") as caught:
            open_url(url.replace(f"{server.user}@", "guest@"), WRONG)
        cursor.execute("DROP USER guest@'127.0.0.1'")
    assert_says_nothing(caught.value, SECRET)
