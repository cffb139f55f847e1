"""Fairness of models: scores by group of a sensitive column, trained on synthetic and on real rows.

What synthetic rows add to the difference between groups may be negative: a model that has learned nothing treats all
groups alike. So it describes, and no way is better. The interval of the worst group holds all of them at once.

Source: Dwork et al. 2012 (1104.3913) for parity of groups, as Agarwal et al. 2018 (1803.02453) measure it.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from evaluate.fairness.groups import MIN_ROWS, Groups
from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from evaluate.utility.models import Form
from evaluate.utility.scores import macro_roc_auc, r2
from evaluate.utility.study import COMPARED, SIDES, Figure, Study, interval, study_of

GAP, PARITY = NAMES = ("fairness.gap.boosting", "fairness.parity.boosting")
METRICS = (
    Metric(GAP, "lower", "Boosting, loss of the worst group", "What the group that loses most by it loses (TRTR - "
           "TSTR).", describes="it is the worst of groups, whose number the data decide; name 'columns.tvd.excess'"),
    Metric(PARITY, "none", "Boosting, disparity added",
           "What synthetic rows add to the largest difference in predictions between two groups (demographic parity).",
           describes="a model that has learned nothing treats all groups alike, so less is not better; name "
           "'columns.tvd.excess'"),
)  # fmt: skip

FORM: Form = "boosting"


def measure(tables: Tables) -> MetricResult:
    """Scores by group of models trained on synthetic rows, by sensitive column."""
    columns = [name for name in tables.schema.sensitive if name in tables.schema.learned]
    if not columns:
        return MetricResult(failures=_failures("the schema names no sensitive column that is learned"))
    study = study_of(tables)
    if isinstance(study, str):
        return MetricResult(failures=_failures(study))
    parts = [_of_column(Groups.of(name, tables.train, tables.schema), study) for name in columns]
    return MetricResult(
        tuple(estimate for part in parts for estimate in part.estimates),
        tuple(failure for part in parts for failure in part.failures),
        {"fairness_models": [part.figures for part in parts if part.figures]},
    )


def _failures(message: str, subject: tuple[str, ...] = ()) -> tuple[Failure, ...]:
    return tuple(Failure(name, "skipped", message, subject) for name in NAMES)


def _of_column(groups: Groups, study: Study) -> MetricResult:
    subject = (groups.column,)
    if study.task.target == groups.column:
        return MetricResult(failures=_failures("the sensitive column is what models predict", subject))
    codes = groups.codes(study.test.rows, study.schema)
    members = {group: codes == group for group in range(len(groups.labels)) if (codes == group).sum() >= MIN_ROWS}
    if len(members) < 2:
        message = f"fewer than two of its groups have {MIN_ROWS} control rows"
        return MetricResult(failures=_failures(message, subject))
    rows, gaps = [], []
    for group, label in enumerate(groups.labels):
        row: dict[str, Any] = {"group": label, "n": int((codes == group).sum()), "few": group not in members}
        if group in members:
            whole, (low, high) = _compared(study, _score(study, members[group]), -1.0, len(members))
            gap = Estimate(
                GAP, whole["trtr"] - whole["tstr"], row["n"], "lower", subject=subject, low=low, high=high,
                reference=whole["matched"] - whole["fresh"], floor=whole["trtr"] - whole["floor"],
            )  # fmt: skip
            if np.isfinite([gap.value, gap.reference or 0.0, gap.floor or 0.0]).all():
                gaps.append(gap)
                row["boosting"] = {"gap": gap.value, "low": low, "high": high}
        if row["n"]:
            rows.append(row)
    failures, worst = [Failure(GAP, "skipped", "the target does not vary within its groups", subject)], list[Estimate]()
    if gaps:
        note = f"TRTR - TSTR in the group that loses most, of {len(gaps)}; the interval is for all of them together"
        marks = {name: max(getattr(gap, name) for gap in gaps) for name in ("reference", "floor")}
        failures, worst = [], [replace(max(gaps, key=lambda gap: gap.value), **marks, note=note)]
    whole, (low, high) = _compared(study, lambda *table: parity(study, list(members.values()), *table), 1.0)
    added = Estimate(
        PARITY, whole["tstr"] - whole["trtr"], len(codes), "none", subject=subject, low=low, high=high,
        reference=whole["fresh"] - whole["matched"], floor=whole["floor"] - whole["trtr"],
        note=f"largest difference in predictions between {len(members)} groups: {whole['tstr']:.3f} trained on "
        f"synthetic rows, {whole['trtr']:.3f} on real ones",
    )  # fmt: skip
    level = {"model": FORM, **{f"parity_{side}": whole[side] for side in COMPARED}}
    figure = {"column": groups.column, "groups": rows, "levels": [level]}
    return MetricResult((*worst, added), tuple(failures), figure)


def _score(study: Study, rows: np.ndarray) -> Figure:
    truth, score = study.test.truth, macro_roc_auc if study.task.kind == "classification" else r2
    return lambda predictions, weights: score(predictions[rows], truth[rows], weights[:, rows])


def parity(study: Study, members: list[np.ndarray], predictions: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The largest difference between two groups in how often a class, or what number, is predicted; shape (b,)."""
    if study.task.kind == "regression":
        values = predictions[:, None] / (float(study.test.truth.std()) or 1.0)
    else:
        values = np.eye(predictions.shape[1])[predictions.argmax(axis=1)]
    means = []
    for rows in members:
        total = weights[:, rows].sum(axis=1, keepdims=True)
        means.append(np.where(total > 0, weights[:, rows] @ values[rows] / np.where(total > 0, total, 1.0), np.nan))
    return np.asarray((np.max(means, axis=0) - np.min(means, axis=0)).max(axis=1))


def _compared(
    study: Study, figure: Figure, sign: float, n_comparisons: int = 1
) -> tuple[dict[str, float], tuple[float, float]]:
    """A figure of models trained on each side, and the interval of what synthetic rows add to it, or take, by sign."""
    drawn, halves = ([score(FORM, side, figure) for side in COMPARED] for score in (study.drawn, study.split))
    whole = {side: float(figure(study.models[FORM][side].predictions, study.blocks[0])[0]) for side in SIDES}
    ends = interval(sign * (drawn[0] - drawn[1]), sign * (halves[0] - halves[1]), n_comparisons=n_comparisons)
    return whole, ends
