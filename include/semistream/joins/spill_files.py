"""Record batches in temporary files that have no name: they vanish with the process."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import IO

import pyarrow as pa
from pyarrow import ipc

from semistream.errors import TransientError


@dataclass(slots=True)
class _Segment:
    file: IO[bytes]
    size: int = 0
    pieces: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """Where a batch lies."""

    segment: _Segment
    offset: int
    nbytes: int


class SpillFiles:
    """Appends batches to segments; a segment is given up with its last piece.

    Batches that are written together are mostly dropped together, so the files take little more
    than what is held.
    """

    def __init__(self, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self._segments: list[_Segment] = []

    @property
    def nbytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def write(self, batch: pa.RecordBatch) -> Piece:
        # A stream of its own: dictionaries travel with the batch.
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
        try:
            segment = self._open_segment()
            segment.file.seek(segment.size)
            segment.file.write(data)
        except OSError as error:
            raise TransientError(
                f"cannot set rows aside in {tempfile.gettempdir()}: {error}; free some space there "
                "or name another folder with TMPDIR"
            ) from None
        piece = Piece(segment, segment.size, data.size)
        segment.size += data.size
        segment.pieces += 1
        return piece

    def take(self, piece: Piece) -> pa.RecordBatch:
        """The batch, for the last time."""
        segment = piece.segment
        segment.file.seek(piece.offset)
        data = segment.file.read(piece.nbytes)
        segment.pieces -= 1
        if not segment.pieces:
            segment.file.close()
            self._segments.remove(segment)
        return ipc.open_stream(data).read_next_batch()

    def close(self) -> None:
        for segment in self._segments:
            segment.file.close()
        self._segments.clear()

    def _open_segment(self) -> _Segment:
        if not self._segments or self._segments[-1].size >= self._segment_bytes:
            self._segments.append(_Segment(tempfile.TemporaryFile()))  # noqa: SIM115
        return self._segments[-1]
