"""The units of a private fit of related tables: a row of the root with all rows below it.

What is refused is refused by what is declared, and what stays of a unit follows from its own rows alone.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd

from evaluate.text import listed
from synth.errors import BudgetError
from synth.schema import Schema
from synth.split import row_keys
from understudy.extras.related.keys import (
    ForeignKey,
    Keys,
    Positions,
    candidates,
    comparable,
    followed,
    made_anew,
    positions,
)

UNIT = "\0unit"  # a column name that no table has


def check_private(keys: Keys, keep: Collection[str], schemas: Mapping[str, Schema]) -> str:
    """The root of a private fit, whose rows with all below them are the units. Reads no row."""
    drawn = [name for name in keys.order if name not in keep]
    roots = [name for name in drawn if not candidates(keys, name, keep)]
    if len(roots) != 1:
        raise BudgetError(
            f"with epsilon the unit is a row of one table with all below it, and {listed(roots)} are below none; name "
            "lookup tables that are public in keep, and leave the others to a fit with an epsilon of its own"
        )
    for name in drawn:
        own, schema = keys.tables[name], schemas.get(name)
        if schema is None or schema.status != "declared":
            raise BudgetError(f"{name}: with epsilon each table needs a declared schema; give it in schemas")
        _check_declared(keys, name, schema)
        if name == roots[0]:
            if not own.primary or schema.n_units is None:
                raise BudgetError(
                    f"{name}: its rows with all below them are the units; name its key, and in its schema n_units"
                )
            continue
        first = candidates(keys, name, keep)[0]
        if own.most is None and {*own.primary} != {*first.columns}:
            raise BudgetError(
                f"{name}: with epsilon a row of {first.table} has a bounded number of rows here; set most, a public "
                "number, in its keys"
            )
        if schema.order is not None and first.table != roots[0]:
            raise BudgetError(
                f"{name}: order={schema.order!r} is of rows right below the units, and {first.table} is no unit; leave "
                "order out"
            )
    return roots[0]


def _check_declared(keys: Keys, name: str, schema: Schema) -> None:
    for column in keys.tables[name].columns:
        if column not in schema.columns or schema.columns[column].drop:
            raise BudgetError(f"{name}: key column={column!r} is not in its schema; declare it, and leave drop out")
    for column in made_anew(keys, name):
        if not schema.columns[column].is_identifier:
            raise BudgetError(f"{name}: key column={column!r} is made anew; declare it of kind identifier")


def bounded(
    tables: Mapping[str, pd.DataFrame], keys: Keys, keep: Collection[str], root: str,
    schemas: Mapping[str, Schema] = MappingProxyType({}),
) -> tuple[dict[str, pd.DataFrame], dict[str, dict[ForeignKey, Positions]]]:  # fmt: skip
    """The tables of a private fit: each row below one row of the root, and no more below a row than is declared.

    Which rows stay is a function of the rows of their own unit alone: whoever takes a unit away takes its rows away and
    changes none of the others. Rows with one key within a unit count once, the one with the least hash. Of rows that
    follow each other, as their schema says, the first ones stay. A row below none is left out. A row of another unit
    that a row names is as if it were not there. Of a key that two units hold, the rows below belong to the one whose
    row comes first: that keys are unique is taken for a public fact.
    `tables`: *Sensitive*. By their declared schemas, so that no cell decides how another one reads.
    """
    kept, parents, unit = dict[str, pd.DataFrame](), dict[str, dict[ForeignKey, Positions]](), dict[str, Positions]()
    for name in keys.order:
        frame, own = tables[name].reset_index(drop=True), keys.tables[name]
        if name in keep:
            kept[name] = frame
            parents[name] = {
                k: positions(frame, k.columns, kept[k.table], keys.tables[k.table].primary) for k in own.foreign
            }
            continue
        # Of columns as their schemas have them: no cell decides the dtype, and with it the hashes, of others.
        frame = frame.iloc[np.argsort(row_keys(frame, list(map(str, frame))), kind="stable")].reset_index(drop=True)
        if name in schemas and schemas[name].order is not None:
            frame = frame.sort_values(str(schemas[name].order), kind="stable", ignore_index=True)
        at = {k: positions(frame, k.columns, kept[k.table], keys.tables[k.table].primary) for k in own.foreign}
        first = None if name == root else candidates(keys, name, keep)[0]
        if first is None:
            key = pd.DataFrame({c: comparable(frame[c]) for c in own.primary})
            whole = ~(key.duplicated() | key.isna().any(axis=1)).to_numpy()
            units = np.arange(len(frame))
        else:
            units = followed(at[first], unit[first.table])
            whole = units >= 0
            if own.primary:
                key = pd.DataFrame(
                    {"unit": units, **{f"c{i}": comparable(frame[c]) for i, c in enumerate(own.primary)}}
                )
                whole &= ~(key.duplicated() | key.isna().any(axis=1)).to_numpy()
            most = 1 if own.most is None or {*own.primary} == {*first.columns} else own.most
            for of_rows, limit in ((at[first], most), (units, own.most_of_unit)):
                turn = pd.Series(of_rows[whole]).groupby(of_rows[whole]).cumcount().to_numpy()
                whole[whole] = turn < (limit or np.inf)
        kept[name], unit[name] = frame[whole].reset_index(drop=True), units[whole]
        if first is None:
            unit[name] = np.arange(int(whole.sum()))
        parents[name] = {k: rows[whole] for k, rows in at.items()}
        for k in (k for k in own.foreign if k != first and k.table in unit):  # among the rows of its own unit alone
            child, parent = (kept[each].assign(**{UNIT: unit[each]}) for each in (name, k.table))
            primary = keys.tables[k.table].primary
            parents[name][k] = positions(child, (*k.columns, UNIT), parent, (*primary, UNIT))
    return kept, parents
