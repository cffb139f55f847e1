"""A table and the digest of the very file that it was read from, so that no evidence names another."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from synth.errors import TableError
from synth.table import read_table
from synth.table.limits import NO_MORE, Limits, opened


@dataclass(frozen=True)
class Digested:
    """A table from elsewhere.

    Attributes:
        path: the file.
        sha256: of the file, before and after it was read.
        frame: as it was delivered.
    """

    path: Path
    sha256: str
    frame: pd.DataFrame = field(repr=False)


def read_digested(path: Path, limits: Limits = NO_MORE, expected: str | None = None) -> Digested:
    """A table as it was delivered, with the digest of its file.

    Args:
        path: the file.
        limits: beyond which it is not read.
        expected: the digest that it had before; none: it may have any.

    Raises:
        TableError: it is no table or too large, or the file changed meanwhile; nothing was kept.
    """
    before = _digest(path, limits)
    frame = read_table(path, limits=limits)
    if before != _digest(path, limits) or (expected is not None and before != expected):
        raise TableError(
            f"a table must stay as it is while it is measured: path={str(path)!r} changed; measure it anew"
        )
    return Digested(path, before, frame)


def _digest(path: Path, limits: Limits) -> str:
    """Empty where it cannot be read, of which whoever reads it tells more."""
    try:
        with opened(path, limits) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""
