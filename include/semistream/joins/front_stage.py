"""The front stage: a tuple-level cache of master tuples, probed before the disk phase.

Paper 000, section 3: tuples of the disk phase report how often each key was met; keys above a
threshold enter, the least frequent leave, and the threshold moves by itself (down while there is
room, up while evictions churn). Keys known to be absent have a share of their own. Two changes:
frequencies outlive one visit to the disk (a count-min sketch), and they age, so that the cache
follows when the hot keys move.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from semistream.errors import InputError
from semistream.joins.key_table import KeyTable
from semistream.kernels import tables
from semistream.kernels.arrays import I32Array, I64Array, U64Array
from semistream.keys import Keys
from semistream.slab import RowSlab
from semistream.statistics import JoinStatistics
from semistream.stores.protocol import MasterRows, MasterStore

_ABSENT_SHARE, _SKETCH_SHARE = 0.05, 0.12
# Tuples per entry between two halvings; 16 forget so fast that keys at the edge of the cache swap
# places all the time (twice the admissions, 1.5 points fewer hits at skew 1).
_AGE_AFTER = 64
# Columns of a saved front stage; what it caches is named by `_ROW` and a number, so that no name
# of a master can be taken for one of these.
_CODE, _CHECK, _WEIGHT, _KEY, _ROW = "code", "check", "weight", "key", "row."


class FrontStage:
    """Master tuples of the most frequent keys within `budget_bytes`."""

    def __init__(
        self,
        store: MasterStore,
        budget_bytes: int,
        statistics: JoinStatistics,
        *,
        sketch_share: float = _SKETCH_SHARE,
    ) -> None:
        self._store, self._statistics = store, statistics
        self.schema = pa.schema([store.schema.field(name) for name in store.columns])
        self._budget_bytes = budget_bytes
        fixed = RowSlab.slot_bytes(self.schema)
        entry = KeyTable.entry_bytes(is_exact=store.is_exact)
        arena_per_row = RowSlab.arena_bytes(self.schema, store.row_bytes)
        absent_bytes = int(budget_bytes * _ABSENT_SHARE)
        width = max(1 << int(np.log2(max(budget_bytes * sketch_share / 4, 16))), 16)
        rest = budget_bytes - absent_bytes - 4 * width
        capacity = max(int(rest / (fixed + entry + 4 + arena_per_row)), 1)
        arena = max(rest - capacity * (fixed + entry + 4), 0)
        self.keys = KeyTable(capacity, is_exact=store.is_exact)
        self.absent = KeyTable(max(absent_bytes // entry, 1), is_exact=store.is_exact)
        self._slab = RowSlab(self.schema, capacity, arena)
        self._following = np.full(capacity, -1, np.int32)
        self._counters = np.zeros((2, width), np.uint16)
        self._seen = 0
        self.threshold = 1.0

    @property
    def nbytes(self) -> int:
        held = self.keys.nbytes + self.absent.nbytes + self._slab.nbytes
        return held + self._following.nbytes + self._counters.nbytes

    def probe(self, keys: Keys) -> tuple[I32Array, np.ndarray]:
        """The entry of each key's master tuples (-1: not here), and which keys are absent."""
        self._tick(len(keys))
        heads = self.keys.probe(keys.codes, keys.checks)
        if not self.absent.used:
            return heads, np.zeros(len(keys), np.bool_)
        return heads, self.absent.probe(keys.codes, keys.checks) >= 0

    def gather(self, heads: I32Array) -> tuple[np.ndarray | None, pa.RecordBatch]:
        """The master tuples of entries: which entry each belongs to (None: one each), and rows."""
        if self._store.is_unique:
            return None, self._slab.gather(heads)
        owner, slots = self._chains(heads)
        return owner, self._slab.gather(slots)

    def _chains(self, heads: I32Array) -> tuple[np.ndarray, I32Array]:
        """The slots of all rows of entries, and which entry each belongs to."""
        counts = np.empty(len(heads), np.int64)
        tables.chain_lengths(heads, self._following, counts)
        slots = np.empty(int(counts.sum()), np.int32)
        tables.walk_chains(heads, self._following, slots)
        return np.repeat(np.arange(len(heads)), counts), slots

    def sizes(self, heads: I32Array, tuple_bytes: int) -> I64Array:
        """Bytes that `gather` would give for each entry, beside tuples of `tuple_bytes`."""
        if self._store.is_unique:
            return self._slab.sizes(heads) + tuple_bytes
        some, place = np.unique(heads, return_inverse=True)
        owner, slots = self._chains(some)
        counts = np.bincount(owner, minlength=len(some))
        sums = np.bincount(owner, self._slab.sizes(slots), len(some)).astype(np.int64)
        return sums[place] + counts[place] * tuple_bytes

    def consider(self, master: MasterRows, low: I64Array, high: I64Array) -> None:
        """Offer the keys that tuples have just met: one (low, high) range of rows per tuple."""
        met = high > low
        if self._store.has_straddling_keys:
            # A code at the edge of its partition may go on in the next: only whole keys enter.
            filled = np.flatnonzero(np.diff(master.bounds))
            starts, stops = master.bounds[filled], master.bounds[filled + 1]
            edges = master.codes[np.concatenate([starts, stops - 1])]
            met[met] = ~np.isin(master.codes[low[met]], edges)
        starts, stops, counts = tables.tally(low, high, met, len(master))
        if not len(starts):
            return
        estimates = self._record(master.codes[starts], counts)
        least = self.threshold
        if not self.keys.free_count:
            # Most keys met are too rare to displace any other: they end here.
            least = max(least, np.nextafter(self.keys.floor, np.float32(np.inf)))
        order = np.flatnonzero(estimates >= least)
        order = order[np.argsort(-estimates[order], kind="stable")]
        # One observation may fill at most a tenth of the cache: the rest comes back if it matters.
        order = order[: max(self.keys.capacity // 10, 16)]
        self._admit(master, starts[order], stops[order], estimates[order])

    def note_absent(self, codes: U64Array, checks: U64Array | None) -> None:
        """Remember keys that the master does not have."""
        codes, index, counts = np.unique(codes, return_index=True, return_counts=True)
        if not len(codes):
            return
        checks = None if checks is None else checks[index]
        estimates = self._record(codes, counts)
        fresh = np.flatnonzero(~self.absent.has(codes, checks))
        fresh = fresh[np.argsort(-estimates[fresh], kind="stable")][: self.absent.capacity]
        short = len(fresh) - self.absent.free_count
        if short > 0:
            victims = self.absent.lightest(short)
            self.absent.forget(victims)
            self.absent.give_back(victims)
            fresh = fresh[: self.absent.free_count]
        entries = self.absent.take(len(fresh))
        picked = None if checks is None else checks[fresh]
        self.absent.insert(entries, codes[fresh], picked, estimates[fresh])

    def _admit(
        self, master: MasterRows, starts: I64Array, stops: I64Array, estimates: np.ndarray
    ) -> None:
        checks = None if master.checks is None else master.checks[starts]
        new = ~self.keys.has(master.codes[starts], checks)
        new &= stops - starts <= self.keys.capacity
        starts, stops, estimates = starts[new], stops[new], estimates[new]
        lengths = stops - starts
        most = int(np.searchsorted(np.cumsum(lengths), self.keys.capacity, side="right"))
        starts, lengths, estimates = starts[:most], lengths[:most], estimates[:most]
        if not most:
            return
        ends = np.cumsum(lengths)
        first = ends - lengths
        rows = np.repeat(starts - first, lengths) + np.arange(int(ends[-1]))
        candidates = master.rows.take(pa.array(rows))
        sizes = np.add.reduceat(RowSlab.arena_sizes(candidates), first)
        fits = self._make_room(lengths, sizes, estimates)
        if not fits:
            return
        starts, ends, first = starts[:fits], ends[:fits], first[:fits]
        slots = self.keys.take(int(ends[-1]))
        self._slab.put(slots, candidates.slice(0, len(slots)))
        # Rows of one key form a chain, in the order they came.
        self._following[slots[:-1]] = slots[1:]
        self._following[slots[ends - 1]] = -1
        checks = None if master.checks is None else master.checks[starts]
        self.keys.insert(slots[first], master.codes[starts], checks, estimates[:fits])
        self._statistics.admissions += fits

    def _make_room(self, rows: I64Array, sizes: I64Array, estimates: np.ndarray) -> int:
        """Evict lighter keys until as many candidates as possible fit; how many do."""
        need_rows, need_bytes = np.cumsum(rows), np.cumsum(sizes)
        evicted = 0
        while True:
            fits = min(
                int(np.searchsorted(need_rows, self.keys.free_count, side="right")),
                int(np.searchsorted(need_bytes, self._slab.free_arena_bytes, side="right")),
            )
            if fits == len(rows):
                break
            # A candidate must beat the one it displaces, or the two would swap for ever.
            victims = self.keys.beaten_by(estimates[fits:])
            if not len(victims):
                break
            self._evict(victims)
            evicted += len(victims)
        self._move_threshold(evicted, fits == len(rows))
        return fits

    def _move_threshold(self, evicted: int, had_room: bool) -> None:
        if evicted > self.keys.capacity // 50:
            self.threshold = min(self.threshold * 1.1, 1e6)
        elif not evicted and had_room:
            self.threshold = max(self.threshold * 0.9, 1.0)

    def _evict(self, heads: I32Array) -> None:
        _, slots = self._chains(heads)
        self.keys.forget(heads)
        self._slab.clear(slots)
        self._following[slots] = -1
        self.keys.give_back(slots)
        self._statistics.evictions += len(heads)

    def _record(self, codes: U64Array, counts: np.ndarray) -> np.ndarray:
        estimates = np.empty(len(codes), np.float32)
        tables.record(codes, counts.astype(np.int64), self._counters, estimates)
        return estimates

    def _tick(self, rows: int) -> None:
        self._seen += rows
        if self._seen >= _AGE_AFTER * self.keys.capacity:
            self._seen = 0
            self.keys.age()
            self.absent.age()
            self._counters >>= 1

    def save(self, path: str | Path) -> int:
        """Write the cached rows with their weights to `path`; how many keys."""
        heads = np.flatnonzero(np.isfinite(self.keys.weight)).astype(np.int32)
        heads = heads[np.argsort(-self.keys.weight[heads], kind="stable")]
        owner, rows = self.gather(heads)
        owner = np.arange(len(heads)) if owner is None else owner
        columns = {f"{_ROW}{i}": column for i, column in enumerate(rows.columns)}
        columns[_KEY] = pa.array(owner, pa.int64())
        columns[_CODE] = pa.array(self.keys.code[heads][owner])
        if len(self.keys.check):
            columns[_CHECK] = pa.array(self.keys.check[heads][owner])
        columns[_WEIGHT] = pa.array(self.keys.weight[heads][owner])
        batch = pa.record_batch(columns)
        facts = {"semistream": json.dumps(self._identity())}
        temporary = Path(f"{path}.tmp")
        schema = batch.schema.with_metadata(facts)
        with pa.OSFile(str(temporary), "wb") as sink, ipc.new_file(sink, schema) as writer:
            writer.write_batch(batch.cast(schema))
        temporary.replace(path)
        return len(heads)

    def warm(self, path: str | Path) -> int:
        """Load what `save` wrote, the most frequent keys first, as far as they fit; how many."""
        try:
            with pa.OSFile(str(path), "rb") as source:
                table = ipc.open_file(source).read_all()
        except (OSError, pa.ArrowInvalid) as error:
            raise InputError(f"cannot warm the front stage from {path}: {error}") from None
        found = json.loads((table.schema.metadata or {}).get(b"semistream", b"{}"))
        if found != self._identity():
            raise InputError(
                f"{path} was saved for another master, version, key or selection ({found}); "
                f"this join has {self._identity()}: save a new one"
            )
        batch = table.combine_chunks().to_batches()
        if not batch:
            return 0
        rows = batch[0]
        owner = rows.column(_KEY).to_numpy()
        starts = np.flatnonzero(np.concatenate(([True], owner[1:] != owner[:-1])))
        stops = np.append(starts[1:], len(owner))
        checks = rows.column(_CHECK).to_numpy() if _CHECK in rows.schema.names else None
        master = MasterRows(
            np.zeros(1, np.int64),
            np.array([0, len(owner)]),
            rows.column(_CODE).to_numpy(),
            checks,
            rows.select([f"{_ROW}{i}" for i in range(len(self.schema))]).rename_columns(
                self.schema.names
            ),
        )
        before = self._statistics.admissions
        self._admit(master, starts, stops, rows.column(_WEIGHT).to_numpy()[starts])
        return self._statistics.admissions - before

    def _identity(self) -> dict[str, object]:
        store = self._store
        return {
            "master": store.name,
            "version": store.version,
            "key": list(store.key),
            "columns": list(store.columns),
        }
