"""An audit of the split: is train the same table but for a row, when that row is gone from the file?

A guarantee is for the source table. So the split before a fit must pass on nothing of a unit but its own rows. The
project's own private split deals a public table, then the same table with one unit really removed: the first, one in
the middle, the last, one of some equal rows. Train must lose that unit's rows or stay as it is. Where other rows change
sides too, what the noise of the fit hides is not one unit but all that moved.
"""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from evaluate.audit_result import AuditCheck
from evaluate.privacy.audit.bounds import epsilon_of_less
from evaluate.privacy.audit.stand_in import UNIT
from synth.dp.schedule import Schedule
from synth.schema import Schema, build_schema
from synth.split import split_table, unit_column

SPLIT = "split into train and holdout"
N_UNITS, N_EQUAL, PLACES = 400, 4, (0, 1, 150, 299, 398, 399)
"""Units of the table; equal rows among them; and which units are removed, one at a time."""


def audit_split(schema: Schema, schedule: Schedule) -> AuditCheck:
    table, public = _table(schema)
    whole, n_moved = _train(table, public), 0
    for place in PLACES:
        gone = table[UNIT] == place
        rest = table[~gone].reset_index(drop=True)
        lost = whole.copy()
        lost.subtract(_train(rest, public))
        own = _rows(table[gone], public)
        n_moved = max(n_moved, sum(abs(n - min(max(n, 0), own[row])) for row, n in lost.items()))
    looked_at = (
        f"{len(PLACES)} tables of {N_UNITS} units in memory, each with one unit removed, its place too, "
        "before the split was made"
    )
    would_show = "any row that changes sides when another one is removed"
    if not n_moved:
        return AuditCheck(SPLIT, looked_at, would_show)
    fault = (
        "removing one unit moves rows of others into train or out of it, so that the noise of a fit hides too little"
    )
    return AuditCheck(SPLIT, looked_at, would_show, None, fault, epsilon_of_less(schedule, None, (1 + n_moved) ** -0.5))


def _table(schema: Schema) -> tuple[pd.DataFrame, Schema]:
    """A table of units, with a column that numbers them beside those of the schema, and its schema."""
    columns: dict[str, Any] = {name: {"kind": "integer", "bounds": [0, N_UNITS]} for name in ("one", "other")}
    content: dict[str, Any] = {"status": "declared", "n_units": schema.n_units, "columns": columns}
    named = unit_column(schema)
    if named is not None:
        columns[UNIT] = {"kind": "identifier", "bounds": [0, N_UNITS]}
    k = schema.max_rows_per_unit if schema.entity is not None else 1
    if schema.entity is not None:
        content |= {"entity": UNIT, "max_rows_per_unit": k}
    units = np.repeat(np.arange(N_UNITS), min(k, 3))
    # The last units hold the same values: of equal rows one is gone, and nobody can say which.
    values = np.minimum(units, N_UNITS - N_EQUAL)
    frame = pd.DataFrame({"one": values, "other": N_UNITS - values, UNIT: units})
    return frame, build_schema(content)


def _train(table: pd.DataFrame, schema: Schema) -> Counter[tuple[Any, ...]]:
    known = table[[name for name in table if name in schema.columns]]
    return _rows(split_table(known, schema, private=True).train, schema)


def _rows(frame: pd.DataFrame, schema: Schema) -> Counter[tuple[Any, ...]]:
    named = [name for name in schema.columns if name in frame]
    return Counter(tuple(map(int, row)) for row in frame[named].itertuples(index=False))
