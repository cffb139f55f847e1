"""What a published table shows by itself: the distribution of each of its columns. No real row has a part in it."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from synth.columns import BooleanColumn, CategoricalColumn
from synth.domain import numeric_scale
from synth.domain.discretizer import categories
from synth.errors import SchemaError, TableError
from synth.observed import observe
from synth.schema import Schema
from synth.table import conform

N_BINS = 24
MOST_NAMED = 8
TAIL = 0.005
"""Share of the values beyond either end of the drawn line that the outermost bins take in."""


@dataclass(frozen=True)
class PublicColumn:
    """One column of the synthetic table.

    Attributes:
        name: of the column.
        kind: of the schema; where none is declared, of a schema inferred from the synthetic table alone.
        ordered: whether its bars are bins of a line rather than categories.
        labels: of the bars.
        shares: of the synthetic rows that each bar stands for.
        n_more: categories beyond those that are named.
        more: the share of rows in them, and of values that no category is declared for.
        missing: the share of rows without a value.
    """

    name: str
    kind: str
    ordered: bool
    labels: tuple[str, ...]
    shares: tuple[float, ...]
    n_more: int = 0
    more: float = 0.0
    missing: float = 0.0


def columns_of(synthetic: pd.DataFrame, declared: Schema | None) -> tuple[PublicColumn, ...]:
    """Every column that a generator learns, as the synthetic table shows it; empty where it cannot be read.

    Args:
        synthetic: the table that is published.
        declared: its schema; none: one is inferred from the synthetic table.
    """
    from synth.infer import infer_schema

    try:
        schema = infer_schema(synthetic, constraints=False) if declared is None else declared
        rows = conform(synthetic, schema, outside="clamp", part=True)
    except (SchemaError, TableError):  # a table from elsewhere may hold anything
        return ()
    seen = observe(schema, rows)
    return tuple(_column(name, seen.columns[name], rows[name]) for name in seen.learned)


def _column(name: str, column: Any, values: pd.Series) -> PublicColumn:
    missing = float(values.isna().mean()) if len(values) else 0.0
    if isinstance(column, CategoricalColumn | BooleanColumn):
        return _named(name, column, values, missing)
    places = numeric_scale.positions(values, column)
    present = places[~np.isnan(places)]
    labels, counts = _bins(present, column) if len(present) else ((), np.zeros(0))
    shares = tuple((counts / max(len(values), 1)).tolist())
    return PublicColumn(name, column.kind, True, labels, shares, missing=missing)


def _named(name: str, column: CategoricalColumn | BooleanColumn, values: pd.Series, missing: float) -> PublicColumn:
    known = categories(column)
    codes = pd.Index(known).get_indexer(pd.Index(values.astype(object)))
    counts = np.bincount(codes[codes >= 0], minlength=len(known)) / max(len(values), 1)
    order = np.argsort(-counts, kind="stable")[:MOST_NAMED]
    more = max(0.0, 1 - missing - float(counts[order].sum()))
    return PublicColumn(
        name, column.kind, False, tuple(str(known[i]) for i in order), tuple(counts[order].tolist()),
        n_more=len(known) - len(order), more=more if more > 1e-9 else 0.0, missing=missing,
    )  # fmt: skip


def _bins(present: np.ndarray, column: Any) -> tuple[tuple[str, ...], np.ndarray]:
    """Values of their own where there are few, else even bins whose ends take in what lies far out."""
    unit, distinct = numeric_scale.step(column), np.unique(present)
    if len(distinct) <= N_BINS:
        after = distinct + (unit if unit is not None else 1e-12 * np.maximum(1.0, np.abs(distinct)))
        labels = tuple(
            numeric_scale.label(a, b, column) if unit else f"{a:.6g}" for a, b in zip(distinct, after, strict=True)
        )
        return labels, np.array([(present == value).sum() for value in distinct])
    low, high = np.quantile(present, [TAIL, 1 - TAIL])
    if high <= low:
        low, high = float(distinct[0]), float(distinct[-1])
    edges = np.linspace(low, high, N_BINS + 1)
    if unit is not None:  # half a step below the first value that each bin admits
        edges = np.unique((np.ceil(numeric_scale.ratio(edges, unit)) - 0.5) * unit)
    counts = np.bincount(np.clip(np.searchsorted(edges, present, side="right") - 1, 0, len(edges) - 2))
    counts = np.append(counts, np.zeros(len(edges) - 1 - len(counts), dtype=np.int64))
    return tuple(numeric_scale.label(a, b, column) for a, b in itertools.pairwise(edges)), counts
