"""Rows of a table in chunks of a chosen size: what must not make a difference anywhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synth.schema import Schema
from synth.table.rows import Rows
from synth.table.table import Table

SIZES = [1, 7, None]
"""Rows of a chunk; `None`: all of them."""


def in_chunks(frame: pd.DataFrame, schema: Schema, size: int | None, folder: Path | None = None) -> Rows:
    """The rows of a frame, cast chunk by chunk."""
    step = size or max(len(frame), 1)
    parts = (frame.iloc[start : start + step] for start in range(0, len(frame), step))
    chunks: Any = (chunk for part in parts for chunk in Table.of(part).chunks(schema))
    return Rows.from_chunks(chunks, schema, folder)


def faulty(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """Flags of the rows with a cell that does not fit."""
    return np.asarray(np.column_stack(list(Table.of(frame).chunk(schema).faults.values())).any(axis=1))
