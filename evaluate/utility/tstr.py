"""Train on synthetic, test on real: how much worse a model gets when it learns from the synthetic table.

Each model learns from synthetic rows (TSTR), from as many training rows (TRTR), from fresh real rows (the reference)
and from shuffled ones (the floor). The interval of TRTR - TSTR is paired, and holds what other rows to learn from would
change (`evaluate.utility.study`). A class that the synthetic rows lack has probability 0 and counts. A number to
predict is cut off at two quantiles of the training rows' target, else one outlier decides which of two honest tables
serves better. The gap is the loss of boosting without columns that give the target away (`without`).

Source: Esteban, Hyland, Raetsch 2017, arXiv:1706.02633 (TSTR).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from evaluate.estimate import Estimate, Failure, NotMeasuredError
from evaluate.metrics import TEST, Metric
from evaluate.tables import MetricResult, Tables
from evaluate.utility.models import FORMS, Form
from evaluate.utility.study import (
    MAX_CLASSES,
    MAX_ROWS,
    SIDES,
    Study,
    giveaways_of,
    interval,
    study_of,
    study_without_giveaways,
)

GAP = "utility.gap.boosting.without"
METRICS = (
    Metric("utility.tstr.linear", "higher", "Linear model, trained on synthetic",
           "Score on real rows of a linear model that saw only synthetic ones (TSTR).", counted=TEST, key=True),
    Metric("utility.tstr.boosting", "higher", "Boosting, trained on synthetic",
           "Score on real rows of gradient boosting that saw only synthetic ones (TSTR).", counted=TEST, key=True),
    Metric(GAP, "lower", "Boosting, loss, target not given away",
           "What gradient boosting loses by training on synthetic rows, where no single column tells it the target.",
           counted=TEST),
)  # fmt: skip

BOUNDS = {"roc_auc": (0.0, 1.0), "r2": (-1.0, 1.0)}


def measure(tables: Tables) -> MetricResult:
    """Scores of models trained on the synthetic table (reference: TRTR), and how far boosting falls behind."""
    study = study_of(tables)
    task, note = study.task, study_note(study, tables)
    gaps = {form: gap_of(form, study) for form in FORMS}
    figure: dict[str, Any] = {
        "target": task.target, "task": task.kind, "why": task.why, "metric": task.metric,
        "models": [_model_figure(form, study, gap) for form, gap in gaps.items()],
        "giveaways": [{"column": name, "score": score} for name, score in giveaways_of(tables, task).items()],
    }  # fmt: skip
    scores = tuple(score_of(form, study, note) for form in FORMS)
    try:
        seen = study_without_giveaways(study, tables)
    except NotMeasuredError as why:
        return MetricResult(scores, (Failure(GAP, "skipped", str(why)),), {"utility": figure})
    gap, names = gap_of("boosting", seen), ", ".join(map(repr, seen.task.left_out))
    gives = "give" if len(seen.task.left_out) > 1 else "gives"
    words = f"without {names}, which {gives} the target away" if names else "no column gives the target away"
    if names:
        figure["without"] = [_model_figure("boosting", seen, gap)]
    return MetricResult((*scores, replace(gap, note=f"TRTR - TSTR: {words}, {note}")), figures={"utility": figure})


def score_of(form: Form, study: Study, note: str) -> Estimate:
    """The score of a model that learned from synthetic rows."""
    if not all(model.converged for model in study.models[form].values()):
        note = f"{note}; a linear fit did not converge"
    return study.estimate(f"utility.tstr.{form}", form, BOUNDS[study.task.metric], note)


def gap_of(form: Form, study: Study) -> Estimate:
    """What a model loses that learned from synthetic rows."""
    score = {side: study.value(form, side) for side in SIDES}
    gap = study.drawn(form, "trtr") - study.drawn(form, "tstr")
    halves = study.split(form, "trtr") - study.split(form, "tstr")
    width = BOUNDS[study.task.metric][1] - BOUNDS[study.task.metric][0]
    low, high = interval(gap, halves, bounds=(-width, width))
    return Estimate(
        GAP, float(gap[0]), len(study.test.truth), "lower", low=low, high=high,
        reference=score["matched"] - score["fresh"], floor=score["trtr"] - score["floor"],
    )  # fmt: skip


def _model_figure(form: Form, study: Study, gap: Estimate) -> dict[str, Any]:
    scores = {side: study.value(form, side) for side in SIDES}
    return {"model": form, **scores, "gap": gap.value, "low": gap.low, "high": gap.high}


def study_note(study: Study, tables: Tables) -> str:
    task, sides = study.task, study.sides
    metric = {"roc_auc": "ROC AUC", "r2": "R2 (not below -1)"}[task.metric]
    if len(task.classes) > 2:
        metric = f"macro one-vs-rest ROC AUC over {len(task.classes)} classes"
    parts = [f"{metric} of {task.target!r} ({task.kind}: {task.why})", f"{len(sides['tstr'].truth)} rows learned from"]
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
