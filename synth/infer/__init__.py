"""A schema proposed from a table. Everything in it is read off the data, so nothing in it may be assumed public.

Cells, texts, codes and counts that functions of this package take are *Sensitive*.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from synth import extras
from synth.constraints import Formula, Inequality
from synth.constraints.expression import dates
from synth.constraints.kinds import operands_of
from synth.errors import SchemaError, TableError
from synth.infer import numeric
from synth.infer.amounts import split_columns
from synth.infer.facts import ColumnFacts, Role, facts_of, look
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
)
from synth.infer.personal import constant_in, names_owner, settle_locales
from synth.infer.relations import add_modeled, find
from synth.schema import Schema
from synth.schema.kinds import Column, TextColumn
from synth.schema.kinds.modeled import Modeled
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
    named: tuple[tuple[str | None, Role], ...] = ((target, "target"), (entity, "entity"))
    roles = {name: role for name, role in named if name is not None}
    looked = {name: look(frame[name]) for name in frame.columns}
    mixed = {name: texts for name, cells in looked.items() if (texts := texts_of_mixed(cells)) is not None}
    if mixed:
        frame = frame.assign(**mixed)
        looked |= {name: look(frame[name]) for name in mixed}
    readable = {name for name in looked if kinds.get(name) in (None, *NUMBERS, "date", "datetime")}
    tokens = missing_texts_of(looked, missing_values, readable, roles)
    frame, parts = split_columns(frame, looked, tokens, {*kinds, *roles, order})
    looked = {name: look(frame[name]) if name in parts else looked[name] for name in frame.columns}
    all_text = all(cells.form == "text" for cells in looked.values())
    facts, columns = dict[str, ColumnFacts](), dict[str, Column]()
    for name, cells in looked.items():
        kind, role = kinds.get(name), roles.get(name)
        in_text = kind in NUMBERS or name in parts or (kind is None and numbers_beside(cells, tokens))
        known = cells.without(tokens) if cells.form == "text" else look(frame[name], frozenset({"", *tokens}))
        about = facts_of(name, frame[name], known, from_text=all_text or in_text, all_text=all_text, role=role)
        facts[name], columns[name] = about, propose(about, kind)
    columns = settle_locales(columns)
    columns |= {name: columns[name].model_copy(update={"part": part}) for name, part in parts.items()}
    if entity is None and propose_entity:
        chosen = {order, *(name for name, kind in kinds.items() if kind == "personal")}
        entity = _entity({name: column for name, column in columns.items() if name not in chosen}, facts)
        if entity is not None and columns[entity].is_personal:
            columns[entity] = as_kind(facts[entity], "identifier")
    if order in facts:
        columns[order] = _ordering(columns[order], facts[order], kinds)
    content: dict[str, Any] = {"status": "inferred", "target": target, "entity": entity, "order": order}
    content["missing_values"] = tokens
    content["columns"] = _settled(columns, facts, entity, kinds)
    content["constant_in_entity"] = constant_in(columns, facts, entity)
    if entity in facts:
        # Enough for 19 of 20 entities, at most 10: more rows of an entity cost a private fit more noise.
        sizes = np.unique(facts[entity].codes, return_counts=True)[1]
        content["max_rows_per_unit"] = int(np.clip(np.quantile(sizes, 0.95, method="higher"), 1, 10))
    try:
        schema = Schema.model_validate(content)
        histories = schema.entity is not None and (order is not None or propose_order)
        if histories or constraints:
            schema = _with_proposals(frame, schema, facts, kinds, histories=histories, constraints=constraints)
    except ValidationError as error:
        raise SchemaError(sentence(error, Schema)) from None
    return schema


def _with_proposals(
    frame: pd.DataFrame,
    schema: Schema,
    facts: Mapping[str, ColumnFacts],
    kinds: Collection[str],
    *,
    histories: bool,
    constraints: bool,
) -> Schema:
    """The schema with what rises with other columns, the order and what holds in an entity, and constraints."""
    # Few levels in order may be counts, and other whole numbers may number the rows of each entity.
    counters = {
        name: as_kind(facts[name], "integer")
        for name, column in schema.columns.items()
        if name not in (schema.entity, schema.target)
        and facts[name].n_distinct > 2
        and _is_count(column, facts[name], kinds)
    }
    rows = conform(frame, _with_columns(schema, counters), part=True)
    schema = _with_columns(schema, _rising(schema, rows, facts))
    counted = {name: column for name, column in counters.items() if schema.columns[name].is_ordered}
    counters = {name: column for name, column in counters.items() if name not in counted}
    order, constants, growing = schema.order, tuple[str, ...](), tuple[str, ...]()
    for propose_histories in extras.load("proposal").values() if histories else ():
        numbers = _with_columns(schema, counted | counters)
        order, constants, growing = propose_histories(rows, numbers, order, counters)
    amounts = {order, *growing}
    counted |= {name: column for name, column in counters.items() if name in amounts}
    constant = tuple(name for name in schema.columns if name in {*schema.constant_in_entity, *constants})
    content: dict[str, Any] = {"order": order, "constant_in_entity": constant}
    modeled: Mapping[str, Modeled] = {}
    if constraints:
        told = content | {"nondecreasing_in_entity": growing}
        numbers = _with_columns(schema, counted).model_copy(update=told)
        content["constraints"], modeled = find(rows[list(numbers.kept)], numbers)
        # What is compared or computed with is an amount, however few values it has; a part of a date need not be.
        for rule in content["constraints"]:
            if isinstance(rule, Inequality):
                amounts |= {*rule.columns}
            elif isinstance(rule, Formula):
                amounts |= {*rule.columns} - {name for day in dates(rule.parsed) for name in operands_of(day)}
        amounts |= {name for column, each in modeled.items() for name in (column, *each.operands)}
    columns = {name: column for name, column in counted.items() if name in amounts}
    schema = Schema.model_validate({**dict(_with_columns(schema, columns)), **content})
    schema = add_modeled(schema, modeled)
    # A column that a formula or another column gives is computed, and follows whatever that does.
    growing = tuple(name for name in growing if name in schema.modeled and not schema.columns[name].modeled)
    return Schema.model_validate({**dict(schema), "nondecreasing_in_entity": growing})


def _with_columns(schema: Schema, columns: Mapping[str, Column]) -> Schema:
    return schema.model_copy(update={"columns": {**schema.columns, **columns}})


def _entity(columns: Mapping[str, Column], facts: Mapping[str, ColumnFacts]) -> str | None:
    """The first identifier that repeats itself and is never missing, else such a number of a person."""
    again = [name for name, column in columns.items() if not (facts[name].unique or column.missing)]
    identifiers = [name for name in again if columns[name].is_identifier and not columns[name].drop]
    return next(iter(identifiers + [name for name in again if names_owner(columns[name], facts[name])]), None)


def _is_count(column: Column, about: ColumnFacts, kinds: Collection[str]) -> bool:
    """True if whole numbers that were taken for categories or identifiers may number the rows of an entity."""
    if about.name in kinds or about.categories_declared or not column.holds_whole_numbers:
        return False
    return column.is_categorical or not about.unique


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


def _settled(
    columns: dict[str, Column], facts: dict[str, ColumnFacts], entity: str | None, kinds: Collection[str]
) -> dict[str, Column]:
    """The columns; what repeats itself beside the entity is a code that several entities share, or left out."""
    settled = dict(columns)
    owners = facts[entity].codes if entity in facts else None
    for name, column in columns.items():
        about = facts[name]
        may_be_code = owners is not None and name not in kinds
        if column.is_identifier and not about.unique and name != entity:
            is_code = may_be_code and repeats(about, owners)
            settled[name] = as_kind(about, "categorical") if is_code else column.model_copy(update={"drop": True})
        elif may_be_code and is_long_list(column, about) and not repeats(about, owners):
            settled[name] = TextColumn(drop=True, missing=column.missing, dtype=column.dtype)  # another name of it
    return settled


LEAST_ROWS, LEAST_RISES = 20, 5  # identifiers, and rises or rows of each value, that say something
BROKEN, ALMOST = 0.005, 0.99
"""Share of neighbors that may fall, and the rank correlation that says the same of many values."""
MOST_COLUMNS = 4  # that one identifier rises with: year, month, day and hour


def _rising(schema: Schema, rows: pd.DataFrame, facts: Mapping[str, ColumnFacts]) -> dict[str, Column]:
    """The kept identifiers of a schema that rise with other columns or with the rows, saying so."""
    keys = {
        name: column.order_keys(rows[name])
        for name, column in schema.columns.items()
        if name in rows and (column.is_line or column.is_ordered) and not column.is_weight
    }
    rising: dict[str, Column] = {}
    for name, column in schema.columns.items():
        about = facts[name]
        if column.is_whole and not column.has_own_texts and about.unique and not about.missing and about.named_counter:
            column = numeric.identifier(about, rows[name].to_numpy(dtype=np.int64))
        if not column.is_identifier or column.drop or name not in rows:
            continue
        present = rows[name].notna().to_numpy()
        values, first, owner = np.unique(rows[name][present].to_numpy(), return_index=True, return_inverse=True)
        if len(values) < LEAST_ROWS:
            continue
        least = {other: np.full(len(values), np.inf) for other in keys if other != name}
        for other, earliest in least.items():
            np.fmin.at(earliest, owner, keys[other][present])
            earliest[np.isinf(earliest)] = np.nan
        names = _columns_risen_with(least)
        if names or _follows(first.astype(float), np.zeros(len(first))):
            consecutive = column.bounds is not None and values[-1] - values[0] == len(values) - 1 and about.unique
            rising[name] = column.model_copy(update={"rises_with": names, "consecutive": bool(consecutive)})
    return rising


def _columns_risen_with(keys: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Columns that never fall from one identifier to the next, within equal values of those before; ids ascend."""
    names: list[str] = []
    groups = np.zeros(len(next(iter(keys.values()), ())), dtype=np.int64)
    while len(names) < MOST_COLUMNS:
        codes = {
            name: np.unique(np.nan_to_num(values, nan=-np.inf), return_inverse=True)[1]
            for name, values in keys.items()
            if name not in names and _follows(values, groups)
        }
        if not codes:
            break
        names.append(max(codes, key=lambda name: codes[name].max()))
        groups = np.unique(groups * len(groups) + codes[names[-1]], return_inverse=True)[1]
    return tuple(names)


def _follows(values: np.ndarray, groups: np.ndarray) -> bool:
    """True if values do not fall along the rows, where their group stays the same."""
    step = np.diff(values)[np.diff(groups) == 0]
    step = step[~np.isnan(step)]
    rises, falls = int((step > 0).sum()), int((step < 0).sum())
    if len(step) < LEAST_ROWS / 2 or rises == 0:
        return False
    known = ~np.isnan(values)
    if falls <= BROKEN * (rises + falls):  # a few values may be in order by chance
        return bool(rises >= LEAST_RISES or np.unique(values[known], return_counts=True)[1].min() >= LEAST_RISES)
    whole = groups.max() == 0 and known.mean() > 1 - BROKEN
    ranks = pd.Series(values[known]).rank().to_numpy()
    return bool(whole and np.corrcoef(ranks, np.arange(len(ranks)))[0, 1] >= ALMOST)
