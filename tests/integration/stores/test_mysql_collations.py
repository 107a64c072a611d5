"""Equality and order of text are the server's: the same pairs are asked there and computed here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semistream.errors import InputError
from semistream.keys import NO_MATCH, OK
from semistream.stores.mysql import MySQLAddress, MySQLStore, Password, Patience
from semistream.stores.mysql.collation import Collation
from semistream.stores.mysql.components import compare_neighbours, fingerprints, raw_values
from semistream.stores.mysql.pool import Pool

TEXTS = [
    "", " ", "  ", "\t", "\0", "\x01", "a", "A", "a ", "A  ", "a\t", "a\t ", "a \t", "a\0", "a\0 ",
    "a\x1f", "ab", "AB ", "abc", "ABC ", "Abc", "ABD", "abc\u00a0", "\u00a0", "é", "e", "É", "E ",
    "e\u0301", "e\u0301 ", "ß", "ss", "SS", "s", "straße", "STRASSE", "strase", "ö", "o", "oe",
    "å", "aa", "AA", "ä", "ae", "æ", "ch", "c", "h", "ñ", "n", "ı", "i", "I", "İ", "\u200b",
    "a\u200b", "a\u200bb", "\u00ad", "\ufeff", "ﬁ", "fi", "中", "中文", "😀", "😁", "a😀", "😀 ",
    "Ω", "ω", "٣", "3", "½", "1/2", "\u3000", "か", "カ", "ｶ", "が", "か\u3099", "it's", 'a"b',
    "\\", "a\nb", "€", "ÿ", "Ÿ", "\u0378", "\U0010fffd", "dzs", "DZs", "z", "~", "\x7f",
]  # fmt: skip
COLLATIONS = [
    "utf8mb4_general_ci",
    "utf8mb4_bin",
    "utf8mb4_nopad_bin",
    "utf8mb4_unicode_ci",
    "utf8mb4_unicode_nopad_ci",
    "utf8mb4_unicode_520_ci",
    "utf8mb4_uca1400_ai_ci",
    "utf8mb4_uca1400_as_ci",
    "utf8mb4_uca1400_as_cs",
    "utf8mb4_uca1400_nopad_as_cs",
    "utf8mb4_general_nopad_ci",
    "utf8mb4_czech_ci",
    "utf8mb4_hungarian_ci",
    "utf8mb4_danish_ci",
    "utf8mb4_german2_ci",
    "utf8mb3_general_ci",
    "utf8mb3_bin",
    "latin1_swedish_ci",
    "latin1_german2_ci",
    "latin1_bin",
    "latin1_general_cs",
    "latin2_czech_cs",
    "latin7_general_cs",
    "ascii_general_ci",
    "ascii_bin",
    "swe7_swedish_ci",
    "sjis_japanese_ci",
    "gbk_chinese_ci",
    "utf16_unicode_ci",
    "ucs2_general_ci",
    "utf32_bin",
]


@pytest.fixture(scope="module")
def connection(mariadb):
    with mariadb.connect(autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def pool(mariadb):
    address = MySQLAddress(mariadb.host, mariadb.port, mariadb.user, mariadb.database, "none")
    pool = Pool(address, Password(mariadb.password), Patience())
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def learnt(pool):
    """Collations by name, each learnt once."""
    known: dict[str, Collation] = {}

    def learn(name: str) -> Collation:
        if name not in known:
            known[name] = Collation(pool, name.split("_")[0], name)
        return known[name]

    return learn


def ask_signs(connection, name: str, pairs: Sequence[tuple[str, str]]) -> list[int]:
    """-1, 0, 1 by the server's own comparison operators on a stored column's collation."""
    charset = name.split("_")[0]
    left, right = (f"CONVERT(%s USING {charset}) COLLATE {name}" for _ in "ab")
    one = f"IF({left} = {right}, 0, IF({left} < {right}, -1, 1))"
    signs = []
    for at in range(0, len(pairs), 500):
        part = pairs[at : at + 500]
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {', '.join([one] * len(part))}", [x for p in part for x in p * 2]
            )
            signs += cursor.fetchone()
    return signs


def compute_signs(collation: Collation, pairs: Sequence[tuple[str, str]]) -> tuple[list[int], list]:
    column = pa.array([text for pair in pairs for text in pair], pa.string())
    levels, is_held = collation.of_text(*raw_values(column))
    codes, checks = fingerprints(levels)
    assert checks is not None
    signs = compare_neighbours(levels, len(column))[::2]
    same = (codes[::2] == codes[1::2]) & (checks[::2] == checks[1::2])
    assert ((signs == 0) == same).all(), "codes and order tell the same story"
    return signs.tolist(), is_held.tolist()


def assert_agrees(connection, collation: Collation, texts: Sequence[str]) -> None:
    _, is_held = compute_signs(collation, [(text, text) for text in texts])
    usable = [text for text, held in zip(texts, is_held[::2], strict=True) if held]
    pairs = list(product(usable, repeat=2))
    ours, _ = compute_signs(collation, pairs)
    theirs = ask_signs(connection, collation.name, pairs)
    wrong = [
        (pair, mine, server)
        for pair, mine, server in zip(pairs, ours, theirs, strict=True)
        if mine != server
    ]
    assert not wrong


@pytest.mark.parametrize("name", COLLATIONS)
def test_all_pairs_compare_as_on_the_server(connection, learnt, name):
    assert_agrees(connection, learnt(name), TEXTS)


def test_the_pairs_that_catch_people_out(learnt):
    def is_equal(name: str, left: str, right: str) -> bool:
        return compute_signs(learnt(name), [(left, right)])[0] == [0]

    assert is_equal("utf8mb4_general_ci", "abc", "ABC ")
    assert is_equal("utf8mb4_general_ci", "é", "e")
    assert is_equal("utf8mb4_general_ci", "ß", "s")
    assert not is_equal("utf8mb4_general_ci", "ß", "ss")
    assert is_equal("utf8mb4_unicode_ci", "ß", "ss")
    assert is_equal("utf8mb4_bin", "abc", "abc ")
    assert not is_equal("utf8mb4_bin", "abc", "ABC")
    assert not is_equal("utf8mb4_nopad_bin", "abc", "abc ")
    assert not is_equal("utf8mb4_general_ci", "a", "a\t")
    assert is_equal("utf8mb4_unicode_ci", "a", "a\0")


@pytest.mark.parametrize("name", ["utf8mb4_general_ci", "utf8mb4_uca1400_as_cs", "latin1_bin"])
def test_ascii_needs_no_server(learnt, pool, monkeypatch, name):
    collation = learnt(name)
    expected = compute_signs(collation, [("abc", "ABD"), ("", " "), ("x\t", "X")])
    monkeypatch.setattr(pool, "run", lambda work: pytest.fail("the server was asked"))
    assert compute_signs(collation, [("abc", "ABD"), ("", " "), ("x\t", "X")]) == expected


@pytest.mark.parametrize("name", ["utf8mb4_czech_ci", "utf8mb4_danish_ci", "utf8mb4_croatian_ci"])
def test_contractions_are_seen_and_left_to_the_server(learnt, name):
    assert not learnt(name)._tables


def test_other_text_is_asked_for_once(learnt, pool, monkeypatch):
    collation = learnt("utf8mb4_unicode_ci")
    expected = compute_signs(collation, [("Köln", "KOLN"), ("中", "文")])
    monkeypatch.setattr(pool, "run", lambda work: pytest.fail("the server was asked again"))
    assert compute_signs(collation, [("Köln", "KOLN"), ("中", "文")]) == expected


def test_the_memo_stays_within_its_bytes(pool):
    collation = Collation(pool, "utf8mb4", "utf8mb4_unicode_ci", memo_bytes=20_000)
    texts = [f"é{n}" for n in range(1000)]
    signs, _ = compute_signs(collation, [(text, text.upper()) for text in texts])
    assert set(signs) == {0}
    assert 0 < len(collation._server._memo) < 100


def test_a_collation_whose_weights_mislead_is_refused(pool):
    with pytest.raises(InputError, match=r"cp1250_czech_cs.*another collation"):
        Collation(pool, "cp1250", "cp1250_czech_cs")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("latin1_swedish_ci", "😀"),
        ("latin1_bin", "中"),
        ("utf8mb3_general_ci", "a😀"),
        ("utf8mb3_bin", "😀"),
        ("ascii_bin", "é"),
        ("sjis_japanese_ci", "é"),
        ("ucs2_general_ci", "😀"),
    ],
)
def test_text_a_column_cannot_hold_has_no_match(learnt, name, text):
    _, is_held = compute_signs(learnt(name), [(text, "a")])
    assert is_held == [False, True]


def test_long_text_is_weighed_whole(connection, learnt):
    long = "ab" * 2000
    texts = [long, long.upper(), long + "x", long + " ", "é" + long, "E" + long, "é" + long + "y"]
    for name in ("utf8mb4_general_ci", "utf8mb4_uca1400_as_cs", "utf8mb4_bin"):
        assert_agrees(connection, learnt(name), texts)


ALPHABET = st.sampled_from("aAbBeEéÉsSß \t\0\x01zZ1-\u0301\u00a0\u200bñ中😀か")
SETTINGS = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize(
    "name",
    [
        "utf8mb4_general_ci",
        "utf8mb4_bin",
        "utf8mb4_uca1400_ai_ci",
        "utf8mb4_uca1400_as_cs",
        "latin2_czech_cs",
    ],
)
@SETTINGS
@given(texts=st.lists(st.text(ALPHABET, max_size=6), min_size=2, max_size=12, unique=True))
def test_any_texts_compare_as_on_the_server(connection, learnt, name, texts):
    assert_agrees(connection, learnt(name), texts)


@SETTINGS
@given(texts=st.lists(st.text(max_size=5), min_size=2, max_size=8, unique=True))
def test_any_unicode_compares_as_on_the_server(connection, learnt, texts):
    assert_agrees(connection, learnt("utf8mb4_unicode_520_ci"), texts)


@pytest.mark.parametrize(
    "column",
    [
        "VARCHAR(60)",
        "VARCHAR(60) COLLATE utf8mb4_bin",
        "VARCHAR(60) COLLATE utf8mb4_uca1400_ai_ci",
        "VARCHAR(60) COLLATE utf8mb4_uca1400_as_cs",
        "VARCHAR(60) COLLATE utf8mb4_czech_ci",
        "VARCHAR(60) CHARACTER SET latin1",
        "VARCHAR(60) COLLATE utf8mb4_nopad_bin",
        "VARCHAR(60) COLLATE utf8mb4_general_nopad_ci",
        "CHAR(60)",
        "CHAR(60) COLLATE utf8mb4_bin",
        "VARBINARY(240)",
    ],
)
def test_a_store_finds_what_the_server_finds(mariadb, connection, column):
    """Every text as a stream key against every text stored, by fetch and by partition."""
    encoding = "cp1252" if "latin1" in column else "utf-8"
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS texts")
        cursor.execute("SET sql_mode = ''")
        cursor.execute(f"CREATE TABLE texts (k {column} NOT NULL, n INT, KEY (k))")
        for n, text in enumerate(TEXTS):
            if text.encode(encoding, "ignore").decode(encoding) == text:
                cursor.execute("INSERT INTO texts VALUES (%s, %s)", (text, n))
        expected = {}
        for text in TEXTS:
            expected[text] = []
            if text.encode(encoding, "ignore").decode(encoding) == text:
                # Otherwise an "illegal mix of collations": no such text can be in the column.
                cursor.execute("SELECT n FROM texts WHERE k = %s", (text,))
                expected[text] = sorted(n for (n,) in cursor.fetchall())
    url = f"mysql://{mariadb.user}@{mariadb.host}:{mariadb.port}/{mariadb.database}/texts"
    with MySQLStore.open(
        url, ["k"], password=Password(mariadb.password), partition_rows=3
    ) as store:
        keys = store.encode([pa.array(TEXTS)])
        first, last = store.locate(keys)
        everything = [store.read([p]) for p in range(store.partition_count)]
        for n, text in enumerate(TEXTS):
            if keys.status[n] == NO_MATCH:
                assert first[n] == last[n] == -1
                assert not expected[text]
                continue
            found = []
            for rows in everything[first[n] : last[n] + 1]:
                same = (rows.codes == keys.codes[n]) & (rows.checks == keys.checks[n])
                found += rows.rows["n"].filter(pa.array(same)).to_pylist()
            assert sorted(found) == expected[text], repr(text)
            fetched = [
                rows.rows["n"].to_pylist() for rows in store.fetch(keys.slice(n, n + 1), 999)
            ]
            assert sorted(chain.from_iterable(fetched)) == expected[text], repr(text)


def test_char_columns_that_do_not_pad_are_refused(mariadb, connection):
    """MariaDB itself loses such rows in range reads, so no answer of ours could be right."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE TABLE texts (k CHAR(9) COLLATE utf8mb4_nopad_bin, KEY (k))"
        )
    url = f"mysql://{mariadb.user}@{mariadb.host}:{mariadb.port}/{mariadb.database}/texts"
    with pytest.raises(InputError, match=r"'k'.*utf8mb4_nopad_bin.*make it VARCHAR"):
        MySQLStore.open(url, ["k"], password=Password(mariadb.password))


def test_binary_streams_meet_text_columns_as_utf8(mariadb, connection):
    with connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE texts (k VARCHAR(9) PRIMARY KEY)")
        cursor.execute("INSERT INTO texts VALUES ('é')")
    url = f"mysql://{mariadb.user}@{mariadb.host}:{mariadb.port}/{mariadb.database}/texts"
    with MySQLStore.open(url, ["k"], password=Password(mariadb.password)) as store:
        values = [b"\xc3\xa9", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80"]
        keys = store.encode([pa.array(values, pa.binary())])
        assert keys.status.tolist() == [OK] + [NO_MATCH] * 4
        assert (keys.codes[:1] == store.read([0]).codes).all()
        fixed = store.encode([pa.array([b"\xc3\xa9"], pa.binary(2))])
        assert np.array_equal(fixed.codes, keys.codes[:1])
        coded = store.encode([pa.array(["é", "é", None]).dictionary_encode()])
        assert coded.codes[0] == coded.codes[1] == keys.codes[0]
