"""Paths and file-system URIs alike: where a store's files live."""

from __future__ import annotations

from pathlib import Path

from pyarrow import fs


def resolve(path: str | Path) -> tuple[fs.FileSystem, str]:
    """The file system and the path in it, for a local path or any URI `pyarrow.fs` knows."""
    text = str(path)
    if "://" in text:
        file_system, root = fs.FileSystem.from_uri(text)
        return file_system, root.rstrip("/")
    return fs.LocalFileSystem(), str(Path(text).absolute())
