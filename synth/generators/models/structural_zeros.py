"""Structural zeros: combinations of codes that no row which keeps the constraints can have.

Held at zero in the model, they spare it the mass that noise would put there, and sampling the rows that would be
rejected. They come from public things alone: the constraints, and codes that were released. A model on a junction tree
takes those that it has room for.

Codes tell no more: a code covers several cells, and a pair of codes stays open where any values within it keep the
constraint. Formulas, constraints on formula columns, inequalities on other computed columns, and tables of more than
`MOST_CELLS` cells have no zeros; rejection alone serves them. Combinations of computed columns are those of the columns
that determine these.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from synth.constraints import FixedCombinations, Inequality, combinations_of_held
from synth.constraints.kinds import Value
from synth.domain import Discretizer, numeric_scale
from synth.domain.constraint_checks import canonical, compares_days, on_one_line
from synth.domain.discretizer import MISSING, OTHER, Attribute
from synth.marginals.factor import Factor
from synth.marginals.junction_tree import cells_with_one_more
from synth.schema import Schema

MOST_CELLS = 1_000_000
"""Cells of one factor at most."""


def affordable(zeros: Iterable[Factor], domain: Mapping[str, int], max_cells: float) -> tuple[Factor, ...]:
    """The structural zeros that add at most `max_cells` cells to a model of lone attributes, first come first served.

    Args:
        zeros: factors that are ``-inf`` where the distribution is zero, 0 elsewhere.
        domain: number of codes of each attribute.
        max_cells: cells that the junction tree may have beyond one for each code.
    """
    held: list[Factor] = []
    alone = sum(domain.values())
    for zero in zeros:
        cells = cells_with_one_more(domain, [factor.attributes for factor in held])
        if cells(zero.attributes) <= max_cells + alone:
            held.append(zero)
    return tuple(held)


def structural_zeros(schema: Schema, discretizer: Discretizer) -> tuple[Factor, ...]:
    """One factor for each constraint that rules codes out: ``-inf`` where no values can keep it, 0 elsewhere.

    A code that a synthetic value may not have is ruled out as well. A constraint that rules out nothing, or everything
    (so that no distribution would be left), has no factor.

    Args:
        schema: names the constraints; nothing in it is left to measure.
        discretizer: the codes, as they were released.
    """
    attributes = {attribute.name: attribute for attribute in discretizer.attributes}
    equivalents = schema.equivalents
    factors = []
    for constraint in schema.constraints:
        if not isinstance(constraint, Inequality | FixedCombinations):
            continue
        names, listed = constraint.columns, set[tuple[Value, ...]]()
        if isinstance(constraint, FixedCombinations):
            names, listed = combinations_of_held(constraint, equivalents)
        if not attributes.keys() >= {*names}:
            continue
        of = [attributes[name] for name in names]
        if math.prod(attribute.size for attribute in of) > MOST_CELLS:
            continue
        open_codes = _ordered(constraint, of[0], of[1]) if isinstance(constraint, Inequality) else _listed(listed, of)
        open_codes &= _possible(of)
        if open_codes.any() and not open_codes.all():
            factors.append(Factor(names, np.where(open_codes, 0.0, -np.inf)))
    return tuple(factors)


def _ordered(constraint: Inequality, low: Attribute, high: Attribute) -> np.ndarray:
    """Pairs of codes in which some value of the one is below (or at) some value of the other, or one is missing."""
    by_day = compares_days(constraint, {low.name: low.column, high.name: high.column})
    least, greatest = _extent(low, by_day=by_day)[0][:, None], _extent(high, by_day=by_day)[1][None, :]
    open_codes = least < greatest if constraint.strict else least <= greatest
    return _with_missing(np.asarray(open_codes))


def _extent(attribute: Attribute, *, by_day: bool) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of every code on the line of comparisons; shape (size,) both.

    Codes without cells of the line (`other`, `missing`) have the empty extent (inf, -inf).
    """
    edges, column = attribute.line
    unit = numeric_scale.step(column)
    first, last = edges[:-1], np.nextafter(edges[1:], -np.inf)
    if unit is not None:
        # As `numeric_scale.draw` finds the values within a cell.
        first = np.ceil(numeric_scale.ratio(first, unit))
        last = np.maximum(first, np.ceil(numeric_scale.ratio(edges[1:], unit)) - 1)
    least, greatest = np.full(attribute.size, np.inf), np.full(attribute.size, -np.inf)
    np.minimum.at(least, attribute.group[:OTHER], _places(first, column, by_day=by_day))
    np.maximum.at(greatest, attribute.group[:OTHER], _places(last, column, by_day=by_day))
    return least, greatest


def _places(drawn: np.ndarray, column: Any, *, by_day: bool) -> np.ndarray:
    """Where values that `numeric_scale.draw` may give come to lie on the line of comparisons, rounded as values are."""
    if numeric_scale.step(column) is not None:
        drawn = np.clip(drawn, -numeric_scale.LARGEST, numeric_scale.LARGEST).astype(np.int64)
    values = numeric_scale.values(drawn, column, np.zeros(len(drawn), dtype=bool))
    return on_one_line(numeric_scale.positions(values, column), column, by_day=by_day)


def _listed(combinations: Collection[tuple[Value, ...]], of: list[Attribute]) -> np.ndarray:
    """Tuples of codes that hold one of the combinations, or in which one is missing."""
    open_codes = np.zeros([attribute.size for attribute in of], dtype=bool)
    if combinations:
        values = zip(*combinations, strict=True)
        open_codes[tuple(a.codes(canonical(listed, a.column)) for a, listed in zip(of, values, strict=True))] = True
    return _with_missing(open_codes)


def _with_missing(open_codes: np.ndarray) -> np.ndarray:
    """The codes with those opened in which any column is missing: every constraint holds there."""
    for axis in range(open_codes.ndim):
        np.moveaxis(open_codes, axis, 0)[MISSING] = True
    return open_codes


def _possible(of: list[Attribute]) -> np.ndarray:
    """Tuples of codes that a synthetic row can have at all."""
    possible = np.ones([attribute.size for attribute in of], dtype=bool)
    for axis, attribute in enumerate(of):
        np.moveaxis(possible, axis, 0)[attribute.impossible] = False
    return possible
