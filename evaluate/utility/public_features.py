"""Rows as the numbers that a private model learns from: made by the declared schema alone, of bounded length.

Nothing here looks at a table. A column with categories has a coordinate for each of them; a number with public bins one
for each bin; any other number or time lies between two of a few knots on its declared bounds. A column whose bounds or
categories are to be measured is left out: its domain would have to be paid for first.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from evaluate.utility.features import predictors
from synth.columns import BooleanColumn, CategoricalColumn, is_measured
from synth.domain import numeric_scale
from synth.domain.discretizer import categories
from synth.schema import Schema

N_KNOTS = 9
"""Knots of a number without public bins."""


@dataclass(frozen=True)
class PublicColumn:
    """One column's coordinates; their L2 norm is at most 1.

    Attributes:
        name: the column.
        column: as it is declared.
    """

    name: str
    column: Any

    @property
    def width(self) -> int:
        """Coordinates, one of them for missing and, with categories, one for others."""
        if isinstance(self.column, CategoricalColumn | BooleanColumn):
            return len(categories(self.column)) + 2
        return (len(self._bins) - 1 if len(self._bins) else N_KNOTS) + 1

    @cached_property
    def _bins(self) -> np.ndarray:
        return np.array([numeric_scale.place(edge, self.column) for edge in self.column.bins if edge is not None])

    def apply(self, series: pd.Series) -> np.ndarray:
        """Coordinates of the values, shape (n, width), float32."""
        found = np.zeros((len(series), self.width), dtype=np.float32)
        rows = np.arange(len(series))
        if isinstance(self.column, CategoricalColumn | BooleanColumn):
            codes = pd.Index(categories(self.column)).get_indexer(pd.Index(series.astype(object)))
            codes = np.where(codes < 0, self.width - 2, codes)
            found[rows, np.where(series.isna().to_numpy(dtype=bool), self.width - 1, codes)] = 1.0
            return found
        positions = numeric_scale.positions(series, self.column)
        missing = np.isnan(positions)
        low, share = self._places(np.where(missing, numeric_scale.bounds(self.column)[0], positions))
        found[rows, np.where(missing, self.width - 1, low)] = np.where(missing, 1.0, 1.0 - share)
        upper = ~missing & (share > 0)
        found[rows[upper], low[upper] + 1] = share[upper]
        return found

    def _places(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bin or knot at or below each position, and how far it lies on the way to the next knot."""
        if len(self._bins):
            return np.clip(np.searchsorted(self._bins, positions, side="right") - 1, 0, self.width - 2), np.zeros(
                len(positions)
            )
        ends = np.array(numeric_scale.bounds(self.column))
        if getattr(self.column, "scale", "linear") == "log":
            positions, ends = (np.sign(part) * np.log1p(np.abs(part)) for part in (positions, ends))
        places = (positions - ends[0]) / max(float(ends[1] - ends[0]), np.finfo(float).tiny) * (N_KNOTS - 1)
        places = np.clip(places, 0.0, N_KNOTS - 1)
        low = np.minimum(places.astype(np.int64), N_KNOTS - 2)
        return low, places - low


@dataclass(frozen=True)
class PublicFeatures:
    """How rows become a matrix whose rows have an L2 norm of at most 1.

    >>> from synth.schema import build_schema
    >>> columns = {"a": {"kind": "boolean"}, "y": {"kind": "boolean"}}
    >>> features = PublicFeatures.of(build_schema({"status": "declared", "target": "y", "columns": columns}))
    >>> features.apply(pd.DataFrame({"a": [True]})).astype(float).round(2).tolist()
    [[0.0, 0.71, 0.0, 0.0, 0.71]]
    """

    columns: tuple[PublicColumn, ...]

    @classmethod
    def of(cls, declared: Schema) -> "PublicFeatures":
        """The features of every predictor whose domain is declared."""
        names = [name for name in predictors(declared) if not is_measured(declared.columns[name])]
        return cls(tuple(PublicColumn(name, declared.columns[name]) for name in names))

    def apply(self, frame: pd.DataFrame) -> np.ndarray:
        """The rows as a matrix, the last coordinate for the intercept; shape (n, d), float32."""
        scale = np.float32(1 / np.sqrt(len(self.columns) + 1))
        parts = [column.apply(frame[column.name]) for column in self.columns]
        return np.hstack([*parts, np.ones((len(frame), 1), dtype=np.float32)]) * scale
