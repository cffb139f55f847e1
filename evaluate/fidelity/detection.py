"""Detection of synthetic rows among held-out ones, by gradient boosting (C2ST).

Against the training rows a table of slightly changed copies would do better than real rows do: a copy falls where its
original, marked as real, was learned from.

Source: Lopez-Paz and Oquab 2017, "Revisiting Classifier Two-Sample Tests", arXiv:1610.06545; LeDell, Petersen, van der
Laan 2015 (the variance of a cross-fitted area under the curve).
"""

import numpy as np
import pandas as pd
from scipy import special

from evaluate.fidelity.classifier import MIN_UNITS, N_FOLDS, coded, skill
from evaluate.fidelity.relations import left_of_rows
from evaluate.intervals import LEVEL
from evaluate.metrics import THREE, Metric
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes, shuffle_columns
from evaluate.tables import MetricResult, Tables
from evaluate.text import listed
from synth.row_hash import drawn_order
from synth.schema import Schema
from synth.split import row_keys

MAX_ROWS = 5_000  # Rows of each table that are compared at most
_LEARNS = "the more rows, the better a difference is seen; name 'joint.c2st.excess'"
METRICS = (
    Metric("joint.c2st.auc", "lower", "Told from real rows, AUC", "How well gradient boosting tells synthetic rows "
           "from held-out ones by their values, digits and differences (C2ST); 0.5 is a coin.", describes=_LEARNS,
           key=True),
    Metric("joint.c2st.excess", "lower", "Told from real rows beyond noise",
           "The same AUC minus that of training rows against held-out ones.", counted=THREE),
)  # fmt: skip

NAMES = tuple(metric.name for metric in METRICS)
TWICE = 2.0
"""Factor of cross-fitting on the variance of an area under the curve.

The difference between two parts of the rows counts where one is learned from and the other scored, and once more where
it is the other way round. For the area of a linear score under no difference between the tables the factor is 2; in
simulations with boosting it is 1.6 to 2.2 on some hundred rows, and falls towards 1, the value of LeDell et al., where
rows are many and the difference is large. Intervals are on the wide side there.
"""


def measure(tables: Tables) -> MetricResult:
    """The area under the curve of a classifier, and its excess over that of real rows against real ones."""
    schema, (train, fresh, synthetic, shuffled) = tables.schema, sampled_rows(tables)
    sides = (fresh, synthetic, train, shuffled)
    units = [np.asarray(pd.factorize(entity_codes(rows, schema))[0]) for rows in sides]
    if min(int(unit.max()) + 1 for unit in units[:3]) < MIN_UNITS:
        why = f"it needs at least {MIN_UNITS} rows (or entities) of each table"
        return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in NAMES))
    codes, categories = coded(sides, schema, left_of_rows(sides, tables))
    # Of shuffled columns one fold is enough: their number is a landmark, and has no interval.
    offered, real, floor = (
        skill((codes[0], units[0]), (code, unit), categories, n_folds)
        for code, unit, n_folds in zip(codes[1:], units[1:], (N_FOLDS, N_FOLDS, 1), strict=True)
    )
    note = (
        "0.5 is a coin." if len(categories) else "All rows of all tables are equal: there is nothing to tell them by."
    )
    if schema.unlearned:
        note = f"Without the columns {listed(schema.unlearned)}. {note}"
    n, excess = len(train), offered.auc - real.auc
    low, high = _around(offered.auc, (0.0, 1.0), (offered.losses, units[0]), (offered.wins, units[1]))
    auc = Estimate(NAMES[0], offered.auc, n, "lower", (), low, high, real.auc, floor.auc, note)
    parts = ((offered.losses - real.losses, units[0]), (offered.wins, units[1]), (real.wins, units[2]))
    low, high = _around(excess, (-1.0, 1.0), *parts)
    note = "The AUC minus that of training rows."
    return MetricResult((auc, Estimate(NAMES[1], excess, n, "lower", (), low, high, 0.0, floor.auc - real.auc, note)))


def _around(value: float, bounds: tuple[float, float], *parts: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """The interval of an area, or of a difference of two, from what each row adds to it and the unit of each."""
    variance = 0.0
    for added, units in parts:
        sums = np.bincount(units, added)
        variance += float(sums @ sums) / len(added) ** 2 * len(sums) / (len(sums) - 1)
    half = float(special.ndtri(1 - (1 - LEVEL) / 2)) * float(np.sqrt(TWICE * variance))
    return max(value - half, bounds[0]), min(value + half, bounds[1])


def sampled_rows(tables: Tables) -> tuple[pd.DataFrame, ...]:
    """Equally many training rows, rows of the holdout, synthetic rows and training rows with each column shuffled, by
    the seed of an evaluation; they do not depend on the order of rows or columns. *Sensitive*.

    Synthetic and training rows are drawn by one seed: a table that equals train gives the sample that train gives.
    Shuffled rows are made of training rows that are not in the sample, as far as there are any.
    """
    schema, seed = tables.schema, tables.seed
    n = min(len(tables.train), len(tables.synthetic), len(tables.fresh) + len(tables.control), MAX_ROWS)
    order = drawn_order(_keys(tables.train, schema), 2 * seed)
    shuffled = shuffle_columns(_rows(tables.train, order[-n:], schema), np.random.default_rng([seed, 8]))
    synthetic = _rows(tables.synthetic, drawn_order(_keys(tables.synthetic, schema), 2 * seed)[:n], schema)
    return _rows(tables.train, order[:n], schema), _fresh(tables, n), synthetic, shuffled


def _columns(schema: Schema) -> list[str]:
    return sorted({*schema.learned, *([schema.entity] if schema.entity is not None else [])})


def _keys(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """A key for each row, equal for equal rows of one entity; shape (len(frame),), uint64."""
    return row_keys(frame, _columns(schema))


def _rows(frame: pd.DataFrame, positions: np.ndarray, schema: Schema) -> pd.DataFrame:
    """The rows at some positions; columns in the order of their names."""
    return pd.DataFrame({name: frame[name].take(positions).reset_index(drop=True) for name in _columns(schema)})


def _fresh(tables: Tables, n: int) -> pd.DataFrame:
    """A sample of the holdout, whose two parts are never joined as a whole."""
    schema, parts = tables.schema, (tables.fresh, tables.control)
    order = drawn_order(np.concatenate([_keys(part, schema) for part in parts]), 2 * tables.seed + 1)[:n]
    second = order >= len(parts[0])
    taken = [_rows(parts[0], order[~second], schema), _rows(parts[1], order[second] - len(parts[0]), schema)]
    rank = np.argsort(np.r_[np.flatnonzero(~second), np.flatnonzero(second)])
    return pd.concat(taken, ignore_index=True).take(rank).reset_index(drop=True)
