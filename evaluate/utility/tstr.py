"""Train on synthetic, test on real: how much worse a model gets when it learns from the synthetic table.

Each model is trained on synthetic rows (TSTR), on as many training rows (TRTR), on fresh real rows and as many training
rows as there are of these (the reference of the gap: what two real tables of the same count differ by), and on training
rows whose columns were shuffled (the floor: nothing to learn). All are scored on the same real rows, which
none of them saw. The interval of the gap TRTR - TSTR is paired: both models are scored on the same draws of these rows,
whole entities together; what other rows to learn from would change is in it, too (see `evaluate.utility.study`).

Classes are scored by ROC AUC, the mean over classes of one against the rest; a class that the synthetic rows lack has
probability 0 and counts. Where classes are of very different size, that says little of the rarer ones: the average
precision stands beside it.

A number to predict is cut off at two quantiles of the training rows' target, for learning and for scoring alike: else
one outlier decides which of two honest tables serves better.

Source: Esteban, Hyland, Raetsch 2017, arXiv:1706.02633 (TSTR); Saito & Rehmsmeier 2015 for average precision.
"""

from typing import Any

import numpy as np

from evaluate.result import Estimate, Failure
from evaluate.tables import Measurement, Tables
from evaluate.utility.features import Form
from evaluate.utility.models import FORMS
from evaluate.utility.scores import macro_average_precision
from evaluate.utility.study import COMPARED, SIDES, Figure, Study, interval, study_of
from evaluate.utility.task import MAX_CLASSES, MAX_ROWS

BOUNDS = {"roc_auc": (0.0, 1.0), "r2": (-1.0, 1.0)}


def measure(tables: Tables) -> Measurement:
    """Scores of models trained on the synthetic table and how far they fall behind.

    Estimates: `utility.tstr.linear`, `utility.tstr.boosting` (higher; reference TRTR), `utility.gap.linear`,
    `utility.gap.boosting` (TRTR - TSTR, lower; reference: the same for fresh rows and as many training ones); for
    classes `utility.average_precision.linear`, `utility.average_precision.boosting` (higher; reference TRTR).
    """
    study = study_of(tables)
    if isinstance(study, str):
        names = [f"utility.{kind}.{form}" for form in FORMS for kind in ("tstr", "gap", "average_precision")]
        return Measurement(failures=tuple(Failure(name, "skipped", study) for name in names))
    note = _note(study, tables)
    estimates, models = [], []
    for form in FORMS:
        found = _estimates(form, study, note)
        estimates += found
        models.append(_model_figure(form, study, found[1]))
    failures = () if study.task.kind == "classification" else tuple(_no_precision(form) for form in FORMS)
    figure = {"target": study.task.target, "task": study.task.kind, "metric": study.task.metric, "models": models}
    return Measurement(tuple(estimates), failures, {"utility": figure})


def _no_precision(form: Form) -> Failure:
    return Failure(f"utility.average_precision.{form}", "skipped", "the target has no classes to be found")


def _estimates(form: Form, study: Study, note: str) -> list[Estimate]:
    n, bounds = len(study.test.truth), BOUNDS[study.task.metric]
    note = note if study.models[form].converged else f"{note}; a linear fit did not converge"
    score, (drawn, halves) = {side: _value(study, form, side) for side in SIDES}, _compared(study, form, study.score)
    low, high = interval(drawn["tstr"], halves["tstr"], bounds=bounds)
    gap, gap_halves = drawn["trtr"] - drawn["tstr"], halves["trtr"] - halves["tstr"]
    gap_low, gap_high = interval(gap, gap_halves, bounds=(bounds[0] - bounds[1], bounds[1] - bounds[0]))
    found = [
        Estimate(
            f"utility.tstr.{form}", score["tstr"], n, "higher",
            low=low, high=high, reference=score["trtr"], floor=score["floor"], note=note,
        ),
        Estimate(
            f"utility.gap.{form}", float(gap[0]), n, "lower", low=gap_low, high=gap_high,
            reference=score["matched"] - score["fresh"],
            floor=score["trtr"] - score["floor"], note=f"TRTR - TSTR: {note}",
        ),
    ]  # fmt: skip
    return found if study.task.kind == "regression" else [*found, _precision(form, study)]


def _precision(form: Form, study: Study) -> Estimate:
    """How well a model trained on synthetic rows finds the rarer class, or each class on average."""

    def figure(predictions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return macro_average_precision(predictions, study.test.truth, weights)

    drawn, halves = _compared(study, form, figure)
    low, high = interval(drawn["tstr"], halves["tstr"], bounds=(0.0, 1.0))
    share = float(np.bincount(study.test.truth.astype(np.int64), minlength=len(study.task.classes)).min())
    what = "of the rarer class" if len(study.task.classes) == 2 else f"mean over {len(study.task.classes)} classes"
    others = {
        side: float(figure(study.models[form].predictions[side], study.blocks[0])[0]) for side in ("trtr", "floor")
    }
    return Estimate(
        f"utility.average_precision.{form}", float(drawn["tstr"][0]), len(study.test.truth), "higher", low=low,
        high=high, reference=others["trtr"], floor=others["floor"],
        note=f"average precision {what}; the rarest class is {share / len(study.test.truth):.1%} of the control rows, "
        "which is what guessing would score for it",
    )  # fmt: skip


def _compared(study: Study, form: Form, figure: Figure) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A figure of TSTR and TRTR on draws of the control rows, and of models fitted on halves."""
    drawn = {side: study.drawn(form, side, figure) for side in COMPARED}
    return drawn, {side: study.split(form, side, figure) for side in COMPARED}


def _value(study: Study, form: Form, side: str) -> float:
    return float(study.score(study.models[form].predictions[side], study.blocks[0])[0])


def _model_figure(form: Form, study: Study, gap: Estimate) -> dict[str, Any]:
    scores = {side: _value(study, form, side) for side in SIDES}
    return {"model": form, **scores, "gap": gap.value, "low": gap.low, "high": gap.high}


def _note(study: Study, tables: Tables) -> str:
    """What a reader needs beside the scores."""
    task, sides = study.task, study.sides
    metric = {"roc_auc": "ROC AUC", "r2": "R2 (not below -1)"}[task.metric]
    if len(task.classes) > 2:
        metric = f"macro one-vs-rest ROC AUC over {len(task.classes)} classes"
    parts = [f"{metric} of {task.target!r}", f"{len(sides['tstr'].truth)} rows learned from"]
    if len(sides["fresh"].truth) < len(sides["tstr"].truth):
        parts.append(f"{len(sides['fresh'].truth)} fresh ones")
    if task.kind == "regression":
        parts.append("outliers cut off at the 1% and 99% quantiles")
    n_classes = len(np.unique(sides["tstr"].truth))
    if task.kind == "classification" and n_classes < len(task.classes):
        parts.append("the synthetic rows lack a class")
    if task.kind == "classification" and len(task.classes) == MAX_CLASSES:
        parts.append("rarer classes left out")
    if max(len(tables.control), len(tables.train)) > MAX_ROWS:
        parts.append(f"sampled at {MAX_ROWS} rows")
    return ", ".join(parts)
