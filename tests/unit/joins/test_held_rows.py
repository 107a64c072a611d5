"""Rows come back in order, each once, however little memory there is."""

from __future__ import annotations

import errno

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.errors import TransientError
from semistream.joins import spill_files
from semistream.joins.held_rows import HeldRows


def batch(numbers: list[int], first: int = 0) -> pa.RecordBatch:
    marks = [f"row {first + i}" * 3 for i in range(len(numbers))]
    return pa.record_batch({"n": pa.array(numbers, pa.int64()), "text": marks})


@given(
    adds=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=40), max_size=15),
    advance=st.integers(0, 12),
    memory=st.sampled_from([64, 600, 4000, 1 << 20]),
)
def test_rows_come_back_in_order(adds, advance, memory):
    held, given_back, before, count = HeldRows("n", memory), [], 0, 0
    texts = []
    for numbers in adds:
        late = [before + number for number in numbers]  # nothing below what is out
        rows = batch(late, count)
        texts += zip(late, rows["text"].to_pylist(), strict=True)
        held.add(rows)
        count += len(numbers)
        assert held.nbytes <= memory / 2
        before += advance
        for out in held.release(before):
            given_back += zip(out["n"].to_pylist(), out["text"].to_pylist(), strict=True)
        assert all(number < before for number, _ in given_back)
        assert len(given_back) == sum(number < before for number, _ in texts)
    for out in held.release(10**9):
        given_back += zip(out["n"].to_pylist(), out["text"].to_pylist(), strict=True)
    assert [number for number, _ in given_back] == sorted(number for number, _ in texts)
    assert sorted(given_back) == sorted(texts)
    assert held.is_empty
    assert held.nbytes == held.file_bytes == 0


def test_only_due_rows_are_looked_at():
    """Numbers far ahead do not make the release of the next ones slower: they stay in files."""
    held = HeldRows("n", 8000)
    held.add(batch(list(range(2000))))
    assert held.spilled_rows > 0
    before = held.file_bytes
    assert [out["n"].to_pylist() for out in held.release(1)] == [[0]]
    assert held.file_bytes == before or held.nbytes <= 4000
    held.close()
    assert held.file_bytes == 0


def test_a_full_disk_may_be_tried_again(monkeypatch):
    class Full:
        def seek(self, _: int) -> None: ...
        def close(self) -> None: ...
        def write(self, _: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spill_files.tempfile, "TemporaryFile", Full)
    with pytest.raises(TransientError, match=r"No space left.*TMPDIR"):
        HeldRows("n", 100).add(batch(list(np.arange(100))))
