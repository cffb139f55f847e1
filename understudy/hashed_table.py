"""A table with the hash of the very file that it was read from, so that no evidence names another."""

import hashlib
from pathlib import Path

import pandas as pd

from synth.errors import TableError
from synth.table import read_table
from synth.table.table import Table
from synth.table.text_files import NO_MORE, SizeLimits, opened
from understudy.data.source import is_pattern
from understudy.provenance import sha256


def read_digested(path: Path, limits: SizeLimits = NO_MORE, expected: str | None = None) -> tuple[pd.DataFrame, str]:
    """A table as it was delivered, with the digest of its file."""
    before = digest(path, limits)
    frame = read_table(path, limits=limits)
    if before != digest(path, limits) or (expected is not None and before != expected):
        raise changed(str(path))
    return frame, before


def read_whole(path: Path) -> tuple[tuple[str, ...], str]:
    """Columns and digest of a table as it was delivered, once it is certain that every part of it can be read."""
    before, table = digest(path), Table.of(path)
    if sum(n for part in table.parts for _, n in part()) == 0:
        raise TableError(f"a table needs at least one row: path={str(path)!r} has no rows; add some")
    if digest(path) != before:
        raise changed(str(path))
    return table.names, before


def changed(shown: str) -> TableError:
    """The error about a table that changed while it was measured."""
    return TableError(f"a table must stay as it is while it is measured: path={shown!r} changed; measure it anew")


def digest(path: Path, limits: SizeLimits = NO_MORE) -> str:
    """The SHA-256 of a file, or of files; empty where one cannot be read, of which whoever reads it tells more."""
    try:
        if not path.is_file() and (path.is_dir() or is_pattern(path)):
            return sha256(path)
        with opened(path, limits) as file:  # nobody waits for a pipe
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""
