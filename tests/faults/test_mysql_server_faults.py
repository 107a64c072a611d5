"""A server that stops, hangs or drops connections delays a join or fails it, and never lies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from semistream import algorithms, open_join
from semistream.errors import InputError, StoreUnavailable, TransientError
from semistream.joins.core import SemiStreamJoin
from semistream.joins.outputs import JoinOutput
from semistream.stores.mysql import MySQLStore, Password, Patience, TableSource
from tests.conformance.oracle import assert_same, collect, split, wanted
from tests.faults.conftest import MASTER, QUICK, STREAM, Waits
from tests.faults.proxy import CuttingProxy

KEY = [("k", "k")]
every_algorithm = pytest.mark.parametrize("algorithm", algorithms())


def joined(store: MySQLStore, algorithm: str) -> SemiStreamJoin:
    # Small, so that much is still to be read when the fault comes.
    return open_join(store, STREAM.schema, KEY, algorithm=algorithm, memory=100_000)


def run_with_fault(join: SemiStreamJoin, fault: Callable[[], None]) -> Iterator[JoinOutput]:
    """All outputs; the fault comes when a quarter of the stream is done."""
    batches = split(STREAM, [250])
    yield from join.run(batches[:3])
    fault()
    yield from join.run(batches[3:])


def assert_exact(join: SemiStreamJoin, outputs: Iterator[JoinOutput]) -> None:
    with join:
        assert_same(collect(join, outputs), wanted(MASTER, STREAM, KEY))


@every_algorithm
def test_a_join_goes_on_after_a_crash_and_restart(server, opened, algorithm):
    waits = Waits(then=server.restart)
    join = joined(opened(sleep=waits), algorithm)
    assert_exact(join, run_with_fault(join, server.kill))
    assert waits.count, "the join met the fault"


@every_algorithm
def test_a_join_goes_on_when_a_frozen_server_wakes(server, opened, algorithm):
    waits = Waits(then=server.resume)
    join = joined(opened(sleep=waits), algorithm)
    assert_exact(join, run_with_fault(join, server.pause))
    assert waits.count


@every_algorithm
def test_a_join_goes_on_when_its_connections_are_killed(server, opened, algorithm):
    waits = Waits()
    join = joined(opened(sleep=waits), algorithm)

    def kill_connections() -> None:
        with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT id FROM information_schema.PROCESSLIST "
                "WHERE user = %s AND id <> CONNECTION_ID()",
                (server.user,),
            )
            for (number,) in cursor.fetchall():
                cursor.execute(f"KILL {number}")

    assert_exact(join, run_with_fault(join, kill_connections))
    assert waits.count


@every_algorithm
def test_a_server_that_stays_away_fails_the_join_and_nothing_is_unmatched(
    server, opened, algorithm
):
    store = opened(sleep=Waits(), patience=Patience(give_up_after_s=0.2, read_timeout_s=1))
    join = joined(store, algorithm)
    unmatched: list[int] = []

    def watch() -> None:
        for output in run_with_fault(join, server.stop):
            if output.kind == "unmatched":
                unmatched.extend(output.rows["k"].to_pylist())

    with pytest.raises(TransientError, match=f"{server.port} did not answer.*products"):
        watch()
    assert all(key % 2 for key in unmatched), "odd keys are absent from the master, no others"
    statistics = join.statistics
    assert statistics.balances
    assert statistics.rows_pending > 0, "what was not answered is pending, not unmatched"
    join.close()


def test_a_server_that_is_slow_for_a_while_only_delays(server, opened):
    join = joined(opened(patience=Patience(read_timeout_s=30)), "chybridjoin")

    def freeze_for_a_while() -> None:
        server.pause()
        threading.Timer(0.5, server.resume).start()

    assert_exact(join, run_with_fault(join, freeze_for_a_while))


def test_a_server_that_is_slower_than_its_limit_is_asked_again(server, opened):
    """Statements are limited on the server too: a locked table must not hold a join for ever."""
    with server.connect() as lock, lock.cursor() as cursor:
        waits = Waits(then=lambda: cursor.execute("UNLOCK TABLES"))
        store = opened(sleep=waits)
        cursor.execute("LOCK TABLES products WRITE")
        rows = store.read(range(store.partition_count))
    assert len(rows) == MASTER.num_rows
    assert waits.count


@pytest.mark.parametrize("reply_bytes", [0, 1, 60, 500, 1500, 2500])
def test_a_reply_cut_short_is_asked_for_again(server, opened, reply_bytes):
    """A connection that ends in the middle of rows must not pass for the end of the rows."""
    waits = Waits()
    with CuttingProxy((server.host, server.port)) as proxy:
        store = opened(port=proxy.port, sleep=waits)
        proxy.drop_all()
        proxy.cut_after(reply_bytes)
        rows = store.read(range(store.partition_count))
        assert proxy.cuts == 1
    assert sorted(rows.rows["k"].to_pylist()) == MASTER["k"].to_pylist()
    assert waits.count >= 2


@pytest.mark.parametrize("reply_bytes", [60, 1500])
def test_a_fetch_cut_short_is_asked_for_again(server, opened, reply_bytes):
    with CuttingProxy((server.host, server.port)) as proxy:
        store = opened(port=proxy.port, sleep=Waits())
        proxy.drop_all()
        proxy.cut_after(reply_bytes)
        keys = store.encode([STREAM["k"]])
        found = [key for rows in store.fetch(keys, 1 << 20) for key in rows.rows["k"].to_pylist()]
        assert proxy.cuts == 1
    assert sorted(found) == sorted(key for key in STREAM["k"].to_pylist() if key % 2 == 0)


def test_opening_survives_a_restart_too(server, opened):
    """The walk that finds the bounds is many small questions: each is repeated on its own."""
    with CuttingProxy((server.host, server.port)) as proxy:
        for reply_bytes in (100, 900, 1200, 1500, 3000, 6000):
            proxy.cut_after(reply_bytes)
        store = opened(port=proxy.port, sleep=Waits(), patience=QUICK)
        assert proxy.cuts == 6
        assert store.row_count == MASTER.num_rows
        assert store.partition_count == MASTER.num_rows // 50


def test_a_table_dropped_under_a_join_is_an_error(server, opened):
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE TABLE shortlived (PRIMARY KEY (k)) SELECT * FROM products"
        )
        join = joined(opened("shortlived"), "chybridjoin")

        def drop() -> None:
            cursor.execute("DROP TABLE shortlived")

        with pytest.raises(InputError, match="shortlived"):
            collect(join, run_with_fault(join, drop))
    assert join.statistics.rows_pending > 0
    join.close()


def test_a_lost_server_is_retryable_from_the_store_as_well(server, opened):
    store = opened(patience=Patience(give_up_after_s=0, read_timeout_s=1), sleep=Waits())
    keys = store.encode([pa.array([2, 4])])
    server.stop()
    with pytest.raises(StoreUnavailable):
        store.read([0])
    with pytest.raises(StoreUnavailable):
        list(store.fetch(keys, 1000))
    with pytest.raises(StoreUnavailable):
        list(store.scan())
    server.restart()
    assert len(store.read([0])) == 50, "the same store works again"


@pytest.mark.parametrize("reply_bytes", [1, 400, 2000, 30_000])
def test_a_stream_cut_short_is_an_error_not_an_end(server, reply_bytes):
    with CuttingProxy((server.host, server.port)) as proxy:
        url = f"mysql://{server.user}@{server.host}:{proxy.port}/{server.database}/products"
        source = TableSource.open(url, password=Password(server.password), sleep=Waits())
        assert sum(batch.num_rows for batch in source.batches()) == MASTER.num_rows
        proxy.cut_after(reply_bytes)
        if reply_bytes < 400:  # cut before it began: it begins again
            assert sum(batch.num_rows for batch in source.batches()) == MASTER.num_rows
        else:
            with pytest.raises(StoreUnavailable, match=r"middle of a scan of .*products"):
                list(source.batches())
        assert proxy.cuts == 1
