"""The four ways published implementations of these joins fail."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.conformance.oracle import collect, split

SMALL = 100_000


def test_repeated_stream_keys(joiner):
    """A key that is already pending must not replace, or be replaced by, the earlier tuple."""
    master = pa.table({"k": np.arange(300), "v": np.arange(300) * 2})
    stream = pa.table({"k": np.repeat([7, 8, 299], 400), "id": np.arange(1200)})
    given = joiner.check(master, stream, memory=SMALL, sizes=[1200])
    assert given.joined.total() == 1200


def test_key_absent_from_the_master(joiner):
    """A tuple that can never match must leave the queue, or it blocks those behind it."""
    master = pa.table({"k": np.arange(0, 2000, 2), "v": np.arange(1000)})
    stream = pa.table({"k": [*range(1, 2000, 2), *range(-5, 5), 10**9, 4], "id": range(1012)})
    given = joiner.check(master, stream, memory=SMALL, sizes=[100])
    assert given.joined.total() == 4
    assert given.reasons == {"no_match": 1008}


def test_end_of_stream(joiner):
    """What is pending when the stream ends comes out, though no tuple pushes it."""
    master = pa.table({"k": np.arange(2000), "v": np.arange(2000)})
    stream = pa.table({"k": np.arange(2000)[::-7]})
    join = joiner.open(joiner.make_store(master, ["k"]), stream.schema, [("k", "k")])
    assert collect(join, join.run(split(stream, [50]))).joined.total() == stream.num_rows
    assert join.is_idle
    assert join.statistics.rows_pending == 0


def test_sparse_or_non_integer_keys(joiner):
    """Keys are not positions: gaps, negatives and text must work as well as 0 to n."""
    sparse = [-(2**63), -(10**12), -1, 3, 10**6, 2**40, 2**63 - 1]
    master = pa.table({"k": sparse, "v": range(7)})
    joiner.check(master, pa.table({"k": [*sparse, 0, 4, 2**40 + 1]}))
    texts = pa.table({"k": [f"customer-{n:x}" for n in sparse], "v": range(7)})
    joiner.check(texts, pa.table({"k": [*texts["k"].to_pylist(), "customer", "customer-4"]}))
