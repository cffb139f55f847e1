"""A schema proposed from a table. Everything in it is read off the data, so nothing in it may be assumed public."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from synth.constraints import Formula, Inequality
from synth.constraints.expression import dates
from synth.constraints.kinds import operands_of
from synth.errors import SchemaError, TableError
from synth.infer.facts import ColumnFacts, Role, facts_of
from synth.infer.histories import HistoryProposal, propose_histories
from synth.infer.kinds import (
    NUMBERS,
    as_kind,
    check_kinds,
    is_long_list,
    missing_texts_of,
    numbers_beside,
    propose,
    repeats,
    texts_of_mixed,
    without,
)
from synth.infer.look import RawColumn, look
from synth.infer.parts import split_columns
from synth.infer.personal import constant_in, settle_locales
from synth.infer.relations import Relations, add_modeled, find
from synth.infer.rising import with_order
from synth.schema import Schema
from synth.schema.kinds import Column, TextColumn
from synth.table import conform
from synth.table.table import Table
from synth.validation import sentence

__all__ = ["infer_schema"]


def infer_schema(  # noqa: PLR0913 - each is a choice of its own, and most calls make none
    source: Any,
    *,
    target: str | None = None,
    entity: str | None = None,
    order: str | None = None,
    propose_entity: bool = True,
    propose_order: bool = True,
    constraints: bool = True,
    missing_values: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
) -> Schema:
    """A proposed schema that the table conforms to: look it through, then `declare` it.

    Bounds are the least and greatest values, categories all values there are. Free text is proposed to be dropped. A
    column that names patients or the like, several rows each, is proposed as the entity. So are the order of its rows,
    and what is constant or never falls in it, where the table shows these. `n_units` is never proposed.

    Args:
        source: *Sensitive*. A frame of pandas, polars, Arrow, DuckDB, Ibis, Spark or Dask, a dict of columns, the path
            of a file or a folder, or the address of a table in a database; all rows are read into memory. Where every
            column is text, as from a CSV file, numbers and dates are looked for in it; beside typed columns, text is
            taken to be meant as text, unless it holds numbers and words such as ``NA``.
        target: column that a model would predict.
        entity: column that names the unit of privacy.
        order: column by which the rows of an entity follow each other.
        propose_entity: whether to look for one where none is named. False: every row is a unit of its own.
        propose_order: whether to look for one where none is named. False: rows of an entity do not follow each other.
        constraints: whether to propose those that all rows keep, too, each with what speaks for it.
        missing_values: texts that stand for a missing value in every column, beside those that are found.
        kinds: the kind of a column, by its name, for columns that are not to be guessed.

    Raises:
        TableError: a column mixes types, holds infinite values or categories with a NUL, or has no usable name. The
            target does not vary, or most rows of an entity have the same value of the order. Nothing was proposed.
        SchemaError: the target, the entity or the order is not a column that can be one, or a column is not of the kind
            that was chosen for it. Nothing was proposed.

    >>> infer_schema(pd.DataFrame({"code": ["007", "012", "007"]})).columns["code"].categories
    ('007', '012')
    """
    frame = Table.of(source).frame()
    if len(frame) == 0:
        raise TableError("a table without rows says nothing of its columns; give it at least one")
    kinds = dict(kinds or {})
    check_kinds(kinds, list(frame.columns), entity)
    roles: dict[str, Role] = {name: "target" for name in (target,) if name is not None}
    roles |= {name: "entity" for name in (entity,) if name is not None}
    looked = {name: look(frame[name]) for name in frame.columns}
    mixed = {name: texts for name, given in looked.items() if (texts := texts_of_mixed(given)) is not None}
    if mixed:
        frame = frame.assign(**mixed)
        looked |= {name: look(frame[name]) for name in mixed}
    tokens = _missing_texts(looked, missing_values, kinds, roles)
    frame, parts = split_columns(frame, looked, tokens, {*kinds, *roles, *((order,) if order else ())})
    looked |= {name: look(frame[name]) for name in parts}
    looked = {name: looked[name] for name in frame.columns}
    facts = _all_facts(frame, looked, tokens, kinds, roles, parts)
    if target in facts and facts[target].n_distinct < 2:
        raise TableError(f"column={target!r} is the target and has one value at most; choose a target that varies")
    columns = settle_locales({name: _column(about, kinds.get(name)) for name, about in facts.items()})
    columns |= {name: columns[name].model_copy(update={"part": part}) for name, part in parts.items()}
    if entity is None and propose_entity:
        entity = _entity(columns, facts, order)
    if order in facts:
        columns[order] = _ordering(columns[order], facts[order], kinds)
    content: dict[str, Any] = {"status": "inferred", "target": target, "entity": entity, "order": order}
    content["missing_values"] = tokens
    content["columns"] = _settled(columns, facts, entity, kinds)
    content["constant_in_entity"] = constant_in(columns, facts, entity)
    if entity in facts:
        content["max_rows_per_unit"] = _rows_per_unit(facts[entity])
    try:
        schema = Schema.model_validate(content)
        looks = order is not None or propose_order
        return _with_proposals(frame, schema, facts, kinds, histories=looks, constraints=constraints)
    except ValidationError as error:
        raise SchemaError(sentence(error, Schema)) from None


def _with_proposals(
    frame: pd.DataFrame,
    schema: Schema,
    facts: Mapping[str, ColumnFacts],
    kinds: Collection[str],
    *,
    histories: bool,
    constraints: bool,
) -> Schema:
    """The schema with the histories and the constraints that its rows show."""
    counted = {name: as_kind(facts[name], "integer") for name in _countable(schema, facts, kinds)}
    if not (constraints or (histories and schema.entity is not None)):
        return schema
    rows = conform(frame, _with_columns(schema, counted), part=True)
    schema = _with_columns(schema, with_order(schema, rows, facts))
    proposal = HistoryProposal()
    if histories and schema.entity is not None:
        names = [name for name in schema.columns if name not in counted and _may_count(schema, name, facts, kinds)]
        counters = {name: as_kind(facts[name], "integer") for name in names}
        counts = _numbers(frame[names], counters, schema.missing_values)
        numbers = _with_columns(schema, counted | counters)
        proposal = propose_histories(rows.assign(**counts), numbers, order=schema.order, counters=counters)
        found_to_count = [name for name in (proposal.order, *proposal.nondecreasing) if name in counters]
        counted |= {name: counters[name] for name in found_to_count}
        rows = rows.assign(**{name: counts[name] for name in found_to_count})
    amounts = {*proposal.nondecreasing, *(name for name in (proposal.order,) if name is not None)}
    constant = [name for name in schema.columns if name in {*schema.constant_in_entity, *proposal.constant}]
    relations = Relations()
    if constraints:
        histories_too = {"order": proposal.order, "constant_in_entity": tuple(constant)}
        histories_too |= {"nondecreasing_in_entity": proposal.nondecreasing}
        relations = find(rows, _with_columns(schema, counted).model_copy(update=histories_too))
        # What is compared or computed with is an amount, however few values it has; a part of a date need not be.
        amounts |= {name for rule in relations.constraints if isinstance(rule, Inequality) for name in rule.columns}
        for rule in (each for each in relations.constraints if isinstance(each, Formula)):
            amounts |= {*rule.columns} - {name for day in dates(rule.parsed) for name in operands_of(day)}
        amounts |= {name for column, each in relations.modeled.items() for name in (column, *each.operands)}
    settled = {name: counted[name] if name in amounts else schema.columns[name] for name in counted}
    content: dict[str, Any] = {**dict(schema), "columns": {**schema.columns, **settled}}
    content["constraints"] = relations.constraints
    content |= {"order": proposal.order, "constant_in_entity": tuple(constant)}
    made = add_modeled(Schema.model_validate(content), relations.modeled)
    # A column that a formula or another column gives is computed, and follows whatever that does.
    growing = tuple(name for name in proposal.nondecreasing if name in made.modeled and not made.columns[name].modeled)
    return Schema.model_validate({**dict(made), "nondecreasing_in_entity": growing})


def _with_columns(schema: Schema, columns: Mapping[str, Column]) -> Schema:
    return schema.model_copy(update={"columns": {**schema.columns, **columns}})


def _numbers(frame: pd.DataFrame, columns: Mapping[str, Column], missing: tuple[str, ...]) -> dict[str, pd.Series]:
    """Canonical whole numbers of columns that the schema holds as something else."""
    if not columns:
        return {}
    schema = Schema(status="inferred", missing_values=missing, columns=dict(columns))
    return {str(name): series for name, series in conform(frame, schema, part=True).items()}


def _column(about: ColumnFacts, kind: str | None) -> Column:
    return propose(about) if kind is None or about.role == "entity" else as_kind(about, kind)


def _missing_texts(
    looked: Mapping[str, RawColumn], said: Sequence[str], kinds: Mapping[str, str], roles: Collection[str]
) -> tuple[str, ...]:
    if isinstance(said, str):
        raise SchemaError(f"missing_values={said!r} must be a list of texts; write [{said!r}]")
    readable = {name for name in looked if kinds.get(name) in (None, *NUMBERS, "date", "datetime")}
    return missing_texts_of(looked, said, readable, roles)


def _all_facts(
    frame: pd.DataFrame,
    looked: Mapping[str, RawColumn],
    tokens: Collection[str],
    kinds: Mapping[str, str],
    roles: Mapping[str, Role],
    parts: Collection[str],
) -> dict[str, ColumnFacts]:
    all_text = all(given.form == "text" for given in looked.values())
    made = {}
    for name, given in looked.items():
        in_text = kinds.get(name) in NUMBERS or name in parts or (name not in kinds and numbers_beside(given, tokens))
        known = without(given, tokens) if given.form == "text" else look(frame[name], frozenset({"", *tokens}))
        role = roles.get(name)
        made[name] = facts_of(name, frame[name], known, all_text=all_text, numbers_in_text=in_text, role=role)
    return made


def _countable(schema: Schema, facts: Mapping[str, ColumnFacts], kinds: Collection[str]) -> list[str]:
    """Names of the columns whose few levels may be counts: whole numbers in order, more than no and yes."""
    return [
        name
        for name, column in schema.columns.items()
        if column.is_ordered
        and facts[name].n_distinct > 2
        and column.holds_whole_numbers
        and not (name in kinds or facts[name].categories_declared or name == schema.target)
    ]


def _is_count(column: Column, about: ColumnFacts, kinds: Collection[str]) -> bool:
    """True if whole numbers that were taken for categories or identifiers may number the rows of an entity."""
    if about.name in kinds or about.categories_declared:
        return False
    if column.is_identifier:
        return column.bounds is not None and not about.unique
    return column.is_categorical and column.holds_whole_numbers


def _ordering(column: Column, about: ColumnFacts, kinds: Collection[str]) -> Column:
    """The column that somebody named as the order: whole numbers are amounts then."""
    if _is_count(column, about, kinds):
        return as_kind(about, "integer")
    if column.is_identifier and not about.unique:
        raise SchemaError(
            f"order={about.name!r} has no values that follow each other: it is an identifier that names several rows, "
            "as an entity does; name a date, a time or a number"
        )
    return column


def _may_count(schema: Schema, name: str, facts: Mapping[str, ColumnFacts], kinds: Collection[str]) -> bool:
    """True if a column may turn out to number the rows of each entity, though it is no amount otherwise."""
    taken = name in (schema.entity, schema.target)
    return not taken and facts[name].n_distinct > 2 and _is_count(schema.columns[name], facts[name], kinds)


def _entity(columns: dict[str, Column], facts: dict[str, ColumnFacts], order: str | None) -> str | None:
    """The first identifier that repeats itself and is never missing."""
    for name, column in columns.items():
        repeats = column.is_identifier and not facts[name].unique
        if repeats and not column.drop and not column.missing and name != order:
            return name
    return None


def _settled(
    columns: dict[str, Column], facts: dict[str, ColumnFacts], entity: str | None, kinds: Collection[str]
) -> dict[str, Column]:
    """The columns; what repeats itself beside the entity is a code that several entities share, or left out."""
    settled = dict(columns)
    owners = facts[entity].codes if entity in facts else None
    for name, column in columns.items():
        about = facts[name]
        if column.is_identifier and not about.unique and name != entity:
            is_code = owners is not None and name not in kinds and repeats(about, owners)
            left_out = column.model_copy(update={"drop": True})
            settled[name] = as_kind(about, "categorical") if is_code else left_out
        elif is_long_list(column, about) and owners is not None and name not in kinds and not repeats(about, owners):
            settled[name] = TextColumn(drop=True, missing=column.missing, dtype=column.dtype)  # another name of it
    return settled


def _rows_per_unit(about: ColumnFacts) -> int:
    """Enough for 19 of 20 entities, at most 10: more rows of an entity cost a private fit more noise."""
    sizes = np.unique(about.codes[about.codes >= 0], return_counts=True)[1]
    return int(np.clip(np.quantile(sizes, 0.95, method="higher"), 1, 10))
