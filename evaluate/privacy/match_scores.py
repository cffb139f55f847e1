"""Match scores of a record in a table: how many rows stand where it stands, column by column.

Attacks on an output count these. Two values of a column match where both are missing or of one category. Numbers and
times match within a twentieth of the span of most rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from synth.schema import Schema

NEAR = 0.05  # Of the span of most rows, either way
MOST = (0.05, 0.95)  # Quantiles between which most rows lie


@dataclass(frozen=True)
class Cells:
    schema: Schema
    widths: Mapping[str, float]

    @classmethod
    def of(cls, reference: pd.DataFrame, schema: Schema) -> "Cells":
        """Cells as wide as a table that the attacker holds suggests. `reference`: *Sensitive* where it is real.
        Conforming to the schema.
        """
        widths = {}
        for name in schema.learned:
            if schema.columns[name].is_categorical:
                continue
            places = _places(reference, name, schema)
            known = places[~np.isnan(places)]
            low, high = np.quantile(known, MOST) if len(known) else (0.0, 0.0)
            widths[name] = float(high - low) * NEAR
        return cls(schema, widths)

    def counts(self, table: pd.DataFrame, targets: pd.DataFrame) -> np.ndarray:
        """Counts of a table's rows that match each record, by column; shape (len(targets), d_learned)."""
        found = []
        for name in self.schema.learned:
            if name in self.widths:
                ours, theirs = (_places(frame, name, self.schema) for frame in (table, targets))
                found.append(_around(theirs, ours, self.widths[name]))
            else:
                ours, theirs = _codes(table[name], targets[name])
                found.append(np.bincount(ours, minlength=int(theirs.max(initial=0)) + 1)[theirs])
        return np.column_stack(found)


def _places(frame: pd.DataFrame, name: str, schema: Schema) -> np.ndarray:
    return np.asarray(schema.columns[name].positions(frame[name]))


def _around(centers: np.ndarray, places: np.ndarray, width: float) -> np.ndarray:
    """Counts of places around each center; for a missing center, of missing places."""
    missing = np.isnan(places)
    known = np.sort(places[~missing])
    low, high = np.searchsorted(known, centers - width, "left"), np.searchsorted(known, centers + width, "right")
    return np.where(np.isnan(centers), missing.sum(), high - low)


def _codes(values: pd.Series, others: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Codes from 0 of the values of two columns, missing ones alike."""
    both = pd.concat([values.astype(object), others.astype(object)])
    codes = pd.factorize(both.where(both.notna(), None), use_na_sentinel=True)[0] + 1
    return codes[: len(values)], codes[len(values) :]
