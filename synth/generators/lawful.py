"""Rows that keep the declared constraints: formula columns computed, rows that break a constraint drawn again.

Rejection leaves the distribution of the accepted rows as it was, given that the constraints hold. They are
public facts, so that it is post-processing of what was drawn.
"""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from synth.constraints import Formula
from synth.constraints.checking import in_order
from synth.domain.lawfulness import broken, compute
from synth.errors import ModelError
from synth.schema import Schema

REJECTED = "rejected"
"""Key in `attrs` of a sampled table: rows that were drawn and broke a constraint."""
LEAST_ACCEPTED = 1e-3
"""Share of lawful rows below which drawing on is given up, once `ENOUGH` rows are drawn."""
ENOUGH, MAX_BATCHES = 20_000, 200
MAX_OVERSAMPLED = 10
"""How many times the wanted rows one batch draws at most."""

Draw = Callable[[int], pd.DataFrame]


def draw_lawful(draw: Draw, n_rows: int, schema: Schema) -> pd.DataFrame:
    """Rows that keep every constraint of the schema; without constraints, one plain draw.

    Args:
        draw: gives so many rows of all modeled columns, in canonical form; called as often as needed.
        n_rows: rows wanted, at least one.
        schema: names the constraints; nothing in it is left to measure.

    Returns:
        A canonical table of the learned columns, formula columns included. Where there are constraints,
        ``attrs["rejected"]`` is the number of rows drawn and rejected on the way.

    Raises:
        ModelError: next to no row that is drawn keeps the constraints; there is no table.
    """
    if not schema.constraints:
        return draw(n_rows)
    accepted: list[pd.DataFrame] = []
    n_accepted = n_drawn = 0
    wanted = n_rows
    for _ in range(MAX_BATCHES):
        batch, unlawful = _completed(draw(wanted), schema)
        kept = np.flatnonzero(~unlawful)[: n_rows - n_accepted]
        n_accepted += len(kept)
        if len(kept):
            accepted.append(batch.iloc[kept])
        if n_accepted == n_rows:
            n_drawn += int(kept[-1]) + 1
            table = pd.concat(accepted, ignore_index=True) if len(accepted) > 1 else accepted[0].reset_index(drop=True)
            table.attrs[REJECTED] = n_drawn - n_rows
            return table
        n_drawn += len(batch)
        if n_drawn >= ENOUGH and n_accepted < LEAST_ACCEPTED * n_drawn:
            break
        wanted = _next_batch(n_rows, n_accepted, n_drawn)
    raise ModelError(
        f"next to no row that the model draws keeps the constraints ({n_accepted:,} of {n_drawn:,}): "
        f"{_hardest(batch, schema)}; correct the constraints (or what is given), or fit a generator that learns these "
        "columns together"
    )


def rejections(n_rejected: int) -> str:
    """What there is to say of rejected rows.

    >>> rejections(1200)
    '1,200 rows that broke a constraint were rejected and drawn again'
    """
    return f"{n_rejected:,} rows that broke a constraint were rejected and drawn again"


def _next_batch(n_rows: int, n_accepted: int, n_drawn: int) -> int:
    """Rows to draw for the missing ones to be among them, at the rate so far."""
    rate = (n_accepted + 1) / (n_drawn + 1)
    needed = math.ceil(1.1 * (n_rows - n_accepted) / rate) + 10
    return min(needed, max(MAX_OVERSAMPLED * n_rows, ENOUGH))


def _completed(drawn: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, np.ndarray]:
    """The rows with their formula columns, in the schema's order, and which of them are not lawful."""
    made = {name: drawn[name] for name in schema.modeled}
    unlawful = np.zeros(len(drawn), dtype=bool)
    for formula in in_order([constraint for constraint in schema.constraints if isinstance(constraint, Formula)]):
        made[formula.column], outside = compute(pd.DataFrame(made), formula, schema.columns)
        unlawful |= outside
    table = pd.DataFrame({name: made[name] for name in schema.learned})
    for constraint in schema.constraints:
        if not isinstance(constraint, Formula):
            unlawful |= broken(table, constraint, schema.columns)
    return table, unlawful


def _hardest(batch: pd.DataFrame, schema: Schema) -> str:
    """The constraint that most of the drawn rows break, in words."""
    flagged = {
        constraint: compute(batch, constraint, schema.columns)[1]
        if isinstance(constraint, Formula)
        else broken(batch, constraint, schema.columns)
        for constraint in schema.constraints
    }
    worst = max(flagged, key=lambda constraint: int(flagged[constraint].sum()))
    return f"most of them break that {worst}" + (" within its bounds" if isinstance(worst, Formula) else "")
