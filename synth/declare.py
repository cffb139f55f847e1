"""From a proposed schema to a declared one, and what the user thereby asserts to be public."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from synth.constraints import Constraint, FixedCombinations, Formula, Steps, Unique
from synth.errors import SchemaError, nearest
from synth.schema import Schema
from synth.schema.kinds.base import NOT_READ_OFF
from synth.schema.residual_schema import modeled_in
from synth.validation import sentence

_ROLES = {
    "sensitive": "are the columns that attackers want to learn",
    "quasi_identifiers": "are the columns that attackers may know of a person",
    "parties": "are the columns that different parties hold of the same people",
    "missing_values": "are texts that stand for a missing value",
}
"""What is said of columns beside their domains, in words; it goes into the bundle to hand on with the schema."""


def declare_schema(
    schema: Schema,
    *,
    n_units: int | None = None,
    dataset: str | None = None,
    measure: Collection[str] = (),
    measure_spikes: Collection[str] = (),
    order: str | None = None,
    nondecreasing: Collection[str] = (),
) -> Schema:
    """The schema, declared: whoever calls this asserts all that `assertions` lists. A declared one stays declared.

    Args:
        schema: inferred, and looked through by a person.
        n_units: slots for units of privacy, a public number of at least the units there are; `None` keeps the schema's.
        dataset: name under which a ledger keeps the budget of the table; `None` keeps the schema's.
        measure: columns whose bounds or categories are no public knowledge. What the schema says of them is dropped,
            since it may have been read off the table, and a private fit measures them. One that the schema already
            says to measure stays as it is, with the outer limits that somebody gave it. Proposed constraints that
            list values of such a column, or compute it, are dropped with them, and so is a proposal to model it; all
            others are asserted.
        measure_spikes: columns of numbers whose frequent values are no public knowledge. Those that the schema lists
            are dropped, and a private fit measures them.
        order: column by which rows of an entity follow each other; `None` keeps the schema's.
        nondecreasing: numbers and times that never fall along it, in place of the schema's; empty keeps the schema's
            own, where the order stays the same.

    Raises:
        SchemaError: free text is kept, `n_units` is no whole number above zero, or a column cannot be measured;
            nothing was declared.

    >>> from synth.schema import build_schema
    >>> proposed = build_schema({"status": "inferred", "columns": {"age": {"kind": "integer", "bounds": [0, 120]}}})
    >>> declare_schema(proposed, n_units=1000).status
    'declared'
    """
    if not isinstance(schema, Schema):
        raise SchemaError(f"schema is a {type(schema).__name__}; pass what synth.infer_schema gives of the table")
    schema.refuse_text()
    content: dict[str, Any] = {**dict(schema), "status": "declared"}
    if n_units is not None:
        if isinstance(n_units, bool) or not isinstance(n_units, int):
            raise SchemaError(f"n_units={n_units!r} must be a whole number above zero; give the number of slots")
        content["n_units"] = n_units
    if dataset is not None:
        content["dataset"] = dataset
    if order is not None and order != schema.order:
        content |= {"order": order, "nondecreasing_in_entity": ()}
    if nondecreasing:
        content["nondecreasing_in_entity"] = tuple(nondecreasing)
    columns = {**schema.columns, **{name: _to_measure(schema, name) for name in measure}}
    columns |= {name: _to_measure_spikes(schema, columns, name) for name in measure_spikes}
    content["columns"] = {name: _as_modeled(schema, columns, name, content) for name in columns}
    # Proposals are asserted, without those that name values of what is measured.
    content["constraints"] = tuple(
        constraint.model_copy(update={"proposed": None})
        for constraint in schema.constraints
        if constraint.proposed is None or {*measure}.isdisjoint(_named(constraint))
    )
    try:
        return Schema.model_validate(content)
    except ValidationError as error:
        raise SchemaError(sentence(error, Schema)) from None


def _as_modeled(schema: Schema, columns: Mapping[str, Any], name: str, content: Mapping[str, Any]) -> Any:
    """The column as it is modeled, a proposal no longer such; without one that what is declared rules out."""
    column, modeled = columns[name], schema.columns[name].modeled
    if modeled is None or modeled.proposed is None:
        return column
    ordering = name in (content["order"], *content["nondecreasing_in_entity"])
    measured = isinstance(column, Mapping)  # its domain, or its spikes
    if ordering or measured or any(isinstance(columns.get(each), Mapping) for each in modeled.listed):
        return {**dict(column), "modeled": None}
    return column.model_copy(update={"modeled": modeled.model_copy(update={"proposed": None})})


def measurable(schema: Schema) -> tuple[str, ...]:
    """Names of the columns that `declare_schema` can mark to be measured, in order.

    Not among them: columns that a formula computes, or of which combinations name the values, unless `infer` proposed
    these: measuring a column takes such a proposal out.

    >>> from synth.schema import build_schema
    >>> columns = {"age": {"kind": "integer", "bounds": [17, 90]}, "ill": {"kind": "boolean"}}
    >>> measurable(build_schema({"status": "inferred", "columns": columns}))
    ('age',)
    """
    named = {name for each in schema.constraints if each.proposed is None for name in _named(each)}
    for name, modeled in modeled_in(schema).items():
        named |= {name, *modeled.listed} if modeled.proposed is None else set()
    return tuple(name for name in schema.learned if schema.columns[name].domain is not None and name not in named)


def _named(constraint: Constraint) -> tuple[str, ...]:
    """The columns whose values a constraint names, or computes."""
    if isinstance(constraint, FixedCombinations):
        return constraint.columns
    return (constraint.column,) if isinstance(constraint, Formula | Steps) else ()


def _to_measure(schema: Schema, name: str) -> Any:
    """The column without what was read off a table; one that is measured already as it is."""
    column = _kept(schema, name, "measure")
    if column.domain is None:
        raise SchemaError(f"measure={name!r} is of kind {column.kind}, which has nothing to measure; do not name it")
    return column.to_measure()


def _to_measure_spikes(schema: Schema, columns: Mapping[str, Any], name: str) -> dict[str, Any]:
    column = _kept(schema, name, "measure_spikes")
    if not column.is_number:
        raise SchemaError(
            f"measure_spikes={name!r} is of kind {column.kind}; frequent values are measured of integer, real and "
            "weight columns"
        )
    return {**dict(columns[name]), "spikes": (), "measure_spikes": True}


def _kept(schema: Schema, name: str, argument: str) -> Any:
    if name not in schema.columns:
        raise SchemaError(f"{argument}={name!r} is not a column; {nearest(name, schema.columns)}")
    if schema.columns[name].drop:
        raise SchemaError(
            f"{argument}={name!r} is dropped, and nothing of it is learned; keep the column, or do not name it"
        )
    return schema.columns[name]


def assertions(schema: Schema) -> list[tuple[str, str]]:
    """Assertions of a declared schema: (column, sentence) in order, then ("table", sentence).

    >>> from synth.schema import build_schema
    >>> schema = build_schema({"status": "inferred", "columns": {"age": {"kind": "integer", "bounds": [17, 90]}}})
    >>> print(assertions(schema)[0][1])
    every value is a whole number from 17 to 90, never missing, and these limits are public knowledge, not read off \
this table
    """
    told = [(name, column.asserted()) for name, column in schema.columns.items()]
    return told + [("table", text) for text in _of_table(schema)]


def unconfirmed(proposed: Schema, declared: Schema) -> list[tuple[str | None, str]]:
    """Limits that a declaration asserts though they may have been read off a table."""
    if proposed.status == "declared":
        return []
    warnings: list[tuple[str | None, str]] = [
        (name, f"{limit} may have been read off the table: {told}")
        for name, column in declared.columns.items()
        if not (column.drop or column.is_measured)
        for limit, told in column.read_off()
    ]
    if declared.entity is not None:
        keys = ("constant_in_entity", "order", "nondecreasing_in_entity")
        values = {key: getattr(declared, key) for key in keys if getattr(declared, key)}
        taken = [key for key, value in values.items() if key == keys[0] or value == getattr(proposed, key)]
        warnings += [(None, f"{key} may have been read off the table") for key in ("max_rows_per_unit", *taken)]
    warnings += [
        (name, "how it is modeled may have been read off the table: its limits and pairs may be one unit's own")
        for name, modeled in modeled_in(proposed).items()
        if modeled.proposed is not None and name in modeled_in(declared)
    ]
    kept = set(map(str, declared.constraints))
    for constraint in proposed.constraints:
        if constraint.proposed is not None and str(constraint) in kept:
            rarest = "; the rarest may be one unit's own" if isinstance(constraint, FixedCombinations) else ""
            text = f"`infer` proposed from the table that {constraint}, and nobody has confirmed that{rarest}"
            warnings.append((None, text))
    return warnings


def _of_unit(schema: Schema) -> Iterator[str]:
    if schema.entity is None:
        yield "the unit of privacy is the row: what a private fit protects is any one of them as a whole"
        yield "no person or other unit has more than one row; otherwise an entity column must be named"
    else:
        yield (
            f"the unit of privacy is the entity (column={schema.entity!r}): what a private fit protects is any one of "
            "them as a whole"
        )
        yield (
            f"a private fit uses at most max_rows_per_unit={schema.max_rows_per_unit} rows of each entity, a number "
            "chosen without looking at this table"
        )
    if schema.constant_in_entity:
        yield (
            f"all rows of an entity hold the same value in constant_in_entity={list(schema.constant_in_entity)}, and "
            f"this is {NOT_READ_OFF}"
        )
    if schema.order is not None:
        yield f"rows of an entity follow each other by order={schema.order!r}, and this is {NOT_READ_OFF}"
    if schema.nondecreasing_in_entity:
        yield (
            f"within an entity nondecreasing_in_entity={list(schema.nondecreasing_in_entity)} never fall along the "
            f"order, and this is {NOT_READ_OFF}"
        )


def _of_table(schema: Schema) -> Iterator[str]:
    yield from _of_unit(schema)
    if schema.n_units is None:
        yield "n_units is not declared: private fits will refuse until it is (a public number of units)"
    else:
        yield f"there are at most n_units={schema.n_units} units, and this number is {NOT_READ_OFF}"
    if schema.dataset is not None:
        yield (
            f"dataset={schema.dataset!r} names this table, its versions, extracts and splits in every ledger: all of "
            "them draw on one budget"
        )
    if schema.target is not None:
        yield f"target={schema.target!r} is what a model of this table would predict, and that is no secret"
    for role, words in _ROLES.items():
        if named := [each for each in getattr(schema, role) if each]:
            yield f"{role}={named} {words}, and that is no secret"
    yield "the names, the order, the kinds and the dtypes of the columns are public knowledge"
    for constraint in schema.constraints:
        where = "" if isinstance(constraint, Unique) else "in every row "
        is_computed = isinstance(constraint, Formula)
        but = (
            "rounded to its precision and missing where an operand is"
            if is_computed
            else "wherever none of them is missing"
        )
        yield f"{where}{constraint}, {but}, and this is {NOT_READ_OFF}"
