"""What a table promises: the index a key can use, whether keys repeat, which version it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from uuid import uuid4

from semistream.errors import InputError
from semistream.stores.mysql.address import MySQLAddress, quoted
from semistream.stores.mysql.columns import Column
from semistream.stores.mysql.wire import Session


@dataclass(frozen=True, slots=True)
class Index:
    """The index to walk and read by; `key` are its leading columns, which order the partitions."""

    name: str
    key: tuple[str, ...]
    is_unique: bool  # no two rows without NULL agree in the key


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    is_unique: bool
    ordered: int  # leading columns that a B-tree orders by their whole values
    columns: tuple[str, ...]


def choose_index(
    session: Session, address: MySQLAddress, key: Sequence[str], columns: Sequence[Column]
) -> Index:
    """The best index that starts with exactly the key's columns, in any order.

    The primary key is best (rows lie in its order), then a unique one, then the shortest.
    """
    wanted = set(key)
    candidates = _read_indexes(session, address)
    fitting = [
        index
        for index in candidates
        if index.ordered >= len(wanted) and set(index.columns[: len(wanted)]) == wanted
    ]
    if not fitting:
        _refuse_view(session, address)
        names = ", ".join(quoted(name) for name in key)
        table = f"{quoted(address.database)}.{quoted(address.table)}"
        there = "; ".join(f"{i.name} ({', '.join(i.columns)})" for i in candidates) or "(none)"
        long_text = [c.name for c in columns if c.name in wanted and c.kind.endswith("text")]
        hint = (
            f"; {', '.join(long_text)} must become VARCHAR first, TEXT has no full index"
            if long_text
            else ""
        )
        raise InputError(
            f"{address.database}.{address.table} has no index that starts with the key "
            f"{', '.join(key)}; there are: {there}. Every look-up would read the whole table. "
            f"Create one: CREATE INDEX {quoted('semistream_key')} ON {table} ({names}){hint}"
        )
    best = min(
        fitting,
        key=lambda index: (index.name != "PRIMARY", not index.is_unique, len(index.columns)),
    )
    # Rows without NULL that agree in the key agree in every part of it, so one unique index over
    # some of its columns suffices, even one that cannot be walked.
    is_unique = any(index.is_unique and wanted >= set(index.columns) for index in candidates)
    return Index(best.name, best.columns[: len(wanted)], is_unique)


def _read_indexes(session: Session, address: MySQLAddress) -> list[_Candidate]:
    rows = session.rows(
        "SELECT INDEX_NAME, NON_UNIQUE, INDEX_TYPE, SUB_PART, COLUMN_NAME "
        "FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s "
        "ORDER BY INDEX_NAME, SEQ_IN_INDEX",
        (address.database, address.table),
    )
    names = dict.fromkeys(row[0] for row in rows)
    indexes = []
    for name in names:
        parts = [row for row in rows if row[0] == name]
        indexes.append(
            _Candidate(
                name,
                is_unique=not int(parts[0][1]),
                ordered=len(list(takewhile(lambda row: row[2] == "BTREE" and not row[3], parts))),
                # An expression in MySQL 8 has no column name.
                columns=tuple(str(row[4]) for row in parts),
            )
        )
    return indexes


def _refuse_view(session: Session, address: MySQLAddress) -> None:
    found = session.rows(
        "SELECT TABLE_TYPE FROM information_schema.TABLES "
        "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (address.database, address.table),
    )
    if found and "VIEW" in str(found[0][0]).upper():
        raise InputError(
            f"{address.database}.{address.table} is a view and has no index: "
            "name the table below it, or copy the view into a table with an index on the key"
        )


def read_version(session: Session, address: MySQLAddress) -> str:
    """A text that changes when the table may have changed.

    Servers know the last change of a table to the second and forget it when they restart. Where
    that leaves room for an unseen change, the version is one that no other opening has.
    """
    created, updated, is_settled = session.rows(
        "SELECT CREATE_TIME, UPDATE_TIME, UPDATE_TIME < NOW() - INTERVAL 2 SECOND "
        "FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (address.database, address.table),
    )[0]
    if is_settled:
        return f"{created:%Y%m%dT%H%M%S}-{updated:%Y%m%dT%H%M%S}"
    return f"opened-{uuid4().hex}"
