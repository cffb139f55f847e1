"""Post-processing of drawn columns into a table: identifiers, personal data, entities, the order of columns."""

from typing import Any

import numpy as np
import pandas as pd

from synth import identifiers, personal
from synth.chunks import Part
from synth.columns import IdentifierColumn, PersonalColumn
from synth.errors import JobError
from synth.generators.models.entities import deal, entity_of_rows, group_rows
from synth.schema import Schema
from synth.table import present


def rows_wanted(n_rows: int | None, default_rows: int) -> int:
    """How many rows to make.

    Raises:
        JobError: fewer than one was asked for; nothing was drawn.
    """
    wanted = default_rows if n_rows is None else n_rows
    if wanted < 1:
        raise JobError(f"a synthetic table has at least one row: rows={wanted}; ask for more")
    return wanted


def add_unlearned(
    learned: pd.DataFrame,
    schema: Schema,
    entity_shares: tuple[float, ...] | None,
    rng: np.random.Generator,
    part: Part | None = None,
) -> pd.DataFrame:
    """The table with its identifiers and its personal data, made anew, and all columns in the schema's order.

    Where columns are constant within an entity, or a key holds the entity, rows change places, and nothing else of
    them changes.

    Args:
        learned: canonical columns that a generator made.
        schema: names the columns to be made anew and the entity.
        entity_shares: share of entities with 1, 2, ..., k rows; none: one row each.
        rng: source of the draw.
        part: of the table that the rows are for, no other part of which has their entities; none: there is no other.

    Raises:
        JobError: an entity may have more rows than the part; there is no table.
        ModelError: rows cannot be dealt to entities so that a key holds; there is no table.
        SchemaError: there are too few identifiers or personal values that do not repeat; there is no table.
    """
    part = Part.whole(len(learned), rng) if part is None else part
    owner = None
    if schema.entity is not None and entity_shares is not None:
        shares = np.array(entity_shares)
        if len(shares) > part.n_rows and not part.is_whole:
            raise JobError(
                f"all rows of an entity are in one file, and it may have {len(shares)}: rows_a_file={part.n_rows} is "
                "too few; write more rows a file"
            )
        constant = [name for name in schema.constant_in_entity if name in schema.learned]
        if constant:
            order, owner = group_rows(learned[constant], shares, rng)
            learned = learned.take(order).set_axis(pd.RangeIndex(len(learned)))
        else:
            owner = entity_of_rows(shares, len(learned), rng)
        dealt = deal(learned, owner, schema, rng)
        if dealt is not owner:
            order = np.argsort(dealt, kind="stable")
            learned, owner = learned.take(order).set_axis(pd.RangeIndex(len(learned))), dealt[order]
    columns: dict[str, Any] = {}
    for name in schema.kept:
        column = schema.columns[name]
        if not isinstance(column, IdentifierColumn | PersonalColumn):
            columns[name] = learned[name]
        elif owner is not None and (name == schema.entity or name in schema.constant_in_entity):
            columns[name] = _made(name, column, int(owner.max()) + 1, rng, part)[owner]
        else:
            columns[name] = _made(name, column, len(learned), rng, part)
    return pd.DataFrame(columns, index=pd.RangeIndex(len(learned)), copy=False)


def _made(
    name: str, column: IdentifierColumn | PersonalColumn, n: int, rng: np.random.Generator, part: Part
) -> np.ndarray:
    if isinstance(column, IdentifierColumn):
        return identifiers.generate(column, n, rng, part, name)
    return personal.generate(column, n, rng, part, name)


def finish(
    learned: pd.DataFrame,
    schema: Schema,
    entity_shares: tuple[float, ...] | None,
    rng: np.random.Generator,
    part: Part | None = None,
) -> pd.DataFrame:
    """The synthetic table as its reader knows it, `attrs` kept.

    Args:
        learned: canonical columns that a generator made.
        schema: what the table holds.
        entity_shares: share of entities with 1, 2, ..., k rows; none: one row each.
        rng: source of the draw.
        part: of the table that the rows are for; none: there is no other.
    """
    table = present(add_unlearned(learned, schema, entity_shares, rng, part), schema)
    table.attrs.update(learned.attrs)
    return table
