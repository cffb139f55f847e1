"""A table with the hash of the very file that it was read from, so that no evidence names another."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from synth.errors import TableError
from synth.table import read_table
from synth.table.limits import NO_MORE, SizeLimits, opened
from understudy.data.load import parts_of
from understudy.provenance import sha256


@dataclass(frozen=True)
class Digested:
    """A table from elsewhere."""

    path: Path
    sha256: str
    frame: pd.DataFrame = field(repr=False)


def read_digested(path: Path, limits: SizeLimits = NO_MORE, expected: str | None = None) -> Digested:
    """A table as it was delivered, with the digest of its file."""
    before = _digest(path, limits)
    frame = read_table(path, limits=limits)
    if before != _digest(path, limits) or (expected is not None and before != expected):
        raise changed(str(path))
    return Digested(path, before, frame)


@dataclass(frozen=True)
class Whole:
    """The facts of a table from elsewhere, whose rows are not kept."""

    sha256: str
    columns: tuple[str, ...]


def read_whole(path: Path) -> Whole:
    """The digest and columns of a table as it was delivered, once it is certain that every part of it can be read."""
    if not path.is_dir():
        found = read_digested(path)
        return Whole(found.sha256, tuple(map(str, found.frame.columns)))
    before = sha256(path)
    parts = [read_digested(part).frame.columns for part in parts_of(path)]
    check_same(path, before)
    return Whole(before, tuple(map(str, parts[0])))


def check_same(path: Path, before: str) -> None:
    """Refuse a table that is not as it was."""
    try:
        after = sha256(path)
    except (OSError, TableError):  # it, or a part of it, is gone
        after = ""
    if after != before:
        raise changed(str(path))


def changed(shown: str) -> TableError:
    """The error about a table that changed while it was measured."""
    return TableError(f"a table must stay as it is while it is measured: path={shown!r} changed; measure it anew")


def _digest(path: Path, limits: SizeLimits) -> str:
    """Empty where it cannot be read, of which whoever reads it tells more."""
    try:
        with opened(path, limits) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""
