"""Fairness of models: scores by group of a sensitive column, trained on synthetic and on real rows.

Of every sensitive column but the target, for models trained on synthetic and on as many training rows: the loss in the
group that loses most, what synthetic rows add to demographic parity's largest difference in predictions between two
groups; the same for errors (equalized odds). Of classes, predictions are the most likely one; of a number, differences
are of means, in standard deviations of the truth. A group with too few control rows says nothing.

What synthetic rows add may be negative: a model that has learned nothing treats all groups alike. So it describes, and
no way is better.

The worst of several groups is chosen by chance as well: its interval has the coverage of all of them together.

Source: Dwork et al. 2012 (1104.3913) for parity of groups; Hardt, Price, Srebro 2016 (1610.02413) for equalized odds;
Agarwal et al. 2018 (1803.02453) for both as largest differences.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluate.fairness.groups import MIN_ROWS, Groups
from evaluate.metrics import Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from evaluate.utility.models import FORMS, Form
from evaluate.utility.scores import macro_roc_auc, r2
from evaluate.utility.study import COMPARED, SIDES, Figure, Study, interval, study_of

_CHOSEN = "it is the worst of groups, whose number the data decide; name 'utility.gap.linear' or 'columns.tvd.excess'"
_ADDED = "a model that has learned nothing treats all groups alike, so less is not better; name 'utility.gap.linear'"
METRICS = (
    Metric("fairness.gap.linear", "lower", "Linear model, loss of the worst group",
           "What the group that loses most by it loses (TRTR - TSTR).", describes=_CHOSEN),
    Metric("fairness.gap.boosting", "lower", "Boosting, loss of the worst group", "The same for gradient boosting.",
           describes=_CHOSEN),
    Metric("fairness.parity.linear", "none", "Linear model, disparity added",
           "What synthetic rows add to the largest difference in predictions between two groups (demographic parity).",
           describes=_ADDED),
    Metric("fairness.parity.boosting", "none", "Boosting, disparity added", "The same for gradient boosting.",
           describes=_ADDED),
    Metric("fairness.odds.linear", "none", "Linear model, unequal errors added",
           "What synthetic rows add to the largest difference in errors between two groups (equalized odds).",
           describes=_ADDED),
    Metric("fairness.odds.boosting", "none", "Boosting, unequal errors added", "The same for gradient boosting.",
           describes=_ADDED),
)  # fmt: skip

KINDS = ("gap", "parity", "odds")
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
    """Scores by group of models trained on synthetic rows. Estimates, by sensitive column: `fairness.gap.<form>` (TRTR
    - TSTR in the group that loses most, lower); `fairness.parity.<form>` and `fairness.odds.<form>` (what training on
    synthetic instead of real rows adds to them).
    """
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
    names = [f"fairness.{kind}.{form}" for form in FORMS for kind in KINDS]
    return tuple(Failure(name, "skipped", message, subject) for name in names)


def _of_column(groups: Groups, study: Study) -> MetricResult:
    subject = (groups.column,)
    if study.task.target == groups.column:
        return MetricResult(failures=_failures("the sensitive column is what models predict", subject))
    view = View.of(study, groups)
    if len(view.usable) < 2:
        message = f"fewer than two of its groups have {MIN_ROWS} control rows"
        return MetricResult(failures=_failures(message, subject))
    estimates, failures, rows = [], [], [_blank(view, group) for group in range(len(groups.labels))]
    for form in FORMS:
        gaps = {group: _gap(view, form, group) for group in view.usable}
        gaps = {group: gap for group, gap in gaps.items() if np.isfinite([gap.value, gap.reference, gap.floor]).all()}
        if gaps:
            estimates.append(_worst(view, form, gaps))
            for group, gap in gaps.items():
                rows[group][form] = {"gap": gap.value, "low": gap.low, "high": gap.high}
        else:
            message = "the target does not vary within its groups"
            failures.append(Failure(f"fairness.gap.{form}", "skipped", message, subject))
        estimates += [_added(view, form, "parity", view.parity), _added(view, form, "odds", view.odds)]
    levels = [_levels(view, form) for form in FORMS]
    figure = {"column": groups.column, "groups": [row for row in rows if row["n"]], "levels": levels}
    return MetricResult(tuple(estimates), tuple(failures), figure)


@dataclass(frozen=True)
class Gap:
    value: float
    low: float
    high: float
    reference: float
    floor: float
    n: int


def _gap(view: View, form: Form, group: int) -> Gap:
    figure, study = view.score(group), view.study
    drawn = [study.drawn(form, side, figure) for side in COMPARED]
    halves = [study.split(form, side, figure) for side in COMPARED]
    whole = {side: float(figure(study.models[form].predictions[side], study.blocks[0])[0]) for side in SIDES}
    low, high = interval(drawn[1] - drawn[0], halves[1] - halves[0], n_comparisons=len(view.usable))
    n = int((view.codes == group).sum())
    return Gap(
        whole["trtr"] - whole["tstr"], low, high, whole["matched"] - whole["fresh"], whole["trtr"] - whole["floor"], n
    )


def _worst(view: View, form: Form, gaps: dict[int, Gap]) -> Estimate:
    worst = max(gaps.values(), key=lambda gap: gap.value)
    return Estimate(
        f"fairness.gap.{form}", worst.value, worst.n, "lower", subject=(view.groups.column,), low=worst.low,
        high=worst.high, reference=max(gap.reference for gap in gaps.values()),
        floor=max(gap.floor for gap in gaps.values()),
        note=f"TRTR - TSTR in the group that loses most, of {len(gaps)}; the interval is for all of them together",
    )  # fmt: skip


def _added(view: View, form: Form, kind: str, figure: Figure) -> Estimate:
    study = view.study
    drawn = [study.drawn(form, side, figure) for side in COMPARED]
    halves = [study.split(form, side, figure) for side in COMPARED]
    whole = {side: float(figure(study.models[form].predictions[side], study.blocks[0])[0]) for side in SIDES}
    low, high = interval(drawn[0] - drawn[1], halves[0] - halves[1])
    words = "predictions" if kind == "parity" else "errors"
    return Estimate(
        f"fairness.{kind}.{form}", whole["tstr"] - whole["trtr"], len(view.codes), "none",
        subject=(view.groups.column,), low=low, high=high, reference=whole["fresh"] - whole["matched"],
        floor=whole["floor"] - whole["trtr"],
        note=f"largest difference in {words} between {len(view.usable)} groups: {whole['tstr']:.3f} trained on "
        f"synthetic rows, {whole['trtr']:.3f} on real ones",
    )  # fmt: skip


def _levels(view: View, form: Form) -> dict[str, Any]:
    """Both differences of the models trained on synthetic and on real rows."""
    predictions, ones = view.study.models[form].predictions, view.study.blocks[0]
    found: dict[str, Any] = {"model": form}
    for kind, figure in (("parity", view.parity), ("odds", view.odds)):
        found |= {f"{kind}_{side}": float(figure(predictions[side], ones)[0]) for side in COMPARED}
    return found


def _blank(view: View, group: int) -> dict[str, Any]:
    return {"group": view.groups.labels[group], "n": int((view.codes == group).sum()), "few": group not in view.usable}
