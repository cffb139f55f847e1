"""Size limits of a file that is read as a table: whoever offers one may mean harm, or have erred by a zero."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Self

import pandas as pd

from synth.errors import TableError

MAX_BYTES = 8 << 30  # of any table that is held in memory, uncompressed
MAX_ROWS = 1 << 31
MAX_COLUMNS = 20_000

TIMES = 20  # the factor by which a table may need more than the training table beside it
LEAST_BYTES, LEAST_ROWS, LEAST_COLUMNS = 64 << 20, 1_000_000, 2_000
"""The allowance of a table, however small the training table is."""


@dataclass(frozen=True)
class SizeLimits:
    """The limits of a table's size."""

    n_bytes: int = MAX_BYTES
    n_rows: int = MAX_ROWS
    n_columns: int = MAX_COLUMNS

    @classmethod
    def beside(cls, train: pd.DataFrame, n_rows: int | None = None) -> Self:
        """For a table that claims to be like this one: `TIMES` what it needs, and no less than the least.
        `n_rows`: the rows of the table that `train` is a sample of; `None`: it is whole.
        """
        n_rows = len(train) if n_rows is None else n_rows
        n_bytes = TIMES * int(train.memory_usage(index=False, deep=True).sum() * n_rows / max(len(train), 1))
        return cls(
            min(MAX_BYTES, max(LEAST_BYTES, n_bytes)),
            min(MAX_ROWS, max(LEAST_ROWS, TIMES * n_rows)),
            min(MAX_COLUMNS, max(LEAST_COLUMNS, TIMES * train.shape[1])),
        )

    def refuse_over(self, what: str, n: int, shown: str) -> None:
        limit = {"bytes": self.n_bytes, "rows": self.n_rows, "columns": self.n_columns}[what]
        if n <= limit:
            return
        unit = "bytes once it is uncompressed" if what == "bytes" else what
        remedy = "leave out columns that the schema does not name" if what == "columns" else "offer fewer rows"
        raise TableError(f"a table may have {limit:,} {unit} here: {shown} has more; {remedy}")


NO_MORE = SizeLimits()  # for a table whose owner is trusted, and that is held in memory
IN_PARTS = SizeLimits(n_bytes=1 << 62, n_rows=1 << 62)  # for one that is read some rows at a time


@contextmanager
def opened(path: Path, limits: SizeLimits) -> Iterator[BufferedReader]:
    """A file that is one, open for reading from its start, which did not change until the block ended."""
    shown = f"path={str(path)!r}"
    # A pipe without a writer must not be waited for.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    before = os.fstat(handle)
    if not stat.S_ISREG(before.st_mode):
        os.close(handle)
        if stat.S_ISDIR(before.st_mode):
            raise IsADirectoryError
        raise TableError(f"a table must be a file on a disk: {shown} is a pipe or a device; save it as a file")
    with os.fdopen(handle, "rb") as file:
        limits.refuse_over("bytes", before.st_size, shown)
        yield file
        after = os.fstat(handle)
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise TableError(f"a table must stay as it is while it is read: {shown} changed; wait until it is written")
