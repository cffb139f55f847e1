"""What every model does after its columns are made: identifiers, entities, the order of columns."""

from typing import Any

import numpy as np
import pandas as pd

from synth import identifiers
from synth.columns import IdentifierColumn
from synth.errors import JobError
from synth.generators.entities import entity_of_rows, group_rows
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


def add_identifiers(
    learned: pd.DataFrame, schema: Schema, entity_shares: tuple[float, ...] | None, rng: np.random.Generator
) -> pd.DataFrame:
    """The table with its identifiers, made anew, and all columns in the schema's order.

    Where columns are constant within an entity, rows change places, and nothing else of them changes.

    Args:
        learned: canonical columns that a generator made.
        schema: names the identifiers and the entity.
        entity_shares: share of entities with 1, 2, ..., k rows; none: one row each.
        rng: source of the draw.
    """
    owner = None
    if schema.entity is not None and entity_shares is not None:
        shares = np.array(entity_shares)
        if schema.constant_in_entity:
            order, owner = group_rows(learned[list(schema.constant_in_entity)], shares, rng)
            learned = learned.take(order).set_axis(pd.RangeIndex(len(learned)))
        else:
            owner = entity_of_rows(shares, len(learned), rng)
    columns: dict[str, Any] = {}
    for name in schema.kept:
        column = schema.columns[name]
        if not isinstance(column, IdentifierColumn):
            columns[name] = learned[name]
        elif name == schema.entity and owner is not None:
            columns[name] = identifiers.generate(column, int(owner.max()) + 1, rng)[owner]
        else:
            columns[name] = identifiers.generate(column, len(learned), rng)
    return pd.DataFrame(columns, index=pd.RangeIndex(len(learned)), copy=False)


def finish(
    learned: pd.DataFrame, schema: Schema, entity_shares: tuple[float, ...] | None, rng: np.random.Generator
) -> pd.DataFrame:
    """The synthetic table as its reader knows it, `attrs` kept.

    Args:
        learned: canonical columns that a generator made.
        schema: what the table holds.
        entity_shares: share of entities with 1, 2, ..., k rows; none: one row each.
        rng: source of the draw.
    """
    table = present(add_identifiers(learned, schema, entity_shares, rng), schema)
    table.attrs.update(learned.attrs)
    return table
