"""Fairness of models: scores by group of a sensitive column, trained on synthetic and on real rows.

Of every sensitive column but the target, for boosting trained on synthetic and on as many training rows: the loss in
the group that loses most, what synthetic rows add to demographic parity's largest difference in predictions between two
groups; the same for errors (equalized odds). Of classes, predictions are the most likely one; of a number, differences
are of means, in standard deviations of the truth. A group with too few control rows says nothing.

What synthetic rows add may be negative: a model that has learned nothing treats all groups alike. So it describes, and
no way is better.

The worst of several groups is chosen by chance as well: its interval has the coverage of all of them together.

Source: Dwork et al. 2012 (1104.3913) for parity of groups; Hardt, Price, Srebro 2016 (1610.02413) for equalized odds;
Agarwal et al. 2018 (1803.02453) for both as largest differences.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluate.fairness.groups import MIN_ROWS, Groups
from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from evaluate.utility.models import Form
from evaluate.utility.scores import macro_roc_auc, r2
from evaluate.utility.study import COMPARED, SIDES, Figure, Study, interval, study_of

_CHOSEN = "it is the worst of groups, whose number the data decide; name 'columns.tvd.excess'"
_ADDED = "a model that has learned nothing treats all groups alike, so less is not better; name 'columns.tvd.excess'"
GAP, PARITY, ODDS = NAMES = tuple(f"fairness.{kind}.boosting" for kind in ("gap", "parity", "odds"))
METRICS = (
    Metric(GAP, "lower", "Boosting, loss of the worst group",
           "What the group that loses most by it loses (TRTR - TSTR).", describes=_CHOSEN),
    Metric(PARITY, "none", "Boosting, disparity added",
           "What synthetic rows add to the largest difference in predictions between two groups (demographic parity).",
           describes=_ADDED),
    Metric(ODDS, "none", "Boosting, unequal errors added",
           "What synthetic rows add to the largest difference in errors between two groups (equalized odds).",
           describes=_ADDED),
)  # fmt: skip

FORM: Form = "boosting"
MIN_OF_CLASS = 30  # Control rows of a class that a group must have for its errors to be compared


@dataclass(frozen=True)
class View:
    study: Study  # *Sensitive*. The models and rows
    groups: Groups
    codes: np.ndarray  # the group of each control row, -1 for no group, shape (n,)
    usable: tuple[int, ...]

    @classmethod
    def of(cls, study: Study, groups: Groups) -> "View":
        codes = groups.codes(study.test.rows, study.schema)
        sizes = np.bincount(codes[codes >= 0], minlength=len(groups.labels))
        return cls(study, groups, codes, tuple(int(g) for g in np.flatnonzero(sizes >= MIN_ROWS)))

    def score(self, group: int) -> Figure:
        rows, truth = self.codes == group, self.study.test.truth
        score = macro_roc_auc if self.study.task.kind == "classification" else r2
        return lambda predictions, weights: score(predictions[rows], truth[rows], weights[:, rows])

    def parity(self, predictions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The largest difference between two groups in how often a class, or what number, is predicted; shape (b,)."""
        rows = [self.codes == group for group in self.usable]
        return _largest(self._predicted(predictions), rows, weights)

    def odds(self, predictions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The largest difference between two groups in how often a class is recognized, or in mean errors; (b,)."""
        truth = self.study.test.truth
        if self.study.task.kind == "regression":
            errors = self._predicted(predictions) - truth[:, None] / self._scale
            return _largest(errors, [self.codes == group for group in self.usable], weights)
        chosen, found = self._predicted(predictions), [np.zeros(len(weights))]
        for code in range(chosen.shape[1]):
            rows = [(self.codes == group) & (truth == code) for group in self.usable]
            rows = [row for row in rows if row.sum() >= MIN_OF_CLASS]
            if len(rows) > 1:
                found.append(_largest(chosen[:, [code]], rows, weights))
        return np.asarray(np.max(found, axis=0))

    @property
    def _scale(self) -> float:
        return float(self.study.test.truth.std()) or 1.0

    def _predicted(self, predictions: np.ndarray) -> np.ndarray:
        if self.study.task.kind == "regression":
            return np.asarray(predictions[:, None] / self._scale)
        return np.asarray(np.eye(predictions.shape[1])[predictions.argmax(axis=1)])


def _largest(values: np.ndarray, rows: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """The largest difference of weighted means between two sets of rows, over all columns of values; shape (b,).
    `values`: shape (n, k). `rows`: sets of rows, boolean, shape (n,) each. `weights`: shape (b, n).
    """
    means = []
    for row in rows:
        total = weights[:, row].sum(axis=1, keepdims=True)
        means.append(np.where(total > 0, weights[:, row] @ values[row] / np.where(total > 0, total, 1.0), np.nan))
    spread = np.max(means, axis=0) - np.min(means, axis=0)
    return np.asarray(spread.max(axis=1))


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
    view = View.of(study, groups)
    if len(view.usable) < 2:
        message = f"fewer than two of its groups have {MIN_ROWS} control rows"
        return MetricResult(failures=_failures(message, subject))
    failures: tuple[Failure, ...] = ()
    rows, gaps = [], []
    for group, label in enumerate(groups.labels):
        row: dict[str, Any] = {"group": label, "n": int((view.codes == group).sum()), "few": group not in view.usable}
        if group in view.usable:
            whole, (low, high) = _compared(view, view.score(group), -1.0, len(view.usable))
            gap = Estimate(
                GAP, whole["trtr"] - whole["tstr"], row["n"], "lower", subject=subject, low=low, high=high,
                reference=whole["matched"] - whole["fresh"], floor=whole["trtr"] - whole["floor"],
            )  # fmt: skip
            if np.isfinite([gap.value, gap.reference or 0.0, gap.floor or 0.0]).all():
                gaps.append(gap)
                row["boosting"] = {"gap": gap.value, "low": low, "high": high}
        if row["n"]:
            rows.append(row)
    estimates, level = list[Estimate](), dict[str, Any](model=FORM)
    if gaps:
        worst = max(gaps, key=lambda gap: gap.value)
        note = f"TRTR - TSTR in the group that loses most, of {len(gaps)}; the interval is for all of them together"
        marks = {name: max(getattr(gap, name) for gap in gaps) for name in ("reference", "floor")}
        estimates.append(replace(worst, **marks, note=note))
    else:
        failures = (Failure(GAP, "skipped", "the target does not vary within its groups", subject),)
    for name, kind, figure in ((PARITY, "parity", view.parity), (ODDS, "odds", view.odds)):
        whole, (low, high) = _compared(view, figure, 1.0)
        level |= {f"{kind}_{side}": whole[side] for side in COMPARED}
        words = "predictions" if kind == "parity" else "errors"
        estimates.append(Estimate(
            name, whole["tstr"] - whole["trtr"], len(view.codes), "none", subject=subject, low=low, high=high,
            reference=whole["fresh"] - whole["matched"], floor=whole["floor"] - whole["trtr"],
            note=f"largest difference in {words} between {len(view.usable)} groups: {whole['tstr']:.3f} trained on "
            f"synthetic rows, {whole['trtr']:.3f} on real ones",
        ))  # fmt: skip
    return MetricResult(tuple(estimates), failures, {"column": groups.column, "groups": rows, "levels": [level]})


def _compared(
    view: View, figure: Figure, sign: float, n_comparisons: int = 1
) -> tuple[dict[str, float], tuple[float, float]]:
    """A figure of models trained on each side, and the interval of what synthetic rows add to it, or take, by sign."""
    study = view.study
    drawn, halves = ([of(FORM, side, figure) for side in COMPARED] for of in (study.drawn, study.split))
    whole = {side: float(figure(study.models[FORM][side].predictions, study.blocks[0])[0]) for side in SIDES}
    ends = interval(sign * (drawn[0] - drawn[1]), sign * (halves[0] - halves[1]), n_comparisons=n_comparisons)
    return whole, ends
