"""Prompts: what a language model is told of a row before it writes the row's text.

Domains are taken from synthetic rows, which a fitted model of the other columns drew. So a prompt costs no budget, and
no real row decides what a prompt can say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain.plain_arrays import reals
from synth.schema import Schema
from synth.schema.kinds import Column
from synth.table.restore_dtypes import texts
from understudy.extras.text.themes import theme_names

N_RANGES, MOST_VALUES = 16, 62
"""Ranges of a number or time, and values of any other column, that a prompt tells apart."""
OTHER = 0  # code of a value that no synthetic row holds


@dataclass(frozen=True)
class KeyValues:
    """The codes of one column in a prompt."""

    name: str
    edges: tuple[float, ...] | None
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, series: pd.Series, column: Column) -> Self:
        """The codes that tell apart what a synthetic column holds."""
        if column.is_line:
            line = column.positions(series)
            line = line[np.isfinite(line)]
            places = np.linspace(0, 1, N_RANGES + 1)[1:-1]
            edges = np.unique(np.quantile(line, places)) if len(line) else np.zeros(0)
            return cls(str(series.name), tuple(float(edge) for edge in edges))
        counted = pd.Series(texts(series, column), dtype=object).value_counts()
        order = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
        return cls(str(series.name), None, tuple(str(value) for value, _ in order[:MOST_VALUES]))

    @property
    def size(self) -> int:
        """Number of codes; the last is that of a missing value."""
        return (len(self.values) + 2) if self.edges is None else len(self.edges) + 2

    def codes(self, series: pd.Series, column: Column) -> NDArray[np.int64]:
        """The code of each row; shape (n,)."""
        if self.edges is None or not column.is_line:
            known = {value: 1 + place for place, value in enumerate(self.values)}
            held = [self.size - 1 if text is None else known.get(text, OTHER) for text in texts(series, column)]
            return np.array(held, dtype=np.int64)
        line = column.positions(series)
        found = np.searchsorted(np.array(self.edges), line, side="right")
        return np.where(np.isnan(line), self.size - 1, found).astype(np.int64)


@dataclass(frozen=True)
class Prompts:
    """The prompts of a table's rows."""

    columns: tuple[KeyValues, ...]
    schema: Schema
    themes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, synthetic: pd.DataFrame, schema: Schema, themes: Mapping[str, str] | None = None) -> Self:
        """Prompts whose codes tell apart what synthetic rows hold."""
        columns = tuple(KeyValues.of(synthetic[name], schema.columns[name]) for name in schema.learned)
        return cls(columns, schema, themes or {})

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each column."""
        return tuple(column.size for column in self.columns)

    def codes(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        """Codes of rows, shape (n, n_columns), each column's counted on from the one's before."""
        shifts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)
        kinds = self.schema.columns
        parts = [column.codes(rows[column.name], kinds[column.name]) for column in self.columns]
        return np.stack(parts, axis=1) + shifts

    def lines(self, rows: pd.DataFrame, text_column: str) -> list[str]:
        """Rows as keys and values in words, which end with the name of the column that a text is asked for."""
        told = [
            (name, texts(rows[name], self.schema.columns[name]))
            for name in self.schema.learned
            if name not in self.themes
        ]
        parts = [[f"{name}: {'missing' if value is None else value}" for value in held] for name, held in told]
        own = [name for name in theme_names(text_column, len(self.themes)) if name in self.themes]
        if own:
            held = rows[own].fillna(False).to_numpy(dtype=bool)
            words = np.array([self.themes[name] for name in own], dtype=object)
            parts.append(["themes: " + ", ".join(words[row]) for row in held])
        return ["\n".join([*row, f"{text_column}:"]) for row in zip(*parts, strict=True)]

    def to_plain(self) -> list[dict[str, Any]]:
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_plain(
        cls, content: Sequence[Mapping[str, Any]], schema: Schema, themes: Mapping[str, str] | None = None
    ) -> Self:
        columns = []
        for one in content:
            edges = None if one["edges"] is None else tuple(reals(one, "edges").tolist())
            if not all(isinstance(value, str) for value in one["values"]):
                raise ValueError("values of a prompt are texts")
            columns.append(KeyValues(one["name"], edges, tuple(one["values"])))
        if tuple(column.name for column in columns) != schema.learned:
            raise ValueError("a prompt has all learned columns")
        return cls(tuple(columns), schema, themes or {})
