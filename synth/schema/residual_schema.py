"""The schema of what is counted and learned: a column that is `modeled` is there as what is left of its formula.

All of it follows from the declared schema, so that it costs nothing. `synth.domain.relations` brings rows to that
form and back.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from synth.constraints import Formula, Inequality
from synth.constraints.expression import UNITS, limits
from synth.constraints.kinds import check_operands, numbers_of
from synth.schema.kinds import CategoricalColumn, IntegerColumn, RealColumn
from synth.schema.kinds.dates import DAY
from synth.schema.kinds.modeled import Modeled
from synth.validation import refuse

if TYPE_CHECKING:
    from synth.schema.schema import Schema

ALONE, WEEKDAY, CLOCK = "alone", "weekday", "time of day"
"""What is held of a column beside what is left of it, as the end of a name."""
_ANY_WAY = frozenset({(False, False), (False, True), (True, False), (True, True)})
LARGEST = 1e100  # limit of an expression: float64 counts up to it in steps of any precision
MONDAY = 3  # days since the Monday before 1970 began


@dataclass(frozen=True)
class MissingPair:
    """Two columns, and in which ways they may be missing together: of each way, whether the one is, and the other.
    `keys`: values of the other without which the one is never as usual; `None`: it knows no such value.
    """

    columns: tuple[str, str]
    allowed: frozenset[tuple[bool, bool]]
    keys: tuple[Any, ...] | None = None


def beside(schema: "Schema", name: str) -> dict[str, str]:
    """Names of the columns that are counted beside what is left of one, by `ALONE`, `WEEKDAY` and `CLOCK`."""
    column: Any = schema.columns[name]
    wanted = [ALONE] * (column.modeled.alone or bool(column.is_line and column.beside))
    if column.modeled.parts:
        wanted += [WEEKDAY] + [CLOCK] * (column.is_time and not column.is_date and column.micros < DAY)
    return {end: free_name(f"{name}, {end}", schema.columns) for end in wanted}


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with spaces after it where others are called so."""
    while name in taken:
        name += " "
    return name


OF_EXPRESSION = IntegerColumn(bounds=(-(10**15), 10**15))  # what an expression gives that says a category


def usual_word(column: Any) -> str:
    """The category of what is left that stands for what another column says."""
    return free_name("as usual", {*map(str, column.levels)})


def unordered(column: Any) -> Any:
    """The column; an identifier without what it rises with, which the columns beside it may lack."""
    return column.model_copy(update={"rises_with": None, "consecutive": False}) if column.is_identifier else column


def modeled_in(schema: "Schema") -> dict[str, Modeled]:
    """How columns are modeled of which something else than their own value is counted."""
    return {name: c.modeled for name, c in schema.columns.items() if c.modeled is not None and not c.drop}


def counted(schema: "Schema") -> "Schema":
    """The schema with modeled columns replaced, and without those that formulas compute."""
    modeled = modeled_in(schema)
    computed = {each.column for each in schema.constraints if isinstance(each, Formula)}
    columns: dict[str, Any] = {}
    constant = set(schema.constant_in_entity)
    for name, column in schema.columns.items():
        if name not in computed:
            more = _columns_of(schema, name, column) if name in modeled else {name: unordered(column)}
            columns |= more
            constant |= more.keys() if name in constant else set()
    own = columns.keys() & schema.columns.keys() - modeled.keys()
    roles: dict[str, Any] = {
        "target": schema.target if schema.target in columns else None,
        "task": None,
        "quasi_identifiers": (),
        "parties": (),
        "sensitive": tuple(name for name in schema.sensitive if name in columns),
        "constant_in_entity": tuple(name for name in columns if name in constant),
        "constraints": tuple(each for each in schema.constraints if {*each.columns} <= own),
    }
    return (
        type(schema)
        .model_validate({**dict(schema), **roles, "columns": columns})
        .with_missing_pairs(tuple(_missing_pairs(schema)))
    )


def _missing_pairs(schema: "Schema") -> Iterator[MissingPair]:
    """Nothing is left of a column where an operand is missing, nor beside a value alone."""
    for name, modeled in modeled_in(schema).items():
        column = schema.columns[name]
        if modeled.usual:
            if modeled.by is not None and modeled.by not in modeled_in(schema):
                keys = tuple(key for key, _ in modeled.usual)
                yield MissingPair((name, modeled.by), _ANY_WAY, keys)
            continue
        neither = {(True, True)} if column.missing else set()
        if (alone := beside(schema, name).get(ALONE)) is not None:
            yield MissingPair((name, alone), frozenset({(False, True), (True, False), *neither}))
        for each in _often_missing(schema, modeled):
            if each in schema.columns and each not in modeled_in(schema):
                yield MissingPair((name, each), frozenset({(False, False), (True, True), (True, False)}))


def _columns_of(schema: "Schema", name: str, column: Any) -> dict[str, Any]:
    """The columns that are counted in place of one."""
    modeled: Modeled = column.modeled
    left = modeled.column or _left(schema, name, column)
    ends = beside(schema, name)
    missing = column.missing or left.missing or ALONE in ends or bool(_often_missing(schema, modeled))
    columns: dict[str, Any] = {name: left.model_copy(update={"missing": missing})}
    if ALONE in ends:
        columns[ends[ALONE]] = column.model_copy(update={"modeled": None, "missing": True})
    if WEEKDAY in ends:
        columns[ends[WEEKDAY]] = CategoricalColumn(categories=tuple(range(7)), ordered=True, missing=missing)
    if CLOCK in ends:
        columns[ends[CLOCK]] = IntegerColumn(bounds=(0, DAY // column.micros - 1), missing=missing)
    return columns


def _often_missing(schema: "Schema", modeled: Modeled) -> list[str]:
    """Columns, and "before()", that may be missing, so that the expression has no value."""
    return sorted(n for n in modeled.needed if n not in schema.columns or schema.columns[n].missing)


def _left(schema: "Schema", name: str, column: Any) -> Any:
    """The column of what is left, within bounds that follow from those of the columns."""
    modeled: Modeled = column.modeled
    if modeled.usual:
        return CategoricalColumn(categories=(usual_word(column), *map(str, column.levels)))
    ends = np.array(column.span)
    formula = np.zeros(2) if modeled.expression is None else _limits(schema, modeled, column)
    if modeled.parts:
        per_week = UNITS["week"] / column.per_position
        shift = MONDAY / 7
        first, last = np.floor(ends / per_week + shift)
        low, high = (0.0, 0.0) if modeled.expression is None else np.floor(formula / per_week + shift)
        return IntegerColumn(bounds=_at_least(schema, name, int(first - high), int(last - low)))
    if modeled.left == "ratio":
        if formula[0] <= 0:
            raise ValueError(
                f"column={name!r}: a ratio has no bounds where its expression may be zero or negative; give them in "
                "modeled.column"
            )
        corners = [end / f for end in ends for f in formula]
        return RealColumn(bounds=(min(corners), max(corners)))
    unit = column.unit
    low, high = ends[0] - formula[1], ends[1] - formula[0]
    if unit is None:
        return _around_zero(RealColumn(bounds=_at_least(schema, name, low, high)))
    first, last = _at_least(schema, name, math.floor(low / unit + 1e-6), math.ceil(high / unit - 1e-6))
    if column.is_time or column.is_whole:
        return _around_zero(IntegerColumn(bounds=(first, last)))
    bounds = round(first * unit, column.decimals), round(last * unit, column.decimals)
    return _around_zero(RealColumn(bounds=bounds, decimals=column.decimals))


def _around_zero(left: Any) -> Any:
    """What is left of a difference: most of it may be zero, or near."""
    low, high = left.bounds
    return left.model_copy(update={"scale": "log", "spikes": (type(low)(0),) if low <= 0 <= high else ()})


def _at_least(schema: "Schema", name: str, low: Any, high: Any) -> tuple[Any, Any]:
    """Bounds of a difference, the lower one raised where a constraint says that it never falls below zero."""
    expression = modeled_in(schema)[name].expression
    above = (each for each in schema.constraints if isinstance(each, Inequality) and each.high == name)
    if any(expression == each.low for each in above):
        low = max(low, type(low)(0))
    return low, max(low, high)


def _limits(schema: "Schema", modeled: Modeled, column: Any) -> np.ndarray:
    """The limits of the expression as positions of the column, shape (2,)."""
    unit, bounds = UNITS[modeled.unit or "day"], dict[str, tuple[float, float]]()
    for name in modeled.operands:
        operand: Any = schema.columns[name]
        numbers = modeled.added.get(name) or (None if operand.is_line else numbers_of(operand.levels)) or {}
        line = [*numbers.values()] or operand.span
        scale = operand.per_position / unit if operand.is_time else 1.0
        bounds[name] = min(line) * scale, max(line) * scale
    ends: np.ndarray = np.array(limits(modeled.parsed, bounds, modeled.unit))
    if not (np.abs(ends) < LARGEST).all():
        raise ValueError(
            f"modeled.expression={modeled.expression!r} has no bounds, as it divides by what may be zero or overflows; "
            "give those of what is left in modeled.column"
        )
    return ends * unit / column.per_position if column.is_time else ends


def check_modeled(schema: "Schema") -> None:
    """Refuse columns that cannot be held as they are to be."""
    for name in modeled_in(schema):
        try:
            _check(schema, name, schema.columns[name])
        except ValueError as error:
            raise ValueError(f"columns.{name}.modeled: {error}") from None
    _ = schema.worked_out, schema.counted  # which refuse circles, and what has no bounds


def _check(schema: "Schema", name: str, column: Any) -> None:
    modeled: Modeled = column.modeled
    others = {*modeled.operands, *modeled.parents}
    named = [schema.columns.get(each) for each in others]
    if not all(each is not None and each.is_learned and not each.drop for each in named):
        raise ValueError("an operand is no column that is learned; name another")
    computed = {each.column for each in schema.constraints if isinstance(each, Formula)}
    often_missing = _often_missing(schema, modeled) if not (column.missing or modeled.alone) else []
    constant = name not in schema.constant_in_entity or others <= {*schema.constant_in_entity}
    refuse([
        (name in {schema.order, *schema.nondecreasing_in_entity, *computed} or not column.is_learned,
         "the column orders rows, never falls, is computed by a formula, or not learned; leave modeled out"),
        (modeled.proposed is not None and schema.status == "declared",
         "a declared schema holds no proposal; take its key proposed out, or modeled as a whole"),
        (column.is_measured or column.measures_spikes,
         "the column is to be measured, and what is left of it needs its bounds; declare them"),
        (not (modeled.column or modeled.usual) and any(schema.columns[each].is_measured for each in modeled.operands),
         "an operand is to be measured, so that what is left has no bounds yet; give them in modeled.column"),
        (not constant, "the column is constant in an entity, and what gives it is not; leave modeled out"),
        (often_missing, f"{often_missing} may be missing, and the column never is; set alone = true"),
        (modeled.looks_back and schema.entity is not None and schema.order is None,
         "before(...) is of the row before, and the schema names no order; name it"),
        (modeled.parts and not column.is_time, f"parts are of times, not of kind {column.kind}; leave it out"),
    ])  # fmt: skip
    if modeled.operands:
        own = () if modeled.usual else (name,)
        check_operands((*own, *(n for n in modeled.operands if n not in modeled.numbers)), modeled.unit, schema.columns)
    for each, pairs in modeled.numbers.items():
        categories: Any = schema.columns[each]
        is_declared = categories.is_categorical and not categories.is_measured
        if not is_declared or len(pairs) != len(categories.levels) or {*dict(pairs)} != {*categories.levels}:
            raise ValueError(f"numbers must list each category of the declared column {each!r} once; correct it")
    if not modeled.usual:
        return
    by: Any = OF_EXPRESSION if modeled.by is None else schema.columns[modeled.by]
    if not column.is_categorical or not (by.is_categorical or by.is_whole) or by.is_measured:
        raise ValueError("usual says categories of a column by those, or whole numbers, of another; leave it out")
    if not all(by.allows(key) and column.allows(value) for key, value in modeled.usual):
        raise ValueError("usual has a value that its column cannot hold; correct it")


def measured_as(schema: "Schema", of_counted: "Schema") -> "Schema":
    """The schema with the domains that its counted form was measured to have."""
    columns: dict[str, Any] = dict(schema.columns)
    columns |= {name: of_counted.columns[name] for name in schema.learned if name in of_counted.columns}
    modeled = {name: schema.columns[name] for name in modeled_in(schema)}
    whole = schema.model_copy(update={"columns": columns | modeled})
    for name, left in whole.counted.columns.items():
        if name in modeled and left != of_counted.columns[name]:
            remodeled = modeled_in(schema)[name].model_copy(update={"column": of_counted.columns[name]})
            modeled[name] = modeled[name].model_copy(update={"modeled": remodeled})
    return whole.model_copy(update={"columns": columns | modeled})


def in_rows_alone(schema: "Schema") -> "Schema":
    """The schema of rows that are drawn one by one: what looks back at the row before is held as its own value."""
    looking = [name for name, modeled in modeled_in(schema).items() if modeled.looks_back]
    alone = {name: schema.columns[name].model_copy(update={"modeled": None}) for name in looking}
    return schema.model_copy(update={"columns": {**schema.columns, **alone}}) if alone else schema
