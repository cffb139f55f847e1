"""Columns whose values together never repeat, though by chance they would."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from synth.columns import BooleanColumn, CategoricalColumn, DateColumn, DatetimeColumn, IntegerColumn
from synth.constraints import Unique
from synth.domain import numeric_scale
from synth.infer.constraints.evidence import ENOUGH, coded, twins
from synth.schema import Schema

FIRST_ROWS = 2_000
"""Rows that are looked at first; then four times as many, until they are all."""
MOST_ENTITIES = 0.8
"""Share of entities that may hold one value of their key, for drawn rows to be dealt to them."""
_KINDS = (CategoricalColumn, BooleanColumn, IntegerColumn, DateColumn, DatetimeColumn)


def keys(table: pd.DataFrame, schema: Schema, among: Sequence[str]) -> list[Unique]:
    """The keys of one and of two columns, none of which holds another.

    Args:
        table: *Sensitive*. Conforming to the schema.
        schema: names the columns.
        among: the columns to look at, beside the entity. Those that may be missing, and reals, are no part of a key.
    """
    names = [name for name in among if isinstance(schema.columns[name], _KINDS) and not schema.columns[name].missing]
    codes = {name: coded(_plain(table[name], schema, name))[0] for name in names}
    alone = [name for name in names if _never_repeats(codes[name])]
    rest = [name for name in names if name not in alone and codes[name].max() > 0]
    single = [(name,) for name in alone if _says_something(len(table), schema, name)]
    if schema.entity is not None:
        codes[schema.entity] = coded(table[schema.entity])[0]
        rest = [schema.entity, *rest]
    alike = {name: twins(codes[name]) for name in rest}
    likely = {pair: math.prod(alike[name] for name in pair) for pair in itertools.combinations(rest, 2)}
    enough = ENOUGH / (len(table) * (len(table) - 1) / 2)
    pairs = [pair for pair, chance in likely.items() if chance >= enough and _is_key(*(codes[name] for name in pair))]
    # Rows are dealt to entities for one key: for the one that says most.
    within = sorted((pair for pair in pairs if schema.entity in pair), key=lambda pair: -likely[pair])
    within = [pair for pair in within if _can_be_dealt(*(codes[name] for name in pair))]
    kept = [*single, *within[:1], *(pair for pair in pairs if schema.entity not in pair)]
    return [Unique(columns=columns, proposed=_REASON) for columns in kept]


_REASON = "no row repeats another, and by chance many would"


def _plain(series: pd.Series, schema: Schema, name: str) -> pd.Series:
    column = schema.columns[name]
    return pd.Series(numeric_scale.instants(series, column)) if isinstance(column, DatetimeColumn) else series


def _never_repeats(codes: np.ndarray) -> bool:
    return bool(codes.max() + 1 == len(codes))


def _says_something(n: int, schema: Schema, name: str) -> bool:
    """Whether values spread evenly between the bounds would repeat."""
    column = schema.columns[name]
    if not isinstance(column, IntegerColumn | DateColumn | DatetimeColumn):
        return True
    low, high = numeric_scale.bounds(column)
    unit = numeric_scale.step(column) or 1.0
    return n**2 / 2 / ((high - low) / unit + 1) >= ENOUGH


def _can_be_dealt(entities: np.ndarray, values: np.ndarray) -> bool:
    """Whether no value stands in nearly all entities: a few more rows drawn with it, and there is none left to hold it.

    Such as the first visit of each patient.
    """
    return bool(np.bincount(values).max() <= MOST_ENTITIES * (int(entities.max()) + 1))


def _is_key(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two columns together never repeat."""
    n, width = len(first), int(second.max()) + 1
    if (int(first.max()) + 1) * width < n:
        return False
    looked = FIRST_ROWS
    while True:
        together = np.sort(first[:looked].astype(np.int64) * width + second[:looked])
        if np.any(together[1:] == together[:-1]):
            return False
        if looked >= n:
            return True
        looked *= 4
