"""The command line with tables of a real server on either side."""

from __future__ import annotations

import json
import socket
import sys

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from semistream.cli import main
from semistream.stores.mysql import PASSWORD_VARIABLE, Patience, source, store

STREAM = pa.table({"code": ["abc", "ABC ", "é", "zz", None, "abc"], "n": [10, 20, 30, 40, 50, 60]})


@pytest.fixture(scope="module")
def tables(mariadb):
    """`products` by a text key, `orders` without any index, `loose` without the index it needs."""
    with mariadb.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE products (code VARCHAR(20) PRIMARY KEY, name TEXT, price DECIMAL(8,2))"
        )
        cursor.execute("INSERT INTO products VALUES ('Abc', 'first', 1.50), ('e', 'second', NULL)")
        cursor.execute("CREATE TABLE orders (code VARCHAR(20), n INT NOT NULL)")
        rows = list(zip(*STREAM.to_pydict().values(), strict=True))
        cursor.executemany("INSERT INTO orders VALUES (%s, %s)", rows)
        cursor.execute("CREATE TABLE loose SELECT * FROM products")
        cursor.execute("CREATE TABLE many (n BIGINT NOT NULL, text VARCHAR(200))")
        cursor.execute("INSERT INTO many SELECT seq, REPEAT('x', seq % 200) FROM seq_1_to_100000")
        yield f"mysql://{mariadb.user}@{mariadb.host}:{mariadb.port}/{mariadb.database}"
        cursor.execute("DROP TABLE products, orders, loose, many")


@pytest.fixture
def run(mariadb, tmp_path, monkeypatch, capsys):
    """Calls `semistream join`; exit code, stdout and stderr."""
    monkeypatch.setenv(PASSWORD_VARIABLE, mariadb.password)
    parquet.write_table(STREAM, tmp_path / "stream.parquet")

    def call(stream, master, *more, on="code"):
        monkeypatch.setattr(
            sys,
            "argv",
            [
                *("semistream", "join", "--stream", str(stream), "--master", str(master)),
                *("--on", on, "--out", str(tmp_path / "out"), "--memory", "1MB", *more),
            ],
        )
        code = main()
        captured = capsys.readouterr()
        assert mariadb.password not in captured.out + captured.err
        return code, captured.out, captured.err

    return call


def rows_of(folder):
    return sorted(duckdb.sql(f"select * from '{folder}/*.parquet'").fetchall(), key=str)


@pytest.mark.parametrize("algorithm", ["auto", "inlj"])
@pytest.mark.parametrize("stream", ["stream.parquet", "orders"])
def test_a_table_is_a_master_and_a_stream(tables, run, tmp_path, stream, algorithm):
    path = f"{tables}/{stream}" if stream == "orders" else tmp_path / stream
    code, out, err = run(path, f"{tables}/products", "--algorithm", algorithm, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["rows_in"], found["rows_matched"], found["master_rows"]) == (6, 4, 2)
    assert found["unmatched_by_reason"] == {"no_match": 1, "null_key": 1}
    joined = rows_of(tmp_path / "out/joined")
    assert [(row[0], row[1], row[2]) for row in joined] == [
        ("ABC ", 20, "first"),
        ("abc", 10, "first"),
        ("abc", 60, "first"),
        ("é", 30, "second"),
    ]


def test_a_long_table_streams_whole(tables, run, tmp_path):
    parquet.write_table(pa.table({"n": [1, 2, 100_000, 100_001]}), tmp_path / "few.parquet")
    code, out, err = run(f"{tables}/many", tmp_path / "few.parquet", "--json", on="n")
    assert code == 0, err
    found = json.loads(out)
    assert (found["rows_in"], found["rows_matched"]) == (100_000, 3)
    (lengths,) = duckdb.sql(
        f"select count(*), sum(length(text)), count(distinct n) from "
        f"(select * from '{tmp_path}/out/joined/*.parquet' union all by name "
        f"select * exclude _reason from '{tmp_path}/out/unmatched/*.parquet')"
    ).fetchall()
    assert lengths == (100_000, sum(n % 200 for n in range(1, 100_001)), 100_000)


@pytest.mark.parametrize(
    ("stream", "master", "on", "says"),
    [
        ("orders", "nothing", "code", "unknown table"),
        ("nothing", "products", "code", "unknown table"),
        ("orders", "loose", "code", "CREATE INDEX"),
        ("orders", "products", "name", "TEXT has no full index"),
        ("orders", "products", "nope", "no column 'nope'"),
        ("orders", "products", "n=code", "without loss"),
        ("orders", "products/too/much", "code", "mysql://user@host:port/database/table"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(tables, run, stream, master, on, says):
    code, out, err = run(f"{tables}/{stream}", f"{tables}/{master}", on=on)
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


def test_a_wrong_password_is_exit_2(tables, run, monkeypatch):
    monkeypatch.setenv(PASSWORD_VARIABLE, "wr0ng-secret")
    code, _, err = run(f"{tables}/orders", f"{tables}/products")
    assert code == 2
    assert "Access denied" in err
    assert "wr0ng-secret" not in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("side", ["stream", "master"])
def test_an_unreachable_server_is_exit_1(tables, run, tmp_path, monkeypatch, side):
    for module in (source, store):
        monkeypatch.setattr(module, "Patience", lambda: Patience(first_contact_s=0.05))
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        dead = f"mysql://nobody@127.0.0.1:{taken.getsockname()[1]}/shop/products"
        sides = {"stream": tmp_path / "stream.parquet", "master": f"{tables}/products"}
        sides[side] = dead
        code, out, err = run(sides["stream"], sides["master"])
    assert code == 1
    assert "did not answer" in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""
