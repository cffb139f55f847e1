"""Imputation: missing cells of rows drawn from their distribution given the cells that are there.

Values are drawn as if cells were missing at random given the row. A model is all this reads beside the rows: no budget
is spent.

DEVIATES: Rubin 1987 draws the model's parameters anew for each imputation. Here all draws are from one model, so that
their spread lacks the uncertainty of the model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from synth.constraints import Unique
from synth.domain import Discretizer
from synth.domain.coded_rows import CodedRows
from synth.domain.constraint_checks import broken, canonical
from synth.domain.counted_form import to_counted
from synth.domain.discretizer import MISSING
from synth.generators.models.constraints import completed, structural_zeros, with_dependents
from synth.marginals import Factor
from synth.schema import Schema
from synth.table import conform

UNFILLED = "unfilled"
"""Key in `attrs` of an imputed table: rows with a cell that no draw filled in so that the constraints hold."""
ROWS_AT_ONCE = 2_000  # rows that are filled in at a time
MOST_DRAWS = 30  # draws for a row until its constraints hold

Fill = Callable[[CodedRows, Mapping[int, np.ndarray]], pd.DataFrame]


@dataclass(frozen=True, eq=False)
class Imputation:
    """A model, and how it fills rows in.
    `fill`: draws the modeled columns of rows. It is given the allowed codes of columns with missing cells, by place,
    shape (n, size).
    """

    schema: Schema
    discretizer: Discretizer
    fill: Fill

    def filled(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The table in canonical form, missing cells of modeled and computed columns filled in.

        Cells of identifiers, personal data and text stay missing. So do those of keys and of columns that are constant
        within an entity: rows are filled in one by one. What a known column that is modeled says of missing ones is
        not heeded. `attrs["unfilled"]` counts rows in which other cells do: no
        draw kept the constraints.
        `frame`: *Sensitive*. Rows that fit the schema, but for missing cells, which any column may have.
        """
        table = conform(frame, with_missing(self.schema), part=True)
        pieces = [
            self._piece(table.iloc[start : start + ROWS_AT_ONCE].reset_index(drop=True))
            for start in range(0, len(table), ROWS_AT_ONCE)
        ]
        whole = pd.concat(pieces, ignore_index=True) if pieces else table
        whole = whole.set_axis(frame.index)
        whole.attrs[UNFILLED] = int(whole[self._filled_columns].isna().any(axis=1).sum())
        return whole

    @property
    def _filled_columns(self) -> list[str]:
        """Columns whose cells are filled in: those that the model holds or computes, and that no other row bears on."""
        keys = {name for c in self.schema.constraints if isinstance(c, Unique) for name in c.columns}
        others = keys | set(self.schema.constant_in_entity)
        return [name for name in self.schema.learned if name not in others]

    def _piece(self, table: pd.DataFrame) -> pd.DataFrame:
        table = self._with_determinants(table)
        left = np.flatnonzero(table[self._filled_columns].isna().any(axis=1).to_numpy())
        bound = {name for constraint in self.schema.constraints for name in constraint.columns}
        for draw in range(MOST_DRAWS):
            if len(left) == 0:
                break
            rows = table.iloc[left].reset_index(drop=True)
            drawn, is_lawful = self._drawn(rows)
            for name in self._filled_columns:
                # In the end, cells that no constraint bears on are filled in whatever the others are.
                is_filled = is_lawful | (draw == MOST_DRAWS - 1 and name not in bound)
                empty = rows[name].isna().to_numpy() & is_filled
                if empty.any():
                    table.loc[left[empty], name] = drawn.loc[empty, name].array
            left = left[~is_lawful]
        return table

    def _with_determinants(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows with each determinant that is missing beside a column that it would determine, and that tells it."""
        made = {name: table[name] for name in table.columns}
        for name, dependency in self.schema.equivalents.items():
            held, inverse = made[dependency.determinant], dependency.inverse
            known = canonical(tuple(inverse), self.schema.columns[name])
            places = pd.Index(known.array).get_indexer(pd.Index(table[name].array))
            values = canonical(tuple(inverse.values()), self.schema.columns[dependency.determinant])
            told = values.take(np.maximum(places, 0)).set_axis(table.index).astype(held.dtype)
            made[dependency.determinant] = held.where(held.notna() | (places < 0) | table[name].isna(), told)
        return pd.DataFrame(made, index=table.index, copy=False)

    def _drawn(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
        """The rows with every missing cell drawn, and which of them keep the constraints, shape (n,)."""
        names, counted = list(self.discretizer.sizes), to_counted(rows, self.schema)
        missing = counted[names].isna().to_numpy()
        known = CodedRows.encoded(self.discretizer, counted)
        made = self.fill(known, self._open(known.codes, missing))
        modeled = pd.DataFrame({name: _merged(counted[name], made[name]) for name in names})
        dependents = with_dependents(modeled, self.schema)
        modeled = pd.DataFrame({name: _merged(counted[name], dependents[name]) for name in names})
        whole, unlawful = completed(modeled, self.schema)
        merged = pd.DataFrame({name: _merged(rows[name], whole[name]) for name in whole.columns})
        for constraint in self.schema.constraints:
            if not (isinstance(constraint, Unique) or constraint.looks_back) and {*constraint.columns} <= {
                *merged.columns
            }:
                unlawful |= broken(merged, constraint, self.schema.columns)
        return merged, ~unlawful

    @cached_property
    def _zeros(self) -> tuple[Factor, ...]:
        """Structural ones, which say what is open to a missing cell beside known ones."""
        return structural_zeros(self.schema, self.discretizer)

    def _open(self, codes: np.ndarray, missing: np.ndarray) -> dict[int, np.ndarray]:
        """For each column with missing cells, which codes these may have, shape (n, size); a known cell has its own."""
        is_open: dict[int, np.ndarray] = {}
        for place, attribute in enumerate(self.discretizer.attributes):
            if missing[:, place].any():
                possible = np.ones(attribute.size, dtype=bool)
                possible[[*attribute.impossible, attribute.group[MISSING]]] = False
                known = np.arange(attribute.size) == codes[:, [place]]
                is_open[place] = np.where(missing[:, [place]], possible if possible.any() else ~possible, known)
        for zero in self._zeros:
            places = [self.discretizer.columns.index(name) for name in zero.attributes]
            for axis, place in enumerate(places):
                others = [other for other in places if other != place]
                rows = np.flatnonzero(missing[:, place] & ~missing[:, others].any(axis=1))
                if len(rows):
                    allowed = np.moveaxis(np.isfinite(zero.log_values), axis, -1)[tuple(codes[rows][:, others].T)]
                    left = is_open[place][rows] & allowed
                    is_open[place][rows] = np.where(left.any(axis=1, keepdims=True), left, is_open[place][rows])
        return is_open


def with_missing(schema: Schema) -> Schema:
    """The schema of rows that are to be filled in: any cell may be missing."""
    optional = {name: column.model_copy(update={"missing": True}) for name, column in schema.columns.items()}
    return schema.model_copy(update={"columns": optional})


def _merged(known: pd.Series, drawn: pd.Series) -> pd.Series:
    """The known cells, and drawn ones where they are missing."""
    return known.where(known.notna(), drawn.astype(known.dtype))
