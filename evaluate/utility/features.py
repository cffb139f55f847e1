"""Rows as the numbers that a model learns from; everything is fitted on the rows that the model itself may see."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from synth.columns import BooleanColumn, CategoricalColumn, WeightColumn
from synth.domain import numeric_scale
from synth.schema import Schema

Form = Literal["linear", "boosting"]
MAX_LEVELS: dict[Form, int] = {"linear": 30, "boosting": 250}
"""Levels of a category that a model tells apart, the most frequent ones; the others are one level."""
MAX_DEVIATIONS = 10.0
"""Standard deviations at which a linear model's numbers are cut off, so that one outlier does not carry it."""


def predictors(schema: Schema) -> tuple[str, ...]:
    """The columns that predict the target: all learned ones but the target itself and survey weights."""
    weights = [name for name in schema.learned if isinstance(schema.columns[name], WeightColumn)]
    return tuple(sorted(set(schema.learned) - {schema.target} - set(weights)))


@dataclass(frozen=True)
class Levels:
    """A column with categories: one column of zeros and ones for each level, or one of codes.

    Attributes:
        known: *Sensitive*. The most frequent levels, most frequent first.
    """

    known: pd.Index

    @classmethod
    def fit(cls, series: pd.Series, form: Form) -> "Levels":
        """The most frequent levels of a column; among equally frequent ones the first in order."""
        counts = series.dropna().astype(object).value_counts().sort_index()
        return cls(counts.sort_values(ascending=False, kind="stable").index[: MAX_LEVELS[form]])

    def apply(self, series: pd.Series, form: Form) -> np.ndarray:
        """Coordinates of the values, shape (n, d), float64; boosting takes codes, NaN where missing."""
        codes = self.known.get_indexer(pd.Index(series.astype(object)))
        codes = np.where(codes < 0, len(self.known), codes)
        missing = series.isna().to_numpy(dtype=bool)
        if form == "boosting":
            return np.where(missing, np.nan, codes.astype(np.float64))[:, None]
        return np.eye(len(self.known) + 2)[np.where(missing, len(self.known) + 1, codes)]


@dataclass(frozen=True)
class Numbers:
    """A column of numbers or times: standardized with a flag for missing, or as it is.

    Attributes:
        column: the kind of column.
        center: mean of the values that are there.
        scale: their standard deviation; 1 where it is 0.
    """

    column: numeric_scale.LineColumn
    center: float
    scale: float

    @classmethod
    def fit(cls, series: pd.Series, column: numeric_scale.LineColumn) -> "Numbers":
        """Mean and deviation of a column; 0 and 1 where it is missing throughout."""
        values = numeric_scale.positions(series, column)
        values = values[~np.isnan(values)]
        deviation = float(values.std()) if len(values) else 0.0
        return cls(column, float(values.mean()) if len(values) else 0.0, deviation if deviation > 0 else 1.0)

    def apply(self, series: pd.Series, form: Form) -> np.ndarray:
        """Coordinates of the values, shape (n, d), float64; boosting takes NaN where missing."""
        values = (numeric_scale.positions(series, self.column) - self.center) / self.scale
        if form == "boosting":
            return np.asarray(values[:, None])
        missing = np.isnan(values)
        cut = np.clip(np.where(missing, 0.0, values), -MAX_DEVIATIONS, MAX_DEVIATIONS)
        return np.column_stack([cut, missing])


@dataclass(frozen=True)
class Ranks:
    """A column of ordered categories, for boosting: the place of each in its list, one column.

    Attributes:
        known: the categories, in their order.
    """

    known: pd.Index

    def apply(self, series: pd.Series, _: Form) -> np.ndarray:
        """Coordinates of the values, shape (n, 1), float64; NaN where missing, past the last where unlisted."""
        codes = self.known.get_indexer(pd.Index(series.astype(object)))
        codes = np.where(codes < 0, len(self.known), codes)
        return np.where(series.isna().to_numpy(dtype=bool), np.nan, codes.astype(np.float64))[:, None]


@dataclass(frozen=True)
class Features:
    """How rows become a matrix for one form of model.

    Attributes:
        form: "linear" or "boosting".
        parts: by column, in the order of the matrix; columns that do not vary among the rows are left out.
    """

    form: Form
    parts: dict[str, Levels | Numbers | Ranks]

    @classmethod
    def fit(cls, frame: pd.DataFrame, schema: Schema, form: Form) -> "Features":
        """Features fitted on the rows that a model learns from.

        Args:
            frame: *Sensitive* where it is real.
            schema: names the target and the kinds of the columns.
            form: the model they are for.
        """
        parts: dict[str, Levels | Numbers | Ranks] = {}
        for name in predictors(schema):
            column = schema.columns[name]
            if frame[name].nunique() + int(frame[name].hasnans) < 2:
                continue
            if form == "boosting" and isinstance(column, CategoricalColumn) and column.ordered:
                parts[name] = Ranks(pd.Index(column.categories, dtype=object))
            elif isinstance(column, CategoricalColumn | BooleanColumn):
                parts[name] = Levels.fit(frame[name], form)
            else:
                parts[name] = Numbers.fit(frame[name], column)  # type: ignore[arg-type]
        return cls(form, parts)

    def apply(self, frame: pd.DataFrame) -> np.ndarray:
        """The rows as a matrix, shape (len(frame), d), float64."""
        return np.hstack([part.apply(frame[name], self.form) for name, part in self.parts.items()])

    @property
    def categories(self) -> np.ndarray:
        """Which columns of a boosting matrix are codes of categories, boolean."""
        return np.array([isinstance(part, Levels) for part in self.parts.values()])
