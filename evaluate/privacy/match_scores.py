"""Match scores of a record in a table: how many rows stand where it stands, column by column.

Attacks on an output count these. Two values of a column match where both are missing or of one category. Numbers and
times match within a twentieth of the span of most rows.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from synth.schema import Schema

NEAR = 0.05  # Of the span of most rows, either way
MOST = (0.05, 0.95)  # Quantiles between which most rows lie


def widths_of(reference: pd.DataFrame, schema: Schema) -> dict[str, float]:
    """How near numbers and times of each column have to lie, as a table that the attacker holds suggests. `reference`:
    *Sensitive* where it is real. Conforming to the schema.
    """
    widths = {}
    for name in (name for name in schema.learned if not schema.columns[name].is_categorical):
        positions = schema.columns[name].positions(reference[name])
        known = positions[~np.isnan(positions)]
        low, high = np.quantile(known, MOST) if len(known) else (0.0, 0.0)
        widths[name] = float(high - low) * NEAR
    return widths


def match_counts(
    table: pd.DataFrame, targets: pd.DataFrame, schema: Schema, widths: Mapping[str, float]
) -> np.ndarray:  # fmt: skip
    """Counts of a table's rows that match each record, by column; shape (len(targets), d_learned)."""
    counts = []
    for name in schema.learned:
        if name in widths:
            values, centers = (schema.columns[name].positions(frame[name]) for frame in (table, targets))
            missing = np.isnan(values)
            known, width = np.sort(values[~missing]), widths[name]
            low, high = known.searchsorted(centers - width, "left"), known.searchsorted(centers + width, "right")
            counts.append(np.where(np.isnan(centers), missing.sum(), high - low))
        else:
            both = pd.concat([frame[name].astype(object) for frame in (table, targets)])
            codes = pd.factorize(both.where(both.notna(), None))[0] + 1  # missing ones alike
            counts.append(np.bincount(codes[: len(table)], minlength=codes.max(initial=0) + 1)[codes[len(table) :]])
    return np.column_stack(counts)
