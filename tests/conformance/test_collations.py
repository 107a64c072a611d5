"""Text keys are equal where the database says so, whoever answers: front stage or table."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from semistream import open_join
from tests.conformance.oracle import collect, split
from tests.conformance.stores import MySQLTables

DEFAULT, BINARY = "utf8mb4_general_ci", "utf8mb4_bin"
_WORDS = ["abc", "straße", "Köln", "été", "naïve", "中文", "😀", "", "a b", "x"]
_SPELLINGS = [
    str,
    str.upper,
    str.lower,
    str.title,
    lambda word: word + "  ",
    lambda word: word[:-1],
]


def _spelt(rng: np.random.Generator, rows: int) -> list[str | None]:
    """The same few words in many spellings, among many that are not asked for again."""
    picks = rng.integers(0, len(_WORDS), rows)
    how = rng.integers(0, len(_SPELLINGS), rows)
    texts: list[str | None] = [
        _SPELLINGS[h](_WORDS[p]) + (f"-{n % 300}" if n % 3 else "")
        for n, (p, h) in enumerate(zip(picks, how, strict=True))
    ]
    texts[::50] = [None] * len(texts[::50])
    return texts


def _expected(tables: MySQLTables, collation: str, master: pa.Table, stream: pa.Table) -> Counter:
    """The server's own join, without an index: comparing row by row."""
    names = [tables.load(rows, ["k"], collation) for rows in (master, stream)]
    with tables.connection.cursor() as cursor:
        cursor.execute(
            f"SELECT s.id, s.k, m.v FROM `{names[1]}` s IGNORE INDEX (k) "
            f"LEFT JOIN `{names[0]}` m IGNORE INDEX (k) ON m.k = s.k"
        )
        found = Counter(cursor.fetchall())
        cursor.execute(f"DROP TABLE `{names[0]}`, `{names[1]}`")
    return found


@pytest.fixture(scope="module", params=[DEFAULT, BINARY])
def case(request, mysql_tables):
    rng = np.random.default_rng(11)
    master = pa.table({"k": _spelt(rng, 1500), "v": np.arange(1500)})
    stream = pa.table({"id": np.arange(2500), "k": _spelt(rng, 2500)})
    return request.param, master, stream, _expected(mysql_tables, request.param, master, stream)


def test_equality_follows_the_collation(mysql_tables, algorithm, case):
    collation, master, stream, expected = case
    store = mysql_tables.open(master, ["k"], 1024, collation)
    with (
        store,
        open_join(
            store, stream.schema, [("k", "k")], algorithm=algorithm, memory=150_000, how="left"
        ) as join,
    ):
        given = collect(join, join.run(split(stream, [211])))
        assert given.joined == expected
        # Once more: what a scan brought into the front stage late must answer the same.
        given = collect(join, join.run(split(stream, [211])), given)
    assert given.joined == expected + expected
    if join.front_stage is not None:
        assert given.statistics.front_stage_hits > 0


def test_the_two_collations_differ_in_this_data(mysql_tables):
    """Or the law above would prove nothing."""
    rng = np.random.default_rng(11)
    master = pa.table({"k": _spelt(rng, 1500), "v": np.arange(1500)})
    stream = pa.table({"id": np.arange(2500), "k": _spelt(rng, 2500)})
    default, binary = (
        _expected(mysql_tables, name, master, stream).total() for name in (DEFAULT, BINARY)
    )
    assert default > 1.1 * binary
