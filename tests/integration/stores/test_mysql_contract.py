"""What a join relies on: locate, read, fetch and scan agree with each other and with plain SQL."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semistream.errors import InputError, KeyTypeMismatch
from semistream.keys import NO_MATCH, NULL_KEY, OK
from semistream.stores.mysql import MySQLStore, Password
from semistream.stores.protocol import MasterRows

Tables = Callable[..., str]


@pytest.fixture(scope="module")
def connection(mariadb):
    with mariadb.connect(autocommit=True) as connection:
        yield connection


@pytest.fixture
def table(connection, request) -> Tables:
    """Makes a table from its definition and rows; gone after the test."""
    made = []

    def make(definition: str, rows: Sequence[Sequence[object]] = (), name: str = "") -> str:
        name = name or f"t{len(made)}_{abs(hash(request.node.name)) % 10**9}"
        quoted = f"`{name.replace('`', '``')}`"
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
            cursor.execute(f"CREATE TABLE {quoted} ({definition})")
            made.append(quoted)
            if rows:
                marks = ", ".join(["%s"] * len(rows[0]))
                cursor.executemany(f"INSERT INTO {quoted} VALUES ({marks})", rows)
        return name

    yield make
    with connection.cursor() as cursor:
        for name in made:
            cursor.execute(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def opened(mariadb):
    """Opens a table of the test server; closed after the test."""
    stores = []

    def open_store(name: str, key: Sequence[str], **options: Any) -> MySQLStore:
        url = f"mysql://{mariadb.user}@{mariadb.host}:{mariadb.port}/{mariadb.database}/{name}"
        stores.append(MySQLStore.open(url, key, password=Password(mariadb.password), **options))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def rows_of(batch: pa.RecordBatch) -> Counter:
    return Counter(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def plain_sql(connection, name: str, key: Sequence[str], columns: str = "*") -> Counter:
    present = " AND ".join(f"`{column}` IS NOT NULL" for column in key)
    with connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT {columns} FROM `{name}` WHERE {present}")
        return Counter(cursor.fetchall())


def assert_ascending(rows: MasterRows) -> None:
    assert len(rows.bounds) == len(rows.partitions) + 1
    assert rows.bounds[0] == 0
    assert rows.bounds[-1] == len(rows) == rows.rows.num_rows
    for start, end in zip(rows.bounds[:-1], rows.bounds[1:], strict=True):
        codes = rows.codes[start:end]
        assert (codes[1:] >= codes[:-1]).all()


def codes_of(keys) -> set:
    checks = keys.checks if keys.checks is not None else np.zeros(len(keys), np.uint64)
    return set(zip(keys.codes.tolist(), checks.tolist(), strict=True))


def assert_contract(store: MySQLStore, expected: Counter) -> None:
    """Everything a store promises, for a store that selects all columns in order."""
    assert store.row_count == expected.total()
    every = range(store.partition_count)
    scanned = list(store.scan(start=store.partition_count // 2))
    assert sum((rows_of(rows.rows) for rows in scanned), Counter()) == expected
    order = [int(rows.partitions[0]) for rows in scanned]
    assert order == [*every[store.partition_count // 2 :], *every[: store.partition_count // 2]]
    together = store.read(list(every))
    assert rows_of(together.rows) == expected
    assert_ascending(together)
    if not len(together):
        return
    keys = store.encode([together.rows.column(name) for name in store.key])
    assert (keys.status == OK).all()
    assert (keys.codes == together.codes).all()
    if store.is_exact:
        assert keys.checks is None
        assert together.checks is None
    else:
        assert (keys.checks == together.checks).all()
    first, last = store.locate(keys)
    found_in = np.repeat(together.partitions, np.diff(together.bounds))
    assert ((first <= found_in) & (found_in <= last)).all()
    if not store.has_straddling_keys:
        assert (first == last).all()
    alone = store.read([int(together.partitions[-1])])
    assert rows_of(alone.rows) == rows_of(together.rows.slice(int(together.bounds[-2])))
    assert_fetches(store, keys, expected)


def assert_fetches(store: MySQLStore, keys, expected: Counter) -> None:
    _, distinct = np.unique(keys.codes, return_index=True)
    np.random.default_rng(0).shuffle(distinct)
    for limit in (200, 1 << 20):
        fetched: Counter = Counter()
        for rows in store.fetch(keys.take(distinct), limit):
            assert_ascending(rows)
            fetched += rows_of(rows.rows)
        assert fetched == expected
    half = keys.take(distinct[: len(distinct) // 2])
    wanted, got = codes_of(half), set()
    for rows in store.fetch(half, 1 << 20):
        got |= codes_of(rows)
    assert got == wanted


DATES = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
TIMES = [
    dt.datetime.fromisoformat(text)
    for text in (
        "1000-01-01",
        "1969-12-31 23:59:59.999999",
        "2024-02-29 12:30:01.000005",
        "9999-12-31 23:59:59",
    )
]
FIRST_TIMESTAMP = dt.datetime.fromisoformat("1970-01-01 00:00:01")
HOURS = [dt.timedelta(hours=838, minutes=59, seconds=59), dt.timedelta(0)]
HOURS += [dt.timedelta(seconds=-5), dt.timedelta(hours=-100, microseconds=7)]
INTEGERS = [0, 1, 5, 77, 127]
KEY_TYPES = {
    "tinyint": ("TINYINT", [*INTEGERS, -1, -128]),
    "tinyint unsigned": ("TINYINT UNSIGNED", [*INTEGERS, 128, 255]),
    "boolean is an integer": ("TINYINT(1)", [0, 1, 2, -7]),
    "smallint": ("SMALLINT", [*INTEGERS, -(2**15), 2**15 - 1]),
    "mediumint": ("MEDIUMINT", [*INTEGERS, -(2**23), 2**23 - 1]),
    "mediumint unsigned": ("MEDIUMINT UNSIGNED", [*INTEGERS, 2**24 - 1]),
    "int": ("INT", [*INTEGERS, -(2**31), 2**31 - 1]),
    "int unsigned": ("INT UNSIGNED", [*INTEGERS, 2**32 - 1]),
    "bigint": ("BIGINT", [*INTEGERS, -(2**63), 2**63 - 1, 2**53 + 1]),
    "bigint unsigned": ("BIGINT UNSIGNED", [*INTEGERS, 2**64 - 1, 2**63, 2**63 - 1]),
    "decimal": ("DECIMAL(10,2)", [Decimal(x) for x in ("-1.50", "0.00", "0.01", "99999999.99")]),
    "wide decimal": ("DECIMAL(30,4)", [Decimal(x) for x in ("-9" * 1 + "9" * 25 + ".0001", "1.5")]),
    "widest decimal": ("DECIMAL(65,30)", [Decimal("9" * 35 + "." + "1" * 30), Decimal("-1e-30")]),
    "float": ("FLOAT", [0.0, 0.10000000149011612, -1.5, 3.4028234663852886e38]),
    "double": ("DOUBLE", [0.0, 0.1, -1.5, 1e308, 5e-324, 2.0**53]),
    "date": ("DATE", DATES),
    "datetime": ("DATETIME(6)", TIMES),
    "timestamp": ("TIMESTAMP(6)", [FIRST_TIMESTAMP, TIMES[2]]),
    "time": ("TIME(6)", HOURS),
    "year": ("YEAR", [1901, 1999, 2005, 2155]),
    "char": ("CHAR(10)", ["", "a", "b c", "Zürich", "日本"]),
    "varchar": ("VARCHAR(50)", ["", "a", "b c", "Zürich", "日本", "it's", 'say "x"', "a\\b", "😀"]),
    "varchar binary": ("VARCHAR(50) COLLATE utf8mb4_bin", ["", "a", "A", "é", "e", "😀", "\uffee"]),
    "varchar latin1": ("VARCHAR(50) CHARACTER SET latin1", ["", "a", "é", "ß", "€", "ÿ"]),
    "varbinary": ("VARBINARY(50)", [b"", b"a", b"a ", b"a\0", b"\xff\xfe", b"A"]),
    "binary": ("BINARY(4)", [b"abcd", b"ab\0\0", b"\xff\0\xff\0"]),
    "enum": ("ENUM('z','b','a','it''s')", ["z", "b", "a", "it's"]),
}


@pytest.mark.parametrize("unique", ["PRIMARY KEY", "KEY"])
@pytest.mark.parametrize("case", KEY_TYPES)
def test_every_key_type_keeps_the_contract(connection, table, opened, case, unique):
    sql_type, values = KEY_TYPES[case]
    copies = 1 if unique == "PRIMARY KEY" else 3
    rows = [(value, f"{n}-{copy}") for n, value in enumerate(values) for copy in range(copies)]
    name = table(f"k {sql_type} NOT NULL, note VARCHAR(40), {unique} (k)", rows)
    store = opened(name, ["k"], partition_rows=2)
    # As text, which pymysql reads, a FLOAT loses digits.
    columns = "CAST(k AS DOUBLE), note" if case == "float" else "*"
    expected = plain_sql(connection, name, ["k"], columns)
    if case == "timestamp":
        expected = Counter(
            {(k.replace(tzinfo=dt.UTC), note): n for (k, note), n in expected.items()}
        )
    assert expected.total() == len(rows)
    assert store.is_unique == (unique == "PRIMARY KEY")
    assert_contract(store, expected)


@pytest.mark.parametrize("case", ["int", "bigint unsigned", "decimal", "varchar", "date", "enum"])
def test_a_composite_key_keeps_the_contract(connection, table, opened, case):
    sql_type, values = KEY_TYPES[case]
    rows = [(value, n, f"{n}") for value in values for n in range(-7, 7)]
    name = table(f"a {sql_type} NOT NULL, b INT NOT NULL, note VARCHAR(9), KEY (a, b)", rows)
    store = opened(name, ["a", "b"], partition_rows=3)
    assert not store.is_exact
    assert_contract(store, plain_sql(connection, name, ["a", "b"]))


def test_an_index_may_order_the_key_otherwise(connection, table, opened):
    rows = [(a, b, c) for a in "xyz" for b in range(5) for c in (1.5, -2.5)]
    name = table(
        "a VARCHAR(9), b INT, c DOUBLE, d INT GENERATED ALWAYS AS (b) STORED, KEY (c, a, b, d)",
        [],
    )
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO `{name}` (a, b, c) VALUES (%s, %s, %s)", rows)
    store = opened(name, ["a", "b", "c"], partition_rows=4)
    assert store.partition_count > 3
    assert not store.is_unique
    assert_contract(store, plain_sql(connection, name, ["a", "b", "c"]))


def test_three_columns_whose_leading_ones_repeat(connection, table, opened):
    rows = [(a, b, c, "x" * (a + b + c)) for a in range(3) for b in range(4) for c in range(5)]
    name = table("a INT, b INT, c INT, note TEXT, PRIMARY KEY (a, b, c)", rows)
    for size in (1, 2, 7, 19, 1000):
        store = opened(name, ["c", "a", "b"], partition_rows=size)
        assert_contract(store, plain_sql(connection, name, ["a", "b", "c"]))


def test_rows_with_a_null_in_their_key_are_left_out(connection, table, opened):
    rows = [(1, 1), (None, 2), (3, None), (None, None), (5, 5), (5, 6)]
    name = table("a INT, b INT, UNIQUE KEY (a, b)", rows)
    store = opened(name, ["a", "b"], partition_rows=1)
    assert store.row_count == 3
    assert store.is_unique
    assert_contract(store, Counter([(1, 1), (5, 5), (5, 6)]))


def test_a_table_with_only_null_keys_is_empty(table, opened):
    store = opened(table("a INT, KEY (a)", [(None,), (None,)]), ["a"])
    assert (store.partition_count, store.row_count) == (0, 0)
    assert_contract(store, Counter())


def test_an_empty_table_works(table, opened):
    store = opened(table("a INT PRIMARY KEY, b VARCHAR(9)"), ["a"])
    assert (store.partition_count, store.row_count, store.partition_bytes) == (0, 0, 0)
    keys = store.encode([pa.array([1, None])])
    first, last = store.locate(keys)
    assert first.tolist() == last.tolist() == [-1, -1]
    assert list(store.scan()) == []
    assert list(store.fetch(keys.slice(0, 1), 1000)) == []
    rows = store.read([])
    assert (len(rows), rows.rows.schema) == (0, store.schema)


def test_impossible_dates_in_a_key_never_match(connection, table, opened):
    rows = [("0000-00-00", 1), ("2024-01-01", 2), ("2024-01-02", 3)]
    name = table("d DATE NOT NULL, n INT, KEY (d)", rows)
    store = opened(name, ["d"], partition_rows=1)
    expected = Counter([(dt.date(2024, 1, 1), 2), (dt.date(2024, 1, 2), 3)])
    assert_contract(store, expected)


def test_one_key_with_more_rows_than_fit_is_one_partition(connection, table, opened):
    rows = [(k, n) for k, count in ((1, 2), (2, 500), (3, 2), (4, 300)) for n in range(count)]
    name = table("k INT NOT NULL, n INT, KEY (k)", rows)
    store = opened(name, ["k"], partition_rows=10)
    assert not store.has_straddling_keys
    largest = max(len(rows) for rows in store.scan())
    assert largest == 500
    assert store.partition_bytes >= 500 * store.row_bytes
    assert_contract(store, plain_sql(connection, name, ["k"]))


def test_partitions_are_even_in_bytes(connection, table, opened):
    rows = [(n, "x" * (4000 if 400 <= n < 450 else 20)) for n in range(2000)]
    name = table("k INT PRIMARY KEY, note TEXT", rows)
    store = opened(name, ["k"], partition_bytes=20_000)
    sizes = [int(rows.rows.nbytes) for rows in store.scan()]
    assert max(sizes) <= 2 * 20_000 + 4000
    assert sorted(sizes)[len(sizes) // 2] >= 9_000
    assert store.partition_bytes >= max(sizes)
    assert store.row_bytes == pytest.approx(sum(sizes) / 2000, rel=0.1)
    assert_contract(store, plain_sql(connection, name, ["k"]))


def test_rows_that_come_later_are_read_at_both_ends(connection, table, opened):
    name = table("k INT PRIMARY KEY", [(n,) for n in range(100, 200)])
    store = opened(name, ["k"], partition_rows=10)
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO `{name}` VALUES (-5), (5000)")
    keys = store.encode([pa.array([-5, 5000])])
    first, last = store.locate(keys)
    assert first.tolist() == last.tolist() == [0, store.partition_count - 1]
    ends = store.read([0, store.partition_count - 1]).rows.column("k").to_pylist()
    assert {-5, 5000} <= set(ends)


def test_select_projects_in_sql_and_shares_the_connections(connection, table, opened):
    name = table("k INT PRIMARY KEY, a VARCHAR(20), b BLOB", [(n, f"a{n}", b"b") for n in range(9)])
    store = opened(name, ["k"], columns=["a"], partition_rows=4)
    assert store.columns == ("a",)
    assert store.read([0]).rows.schema.names == ["a"]
    wide = store.select(["b", "k"])
    assert rows_of(wide.read([0]).rows) == Counter((b"b", n) for n in range(4))
    assert wide.row_bytes > wide.select(["k"]).row_bytes == 4
    assert store.select(None).columns == ("k", "a", "b")
    with pytest.raises(InputError, match=r"no column 'c'.*there are k, a, b"):
        store.select(["c"])
    store.close()
    assert len(wide.read([0])) == 4, "a view lives on when another is closed"


def test_a_closed_store_says_so(table, opened):
    store = opened(table("k INT PRIMARY KEY", [(1,)]), ["k"])
    store.close()
    store.close()
    with pytest.raises(InputError, match="closed"):
        store.read([0])


def test_partitions_outside_are_refused(table, opened):
    store = opened(table("k INT PRIMARY KEY", [(n,) for n in range(9)]), ["k"], partition_rows=2)
    for wrong in ([-1], [99], [1, 0], [1, 1]):
        with pytest.raises(InputError, match="must ascend"):
            store.read(wrong)


def test_stream_keys_of_other_types_meet_where_nothing_is_lost(table, opened):
    store = opened(table("k TINYINT PRIMARY KEY", [(1,), (-1,)]), ["k"])
    keys = store.encode([pa.array([1, 300, None, -1], pa.int64())])
    assert keys.status.tolist() == [OK, NO_MATCH, NULL_KEY, OK]
    assert store.locate(keys)[0].tolist() == [0, -1, -1, 0]
    as_decimal = store.encode([pa.array([Decimal("1.0"), Decimal("1.5")])])
    assert as_decimal.status.tolist() == [OK, NO_MATCH]
    assert [len(rows) for rows in store.fetch(as_decimal.slice(0, 1), 1000)] == [1]
    store.require([pa.uint64()], [("s", "k")])
    with pytest.raises(KeyTypeMismatch, match="'s'"):
        store.require([pa.string()], [("s", "k")])


def test_a_key_that_no_date_column_can_hold_finds_nothing(table, opened):
    store = opened(table("k DATETIME PRIMARY KEY", [("2024-01-01",)]), ["k"])
    far = pa.array([2**62, 1_704_067_200_000_000], pa.timestamp("us"))
    keys = store.encode([far])
    fetched = [rows.rows.column(0).to_pylist() for rows in store.fetch(keys, 1000)]
    assert fetched == [[dt.datetime.fromisoformat("2024-01-01")]]


def test_rows_a_server_adds_to_a_list_do_not_come_twice(table, opened):
    """`YEAR IN (5)` also finds 2005: were it kept, it would be joined with both keys' pieces."""
    store = opened(table("k YEAR PRIMARY KEY", [(2005,), (2006,)]), ["k"])
    keys = store.encode([pa.array([5, 2005], pa.int64())])
    fetched = [r.rows.column(0).to_pylist() for r in store.fetch(keys, 1)]
    assert [value for values in fetched for value in values] == [2005]


def test_wide_rows_and_nulls_survive(connection, table, opened):
    rows = [(n, None if n % 3 else "é" * n, b"\0" * n if n % 2 else None) for n in range(200)]
    rows.append((1000, "x" * 70_000, b"\xff" * 300_000))
    name = table("k INT PRIMARY KEY, t LONGTEXT, b LONGBLOB", rows)
    assert_contract(opened(name, ["k"]), plain_sql(connection, name, ["k"]))


def test_versions_tell_changed_tables_apart(connection, table, opened):
    name = table("k INT PRIMARY KEY", [(1,)])
    first = opened(name, ["k"]).version
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE `{name}` SET k = 2")
    assert opened(name, ["k"]).version != first


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keys=st.lists(st.tuples(st.integers(-5, 5), st.text("aAäß bß\t", max_size=3)), max_size=40),
    size=st.integers(1, 9),
)
def test_any_composite_keys_are_found_where_sql_finds_them(connection, table, opened, keys, size):
    name = table(
        "a INT NOT NULL, b VARCHAR(9) NOT NULL, n INT, KEY (b, a)",
        [(a, b, n) for n, (a, b) in enumerate(keys)],
        name="any_composite",
    )
    try:
        store = opened(name, ["a", "b"], partition_rows=size)
        assert_contract(store, plain_sql(connection, name, ["a", "b"]))
        with connection.cursor() as cursor:
            for a, b in {(a, b.upper() + " ") for a, b in keys}:
                cursor.execute(f"SELECT n FROM `{name}` WHERE a = %s AND b = %s", (a, b))
                expected = sorted(n for (n,) in cursor.fetchall())
                asked = store.encode([pa.array([a]), pa.array([b])])
                found = pa.chunked_array(
                    [rows.rows.column("n") for rows in store.fetch(asked, 1000)], pa.int32()
                )
                assert sorted(found.to_pylist()) == expected
                where = store.locate(asked)[0][0]
                if expected:
                    assert set(expected) <= set(store.read([where]).rows["n"].to_pylist())
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE `{name}`")
