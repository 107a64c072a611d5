"""The files of an `ArrowStore`, shared by the one who writes them and the one who reads them.

    manifest.json   what the store holds; written last, so that a half-built store has none
    index.arrow     one row per partition: first and last code, place, length, rows, checksum
    hot.arrow       only with a frequency estimate: code and partition of every hot key
    data.arrows     the partitions: Arrow record batch messages, each padded to 64 bytes

Partitions 0 .. `hot_partitions` - 1 hold the most frequent keys, the most frequent first; the
others hold all remaining keys ascending by code.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa
import xxhash

from semistream.errors import StoreCorrupt

FORMAT = 2
_SEAL = "checksum"
MANIFEST, INDEX, HOT, DATA = "manifest.json", "index.arrow", "hot.arrow", "data.arrows"
ALIGNMENT = 64  # Arrow's recommended buffer alignment; keeps coalesced reads zero-copy

INDEX_SCHEMA = pa.schema(
    [
        ("first_code", pa.uint64()),
        ("last_code", pa.uint64()),
        ("offset", pa.int64()),
        ("length", pa.int32()),
        ("rows", pa.int32()),
        ("checksum", pa.uint64()),
    ]
)
HOT_SCHEMA = pa.schema([("code", pa.uint64()), ("partition", pa.int32())])


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts about a store that a reader needs before it reads a row."""

    format: int
    name: str
    version: str
    key: list[str]
    row_count: int
    null_key_rows: int
    column_bytes: dict[str, int]
    partition_count: int
    hot_partitions: int
    largest_partition_bytes: int
    is_unique: bool
    has_straddling_keys: bool
    data_bytes: int
    checksums: dict[str, str]  # of the small files
    schema: str  # Arrow schema message in base64

    def to_json(self) -> str:
        """The file's text; it carries a checksum of itself."""
        facts = json.dumps(asdict(self), sort_keys=True).encode()
        sealed = {**asdict(self), _SEAL: xxhash.xxh3_64_hexdigest(facts)}
        return json.dumps(sealed, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, data: bytes, path: str) -> Manifest:
        try:
            text = data.decode()
            content: dict[str, Any] = json.loads(text)
            given = content["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise StoreCorrupt(f"{path} is not a store manifest ({error}): build it anew") from None
        if given != FORMAT:
            raise StoreCorrupt(
                f"{path} has format {given}; this version reads format {FORMAT}: build it anew"
            )
        wanted = {_SEAL, *(field.name for field in fields(cls))}
        if set(content) != wanted:
            odd = ", ".join(sorted(wanted ^ set(content)))
            raise StoreCorrupt(f"{path} has missing or unknown fields ({odd}): build it anew")
        del content[_SEAL]
        manifest = cls(**content)
        if manifest.to_json() != text:
            raise StoreCorrupt(f"{path} is not what was written (checksum differs): build it anew")
        return manifest
