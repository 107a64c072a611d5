"""Columns of any type travel through a join, at their real size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from semistream.errors import BudgetTooSmall, InputError
from tests.conformance.oracle import assert_same, split, wanted

# How a file encodes a column is no matter of a database table.
pytestmark = pytest.mark.parametrize("stores", ["arrow"], indirect=True)

ROWS = 300
_WORDS = pa.array([None if n % 11 == 0 else f"word number {n % 40}" for n in range(ROWS)])
_ENCODED = {
    "string_view": _WORDS.cast(pa.string_view()),
    "binary_view": _WORDS.cast(pa.binary_view()),
    "dictionary": _WORDS.dictionary_encode(),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        pa.array(np.arange(ROWS, dtype=np.int32) % 2), pa.array(["x", "y"], pa.string_view())
    ),
    "run ends": pc.run_end_encode(pa.array(np.arange(ROWS) // 7)),
    "list of dictionary": pa.array(
        [["a", "b"][: n % 3] for n in range(ROWS)], pa.list_(pa.dictionary(pa.int8(), pa.string()))
    ),
    "struct of view": pa.array(
        [{"x": str(n)} for n in range(ROWS)], pa.struct([("x", pa.string_view())])
    ),
}


@pytest.mark.parametrize("name", _ENCODED)
@pytest.mark.parametrize("side", ["stream", "master"])
def test_encoded_columns_come_out_plain(joiner, name, side):
    payload = {"p": _ENCODED[name]}
    master = pa.table({"k": np.arange(ROWS), **(payload if side == "master" else {})})
    stream = pa.table({"k": np.arange(ROWS) * 2, **(payload if side == "stream" else {})})
    join = joiner.open(joiner.make_store(master, ["k"]), stream.schema, [("k", "k")])
    rows = [
        row
        for output in join.run(split(stream, [70]))
        if output.kind == "joined"
        for row in output.rows.to_pylist()
    ]
    values = _ENCODED[name].to_pylist()
    expected = {k: values[k if side == "master" else k // 2] for k in range(0, ROWS, 2)}
    assert {row["k"]: row["p"] for row in rows} == expected


@pytest.mark.parametrize("name", ["string_view", "dictionary", "run ends"])
def test_encoded_keys(joiner, name):
    plain = pa.array(_ENCODED[name].to_pylist())
    master, stream = (
        pa.table({"k": plain, "v": np.arange(ROWS)}),
        pa.table({"k": plain, "id": np.arange(ROWS)}),
    )
    encoded = [table.set_column(0, "k", _ENCODED[name]) for table in (master, stream)]
    given = joiner.run(*encoded)
    assert_same(given, wanted(master, stream, [("k", "k")]))


def test_a_dictionary_is_not_part_of_every_row(joiner):
    """A tuple weighs its own bytes, not those of the dictionary it shares."""
    words = pa.array([f"{n} " + "x" * 200 for n in range(20_000)])
    kind = pa.DictionaryArray.from_arrays(pa.array(np.arange(2000, dtype=np.int32)), words)
    stream = pa.table({"k": np.arange(2000), "kind": kind})
    given = joiner.run(pa.table({"k": np.arange(2000)}), stream, memory="300KB")
    assert given.joined.total() == 2000


def test_nested_columns_stay_within_the_budget(joiner):
    rng = np.random.default_rng(1)
    lists = [[1] * n for n in rng.integers(0, 60, 8000)]
    master = pa.table({"k": rng.permutation(8000), "list": lists})
    texts = [["ab"] * n for n in rng.integers(0, 20, 6000)]
    stream = pa.table({"k": rng.integers(0, 8000, 6000), "text": texts, "note": ["x" * 30] * 6000})
    store = joiner.make_store(master, ["k"])
    join = joiner.open(store, stream.schema, [("k", "k")], memory="500KB")
    joined = sum(output.rows.num_rows for output in join.run(split(stream, [2000])))
    assert joined == 6000
    assert join.statistics.peak_bytes <= join.statistics.budget_bytes


def test_a_wide_row_that_many_tuples_meet_is_put_out_in_pieces(joiner):
    """The average row says nothing about the one that repeats."""
    master = pa.table({"k": np.arange(500), "v": ["H" * 1_000_000] + ["x"] * 499})
    stream = pa.table({"k": np.zeros(150, np.int64), "id": np.arange(150)})
    store = joiner.make_store(master, ["k"], 8192)
    join = joiner.open(store, stream.schema, [("k", "k")], memory="8MB")
    outputs = list(join.run(split(stream, [50])))
    assert sum(output.rows.num_rows for output in outputs) == 150
    assert max(output.rows.nbytes for output in outputs) < 10 << 20


@pytest.mark.parametrize("name", ["__semistream_code", "__semistream_check"])
def test_names_the_store_needs_are_refused(joiner, name):
    with pytest.raises(InputError, match="rename it"):
        joiner.make_store(pa.table({"k": [1], name: [1]}), ["k"])


def test_decimal_keys_of_negative_scale_are_refused(joiner):
    keys = pa.array([100], pa.decimal128(5, 0)).cast(pa.decimal128(5, -2), safe=False)
    with pytest.raises(InputError, match="negative scale"):
        joiner.make_store(pa.table({"k": keys}), ["k"])


def test_the_smallest_budget_works_and_is_held(joiner):
    """Many partitions: what is kept per partition counts as well."""
    master = pa.table({"k": np.arange(20_000), "v": [f"v{n}" for n in range(20_000)]})
    stream = pa.table({"k": np.arange(0, 21_000, 14), "id": np.arange(1500)})
    store = joiner.make_store(master, ["k"], 512)
    with pytest.raises(BudgetTooSmall) as refused:
        joiner.open(store, stream.schema, [("k", "k")], memory=1000)
    smallest = refused.value.smallest_bytes
    join = joiner.open(store, stream.schema, [("k", "k")], memory=smallest)
    assert sum(output.rows.num_rows for output in join.run(split(stream, [500]))) == 1500
    assert join.statistics.peak_bytes <= smallest
    with pytest.raises(BudgetTooSmall):
        joiner.open(store, stream.schema, [("k", "k")], memory=smallest - 1)
