"""Agreement of permutation importances: a model trained on synthetic rows beside one trained on real rows.

The importance of a column is what a model's score on the control rows loses once the column is permuted among them.
Agreement is Spearman's rank correlation of the importances of two models. Where two columns say the same, either may
serve a model, on real rows as well: what a model trained on fresh real rows reaches is the measure of what to expect.

Source: Breiman 2001, "Random forests", section 10 (permutation importance); Spearman 1904.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from evaluate.utility.models import FORMS, Fitted, Form, predictors
from evaluate.utility.scores import macro_roc_auc, r2
from evaluate.utility.study import Study, study_of
from evaluate.utility.task import Task

_ROUGH = "its interval is rough, as ranks jump; name 'utility.gap.linear'"
METRICS = (
    Metric("utility.importance.linear", "higher", "Linear model, same columns matter", "Rank correlation of the "
           "importance of columns, between training on synthetic and on real rows; 1 is the same.", describes=_ROUGH),
    Metric("utility.importance.boosting", "higher", "Boosting, same columns matter", "The same for gradient boosting.",
           describes=_ROUGH),
)  # fmt: skip

N_ROWS = 1_000
"""Control rows that columns are permuted among."""
N_REPEATS = 2
"""Permutations of each column; a model fitted on half of the rows, for the interval, gets one."""
N_SPLITS = 3
"""Splits of the rows learned from that the interval rests on at most."""
CELLS = 4_000_000
"""Cells of the matrix that is predicted at once."""
DRAWN = 10
"""Columns in the figure, the most important ones."""


def measure(tables: Tables) -> MetricResult:
    """Agreement of the importances of columns.

    Estimates: `utility.importance.linear`, `utility.importance.boosting` (in [-1, 1], higher; reference: a model
    trained on fresh rows, floor: one trained on shuffled columns, each against one trained on as many training rows).
    """
    study = study_of(tables)
    names = predictors(tables.schema)
    if not isinstance(study, str) and len(names) < 2:
        study = "with one column to predict from there is no order of columns"
    if not isinstance(study, str) and len(np.unique(study.test.truth[:N_ROWS])) < 2:
        study = "the target does not vary among the control rows that columns are permuted among"
    if isinstance(study, str):
        return MetricResult(failures=tuple(Failure(f"utility.importance.{form}", "skipped", study) for form in FORMS))
    estimates, figures = [], []
    for form in FORMS:
        estimate, importances = _of_form(form, study, names, tables)
        estimates.append(estimate)
        figures.append(_figure(form, names, importances))
    return MetricResult(tuple(estimates), figures={"importance": figures})


def _of_form(
    form: Form, study: Study, names: tuple[str, ...], tables: Tables
) -> tuple[Estimate, dict[str, np.ndarray]]:
    models = study.models[form]
    rows, truth = study.test.rows.iloc[:N_ROWS], study.test.truth[:N_ROWS]
    orders = _orders(len(rows), len(names), tables.seed)

    def of(model: Fitted, n_repeats: int, side: str, *place: int) -> np.ndarray:
        kept = tables.kept if side == "tstr" else tables.kept_of_real
        key = ("importance", form, side, len(study.sides[side].truth), *place)
        return kept.once(key, lambda: importances(model, study.task, (rows, truth), names, orders[:n_repeats]))

    def of_half(side: str, split: int, half: int) -> np.ndarray:
        return of(models.halves[side][split][half], 1, side, split, half)

    found = {side: of(model, N_REPEATS, side) for side, model in models.whole.items()}
    halves = [
        [agreement(of_half("tstr", split, half), of_half("trtr", split, half)) for half in (0, 1)]
        for split in range(min(N_SPLITS, len(models.halves["tstr"])))
    ]
    value = agreement(found["tstr"], found["trtr"])
    low, high = _interval(value, np.array(halves))
    estimate = Estimate(
        f"utility.importance.{form}", value, len(rows), "higher", low=low, high=high,
        reference=agreement(found["fresh"], found["matched"]), floor=agreement(found["floor"], found["trtr"]),
        note=f"rank correlation over {len(names)} columns, of models for {study.task.target!r}; "
        "the interval is rough",
    )  # fmt: skip
    return estimate, found


def _orders(n_rows: int, n_columns: int, seed: int) -> np.ndarray:
    """A permutation of the rows for each repeat and column, the same for every model."""
    rng = np.random.default_rng([seed, 9])
    return np.array([[rng.permutation(n_rows) for _ in range(n_columns)] for _ in range(N_REPEATS)])


def importances(
    model: Fitted,
    task: Task,
    test: tuple[pd.DataFrame, np.ndarray],
    names: tuple[str, ...],
    orders: np.ndarray,
) -> np.ndarray:
    """Permutation importance: mean loss of score once a column is permuted; shape (len(names),).

    Args:
        model: whose importances; a column that it does not look at has none.
        task: how it is scored.
        test: *Sensitive*. Rows to predict and their truth.
        names: columns.
        orders: permutations of the rows, shape (n_repeats, len(names), n_rows).
    """
    features = model.features
    if features is None:
        return np.zeros(len(names))
    blocks = [(part.apply(test[0][name], features.form), names.index(name)) for name, part in features.parts.items()]
    score = macro_roc_auc if task.kind == "classification" else r2
    ones, X = np.ones((1, len(test[1]))), np.hstack([block for block, _ in blocks])
    whole = score(model.predict_matrix(X), test[1], ones)[0]
    left = np.full((len(orders), len(names)), whole)
    starts = np.cumsum([0] + [block.shape[1] for block, _ in blocks])
    size = max(1, CELLS // X.size)
    for first in range(0, len(blocks), size):  # several columns in one call: a call costs more than a thousand rows
        chunk = range(first, min(first + size, len(blocks)))
        for repeat, order in enumerate(orders):
            stacked = np.tile(X, (len(chunk), 1)).reshape(len(chunk), *X.shape)
            for place, index in enumerate(chunk):
                block, column = blocks[index]
                stacked[place, :, starts[index] : starts[index + 1]] = block[order[column]]
            predicted = model.predict_matrix(stacked.reshape(-1, X.shape[1]))
            for index, of_column in zip(chunk, np.split(predicted, len(chunk)), strict=True):
                left[repeat, blocks[index][1]] = score(of_column, test[1], ones)[0]
    return np.asarray(np.nan_to_num(whole - left.mean(axis=0)))


def agreement(first: np.ndarray, second: np.ndarray) -> float:
    """The rank correlation of two models' importances; 1 for equal ones, 0 where one model alone has none.

    A column that a model does better without has no importance: its loss is chance.

    >>> agreement(np.array([0.3, 0.1, 0.0]), np.array([0.2, 0.1, -0.1]))
    1.0
    """
    from scipy.stats import rankdata

    ranks = [rankdata(np.maximum(part, 0.0)) for part in (first, second)]
    if np.array_equal(ranks[0], ranks[1]):
        return 1.0
    spreads = [rank - rank.mean() for rank in ranks]
    scale = float(np.sqrt(np.prod([np.sum(spread**2) for spread in spreads])))
    return float(np.clip(spreads[0] @ spreads[1] / scale, -1.0, 1.0)) if scale > 0 else 0.0


def _interval(value: float, halves: np.ndarray) -> tuple[float, float]:
    """By how much the agreement differs between models fitted on two halves; control rows are the same for both."""
    from scipy import special

    error = float(np.sqrt(np.mean((halves[:, 0] - halves[:, 1]) ** 2) / 4)) if len(halves) else 0.0
    half = float(special.stdtrit(max(len(halves), 1), 0.975)) * error
    return min(max(value - half, -1.0), value), max(min(value + half, 1.0), value)


def _figure(form: Form, names: tuple[str, ...], found: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The most important columns by the model trained on real rows."""
    order = np.argsort(-found["trtr"], kind="stable")[:DRAWN]
    columns = [
        {"column": names[i], "real": float(found["trtr"][i]), "synthetic": float(found["tstr"][i])} for i in order
    ]
    return {"model": form, "columns": columns}
