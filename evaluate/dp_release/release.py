"""A release of numbers about a synthetic table: its schedule, and the one look at real rows that it takes.

`released_schedule` says which numbers are drawn and at what noise, before a row is read. `release_numbers` then takes
exact numbers (`evaluate.dp_release.numbers`) to noisy ones (`evaluate.dp_release.numbers`).
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pandas as pd

from evaluate.dp_release.numbers import (
    Paid,
    Yardstick,
    accuracy_of,
    bounded,
    chance_distance,
    distance_of,
    half_rows,
    right_and_wrong,
    rows_of,
)
from evaluate.released import COLUMN, COLUMN_MEAN, PAIR_MEAN, Released
from evaluate.utility.task import public_task
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, gaussian_of_rho
from synth.dp.schedule import Plan, Schedule, calibrate, resolve_delta
from synth.errors import BudgetError
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.split import Split

ROWS = "published: rows of the source table"
COLUMNS = "published: distance of each column from the synthetic table"
PAIRS = "published: mean distance of pairs of columns"
ACCURACY = "published: held-out rows that a model of the synthetic table gets right, and wrong"
SHARES: Mapping[str, float] = {ROWS: 0.15, COLUMNS: 0.45, PAIRS: 0.1, ACCURACY: 0.3}
"""Shares of rho. The number of rows is in every denominator; the holdout is a fifth of the rows, so that its counts
stand less noise."""


def released_schedule(schema: Schema, epsilon: float, delta: float | Literal["auto"]) -> Schedule:
    """Everything that the published numbers will draw, calibrated to epsilon. No row is read."""
    if not schema.learned:
        raise BudgetError(
            "released_numbers.epsilon pays for numbers about columns that are learned, and the schema has none; leave "
            "epsilon out"
        )
    return calibrate(_plan(schema), epsilon, resolve_delta(delta, schema))


def predicts(schema: Schema) -> bool:
    """True where an accuracy can be published: the schema gives the target classes. No row is looked at: whether a
    number takes two values only would be an answer about the real table.
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


def release_numbers(
    sides: Split, synthetic: pd.DataFrame, schema: Schema, budget: Budget, progress: Progress = quiet
) -> tuple[Released, ...]:
    """The published numbers about a synthetic table. Draws on the budget come in the order of the schedule. `sides`:
    *Sensitive*. Of the source table.

    Distances are to the whole source table, whichever side a row is on; the accuracy is on the holdout. A row's side is
    a keyed hash of its unit, so that no other unit moves it. The number of rows is drawn first, and distances are taken
    at its noisy value; neither their noise nor a unit's effect depends on that value. So the schedule's account holds
    as for independent draws.
    """
    yardstick = Yardstick.of(synthetic, schema)
    train, holdout = (bounded(side, yardstick) for side in (sides.train, sides.holdout))
    both = pd.concat([train, holdout], ignore_index=True)
    rows = _rows(len(both), schema, budget)
    columns = _columns(both, yardstick, rows, budget)
    progress("releasing numbers", 0.3)
    pairs = _pairs(both, yardstick, rows, budget)
    progress("releasing numbers", 0.7)
    return (rows, *columns, *pairs, *_accuracy(holdout, yardstick, budget))


def _rows(n_rows: int, schema: Schema, budget: Budget) -> Released:
    paid = Paid.of(budget.schedule, ROWS)
    if schema.n_units is None:
        raise BudgetError("numbers are published under a declared schema, and n_units is missing; declare it")
    (noisy,) = _drawn(budget, np.array([n_rows]), paid.event)
    return rows_of(noisy, schema.n_units * schema.max_rows_per_unit, paid)


def _columns(both: pd.DataFrame, yardstick: Yardstick, rows: Released, budget: Budget) -> list[Released]:
    """The distance of every column, then their mean, which costs nothing more."""
    paid = Paid.of(budget.schedule, COLUMNS)
    synthetic, drawn, released = yardstick.column_counts(yardstick.synthetic), [], []
    for name, c, s in zip(yardstick.columns.columns, yardstick.column_counts(both), synthetic, strict=True):
        drawn += _drawn(budget, np.array([half_rows([c], [s], int(rows.value))]), paid.event)
        chance = chance_distance([s], rows.value)
        released.append(distance_of(COLUMN, (drawn[-1],), rows, paid, chance, (name,)))
    chance = chance_distance(synthetic, rows.value)
    return [distance_of(COLUMN_MEAN, tuple(drawn), rows, paid, chance), *released]


def _pairs(both: pd.DataFrame, yardstick: Yardstick, rows: Released, budget: Budget) -> list[Released]:
    paid = Paid.find(budget.schedule, PAIRS)
    if paid is None:
        return []
    synthetic = yardstick.pair_counts(yardstick.synthetic)
    exact = half_rows(yardstick.pair_counts(both), synthetic, int(rows.value))
    noisy = _drawn(budget, np.array([exact]), paid.event)
    return [distance_of(PAIR_MEAN, tuple(noisy), rows, paid, chance_distance(synthetic, rows.value))]


def _accuracy(holdout: pd.DataFrame, yardstick: Yardstick, budget: Budget) -> list[Released]:
    paid = Paid.find(budget.schedule, ACCURACY)
    exact = None if paid is None else right_and_wrong(holdout, yardstick)
    if paid is None or exact is None:
        return []
    right, wrong = _drawn(budget, exact, paid.event)
    found = accuracy_of(right, wrong, paid)
    return [] if found is None else [found]


def _drawn(budget: Budget, exact: np.ndarray, event: GaussianEvent) -> list[int]:
    return [int(number) for number in budget.release(exact, event)]
