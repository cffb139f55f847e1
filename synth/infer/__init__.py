"""A schema proposed from a table. Everything in it is read off the data, so nothing in it may be assumed public."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from synth.columns import CategoricalColumn, Column, IdentifierColumn
from synth.errors import SchemaError, TableError
from synth.infer.constraints import propose_constraints
from synth.infer.facts import Facts, Role, facts_of
from synth.infer.kinds import propose
from synth.infer.personal import constant_in, settle_locales
from synth.schema import Schema
from synth.table import conform
from synth.table.conforming import names_at_fault
from synth.table.given import look
from synth.validation import sentence

__all__ = ["infer_schema"]


def infer_schema(
    frame: pd.DataFrame,
    *,
    target: str | None = None,
    entity: str | None = None,
    propose_entity: bool = True,
    constraints: bool = False,
    missing_values: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
) -> Schema:
    """A proposed schema that the table conforms to: look it through, then `declare` it.

    Bounds are the least and greatest values, categories all values there are. Free text is proposed to be dropped. A
    column that names patients or the like, several rows each, is proposed as the entity. `n_units` is never proposed.

    Args:
        frame: *Sensitive*. As `read_table` or a notebook gives it. Where every column is text, as from a CSV file,
            numbers and dates are looked for in it; beside typed columns, text is taken to be meant as text.
        target: column that a model would predict.
        entity: column that names the unit of privacy.
        propose_entity: whether to look for one where none is named. False: every row is a unit of its own.
        constraints: whether to propose those that all rows keep, too, each with what speaks for it.
        missing_values: a STUB, for tables of text alone.
        kinds: a STUB, for categorical alone.

    Raises:
        TableError: a column mixes types, holds infinite values or categories with a NUL, or has no usable name, or the
            target does not vary; nothing was proposed.
        SchemaError: the target or the entity is not a column that can be one; nothing was proposed.

    >>> infer_schema(pd.DataFrame({"code": ["007", "012", "007"]})).columns["code"].categories
    ('007', '012')
    """
    for violation in names_at_fault(frame):
        raise TableError(str(violation))
    if len(frame) == 0:
        raise TableError("a table without rows says nothing of its columns; give it at least one")
    frame = frame.mask(frame.isin(list(missing_values)))
    facts = _all_facts(frame, target, entity)
    if target in facts and facts[target].n_distinct < 2:
        raise TableError(f"column={target!r} is the target and has one value at most; choose a target that varies")
    columns = settle_locales({name: propose(about) for name, about in facts.items()})
    for name in kinds or {}:
        texts = tuple(sorted(map(str, facts[name].present)))
        columns[name] = CategoricalColumn(categories=texts, missing=facts[name].missing)
    if entity is None and propose_entity:
        entity = _entity(columns, facts)
    content: dict[str, Any] = {"status": "inferred", "target": target, "entity": entity}
    content["missing_values"] = tuple(dict.fromkeys(("", *missing_values)))
    content["columns"] = _settled(columns, facts, entity)
    content["constant_in_entity"] = constant_in(columns, facts, entity)
    if entity in facts:
        content["max_rows_per_unit"] = _rows_per_unit(facts[entity])
    try:
        schema = Schema.model_validate(content)
        if constraints:
            found = propose_constraints(conform(frame, schema, part=True), schema)
            schema = Schema.model_validate({**dict(schema), "constraints": found})
        return schema
    except ValidationError as error:
        raise SchemaError(sentence(error, Schema)) from None


def _all_facts(frame: pd.DataFrame, target: str | None, entity: str | None) -> dict[str, Facts]:
    looked = {str(name): look(frame[name]) for name in frame.columns}
    all_text = all(given.form == "text" for given in looked.values())
    made = {}
    for name, given in looked.items():
        role: Role = "target" if name == target else "entity" if name == entity else None
        made[name] = facts_of(name, frame[name], given, from_text=all_text, role=role)
    return made


def _entity(columns: dict[str, Column], facts: dict[str, Facts]) -> str | None:
    """The first identifier that repeats itself and is never missing."""
    for name, column in columns.items():
        repeats = isinstance(column, IdentifierColumn) and not facts[name].unique
        if repeats and not column.drop and not column.missing:
            return name
    return None


def _settled(columns: dict[str, Column], facts: dict[str, Facts], entity: str | None) -> dict[str, Column]:
    """The columns, with every identifier dropped that repeats itself and is not the entity."""
    settled = {}
    for name, column in columns.items():
        stray = isinstance(column, IdentifierColumn) and not facts[name].unique and name != entity
        settled[name] = column.model_copy(update={"drop": True}) if stray else column
    return settled


def _rows_per_unit(about: Facts) -> int:
    """Enough for 19 of 20 entities, at most 10: more rows of an entity cost a private fit more noise."""
    sizes = np.unique(about.codes[about.codes >= 0], return_counts=True)[1]
    return int(np.clip(np.quantile(sizes, 0.95, method="higher"), 1, 10))
