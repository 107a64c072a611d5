"""SSBJ's migration against algorithm 1 of paper 002, one master row at a time."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from semistream import ArrowStore, build_arrow_store, open_join
from semistream.joins.balanced_stage import BalancedStage
from semistream.joins.migration import Migration, State
from semistream.joins.registry import Options
from semistream.joins.scan_window import ScanWindow
from semistream.joins.tuple_rows import TupleRows
from semistream.keys import KeyCodec
from semistream.statistics import JoinStatistics
from semistream.stores.protocol import MasterRows

CODEC = KeyCodec([pa.int64()])
STREAM = pa.schema([("k", pa.int64()), ("id", pa.int64())])
TUPLE_BYTES = 50.0


@dataclass
class Waiting:
    number: int
    key: int
    entered: int


@dataclass
class Algorithm1:
    """The pseudo-code, with the two corrections that exactness needs (see `migration`)."""

    row_bytes: int
    key_bytes: int
    factor: float
    cycle: int = 0
    window: list[Waiting] = field(default_factory=list)
    s_count: Counter = field(default_factory=Counter)
    since: dict[int, int] = field(default_factory=dict)  # when a key came into the window
    counted_from: int = 0
    buffer: dict[int, list[int]] = field(default_factory=dict)
    wanted: dict[int, tuple[int, int]] = field(default_factory=dict)
    front: dict[int, list[int]] = field(default_factory=dict)
    f_count: Counter = field(default_factory=Counter)
    met: Counter = field(default_factory=Counter)

    def cost(self, rows: int) -> int:
        return rows * self.row_bytes + self.key_bytes

    def begin_cycle(self, now: int) -> None:
        self.cycle += 1
        if self.cycle % 10 == 0:
            for key, rows in list(self.front.items()):
                if 10 * self.cost(len(rows)) >= self.factor * self.f_count[key] * TUPLE_BYTES:
                    del self.front[key]
            self.f_count.clear()
        if self.cycle % 3 == 1:
            self.s_count.clear()
            self.counted_from = now
        if self.cycle % 3 == 0:
            for key, rows in self.buffer.items():
                count, tuples = self.wanted[key]
                if len(rows) == count:
                    self.front[key] = rows
                    self.f_count[key] = tuples * max(self.cycle % 10, 1)
            self.buffer.clear()
            self.wanted.clear()

    def arrive(self, number: int, key: int, now: int) -> bool:
        if key in self.front:
            self.f_count[key] += 1
            return True
        if all(waiting.key != key for waiting in self.window):
            self.since[key], self.s_count[key] = now, 0
        self.window.append(Waiting(number, key, now))
        return False

    def meet(self, partition: list[tuple[int, int]], now: int, cycle: int) -> list[Waiting]:
        """Rows one by one; the tuples that have met the whole master afterwards."""
        in_step = Counter(key for key, _ in partition)
        for key, row in partition:
            here = [waiting for waiting in self.window if waiting.key == key]
            for waiting in here:
                self.met[waiting.number, row] += 1
            if here and self.cycle % 3 == 1:
                self.s_count[key] += 1
            if here and self.cycle % 3 == 2 and self.since[key] <= self.counted_from:
                rows = self.s_count[key]
                in_front = self.cost(in_step[key]) * (rows / in_step[key])
                if len(here) * TUPLE_BYTES > self.factor * in_front and rows >= in_step[key]:
                    self.buffer.setdefault(key, []).append(row)
                    self.wanted.setdefault(key, (rows, len(here)))
        gone = [waiting for waiting in self.window if waiting.entered + cycle <= now + 1]
        self.window = [waiting for waiting in self.window if waiting.entered + cycle > now + 1]
        return gone


class MigrationMachine(RuleBasedStateMachine):
    """Arrivals and steps of the scan in any order; both sides must agree after each."""

    @initialize(
        partitions=st.lists(
            st.lists(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=4
        ),
        factor=st.sampled_from([0.5, 1.0, 2.0]),
    )
    def start(self, partitions: list[list[int]], factor: float) -> None:
        number = iter(range(100))
        self.partitions = [[(key, next(number)) for key in sorted(keys)] for keys in partitions]
        rows = pa.record_batch({"k": [7, 7], "row": [0, 1]})  # any master whose keys repeat
        self.folder = tempfile.TemporaryDirectory()
        build_arrow_store(Path(self.folder.name), [rows], rows.schema, ["k"])
        store = ArrowStore.open(self.folder.name, ["row"])
        self.stage = BalancedStage(store, 1 << 16, JoinStatistics())
        self.migration = Migration(self.stage, factor=factor, stay=1.0, is_unique=False)
        self.migration.tuple_bytes, self.migration.limit_bytes = TUPLE_BYTES, 1 << 20
        cycle = len(partitions)
        self.window = ScanWindow(
            TupleRows(STREAM), 4000, 0, is_exact=True, cycle=cycle, counts_rows=True
        )
        self.model = Algorithm1(self.stage.row_bytes, self.stage.key_bytes, factor)
        self.now = self.arrived = 0
        self.matched: Counter = Counter()

    @rule(keys=st.lists(st.integers(0, 6), max_size=40))
    def arrive(self, keys: list[int]) -> None:
        room = self.window.capacity - self.window.pending
        keys = keys[:room]
        numbers = range(self.arrived, self.arrived + len(keys))
        self.arrived += len(keys)
        rows = pa.record_batch([keys, list(numbers)], schema=STREAM)
        encoded = CODEC.encode([rows.column("k")])
        heads, _ = self.stage.probe(encoded)
        hits = [self.model.arrive(n, k, self.now) for n, k in zip(numbers, keys, strict=True)]
        assert (heads >= 0).tolist() == hits
        missed = np.flatnonzero(heads < 0)
        self.window.add(rows.take(pa.array(missed)), encoded.take(missed), self.now, 0)

    @rule(keys=st.lists(st.integers(0, 6), min_size=5, max_size=20), steps=st.integers(1, 40))
    def flow(self, keys: list[int], steps: int) -> None:
        """The same arrivals again and again, so that keys stay in the window for whole cycles."""
        for _ in range(steps):
            self.arrive(keys)
            self.scan()

    @rule()
    def scan(self) -> None:
        cycle = len(self.partitions)
        if self.now % cycle == 0:
            self.migration.begin_cycle(self.window, self.now)
            if self.migration.is_to_move:
                self.migration.move()
            self.model.begin_cycle(self.now)
        partition = self.partitions[self.now % cycle]
        codes = CODEC.encode([pa.array([key for key, _ in partition], pa.int64())]).codes
        rows = pa.record_batch({"row": [row for _, row in partition]})
        bounds = np.array([0, len(partition)])
        master = MasterRows(np.zeros(1, np.int64), bounds, codes, None, rows)
        runs = self.window.runs(master)
        self.migration.meet(self.window, master, runs)
        slots, low, high = self.window.match(runs)
        numbers = self.window.rows(slots).column("id").to_pylist()
        for number, start, stop in zip(numbers, low, high, strict=True):
            self.matched.update((number, partition[at][1]) for at in range(start, stop))
        gone = self.model.meet(partition, self.now, cycle)
        self.now += 1
        expired = self.window.expire(self.now)
        left = self.window.rows(expired).column("id").to_pylist()
        assert sorted(left) == sorted(waiting.number for waiting in gone)
        self.window.remove(expired)
        for waiting in gone:
            expected = {
                (waiting.number, row): 1
                for part in self.partitions
                for key, row in part
                if key == waiting.key
            }
            found = {pair: n for pair, n in self.matched.items() if pair[0] == waiting.number}
            assert found == expected

    @invariant()
    def both_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.migration.state is State(self.model.cycle % 3)
        assert self.window.pending == len(self.model.window)
        assert self.matched == self.model.met
        keys = self.stage.keys
        heads = np.flatnonzero(np.isfinite(keys.weight)).astype(np.int32)
        owner, rows = self.stage.gather(heads)
        codes = {
            int(code): key for key in range(8) for code in CODEC.encode([pa.array([key])]).codes
        }
        front: dict[int, list[int]] = {codes[int(code)]: [] for code in keys.code[heads]}
        for place, row in zip(owner, rows.column("row").to_pylist(), strict=True):
            front[codes[int(keys.code[heads[place]])]].append(row)
        assert {key: sorted(rows) for key, rows in front.items()} == {
            key: sorted(rows) for key, rows in self.model.front.items()
        }
        for head in heads:
            assert keys.weight[head] == self.model.f_count[codes[int(keys.code[head])]]

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestMigration = MigrationMachine.TestCase
TestMigration.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize("seed", range(6))
def test_keys_come_and_go_as_in_the_paper(seed):
    """A long run in which the frequent keys change, so that some are evicted."""
    rng = np.random.default_rng(seed)
    machine = MigrationMachine()
    machine.start([rng.integers(0, 6, 3).tolist() for _ in range(3)], 1.0)
    for loop in range(400):
        frequent = loop // 130
        keys = [frequent] * int(rng.integers(0, 8)) + rng.integers(0, 7, 2).tolist()
        machine.arrive(keys)
        machine.scan()
        machine.both_agree()
    assert machine.stage._statistics.admissions
    assert machine.stage._statistics.evictions
    machine.teardown()


def joined_all(folder: Path, master: pa.Table, keys: np.ndarray, memory: int, **options):
    build_arrow_store(folder, master.to_batches(), master.schema, ["k"], partition_bytes=2048)
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64())])
    join = open_join(
        ArrowStore.open(folder),
        schema,
        [("k", "k")],
        algorithm="ssbj",
        memory=memory,
        options=Options(**options),
    )
    reads = []

    def batches():
        for start in range(0, len(keys), 2000):
            reads.append(join.statistics.partition_reads)
            some = keys[start : start + 2000]
            yield pa.record_batch([np.arange(len(some)), some], schema=schema)

    for _ in join.run(batches()):
        pass
    return join, reads


@pytest.mark.parametrize("rows_per_key", [1, 3])
def test_it_becomes_a_join_in_memory_when_every_key_is_frequent(tmp_path, rows_per_key):
    """Few keys, many tuples: at the end the scan rests (paper 002, theorem 3)."""
    master = pa.table({"k": np.arange(300 * rows_per_key) // rows_per_key})
    master = master.append_column("v", pa.array(np.arange(master.num_rows)))
    keys = np.random.default_rng(0).integers(0, 300, 120_000)
    join, reads = joined_all(tmp_path, master, keys, 400_000)
    assert reads[-1] == reads[-10]
    assert join.statistics.front_stage_rows == master.num_rows
    assert join.statistics.rows_joined == len(keys) * rows_per_key


def test_keys_without_a_match_are_remembered_and_forgotten(tmp_path):
    master = pa.table({"k": np.arange(8000) * 2, "v": np.arange(8000)})
    rng = np.random.default_rng(1)
    absent = np.concatenate(
        [rng.integers(0, 20, 20_000) * 2 + 1, rng.integers(0, 8000, 120_000) * 2]
    )
    join, _ = joined_all(tmp_path, master, absent, 200_000)
    assert join.statistics.front_stage_absent_hits > 10_000
    assert join.front_stage.absent.used == 0
    assert join.statistics.rows_unmatched == 20_000


def test_a_high_switching_factor_keeps_keys_in_the_window(tmp_path):
    master = pa.table({"k": np.arange(2000), "v": np.arange(2000)})
    keys = np.random.default_rng(2).zipf(1.3, 40_000) % 2000
    held = [
        joined_all(tmp_path / str(factor), master, keys, 200_000, switching_factor=factor)[0]
        for factor in (1.0, 50.0)
    ]
    assert held[0].statistics.front_stage_rows > 3 * held[1].statistics.front_stage_rows
