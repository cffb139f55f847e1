"""Constraints proposed from a table: few, and each with what speaks for it.

A rule is proposed where every row keeps it, though many rows of shuffled columns would not: what bounds already imply,
what constant columns show and what few rows keep by chance is no rule. All of it is read off the data; a person asserts
it or takes it out.
"""

import numpy as np
import pandas as pd

from synth.constraints import Constraint, Formula
from synth.infer.constraints.combinations import combinations, keys
from synth.infer.constraints.evidence import coded
from synth.infer.constraints.numbers import formulas, orders
from synth.schema import Schema

__all__ = ["propose_constraints"]

LEAST_UNITS = 100  # in fewer rows (or entities, whose rows are alike) nothing is told from chance


def propose_constraints(table: pd.DataFrame, schema: Schema) -> tuple[Constraint, ...]:
    """Formulas, inequalities, fixed combinations and keys that all rows keep, each with its reason.
    `table`: *Sensitive*. Conforming to the schema.

    >>> rows = pd.DataFrame({"low": range(0, 2000, 10), "more": [i * i % 83 for i in range(200)]})
    >>> rows["high"] = rows["low"] + rows["more"]
    >>> from synth.infer import infer_schema
    >>> [str(found) for found in propose_constraints(rows, infer_schema(rows, target="low"))]
    ["'high' is low + more"]
    """
    units = np.arange(len(table)) if schema.entity is None else coded(table[schema.entity])[0]
    n_units = len(np.unique(units))
    if n_units < LEAST_UNITS:
        return ()
    computed = formulas(table, schema, n_units)
    copies = {formula.column for formula in computed if len(formula.operands) == 1}
    apart = [name for name in schema.learned if name not in copies]
    free = _free(schema, computed)
    listed = combinations(table, schema, free, units)
    ordered = orders(table, schema, apart, n_units, computed)
    ordered = [found for found in ordered if not any(set(found.columns) <= {*of.columns} for of in listed)]
    return (*computed, *ordered, *listed, *keys(table, schema, free))


def _free(schema: Schema, computed: list[Formula]) -> tuple[str, ...]:
    """The learned columns that no formula gives."""
    given = {formula.column for formula in computed}
    return tuple(name for name in schema.learned if name not in given)
