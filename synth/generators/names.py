"""Whether a table that is written file by file can have the names it needs, known before the first file is made."""

import math

import numpy as np

from synth import identifiers, personal
from synth.columns import IdentifierColumn, PersonalColumn
from synth.schema import Schema

_NEVER = 32
"""Minus the logarithm of how likely it is that a table has fewer entities than are counted on, at most."""


def check_names(schema: Schema, entity_shares: tuple[float, ...] | None, n_rows: int) -> None:
    """Refuse a table for which there are too few identifiers, or unique personal data that numbers tell apart.

    One that may come out at its last entities is not refused: the file for which they do is.

    Args:
        schema: names the columns that are made anew.
        entity_shares: share of entities with 1, 2, ..., k rows; none: one row each.
        n_rows: of the table.

    Raises:
        SchemaError: there are too few; nothing was made.
    """
    of_entity = (schema.entity, *schema.constant_in_entity)
    n_entities = n_rows if entity_shares is None else least_entities(entity_shares, n_rows)
    for name in schema.kept:
        column, n = schema.columns[name], n_entities if name in of_entity else n_rows
        if isinstance(column, IdentifierColumn):
            identifiers.check_room(column, n)
        elif isinstance(column, PersonalColumn):
            personal.check_room(column, n)


def least_entities(shares: tuple[float, ...], n_rows: int) -> int:
    """How many entities so many rows have at least: surely, or next to surely where that is more.

    Args:
        shares: share of entities with 1, 2, ..., k rows; not all zero.
        n_rows: of the table.

    Source: Bernstein's inequality, for the sum of the sizes.

    >>> least_entities((0.5, 0.5), 1_000_000), least_entities((0.5, 0.5), 10)
    (664475, 5)
    """
    sizes = np.arange(1, len(shares) + 1)
    mean = float(np.average(sizes, weights=shares))
    variance = float(np.average((sizes - mean) ** 2, weights=shares))
    deviation = math.sqrt(2 * _NEVER * n_rows * variance / mean) + len(shares) * _NEVER / 3
    return max(math.floor((n_rows - deviation) / mean), -(-n_rows // len(shares)))
