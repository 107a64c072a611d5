"""`RowSlab` against a dictionary."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

from semistream.slab import RowSlab

SCHEMA = pa.schema(
    [
        ("int", pa.int64()),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("bytes", pa.large_binary()),
        ("money", pa.decimal128(20, 2)),
        ("fixed", pa.binary(5)),
        ("list", pa.list_(pa.int32())),
        ("kind", pa.dictionary(pa.int32(), pa.string())),
        ("view", pa.string_view()),
        ("nothing", pa.null()),
    ]
)


def _rows(rng: random.Random, start: int, count: int) -> pa.RecordBatch:
    def maybe(value):
        return None if rng.random() < 0.2 else value

    rows = [
        {
            "int": maybe(n),
            "flag": maybe(n % 2 == 0),
            "text": maybe("é" * (n % 5) + str(n)),
            "bytes": maybe(b"x" * (n % 7)),
            "money": maybe(n),
            "fixed": maybe(b"%05d" % n),
            "list": maybe([n] * (n % 4)),
            "kind": maybe(f"kind {n % 3}"),
            "view": maybe("view " * (n % 4)),
            "nothing": None,
        }
        for n in range(start, start + count)
    ]
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def test_a_slab_behaves_like_a_dictionary():
    rng, model, made = random.Random(1), {}, 0
    slab = RowSlab(SCHEMA, 64, 4000)
    for _ in range(200):
        free = [slot for slot in range(64) if slot not in model]
        batch = _rows(rng, made, rng.randint(0, min(len(free), 9)))
        made += batch.num_rows
        if RowSlab.arena_sizes(batch).sum() <= slab.free_arena_bytes:
            slots = np.array(rng.sample(free, batch.num_rows), np.int32)
            cut = rng.randint(0, batch.num_rows)
            slab.put(slots[cut:], batch.slice(cut))
            slab.put(slots[:cut], batch.slice(0, cut))
            model.update(zip(slots.tolist(), batch.to_pylist(), strict=True))
        used = list(model)
        rng.shuffle(used)
        asked = used[:20] + used[:3]
        got = slab.gather(np.array(asked, np.int32))
        got.validate(full=True)
        assert got.to_pylist() == [model[slot] for slot in asked]
        dead = used[: rng.randint(0, 12)]
        slab.clear(np.array(dead, np.int32))
        for slot in dead:
            del model[slot]


def test_a_cleared_slab_has_all_its_arena():
    slab = RowSlab(SCHEMA, 16, 2000)
    empty = slab.free_arena_bytes
    slots = np.arange(8, dtype=np.int32)
    slab.put(slots, _rows(random.Random(2), 0, 8))
    assert slab.free_arena_bytes < empty
    slab.clear(slots)
    assert slab.free_arena_bytes == empty
