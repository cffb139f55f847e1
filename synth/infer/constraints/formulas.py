"""Columns of numbers that others give: their sum, difference, product or quotient, or a multiple.

Candidates are found on a few rows, where every pair of columns is tried for every third, and kept where all rows agree.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from synth.columns import IntegerColumn, RealColumn
from synth.constraints import Formula
from synth.constraints.expression import written
from synth.constraints.kinds import in_order
from synth.domain import numeric_scale
from synth.domain.constraint_checks import broken
from synth.infer.constraints.evidence import ENOUGH
from synth.schema import Schema

MOST_COLUMNS = 60
"""Numeric columns beyond these are not looked at: their triples are too many."""
ROWS, ROWS_EACH = 200, 8
"""Rows of the first look: spread evenly, and of the largest magnitudes of each column."""
LEAST_VALUES = 5
"""Distinct values of each column."""
DIGITS = 4
"""Significant digits of the factor of a multiple."""
_REASON = "gives the column in every row"


@dataclass(frozen=True)
class _Numbers:
    """Columns of numbers: all rows, shape (n_columns, n), and which of them to look at first.

    `enough` is how many rows must say something: those in which a result differs from zero and from its operands.
    """

    names: tuple[str, ...]
    all: np.ndarray
    first: np.ndarray
    slack: np.ndarray
    enough: float


def formulas(table: pd.DataFrame, schema: Schema, n_units: int) -> list[Formula]:
    """The formulas, at most one for each column and one for every three columns; none of them computes the target.

    Args:
        table: *Sensitive*. Conforming to the schema.
        schema: names the columns; survey weights take no part.
        n_units: rows, or entities where rows have one.
    """
    numbers = _numbers(table, schema, n_units)
    if numbers is None:
        return []
    found: list[Formula] = []
    used: set[frozenset[str]] = set()
    for formula in itertools.chain(_multiples(numbers), _results(numbers)):
        about = frozenset(formula.columns)
        new = about not in used and formula.column != schema.target
        if new and _fits(found, formula) and not broken(table, formula, schema.columns).any():
            used.add(about)
            found.append(formula)
    return found


def _fits(found: list[Formula], formula: Formula) -> bool:
    """Whether the formula computes a column of its own, and from none that is a multiple of another or needs it."""
    computed = {known.column for known in found}
    copies = {known.column for known in found if len(known.operands) == 1}
    if formula.column in computed or not copies.isdisjoint(formula.operands):
        return False
    try:
        in_order([*found, formula])
    except ValueError:
        return False
    return True


def _numbers(table: pd.DataFrame, schema: Schema, n_units: int) -> _Numbers | None:
    positions = {}
    for name in schema.learned:
        column = schema.columns[name]
        if isinstance(column, IntegerColumn | RealColumn):
            values = numeric_scale.positions(table[name], column)
            if len(np.unique(values[~np.isnan(values)])) >= LEAST_VALUES:
                positions[name] = values
    names = tuple(positions)[:MOST_COLUMNS]
    if len(names) < 2:
        return None
    of_all = np.stack([positions[name] for name in names])
    steps = [numeric_scale.step(schema.columns[name]) or 0.0 for name in names]  # type: ignore[arg-type]
    enough = ENOUGH * len(table) / n_units
    return _Numbers(names, of_all, of_all[:, _first_rows(of_all)], np.array(steps)[:, None] / 2, enough)


def _first_rows(numbers: np.ndarray) -> np.ndarray:
    spread = np.linspace(0, numbers.shape[1] - 1, ROWS).astype(np.int64)
    # Columns are mostly zero at times, and zeros fit many formulas.
    largest = np.argsort(-np.nan_to_num(np.abs(numbers)), axis=1)[:, :ROWS_EACH]
    return np.unique(np.concatenate([spread, largest.ravel()]))


def _results(numbers: _Numbers) -> Iterator[Formula]:
    """Formulas of two operands that hold in the first rows, the plainest first."""
    order = range(len(numbers.names))
    for symbol, operation, pairs in (
        ("+", np.add, itertools.combinations), ("*", np.multiply, itertools.combinations),
        ("-", np.subtract, itertools.permutations), ("/", np.divide, itertools.permutations),
    ):  # fmt: skip
        for one, other in pairs(order, 2):
            with np.errstate(all="ignore"):
                made = operation(numbers.first[one], numbers.first[other])
            for given in _matches(numbers, made):
                if given not in (one, other) and _apart(numbers, given, one, other):
                    left, right = (written(numbers.names[operand]) for operand in (one, other))
                    yield _formula(numbers.names[given], f"{left} {symbol} {right}")


def _multiples(numbers: _Numbers) -> Iterator[Formula]:
    """Columns that are another one, or a plain multiple of it, in the first rows."""
    for one, given in itertools.combinations(range(len(numbers.names)), 2):
        values, results = numbers.first[one], numbers.first[given]
        largest = int(np.argmax(np.nan_to_num(np.abs(values))))
        with np.errstate(all="ignore"):
            factor = float(f"{results[largest] / values[largest]:.{DIGITS}g}")
        plain = np.isfinite(factor) and factor and np.count_nonzero(numbers.all[given]) >= numbers.enough
        if plain and given in _matches(numbers, factor * values):
            name = written(numbers.names[one])
            yield _formula(numbers.names[given], name if factor == 1 else f"{factor:.12g} * {name}")


def _matches(numbers: _Numbers, made: np.ndarray) -> np.ndarray:
    """Which columns the results may be, up to their precision, missing where they are."""
    with np.errstate(all="ignore"):
        made = np.where(np.isfinite(made), made, np.nan)
        # Beside columns of tiny numbers, the tolerance of a formula holds for anything.
        scale = np.minimum(1.0, np.nanmax(np.abs(numbers.first), axis=1, keepdims=True))
        near = np.abs(numbers.first - made) <= 1.001 * numbers.slack + 1e-8 * np.maximum(scale, np.abs(made))
    return np.flatnonzero((near | (np.isnan(numbers.first) & np.isnan(made))).all(axis=1))


def _apart(numbers: _Numbers, given: int, one: int, other: int) -> bool:
    """Whether the column is often enough neither zero nor one of its operands."""
    values = numbers.all[given]
    with np.errstate(invalid="ignore"):
        return all(
            int(np.count_nonzero(values != against)) >= numbers.enough
            for against in (np.zeros(1), numbers.all[one], numbers.all[other])
        )


def _formula(column: str, expression: str) -> Formula:
    return Formula(column=column, expression=expression, proposed=_REASON)
