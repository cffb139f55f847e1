"""Two neighboring tables of an audit: one with a target in it, one without."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evaluate.privacy.audit.stand_in import with_texts
from synth.domain import numeric_scale
from synth.schema import Schema, build_schema
from synth.schema.kinds import CategoricalColumn
from synth.table import conform

N_ROWS = 300  # Rows of a stand-in: few, so that one more row is seen as far as it can be
EXCESS = 3  # The target's rows in multiples of those that a fit may use, where a unit may have several rows
UNIT = {"kind": "identifier", "bounds": [0, 10**12]}
FAR = 1e6  # The bound assumed for a number whose bounds are to be measured


@dataclass(frozen=True)
class Worlds:
    schema: Schema
    rows: pd.DataFrame
    target: pd.DataFrame

    def table(self, present: bool) -> pd.DataFrame:
        return pd.concat([self.rows, self.target], ignore_index=True) if present else self.rows

    @classmethod
    def stand_in(cls, schema: Schema, *, seed: int = 0, histories: bool = False) -> "Worlds":
        """Made-up rows in the domain of a schema, and a target that is alone in each of its columns."""
        rng, plain = np.random.default_rng(seed), without_constraints(schema, histories=histories)
        k = EXCESS * schema.max_rows_per_unit if schema.entity is not None else 1
        made = {name: _column(plain.columns[name], N_ROWS, k, rng) for name in plain.learned}
        rows, target = (pd.DataFrame({name: sides[i] for name, sides in made.items()}) for i in (0, 1))
        if schema.entity is not None:
            rows[schema.entity], target[schema.entity] = np.arange(N_ROWS), np.full(k, N_ROWS)
        if plain.order is not None and plain.order not in rows:
            rows[plain.order], target[plain.order] = np.arange(N_ROWS), np.arange(k)
        fitting = [conform(with_texts(side, plain), plain, part=True) for side in (rows, target)]
        return cls(plain, fitting[0], fitting[1])


def without_constraints(schema: Schema, *, histories: bool) -> Schema:
    """The learned columns of a schema, its unit, k and n_units, and nothing else of it."""
    columns: dict[str, Any] = {name: schema.columns[name].model_dump() for name in (*schema.learned, *schema.texts)}
    content: dict[str, Any] = {"status": schema.status, "n_units": schema.n_units}
    if schema.entity is not None:
        columns[schema.entity] = UNIT
        content |= {"entity": schema.entity, "max_rows_per_unit": schema.max_rows_per_unit}
    if histories:
        columns.setdefault(str(schema.order), UNIT)
        content |= {"order": schema.order}
    return build_schema({**content, "columns": columns})


def _column(column: Any, n_rows: int, n_target: int, rng: np.random.Generator) -> tuple[pd.Series, pd.Series]:
    """A column of the rows and of the target, who share no value where the domain has two."""
    if column.is_boolean:
        return pd.Series(np.zeros(n_rows, bool)), pd.Series(np.ones(n_target, bool))
    if column.is_categorical:
        known = _categories(column)
        drawn = rng.integers(0, max(len(known) - 1, 1), n_rows)
        values = np.array([*known, None], dtype=object)
        return pd.Series(values[drawn], dtype=object), pd.Series(
            [values[max(len(known) - 1, 0)]] * n_target, dtype=object
        )
    low, high = column.ends
    if column.is_measured and low < -FAR < FAR < high:
        low, high = -FAR, FAR
    edges = low + (high - low) * np.array([0.0, 0.5, 0.98, 1.0])
    sides = (np.zeros(n_rows, dtype=np.int64), np.full(n_target, 2))
    rows, target = (column.values(numeric_scale.draw(edges, c, column, rng), np.zeros(len(c), bool)) for c in sides)
    return rows, target


def _categories(column: CategoricalColumn) -> tuple[Any, ...]:
    if not column.is_measured:
        return column.categories
    return (1, 2, 3, 4) if column.whole_numbers else ("a", "b", "c", "d")
