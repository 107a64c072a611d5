"""A column's collation: text to weights, so that equal weights are what the server calls equal.

The server knows; it is asked. `WEIGHT_STRING` gives the bytes it compares by. Text of ASCII
characters, which is most keys, is translated here by a table learnt from the server, once it is
certain that weights of such text are those of its characters in a row. Other text is asked for
in bulk, a value once. Before a collation is used, equality and order of a few dozen awkward texts
are compared with the server's own; one that differs is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pyarrow as pa

from semistream.errors import InputError
from semistream.kernels.arrays import I64Array, U8Array
from semistream.stores.mysql import weights
from semistream.stores.mysql.components import Bytes, as_array, compare_neighbours
from semistream.stores.mysql.pool import Pool
from semistream.stores.mysql.server_weights import ServerWeights, Weights

# The longest character, in bytes of UTF-8, that each of these can hold; they can hold all shorter.
_UNICODE = {"utf8mb4": 4, "utf16": 4, "utf16le": 4, "utf32": 4, "utf8mb3": 3, "utf8": 3, "ucs2": 3}
_AWKWARD = [
    "",
    "a",
    "A",
    " ",
    "a ",
    "A  ",
    "b",
    "ab",
    "AB",
    "a b",
    "aB ",
    "a\t",
    "a\t ",
    "a \t",
    "\t",
    "a\x01",
    "\x01",
    "a\x00",
    "\x00",
    "a\x1f",
    "1",
    "10",
    "2",
    "_",
    "-",
    "~",
    "\x7f",
    "é",
    "e",
    "É",
    "é",
    "ß",
    "ss",
    "SS",
    "s",
    "straße",
    "STRASSE",
    "ö",
    "oe",
    "o",
    "Ö",
    "å",
    "aa",
    "AA",
    "ch",
    "Ch",
    "c",
    "ll",
    "ñ",
    "n",
    "I",
    "ı",
    "i",
    "İ",
    "\xa0",
    "a\xa0",
    "a\u200b",
    "\u200b",
    "\xad",
    "ﬁ",
    "fi",
    "中",
    "文",
    "😀",
    "😁",
    "a😀",
    "٣",
    "3",
    "½",
    "Ω",
    "ω",
    "\u3000",
    "\ufeff",
    "ｶ",
    "カ",
    "か",
    "dž",
    "ǆ",
    "þ",
    "th",
]
_NONE_KNOWN = np.zeros(128, np.bool_)


class Collation:
    """Weights by one collation, learnt from the server of `pool` when made (about 20 ms).

    Memory: a table of 128 entries per level, and up to `memo_bytes` of weights already asked for.
    """

    def __init__(self, pool: Pool, charset: str, name: str, *, memo_bytes: int = 2 << 20) -> None:
        self.name = name
        self._longest = 1 if charset == "ascii" else _UNICODE.get(charset, 4)
        # UTF-8 sorts as its code points do, so a binary collation needs no weights but the bytes.
        self.is_plain = name.endswith("_bin") and charset in ("utf8mb4", "utf8mb3", "utf8", "ascii")
        self._server = ServerWeights(
            pool, charset, name, must_verify=charset not in _UNICODE, memo_bytes=memo_bytes
        )
        self.levels = 1 if self.is_plain else self._server.levels
        self.pads = self._learn_pads()
        self._known = _NONE_KNOWN
        self._tables: list[tuple[I64Array, I64Array, U8Array]] = []
        if not self.is_plain:
            self._learn_ascii()
        self._check()

    @property
    def nbytes(self) -> int:
        return 0 if self.is_plain else self._server.memo_bytes

    def select(self, column: str) -> list[str]:
        """SQL for the weights of a column, one expression a level."""
        return [column] if self.is_plain else self._server.select(column)

    def of_master(self, columns: Sequence[pa.Array]) -> list[Bytes]:
        """Weights from what `select` gave for rows of the table."""
        return [Bytes.of(column, pad) for column, pad in zip(columns, self.pads, strict=True)]

    def of_text(self, offsets: I64Array, data: U8Array) -> tuple[list[Bytes], np.ndarray]:
        """Weights of UTF-8 values, and which of them the column's character set can hold.

        Cost: about 0.1 µs for ASCII, about 2 µs for other text that was not asked for lately.
        """
        rows = len(offsets) - 1
        classes = np.empty(rows, np.uint8)
        known = np.ones(128, np.bool_) if self.is_plain else self._known
        weights.classify(offsets, data, known, self._longest, classes)
        if self.is_plain:
            raw = pa.Array.from_buffers(
                pa.large_binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
            )
            return [Bytes.of(raw, self.pads[0])], classes != weights.INVALID
        unknown = np.flatnonzero(classes == weights.UNKNOWN)
        which, answers = self._ask(offsets, data, unknown)
        refused = np.array([answer is None for answer in answers], np.bool_)
        if refused.any():
            classes[unknown[refused[which]]] = weights.INVALID
            kept = ~refused[which]
            unknown, which = unknown[kept], which[kept]
        levels = [
            self._level(level, offsets, data, classes, unknown, which, answers)
            for level in range(self.levels)
        ]
        return levels, classes != weights.INVALID

    def _ask(
        self, offsets: I64Array, data: U8Array, rows: np.ndarray
    ) -> tuple[np.ndarray, list[Weights]]:
        """Weights of the distinct values in `rows`, and which of them each row has."""
        if not len(rows):
            return rows, []
        raw = pa.Array.from_buffers(
            pa.large_binary(),
            len(offsets) - 1,
            [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))],
        )
        distinct = raw.take(pa.array(rows)).dictionary_encode()
        return distinct.indices.to_numpy(), self._server.ask(distinct.dictionary.to_pylist())

    def _level(
        self,
        level: int,
        offsets: I64Array,
        data: U8Array,
        classes: U8Array,
        asked: np.ndarray,
        which: np.ndarray,
        answers: Sequence[Weights],
    ) -> Bytes:
        sizes = np.zeros(len(classes), np.int64)
        answer = Bytes.of(pa.array([a[level] if a else b"" for a in answers], pa.large_binary()))
        sizes[asked] = np.diff(answer.offsets)[which] if len(asked) else 0
        if self._tables:
            places, widths, table = self._tables[level]
            weights.measure(offsets, data, classes, widths, sizes)
        targets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        out = np.empty(int(targets[-1]), np.uint8)
        if self._tables:
            weights.translate(offsets, data, classes, places, widths, table, targets, out)
        weights.place(asked, which, answer.offsets, answer.data, targets, out)
        pad = self.pads[level]
        if not pad:
            return Bytes(targets, out)
        cut = np.empty_like(targets)
        used = weights.cut_padding(targets, out, as_array(pad), cut, out)
        return Bytes(cut, out[:used], pad)

    def _learn_pads(self) -> tuple[bytes, ...]:
        if self._server.compare([("a", "a ")])[0] != 0:
            return (b"",) * self.levels
        if self.is_plain:
            return (b" ",)
        space = self._server.ask([b" "])[0]
        return space or (b"",) * self.levels

    def _learn_ascii(self) -> None:
        """Weights per ASCII character, if those of a text are just those of its characters."""
        characters = [bytes([code]) for code in range(128)]
        answers = self._server.ask(characters)
        known = np.array([answer is not None for answer in answers], np.bool_)
        tables = []
        for level in range(self.levels):
            table = Bytes.of(pa.array([a[level] if a else b"" for a in answers], pa.large_binary()))
            tables.append((table.offsets[:-1].copy(), np.diff(table.offsets), table.data))
        letters = [bytes([code]) for code in range(ord("a"), ord("z") + 1)]
        usable = [character for character in characters if known[character[0]]]
        triples = b"".join(map(b"".join, product(letters, repeat=3)))
        # Contractions (`ch` in Czech, `dž` in Croatian) would show in one of these.
        probes = [b"".join(map(b"".join, product(usable, repeat=2))), triples, triples.title()]
        probes.append(triples.upper())
        expected = self._server.ask(probes)
        for probe, answer in zip(probes, expected, strict=True):
            for level, (places, widths, data) in enumerate(tables):
                if answer is None or _joined(probe, places, widths, data) != answer[level]:
                    return
        self._known, self._tables = known, tables

    def _check(self) -> None:
        """Refuse a collation whose equality or order the weights do not give."""
        column = pa.array(_AWKWARD, pa.large_string())
        offsets, data = Bytes.of(column).offsets, Bytes.of(column).data
        _, held = self.of_text(offsets, data)
        usable = [text for text, is_held in zip(_AWKWARD, held, strict=True) if is_held]
        pairs = list(combinations(usable, 2))
        column = pa.array([text for pair in pairs for text in pair], pa.large_string())
        levels, _ = self.of_text(Bytes.of(column).offsets, Bytes.of(column).data)
        ours = compare_neighbours(levels, len(column))[::2]
        theirs = np.array(self._server.compare(pairs))
        wrong = np.flatnonzero(ours != theirs)
        if len(wrong):
            left, right = pairs[wrong[0]]
            raise InputError(
                f"keys of collation {self.name} cannot be joined: its server orders {left!r} and "
                f"{right!r} otherwise than their weights do; use a column with another collation"
            )


def _joined(text: bytes, places: I64Array, widths: I64Array, table: U8Array) -> bytes:
    """Weights of the characters of `text`, one after the other."""
    codes = as_array(text)
    out = np.empty(int(widths[codes].sum()), np.uint8)
    known, start = np.zeros(1, np.uint8), np.zeros(1, np.int64)
    ends = np.array([0, len(codes)], np.int64)
    weights.translate(ends, codes, known, places, widths, table, start, out)
    return out.tobytes()
