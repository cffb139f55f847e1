"""Scores of a public benchmark's protocol on one folder's tables: ``python with_published.py FOLDER``.

SDMetrics 0.24 gives shapes, trends and detection, as the protocol has it: from 0.27 on weak pairs are left out of
trends, and the numbers change. Detection is 1 where rows cannot be told apart.

Source: april-tools/tabpc (`src/metrics/metrics.py`, `tabdiff_eval/mle/mle.py`).
"""

import sys
import warnings
from collections.abc import Iterator, Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from evaluated import Three, measured, read_csv, read_task, write_result
from sdmetrics.reports.single_table import QualityReport
from sdmetrics.single_table import LogisticDetection
from sdmetrics.single_table.detection.sklearn import ScikitLearnClassifierDetectionMetric
from sklearn.metrics import mutual_info_score, roc_auc_score
from sklearn.preprocessing import OneHotEncoder
from xgboost import XGBClassifier, XGBRegressor

BINS = 10
GRID = {"n_estimators": (10, 50, 100), "min_child_weight": (1, 10), "max_depth": (5, 10, 20), "gamma": (0.0, 1.0)}
VALIDATION = 9  # one synthetic row in so many chooses of the grid
LEAST, MOST, LARGE = 1e-2, 20_000, 1e3
"""Of what is told by its logarithm: the least number, the largest target, and what the largest number is at least."""


class XGBoostDetection(ScikitLearnClassifierDetectionMetric):
    """SDMetrics' detection by boosted trees."""

    name = "XGBoost Detection"

    @staticmethod
    def _get_classifier() -> XGBClassifier:
        return XGBClassifier(eval_metric="logloss", enable_categorical=True, random_state=0)


def main(folder: Path) -> None:
    """All scores of one synthetic table."""
    warnings.simplefilter("ignore")
    task = read_task(folder)
    texts = [name for name in task["columns"] if name not in task["numbers"]]
    tables = Three(*(read_csv(folder / f"{name}.csv", texts) for name in ("train", "holdout", "synthetic")))
    np.random.seed(task["seed"])  # noqa: NPY002 - SDMetrics takes no other source
    facts: dict[str, float] = {}
    result = measured(lambda: facts.update(scores(tables, task) if "target" in task else quality(tables, task)))
    write_result(folder, {**result, "facts": facts}, ["sdmetrics", "xgboost-cpu", "scikit-learn"])


def quality(tables: Three, task: Mapping[str, Any]) -> dict[str, float]:
    """SDMetrics' shapes and trends: all that is asked for where no target is named."""
    report = QualityReport()
    report.generate(tables.train, tables.synthetic, _metadata(task), verbose=False)
    shape, trend = report.get_properties().set_index("Property")["Score"][["Column Shapes", "Column Pair Trends"]]
    return {"shape": shape, "trend": trend}


def _metadata(task: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {name: "numerical" if name in task["numbers"] else "categorical" for name in task["columns"]}
    return {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}}


def scores(tables: Three, task: Mapping[str, Any]) -> dict[str, float]:
    metadata = _metadata(task)
    few = tables.synthetic.head(len(tables.holdout))
    learned = tables.train if task["is_fresh"] else tables.synthetic  # nothing is tested on what it was trained on
    return {
        **quality(tables, task),
        "lr": LogisticDetection.compute(tables.train, tables.synthetic, metadata),
        "xgb": XGBoostDetection.compute(tables.train, tables.synthetic, metadata),
        "xgb of test": XGBoostDetection.compute(*_numbered(tables.holdout, few)),
        "mle": utility(learned, tables.holdout, task),
        "wnmis": dependence(tables.train, tables.synthetic, task["numbers"]),
    }


def _numbered(real: pd.DataFrame, synthetic: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Both with a number for each category: SDMetrics refuses those that the real rows have not."""
    both = pd.concat([real, synthetic], ignore_index=True)
    numbers = {name: pd.factorize(each)[0] if each.dtype == object else each for name, each in both.items()}
    yield from (pd.DataFrame(numbers).iloc[rows] for rows in (slice(len(real)), slice(len(real), None)))


def dependence(real: pd.DataFrame, synthetic: pd.DataFrame, numbers: list[str]) -> float:
    """1 less the error of normalized mutual information over pairs of columns, weighted by the information of both."""
    edges = {name: np.histogram_bin_edges(real[name], bins=BINS) for name in numbers}
    ours, theirs = (_information(frame, edges) for frame in (real, synthetic))
    return float(1 - np.average(np.abs(ours - theirs), weights=ours + theirs))


def _information(frame: pd.DataFrame, edges: Mapping[str, np.ndarray]) -> np.ndarray:
    codes = {}
    for name, values in frame.items():
        cut = name in edges and values.nunique() > len(edges[name])
        kinds = pd.cut(values, edges[name], include_lowest=True) if cut else values
        codes[name] = pd.Categorical(kinds).codes
    own = {name: mutual_info_score(code, code) or 1.0 for name, code in codes.items()}
    return np.array([2 * mutual_info_score(codes[a], codes[b]) / (own[a] + own[b]) for a, b in combinations(codes, 2)])


def utility(synthetic: pd.DataFrame, test: pd.DataFrame, task: Mapping[str, Any]) -> float:
    """Of the best of a grid of XGBoost, learned from synthetic rows: AUC on test rows, or RMSE of the log target."""
    target, is_regression = task["target"], task["is_regression"]
    names = [name for name in task["columns"] if name != target]
    numbers = [name for name in names if name in task["numbers"]]
    others = [name for name in names if name not in numbers]
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(synthetic[others])
    # As published: the ends of the first number scale all of them.
    low, high = synthetic[numbers[0]].min(), synthetic[numbers[0]].max()

    def features(frame: pd.DataFrame) -> np.ndarray:
        values = frame[numbers].to_numpy(dtype=np.float32)
        is_large = low >= 0 and high >= LARGE
        scaled = np.log(np.maximum(values, LEAST)) if is_large else (values - low) / (high - low) * 5
        return np.column_stack([scaled, encoder.transform(frame[others])])

    if is_regression:
        learned, known = (np.log(np.clip(frame[target].to_numpy(), 1, MOST)) for frame in (synthetic, test))
    else:
        kinds = pd.Index(sorted(synthetic[target].unique()))
        learned, known = (kinds.get_indexer(frame[target]) for frame in (synthetic, test))
        if len(kinds) < 2:
            return 0.5
    order = np.random.permutation(len(synthetic))  # noqa: NPY002 - as above
    held, used = np.split(order, [len(order) // VALIDATION])
    inputs, tested = features(synthetic), features(test)
    best, score = None, -np.inf
    # As published: the target of the rows that choose is not its logarithm.
    chooses = synthetic[target].to_numpy()[held] if is_regression else learned[held]
    for values in product(*GRID.values()):
        kind = XGBRegressor if is_regression else XGBClassifier
        model = kind(**dict(zip(GRID, values, strict=True)), tree_method="hist", n_jobs=1)
        model.fit(inputs[used], learned[used])
        merit = _merit(model, inputs[held], chooses, is_regression)
        if merit > score:
            best, score = model, merit
    return abs(_merit(best, tested, known, is_regression))


def _merit(model: Any, inputs: np.ndarray, known: np.ndarray, is_regression: bool) -> float:
    """AUC, or RMSE below zero: more is better."""
    if is_regression:
        return -float(np.sqrt(np.mean((model.predict(inputs) - known) ** 2)))
    return float(roc_auc_score(known, model.predict_proba(inputs)[:, 1]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
