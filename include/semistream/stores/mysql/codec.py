"""Keys of a table as codes: `KeyCodec`'s scheme with the database's idea of equality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pat

from semistream.errors import InputError
from semistream.kernels.arrays import BoolArray, U64Array
from semistream.keys import NO_MATCH, NULL_KEY, OK, KeyCodec, Keys, plain_array
from semistream.stores.mysql.collation import Collation
from semistream.stores.mysql.columns import Column
from semistream.stores.mysql.components import Component, fingerprints
from semistream.stores.mysql.parts import (
    BinaryPart,
    DecimalPart,
    EnumPart,
    Part,
    TextPart,
    WordPart,
)
from semistream.stores.mysql.pool import Pool


class TableCodec:
    """Codes of stream keys and of the table's own, equal exactly where the server says `=`.

    `parts` are in the order of the key; `in_index_order` are their numbers as the index has them.
    """

    def __init__(self, parts: Sequence[Part], index_key: Sequence[str]) -> None:
        self.parts = tuple(parts)
        names = [part.column.name for part in self.parts]
        self.in_index_order = tuple(names.index(name) for name in index_key)
        self.types = KeyCodec([part.column.arrow for part in self.parts])
        self.is_exact = len(self.parts) == 1 and isinstance(self.parts[0], WordPart | EnumPart)

    def encode(self, columns: Sequence[pa.Array]) -> Keys:
        """Codes of stream keys; nothing raises for a value, it gets a status."""
        plain = tuple(plain_array(column) for column in columns)
        status = np.zeros(len(plain[0]), np.uint8)
        components: list[Component] = []
        for part, column in zip(self.parts, plain, strict=True):
            if column.null_count:
                status[pc.is_null(column).to_numpy(zero_copy_only=False)] = NULL_KEY
            found, is_held = part.of_stream(_typed(column, part))
            status[~is_held & (status == OK)] = NO_MATCH
            components += found
        codes, checks = fingerprints(components)
        return Keys(codes, checks, status, plain)

    def of_master(
        self, columns: Sequence[Sequence[pa.Array]]
    ) -> tuple[U64Array, U64Array | None, BoolArray]:
        """Codes and checks of rows read with each part's `select`, and which keys are whole."""
        components: list[Component] = []
        is_whole = np.ones(len(columns[0][0]), np.bool_)
        for part, found in zip(self.parts, columns, strict=True):
            components += part.of_master(found)
            for column in found:
                if column.null_count:
                    is_whole &= pc.is_valid(column).to_numpy(zero_copy_only=False)
        return *fingerprints(components), is_whole

    def components(self, columns: Sequence[pa.Array]) -> list[Component]:
        """Components of stream keys, in the order of the index."""
        components: list[Component] = []
        for number in self.in_index_order:
            part = self.parts[number]
            components += part.of_stream(_typed(columns[number], part))[0]
        return components


def make_parts(pool: Pool, columns: Sequence[Column], *, memo_bytes: int) -> list[Part]:
    """A part per key column; collations are learnt from the server, each once."""
    collations: dict[str, Collation] = {}
    texts = [column for column in columns if column.is_text or column.kind == "enum"]
    for column in texts:
        name = column.collation or ""
        if name not in collations:
            collations[name] = Collation(
                pool, column.charset or "", name, memo_bytes=memo_bytes // len(texts)
            )
    parts = [_part(column, collations.get(column.collation or "")) for column in columns]
    _refuse_unpadded_char(pool, parts)
    return parts


def _part(column: Column, collation: Collation | None) -> Part:
    if collation is not None:
        kind = EnumPart if column.kind == "enum" else TextPart
        return kind(column, collation)
    if pat.is_binary(column.arrow):
        return BinaryPart(column)
    if pat.is_decimal(column.arrow) and column.arrow.precision > 18:
        return DecimalPart(column)
    return WordPart(column)


def _refuse_unpadded_char(pool: Pool, parts: Sequence[Part]) -> None:
    # Measured on MariaDB 10.11: the index has 'a\t' before 'a', `k >= 'a'` skips that row in the
    # index and finds it without: range reads would lose rows.
    for part in parts:
        if (
            isinstance(part, TextPart)
            and part.column.kind == "char"
            and not any(part.collation.pads)
            and pool.run(lambda session: session.is_mariadb)
        ):
            raise InputError(
                f"column {part.column.name!r} of {pool.address} is CHAR with collation "
                f"{part.collation.name}, which does not pad: MariaDB's index orders such values "
                "otherwise than it compares them; make it VARCHAR, or use a collation that pads"
            )


def _typed(column: pa.Array, part: Part) -> pa.Array:
    return pa.nulls(len(column), part.value[1]) if pat.is_null(column.type) else column
