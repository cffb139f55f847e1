"""What publishing numbers about a table will draw, fixed before a row is read: which numbers, and at what noise."""

from collections.abc import Mapping
from typing import Literal

from evaluate.utility.task import public_task
from synth.dp.calibration import Plan, calibrate, resolve_delta
from synth.dp.events import gaussian_of_rho
from synth.dp.schedule import Schedule
from synth.errors import BudgetError
from synth.schema import Schema

ROWS = "published: rows of the source table"
COLUMNS = "published: distance of each column from the synthetic table"
PAIRS = "published: mean distance of pairs of columns"
ACCURACY = "published: held-out rows that a model of the synthetic table gets right, and wrong"
SHARES: Mapping[str, float] = {ROWS: 0.15, COLUMNS: 0.45, PAIRS: 0.1, ACCURACY: 0.3}
"""Shares of rho. The number of rows is in every denominator; the holdout is a fifth of the rows, so that its counts
stand less noise."""


def released_schedule(schema: Schema, epsilon: float, delta: float | Literal["auto"]) -> Schedule:
    """Everything that the published numbers will draw, calibrated to epsilon. No row is read.

    Args:
        schema: declared; its target decides whether an accuracy is among them.
        epsilon: of all numbers together.
        delta: of all numbers together; "auto": as for a fit.

    Raises:
        BudgetError: the schema is not declared, has no column that is learned, or the budget leaves no room.
    """
    if not schema.learned:
        raise BudgetError(
            "public_report.epsilon pays for numbers about columns that are learned, and the schema has none; leave "
            "epsilon out"
        )
    return calibrate(_plan(schema), epsilon, resolve_delta(delta, schema))


def predicts(schema: Schema) -> bool:
    """True where an accuracy can be published: the schema gives the target classes.

    No row is looked at: whether a number takes two values only would be an answer about the real table.
    """
    if schema.target is None or len(schema.learned) < 2:
        return False
    known = public_task(schema, schema.target)
    return known is not None and known[0] == "classification"


def _plan(schema: Schema) -> Plan:
    """One release of everything but columns, of which there is one for each."""
    counts = {ROWS: 1, COLUMNS: len(schema.learned)}
    counts |= {PAIRS: 1} if len(schema.learned) > 1 else {}
    counts |= {ACCURACY: 1} if predicts(schema) else {}
    whole = sum(SHARES[what] for what in counts)
    k = schema.max_rows_per_unit
    return lambda rho: [
        gaussian_of_rho(what, rho * SHARES[what] / whole, count=count, sensitivity=k) for what, count in counts.items()
    ]
