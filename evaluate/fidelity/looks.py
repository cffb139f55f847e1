"""Rows to look at: a few real ones beside synthetic ones, and a map of many in two dimensions. No number comes of it.

Real rows are shown as they are, which nothing else in an evaluation does: `show_rows` leaves them out, and
`Evaluation.without_rows` takes them out. Identifiers, personal data and free text of real rows are masked even there,
also where a synthetic row repeats them.
"""

from typing import Any

import numpy as np
import pandas as pd

from evaluate.metrics import Metric
from evaluate.neighbors import nearest, space_of
from evaluate.result import LOOKS
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from evaluate.text import plain
from synth.row_order import histories_of
from synth.schema import Schema
from synth.table.conforming import texts

METRICS: tuple[Metric, ...] = ()

N_ROWS = 15  # Of each table, to be read
N_POINTS = 500  # Of each table, on the map
N_FIT = 5_000  # Real rows that the axes of the map are found on at most
NEAR = 0.01  # Share of holdout rows whose distance to the nearest training row makes a synthetic row a near neighbor
MASKED = "masked"
LONGEST = 120  # Characters of a cell


def measure(tables: Tables) -> MetricResult:
    """The figure "looks"; none where no real row is to be shown."""
    if not tables.show_rows:
        return MetricResult()
    return MetricResult(figures={LOOKS: {"rows": _rows(tables), "map": _map(tables)}})


def _rows(tables: Tables) -> dict[str, Any]:
    schema = tables.schema
    names = [name for name in schema.kept if name in tables.train and name in tables.synthetic]
    masked = [name for name in names if schema.columns[name].is_replaced or schema.columns[name].is_text]
    real, synthetic = (
        side.iloc[_chosen(side, order, schema)]
        for side, order in ((tables.train, tables.order("train")), (tables.synthetic, tables.order("synthetic")))
    )
    cells = {name: {"real": _cells(real, name, schema), "synthetic": _cells(synthetic, name, schema)} for name in names}
    for name in masked:
        entities = entity_codes(real, schema) + 1 if name == schema.entity else [""] * len(real)
        cells[name]["real"] = [f"{MASKED} {entity}".strip() for entity in entities]
        known = pd.concat([side[name] for side in (tables.train, tables.fresh, tables.control)])
        is_real = synthetic[name].notna() & synthetic[name].isin(known)  # a copied name is no less somebody's
        cells[name]["synthetic"] = [
            MASKED if hidden else cell for hidden, cell in zip(is_real, cells[name]["synthetic"], strict=True)
        ]
    return {"columns": [{"column": name, "masked": name in masked, **cells[name]} for name in names]}


def _chosen(rows: pd.DataFrame, order: np.ndarray, schema: Schema) -> np.ndarray:
    """Positions of rows drawn by seed; of histories as many whole ones as there is room for, each in its order."""
    if schema.entity is None:
        return order[:N_ROWS]
    histories, codes = histories_of(rows, schema), entity_codes(rows, schema)
    drawn = pd.unique(codes[order])
    owners = codes[histories.rows]
    chosen: list[int] = []
    for entity in drawn[:N_ROWS]:
        history = histories.rows[owners == entity].tolist()
        if chosen and len(chosen) + len(history) > N_ROWS:
            break
        chosen += history[:N_ROWS]
    return np.array(chosen, dtype=np.int64)


def _cells(rows: pd.DataFrame, name: str, schema: Schema) -> list[str | None]:
    column: Any = schema.columns[name]
    return [None if text is None else plain(text, LONGEST) for text in texts(rows[name], column)]


def _map(tables: Tables) -> dict[str, Any] | None:
    """Principal components of the encoded real rows, near ones flagged; `None` of fewer than two coordinates."""
    from sklearn.decomposition import PCA

    space = space_of(tables)
    if min(space.train.points.shape) < 2:
        return None
    at = {"real": tables.order("train"), "synthetic": tables.order("synthetic")[:N_POINTS]}
    fit = PCA(2, svd_solver="covariance_eigh").fit(space.train.points[at["real"][:N_FIT]])
    real, synthetic = space.train.take(at["real"][:N_POINTS]), space.synthetic.take(at["synthetic"])
    figure: dict[str, Any] = {
        "variance": np.nan_to_num(fit.explained_variance_ratio_).tolist(),
        "real": fit.transform(real.points).round(3).tolist(),
        "synthetic": fit.transform(synthetic.points).round(3).tolist(),
    }
    if tables.held_out:
        fresh = nearest(space.fresh.take(tables.drawn(tables.fresh)[:N_POINTS]), space.train)[:, 0]
        limit = np.quantile(fresh, NEAR, method="lower")
        figure["near"] = np.flatnonzero(nearest(synthetic, space.train)[:, 0] <= limit).tolist()
        figure["near_holdout"] = float((fresh <= limit).mean())
    return figure
