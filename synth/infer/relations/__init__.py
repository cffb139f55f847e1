"""What holds between the columns of a table, found by data alone: one search.

Laws, which every row keeps though many rows of shuffled columns would not, are proposed as constraints. Beside them each
column is modeled by the representation that is easiest to predict: its value, what is left of an expression of other
columns, its gap, its parts. All of it is read off the data; a person asserts it or takes it out.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from synth.constraints import Constraint, Formula
from synth.constraints.expression import parse
from synth.constraints.kinds import operands_of
from synth.domain.constraint_checks import broken
from synth.infer.facts import facts_of
from synth.infer.look import look
from synth.infer.numeric import integer, real
from synth.infer.relations.candidates import LEAST_EXACT
from synth.infer.relations.choice import Choice, Representation, left_over
from synth.infer.relations.coding import split
from synth.infer.relations.combinations import combinations, keys, usual_categories
from synth.infer.relations.evidence import percent
from synth.infer.relations.lines import Lines, tolerance
from synth.infer.relations.orders import find_orders
from synth.schema import Schema
from synth.schema.kinds import IntegerColumn
from synth.schema.kinds.modeled import Modeled

__all__ = ["Relation", "Relations", "find", "left_of"]

LEAST_UNITS = 100  # in fewer rows (or entities, whose rows are alike) nothing is told from chance
OPERANDS_OF_TARGET = 3  # at least, of a sum or a product that computes the column that models predict


@dataclass(frozen=True)
class Relation:
    """An expression that gives a column exactly, in that share of the rows that have both."""

    column: str
    expression: str
    unit: str | None
    share: float


@dataclass(frozen=True)
class Relations:
    """What holds between columns: laws, what columns are modeled as, and all exact expressions, strongest first."""

    constraints: tuple[Constraint, ...] = ()
    modeled: Mapping[str, Modeled] = field(default_factory=dict)
    exact: tuple[Relation, ...] = ()


def find(frame: pd.DataFrame, schema: Schema, *, laws: bool = True) -> Relations:
    """What holds between the columns of a table. `frame`: *Sensitive*. Conforming to the schema.

    Args:
        laws: propose constraints, too; else what they would say is modeled.

    >>> rows = pd.DataFrame({"low": range(0, 2000, 10), "more": [i * i % 83 for i in range(200)]})
    >>> rows["high"] = rows["low"] + rows["more"]
    >>> from synth.infer import infer_schema
    >>> [str(law) for law in find(rows, infer_schema(rows, target="low")).constraints]
    ["'high' is low + more"]
    """
    lines = Lines.of(frame, schema)
    if lines.n_all_units < LEAST_UNITS:
        return Relations()
    computed = set(schema.learned) - set(schema.modeled)
    fixed = {name for name in (schema.order, *computed) if name is not None}
    choice = Choice(lines, fixed, {} if schema.target is None else {schema.target: OPERANDS_OF_TARGET})
    exact = [(each, share) for each in choice.exact() if (share := _share(each, lines)) >= LEAST_EXACT]
    formulas = [formula for each, _ in exact if laws and (formula := _law(frame, each, schema)) is not None]
    computed |= {formula.column for formula in formulas}
    # What never falls in an entity is drawn as such, unless it is computed.
    growing = set(schema.nondecreasing_in_entity) - computed
    exact = [each for each in exact if each[0].column not in growing]
    copies = {formula.column for formula in formulas if len(formula.operands) == 1 and not formula.unit}
    free = [name for name in schema.learned if name not in computed]
    listed = combinations(frame, schema, free, lines.units) if laws else []
    in_lists = {name for rule in listed for name in rule.columns}
    implied = {
        pair
        for each, _ in exact
        for other in each.candidate.operands
        for pair in ((each.column, other), (other, each.column))
    }
    orders = find_orders(lines, [name for name in schema.learned if name not in copies], implied)
    orders = [order for order in orders if not any({order.low, order.high} <= {*rule.columns} for rule in listed)]
    rest = choice.modeled(
        [each for each, _ in exact], {(order.low, order.high) for order in orders}, in_lists | growing
    )
    modeled = {each.column: _modeled(each, lines) for each, _ in exact if each.column not in computed}
    modeled |= {each.column: _modeled(each, lines) for each in rest}
    modeled |= usual_categories(frame, schema, [name for name in free if name not in modeled], lines.units, listed)
    constraints: tuple[Constraint, ...] = ()
    if laws:
        ordered = [order.inequality() for order in orders if order.is_law]
        constraints = (*formulas, *ordered, *listed, *keys(frame, schema, free))
    strongest = sorted(exact, key=lambda each: -each[1])
    relations = (Relation(e.column, e.candidate.expression, e.candidate.unit, share) for e, share in strongest)
    return Relations(constraints, modeled, tuple(relations))


def left_of(frame: pd.DataFrame, relation: Relation, schema: Schema) -> np.ndarray:
    """What is left of a relation's expression in each row: 0 exactly where it gives the value, NaN where it cannot.
    `frame`: conforming to the schema; *Sensitive* where it is real. Of times in seconds.
    """
    lines = Lines.of(frame, schema, among={relation.column, *operands_of(parse(relation.expression))})
    values = lines.evaluate(relation.expression, relation.unit, relation.column)
    return left_over(lines.positions[relation.column], values, lines.step(relation.column))


def _share(each: Representation, lines: Lines) -> float:
    """The share of all rows that an expression gives exactly."""
    values, own = (
        lines.evaluate(each.candidate.expression, each.candidate.unit, each.column),
        lines.positions[each.column],
    )
    both = np.isfinite(values) & np.isfinite(own)
    return (
        float((np.abs(own - values)[both] <= tolerance(own, lines.step(each.column))[both]).mean())
        if both.any()
        else 0.0
    )


def _law(frame: pd.DataFrame, each: Representation, schema: Schema) -> Formula | None:
    """The formula, if all rows keep it."""
    formula = Formula(
        column=each.column, expression=each.candidate.expression, unit=each.candidate.unit,
        proposed="gives the column in every row",
    )  # fmt: skip
    return None if formula.looks_back or broken(frame, formula, schema.columns).any() else formula


def _modeled(each: Representation, lines: Lines) -> Modeled:
    """A representation, with the schema of what is left in all rows."""
    name, candidate = each.column, each.candidate
    own, step, column = lines.positions[name], lines.step(name), lines.column(name)
    if candidate is None:
        return Modeled(parts=True, proposed=f"saves {each.gain:.1f} bits a row")
    values = lines.evaluate(candidate.expression, candidate.unit, name)
    left = left_over(own, values, step, candidate.is_ratio)
    if each.parts:
        left = split(own, values)[0]
    elif column.is_time:
        left = np.rint(left / step)
    known = left[np.isfinite(left)]
    if each.alone or not known.any():
        kind: Any = IntegerColumn(bounds=(0, 0), missing=True)
    else:
        kind = _number(known, None if candidate.is_ratio else column)
    lonely = each.alone or bool(np.any(np.isfinite(own) & ~np.isfinite(left)))
    share = f"gives the column in {percent(each.share)} of the rows that have both"
    return Modeled(
        expression=candidate.expression, unit=candidate.unit, left="ratio" if candidate.is_ratio else "difference",
        column=kind, alone=lonely, parts=each.parts,
        proposed=share if each.share >= LEAST_EXACT or each.alone else f"saves {each.gain:.1f} bits a row",
    )  # fmt: skip


def _number(values: np.ndarray, column: Any) -> Any:
    """The column of what is left, as numbers of a table are proposed. `column`: the one it is left of; None: a ratio."""
    if column is not None and not column.is_time and column.unit is not None and not column.is_whole:
        values = np.round(values, column.decimals)
    whole = column is not None and (column.is_time or column.is_whole)
    series = pd.Series(values.astype(np.int64) if whole else values)
    about = facts_of("left", series, look(series), all_text=False, numbers_in_text=False, role=None)
    made = integer(about, series.to_numpy()) if whole else real(about, series.to_numpy())
    return made.model_copy(update={"dtype": None})
