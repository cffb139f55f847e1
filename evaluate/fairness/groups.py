"""The groups of a sensitive column: its largest categories, or the quarters of a number, and missing."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from synth.schema import Schema

MAX_GROUPS = 8  # Categories of a column at most, the most frequent ones
MIN_ROWS = 100  # Rows that a group must have in each table where something is said of it


@dataclass(frozen=True)
class Groups:
    """The groups of one sensitive column."""

    column: str
    labels: tuple[str, ...]  # *Sensitive*. One text for each group; the last one is "missing"
    values: tuple[Any, ...] = ()  # *Sensitive*. The values that groups but the last stand for; `None` for a number
    edges: np.ndarray | None = None  # *Sensitive*. What parts a number into groups; `None` for a column with categories

    @classmethod
    def of(cls, name: str, train: pd.DataFrame, schema: Schema) -> "Groups":
        """The groups of a column in the training table. `train`: *Sensitive*. Conforming to the schema."""
        column: Any = schema.columns[name]
        if column.is_categorical:
            counts = train[name].dropna().astype(object).value_counts().sort_index()
            values = tuple(counts.sort_values(ascending=False, kind="stable").index[:MAX_GROUPS])
            return cls(name, (*map(str, values), "missing"), values)
        positions = column.positions(train[name])
        known = positions[~np.isnan(positions)]
        edges = np.unique(np.quantile(known, [0.25, 0.5, 0.75], method="higher")) if len(known) else np.zeros(0)
        edges = edges[edges > known.min()] if len(known) else edges
        return cls(name, (*_ranges(edges, column), "missing"), edges=edges)

    def codes(self, frame: pd.DataFrame, schema: Schema) -> np.ndarray:
        """The group of each row, -1 for a category of none; shape (n,)."""
        series, column = frame[self.column], schema.columns[self.column]
        missing = series.isna().to_numpy(dtype=bool)
        if self.edges is None:
            codes = pd.Index(self.values, dtype=object).get_indexer(pd.Index(series.astype(object)))
        else:
            positions = column.positions(series)
            codes = np.searchsorted(self.edges, positions, side="right")
        return np.where(missing, len(self.labels) - 1, codes)


def _ranges(edges: np.ndarray, column: Any) -> list[str]:
    if not len(edges):
        return ["all"]
    words = [str(column.value_at(edge)) if column.is_time else f"{edge:.6g}" for edge in edges]
    inner = [f"{low} to below {high}" for low, high in itertools.pairwise(words)]
    return [f"below {words[0]}", *inner, f"{words[-1]} or more"]
