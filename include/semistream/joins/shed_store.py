"""Shed tuples on disk, each joined later exactly once, also after a restart."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from semistream.errors import InputError, StoreCorrupt
from semistream.kernels.arrays import I64Array

_LEDGER = "ledger.json"
_ROW_BITS = 32  # a tag is the segment's number above the row's


class ShedStore:
    """Segments of shed rows in a folder, and a ledger of what is left to do in each.

    Only `commit` changes what a restart will see: it replaces the ledger in one rename. Segments
    it does not list were never acknowledged, so their tuples come again from the source; rows it
    marks done were delivered before.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._done: dict[int, np.ndarray] = {}
        self._next = 0
        self._load()
        self._waiting = sorted(self._done)
        self._is_dirty = False
        listed = {self._path(number).name for number in self._done}
        for path in self._folder.glob("segment-*"):
            if path.name not in listed:
                path.unlink()
        for number in self._done:
            if not self._path(number).exists():
                raise StoreCorrupt(f"shed segment {self._path(number)} is missing: restore it")

    @property
    def outstanding(self) -> int:
        """Shed rows that are not finished, loaded or not."""
        return sum(int(np.count_nonzero(~done)) for done in self._done.values())

    @property
    def has_unloaded(self) -> bool:
        return bool(self._waiting)

    def put(self, rows: pa.RecordBatch) -> None:
        """Set rows aside; on disk when this returns, acknowledged by the next `commit`."""
        path, temporary = self._path(self._next), self._folder / "segment.tmp"
        with pa.OSFile(str(temporary), "wb") as sink, ipc.new_file(sink, rows.schema) as writer:
            writer.write_batch(rows)
        _sync(temporary)
        temporary.replace(path)
        self._done[self._next] = np.zeros(rows.num_rows, np.bool_)
        self._waiting.append(self._next)
        self._next += 1
        self._is_dirty = True

    def take(self, wanted: int, schema: pa.Schema) -> list[tuple[pa.RecordBatch, I64Array]]:
        """Unfinished rows with their tags, the oldest first, in whole segments until there are
        `wanted`; they stay on disk until they are finished and that is committed."""
        taken: list[tuple[pa.RecordBatch, I64Array]] = []
        count = 0
        while self._waiting and count < wanted:
            number = self._waiting.pop(0)
            rows = self._read(number)
            if not rows.schema.equals(schema):
                raise InputError(
                    f"shed segment {self._path(number)} has columns {rows.schema.names}, the "
                    f"stream has {schema.names}: reprocess it with the pipeline that shed it"
                )
            left = np.flatnonzero(~self._done[number])
            taken.append((rows.take(pa.array(left)), (number << _ROW_BITS) | left))
            count += len(left)
        return taken

    def _read(self, number: int) -> pa.RecordBatch:
        path, wanted = self._path(number), len(self._done[number])
        try:
            with pa.OSFile(str(path), "rb") as source:
                rows = ipc.open_file(source).get_batch(0)
                rows.validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
            raise StoreCorrupt(
                f"shed segment {path} cannot be read ({error}): restore it"
            ) from None
        if rows.num_rows != wanted:
            raise StoreCorrupt(f"shed segment {path} has {rows.num_rows} rows, not {wanted}")
        return rows

    def finish(self, tags: I64Array) -> None:
        """Mark rows as joined; permanent with the next `commit`."""
        numbers = tags >> _ROW_BITS
        for number in np.unique(numbers):
            self._done[int(number)][tags[numbers == number] & ((1 << _ROW_BITS) - 1)] = True
        self._is_dirty = self._is_dirty or len(tags) > 0

    def commit(self) -> None:
        """Make all that was put and finished so far permanent, at once."""
        if not self._is_dirty:
            return
        over = [number for number, done in self._done.items() if done.all()]
        for number in over:
            del self._done[number]
        segments = {
            str(number): {"rows": len(done), "done": _packed(done)}
            for number, done in self._done.items()
        }
        temporary = self._folder / "ledger.tmp"
        temporary.write_text(json.dumps({"next": self._next, "segments": segments}))
        _sync(temporary)
        temporary.replace(self._folder / _LEDGER)
        _sync(self._folder)
        for number in over:
            self._path(number).unlink()
        self._is_dirty = False

    def _path(self, number: int) -> Path:
        return self._folder / f"segment-{number:08d}.arrow"

    def _load(self) -> None:
        ledger = self._folder / _LEDGER
        if not ledger.exists():
            return
        try:
            content = json.loads(ledger.read_text())
            self._next = int(content["next"])
            for number, each in content["segments"].items():
                bits = np.frombuffer(base64.b64decode(each["done"]), np.uint8)
                self._done[int(number)] = np.unpackbits(bits, count=each["rows"]).astype(np.bool_)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreCorrupt(f"shed ledger {ledger} cannot be read ({error})") from None


def _packed(done: np.ndarray) -> str:
    return base64.b64encode(np.packbits(done).tobytes()).decode()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
