"""An evaluation of many tables with many columns, for the size and speed of reports."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from evaluate.result import Candidate, Estimate, Evaluation
from tests.evaluations import altered

MEASURES = ("tvd", "tvd.excess", "ks.excess", "wasserstein.excess", "missing")


def widened(make_evaluation: Callable[..., Evaluation], n_columns: int = 100, n_tables: int = 5) -> Evaluation:
    """A sample evaluation put together from several, whose columns are numbered."""
    base = make_evaluation()
    names = list(base.schema.columns)
    parts = [make_evaluation({n: f"{n}_{i:02d}" for n in names}, seed=i) for i in range(-(-n_columns // len(names)))]
    columns = [name for part in parts for name in part.schema.columns][:n_columns]
    kept = [part.schema.model_dump(mode="json", exclude_none=True)["columns"] for part in parts]
    schema = {name: each for part in kept for name, each in part.items() if name in columns}
    candidates = tuple(_table(parts, columns, i) for i in range(n_tables))
    return replace(
        base,
        candidates=candidates,
        schema=altered(base.schema, {"columns": schema, "target": columns[0], "sensitive": []}),
    )


def _table(parts: list[Evaluation], columns: list[str], i: int) -> Candidate:
    several = [part.candidates[i % len(part.candidates)] for part in parts]
    figures = dict(several[0].figures)
    drawn = [figure for each in several for figure in each.figures["columns"]][: len(columns)]
    secrets = [each for c in several for each in c.figures["inference"]["columns"]][: len(columns)]
    figures |= {"columns": drawn, "associations": _associations(columns, i)}
    figures |= {"inference": {**figures["inference"], "columns": secrets}}
    estimates = [e for e in several[0].estimates if not e.measure.startswith("columns.tvd") or not e.subject]
    estimates += [_of_column(measure, name) for name in columns for measure in MEASURES]
    return replace(several[0], name=f"table {i}", figures=figures, estimates=tuple(estimates))


def _of_column(measure: str, name: str) -> Estimate:
    return Estimate(f"columns.{measure}", 0.02, 5000, "lower", (name,), low=0.01, high=0.03)


def _associations(columns: list[str], seed: int) -> dict[str, Any]:
    values = np.random.default_rng(seed).uniform(-1, 1, size=(2, len(columns), len(columns)))
    real, synthetic = ((matrix + matrix.T) / 2 for matrix in values)
    return {"columns": columns, "train": real.tolist(), "synthetic": synthetic.tolist(), "kinds": []}
