"""Questions to a server about text: what it compares by, and how it compares."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from semistream.kernels.arrays import U8Array
from semistream.stores.mysql.address import quoted
from semistream.stores.mysql.params import TEXT, Params, text_params
from semistream.stores.mysql.pool import Pool
from semistream.stores.mysql.wire import Reply, Request

Weights = tuple[bytes, ...] | None  # one a level; None: the character set cannot hold the text
# Values per statement, the smallest that fits is filled up: a few statements serve all sizes.
# Measured: 1.08 M values/s with 256 a statement, 0.85 M by JSON_TABLE, 0.66 M by UNION ALL.
_SIZES = (1, 8, 64, 256)
_ASK_BYTES = 1 << 20
_LONGEST_BYTES = 2 << 20
_MEMO_OVERHEAD_BYTES = 250  # measured: dictionary slot, two byte strings and a tuple


class ServerWeights:
    """Weights of text by one collation, remembered within `memo_bytes`."""

    def __init__(
        self, pool: Pool, charset: str, collation: str, *, must_verify: bool, memo_bytes: int
    ) -> None:
        self._pool = pool
        self._text = f"(CONVERT(? USING {quoted(charset)}) COLLATE {quoted(collation)})"
        # Text that a character set lacks comes back changed, not refused.
        self._verify = (
            f"CONVERT(CONVERT(? USING {quoted(charset)}) USING utf8mb4)" if must_verify else None
        )
        self.memo_bytes = memo_bytes
        self._memo: dict[bytes, Weights] = {}
        self._memo_used = 0
        self._has_levels = False
        self.levels = 1
        self._count_levels()

    def select(self, text: str) -> list[str]:
        """SQL for the weights of `text`, itself SQL: one expression a level."""
        if not self._has_levels:
            return [f"WEIGHT_STRING({text})"]
        return [f"WEIGHT_STRING({text} LEVEL {level + 1})" for level in range(self.levels)]

    def compare(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """-1, 0 or 1 for each pair, by the server's comparison."""
        text = self._text.replace("?", "%s")
        sql = "SELECT " + ", ".join([f"STRCMP({text}, {text})"] * len(pairs))
        return [int(sign) for sign in self._pool.run(lambda s: s.rows(sql, [*chain(*pairs)]))[0]]

    def ask(self, values: Sequence[bytes]) -> list[Weights]:
        """Weights of well-formed UTF-8 values, distinct for speed."""
        missing = [value for value in values if value not in self._memo]
        if not missing:
            return [self._memo[value] for value in values]
        fresh: dict[bytes, Weights] = {}
        for batch in _batches(missing):
            fresh.update(zip(batch, self._ask(batch), strict=True))
        answers = [fresh[value] if value in fresh else self._memo[value] for value in values]
        self._remember(fresh)
        return answers

    def _ask(self, batch: list[bytes]) -> list[Weights]:
        if len(batch[0]) > _LONGEST_BYTES:
            return [None]  # far beyond what a key column holds
        size = next(size for size in _SIZES if size >= len(batch))
        filled = batch + [batch[-1]] * (size - len(batch))
        expressions = self.select(self._text) + ([self._verify] if self._verify else [])
        request = Request(
            "SELECT " + ", ".join(expressions * size),
            _repeated(filled, len(expressions)),
        )
        # Every attempt starts afresh: nothing is kept of a reply that did not arrive whole.
        values = self._pool.run(lambda session: _single_row(session.run([request])[0]))
        width = len(expressions)
        answers: list[Weights] = []
        for number, text in enumerate(batch):
            row = values[number * width : (number + 1) * width]
            found = row[: self.levels]
            is_held = None not in found and (not self._verify or row[-1] == text)
            answers.append(tuple(part or b"" for part in found) if is_held else None)
        return answers

    def _remember(self, fresh: dict[bytes, Weights]) -> None:
        for value, found in fresh.items():
            size = _MEMO_OVERHEAD_BYTES + len(value) + sum(map(len, found or ()))
            if self._memo_used + size > self.memo_bytes:
                self._memo.clear()
                self._memo_used = 0
            if size <= self.memo_bytes:
                self._memo[value] = found
                self._memo_used += size

    def _count_levels(self) -> None:
        """MariaDB tells the levels of a collation apart; MySQL gives all of them in one string."""
        if not self._pool.run(lambda session: session.is_mariadb):
            return
        text = self._text.replace("?", "%s")
        asked = ", ".join(f"WEIGHT_STRING({text} LEVEL {level})" for level in range(1, 7))
        found = self._pool.run(lambda s: s.rows(f"SELECT {asked}", ["aB'"] * 6))[0]
        # A level beyond the last one gives the last again.
        while self.levels < 6 and found[self.levels] != found[self.levels - 1]:
            self.levels += 1
        self._has_levels = self.levels > 1


def _batches(values: Sequence[bytes]) -> list[list[bytes]]:
    batches: list[list[bytes]] = []
    used = _ASK_BYTES
    for value in values:
        used += len(value)
        if used > _ASK_BYTES or len(batches[-1]) == _SIZES[-1]:
            batches.append([])
            used = len(value)
        batches[-1].append(value)
    return batches


def _repeated(values: list[bytes], times: int) -> Params:
    encoded = text_params(values)
    return Params(TEXT * (len(values) * times), b"".join(value * times for value in encoded))


def _single_row(reply: Reply) -> list[bytes | None]:
    """The text or binary values of the one row of `reply`."""
    data: U8Array = reply.data
    row = data[int(reply.starts[0]) :].tobytes()
    count = len(reply.kinds)
    at = 1 + (count + 9) // 8
    values: list[bytes | None] = []
    for column in range(count):
        if row[1 + (column + 2) // 8] >> (column + 2) % 8 & 1:
            values.append(None)
            continue
        length, at = row[at], at + 1
        if length > 0xFA:
            width = {0xFC: 2, 0xFD: 3, 0xFE: 8}[length]
            length, at = int.from_bytes(row[at : at + width], "little"), at + width
        values.append(row[at : at + length])
        at += length
    return values
