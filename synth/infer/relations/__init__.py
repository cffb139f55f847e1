"""What holds between the columns of a table, found by data alone: one search.

Laws, which every row keeps though many rows of shuffled columns would not, are proposed as constraints. Beside them
each column is modeled by the representation that is easiest to predict: its value, what is left of an expression of
other columns, its gap, its parts. All of it is read off the data; a person asserts it or takes it out.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from synth.constraints import Constraint, FixedCombinations, Formula
from synth.constraints.expression import Unit, parse, written
from synth.constraints.kinds import operands_of
from synth.domain.relations import broken, usual_category
from synth.infer.facts import facts_of, look
from synth.infer.numeric import integer, real
from synth.infer.relations.choice import Choice, Modeling, Representation, left_in, left_over, split
from synth.infer.relations.formulas import LEAST_EXACT
from synth.infer.relations.line_columns import Lines
from synth.infer.relations.orders_and_keys import find_combinations, find_keys, find_orders, percent, usual_categories
from synth.schema import Schema
from synth.schema.kinds import IntegerColumn
from synth.schema.kinds.modeled import Modeled

__all__ = ["Relation", "find", "find_exact", "left_of"]

LEAST_UNITS = 100  # in fewer rows (or entities, whose rows are alike) nothing is told from chance


def find(
    frame: pd.DataFrame, schema: Schema, *, laws: bool = True, given: Collection[str] = ()
) -> tuple[tuple[Constraint, ...], dict[str, Modeled]]:
    """The laws that hold between the columns of a table, and what columns are modeled as.
    `frame`: *Sensitive*. Conforming to the schema. Without `laws`, what these would say is modeled. `given`: columns
    that rows will be drawn given, of which none is computed. Categories that these tell are modeled: new ones may come.

    >>> rows = pd.DataFrame({"low": range(0, 2000, 10), "more": [i * i % 83 for i in range(200)]})
    >>> rows["high"] = rows["low"] + rows["more"]
    >>> from synth.infer import infer_schema
    >>> [str(law) for law in find(rows, infer_schema(rows, constraints=False))[0]]
    ["'high' is low + more"]
    """
    lines = Lines(frame, schema)
    if lines.n_all_units < LEAST_UNITS:
        return (), {}
    computed = set(schema.learned) - set(schema.modeled)
    choice = Choice(lines, {schema.order, *computed, *given})
    formulas = [law for each in choice.exact.values() if laws and (law := _law(frame, each, schema)) is not None]
    computed |= {formula.column for formula in formulas}
    copies = {formula.column for formula in formulas if len(formula.operands) == 1 and not formula.unit}
    implied = {
        pair for law in formulas for operand in law.operands for pair in ((law.column, operand), (operand, law.column))
    }
    free = [name for name in schema.learned if name not in computed]
    listed = [rule for rule in schema.constraints if isinstance(rule, FixedCombinations)]
    listed += find_combinations(frame, schema, free, lines.units) if laws and not given else []
    orders = [
        (order, is_law)
        for order, is_law in find_orders(lines, [name for name in schema.learned if name not in copies], implied)
        if not any({order.low, order.high} <= {*rule.columns} for rule in listed)
    ]
    exact = {name: each for name, each in choice.exact.items() if name not in computed}
    # What never falls in an entity is drawn as such, unless `infer` has it computed; what is listed is held so.
    apart = {*schema.nondecreasing_in_entity, *(name for rule in listed for name in rule.columns)} - computed
    rest = Modeling(choice, {(order.low, order.high) for order, _ in orders}, apart).find()
    relations = [*(each for name, each in exact.items() if laws or name not in schema.nondecreasing_in_entity), *rest]
    modeled = {each.column: _modeled(each, lines) for each in relations}
    modeled |= usual_categories(frame, lines, [name for name in free if name not in modeled], listed, given)
    if not laws:
        return (), modeled
    ordered = [order for order, is_law in orders if is_law]
    return (*formulas, *ordered, *listed, *(() if given else find_keys(frame, schema, free))), modeled


def with_modeled(frame: pd.DataFrame, schema: Schema, n: int) -> Schema:
    """The schema with what its columns are modeled as in these rows, which are some of so many; no laws are added.
    `frame`: *Sensitive*. Conforming to the schema.
    """
    modeled = find(frame, schema, laws=False)[1]
    if len(frame) < n:  # other rows may have what these have not
        modeled = {
            name: each.model_copy(update={"alone": each.expression is not None and not each.usual})
            for name, each in modeled.items()
        }
    # What is read off rows is no public knowledge, which a later fit with epsilon would take a declared schema for.
    return add_modeled(schema.model_copy(update={"status": "inferred"}), modeled) if modeled else schema


def add_modeled(schema: Schema, modeled: Mapping[str, Modeled]) -> Schema:
    """The schema with what columns are modeled as, one by one; what it refuses beside the rest is left out."""
    for name, each in modeled.items():
        column = schema.columns[name].model_copy(update={"modeled": each})
        try:
            schema = Schema.model_validate({**dict(schema), "columns": {**schema.columns, name: column}})
        except ValidationError:
            continue
    return schema


@dataclass(frozen=True)
class Relation:
    """An expression that gives a column exactly, in that share of the rows that have both; or what says a category."""

    column: str
    expression: str
    unit: Unit | None
    share: float
    usual: Modeled | None = None


def find_exact(frame: pd.DataFrame, schema: Schema) -> tuple[Relation, ...]:
    """The expressions that give a column exactly in nearly all rows, the strongest first; then what says a category.
    `frame`: *Sensitive*. Conforming to the schema.
    """
    lines = Lines(frame, schema)
    if lines.n_all_units < LEAST_UNITS:
        return ()
    choice = Choice(lines, {schema.order})
    relations = [
        Relation(name, each.candidate.expression, each.candidate.unit, choice.share(each))
        for name, each in choice.exact.items()
    ]
    listed = [rule for rule in schema.constraints if isinstance(rule, FixedCombinations)]
    categories = usual_categories(frame, lines, schema.modeled, listed)
    usual = [Relation(n, e.expression or written(str(e.by)), e.unit, 1.0, e) for n, e in categories.items()]
    return (*sorted(relations, key=lambda each: -each.share), *usual)


def left_of(frame: pd.DataFrame, relation: Relation, schema: Schema) -> np.ndarray:
    """What is left of a relation's expression in each row: 0 exactly where it gives the value, NaN where it cannot.
    `frame`: conforming to the schema; *Sensitive* where it is real. Of times in seconds, of categories 1 if another.
    """
    if relation.usual is not None:
        usual, says_none = usual_category(frame, relation.column, relation.usual, schema)
        own = frame[relation.column].reset_index(drop=True)
        differs = (own != usual).fillna(value=True).to_numpy(dtype=float)
        return np.where(says_none | own.isna().to_numpy(), np.nan, differs)
    lines = Lines(frame, schema, among={relation.column, *operands_of(parse(relation.expression))})
    return left_in(lines, relation.column, relation.expression, relation.unit)


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
    values = np.zeros(len(own))
    if candidate.terms:
        values = lines.evaluate(candidate.expression, candidate.unit, name, numbers=candidate.numbers)
    left = left_over(own, values, step, ratio=candidate.is_ratio)
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
    # Missing as nobody has seen it yet.
    lonely |= not column.missing and any(lines.column(other).missing for other in candidate.operands)
    share = f"gives the column in {percent(each.share)} of the rows that have both"
    return Modeled(
        expression=candidate.expression or None, unit=candidate.unit,
        numbers={column: tuple(numbers.items()) for column, numbers in candidate.numbers.items()},
        left="ratio" if candidate.is_ratio else "difference", column=kind, alone=lonely, parts=each.parts,
        proposed=share if each.share >= LEAST_EXACT or each.alone else f"saves {each.gain:.1f} bits a row",
    )  # fmt: skip


def _number(values: np.ndarray, column: Any) -> Any:
    """What is left, as numbers of a table are proposed. `column`: of which it is a difference; `None`: a ratio."""
    if column is not None and not column.is_time and column.unit is not None and not column.is_whole:
        values = np.round(values, column.decimals)
    whole = column is not None and (column.is_time or column.is_whole)
    series = pd.Series(values.astype(np.int64) if whole else values)
    about = facts_of("left", series, look(series))
    proposed = integer(about, series.to_numpy()) if whole else real(about, series.to_numpy())
    return proposed.model_copy(update={"dtype": None})
