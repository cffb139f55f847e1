"""Train on synthetic, test on real: how much worse a model gets when it learns from the synthetic table.

Each model is trained on four kinds of rows, and scored on the same real rows, which none of them saw:

* synthetic rows (TSTR);
* as many training rows (TRTR);
* fresh real rows, and as many training rows (the reference of the gap, by which two real tables of one count differ);
* training rows whose columns were shuffled (the floor: nothing to learn).

The interval of the gap TRTR - TSTR is paired: both models are scored on the same draws of these rows, whole entities
together. What other rows to learn from would change is in it, too (see `evaluate.utility.study`).

Classes are scored by ROC AUC, the mean over classes of one against the rest; a class that the synthetic rows lack has
probability 0 and counts.

A number to predict is cut off at two quantiles of the training rows' target, for learning and for scoring alike. Else
one outlier decides which of two honest tables serves better. That hides a ruined tail, so that models of numbers as
they are stand beside these (`uncut`). Outliers decide them, and no rule rests on them.

A column that gives the target away (`evaluate.utility.task`) leaves nothing else to be learned. Models that do not
look at such columns stand beside those that do (`without`): where no column does, they are the same models.

Source: Esteban, Hyland, Raetsch 2017, arXiv:1706.02633 (TSTR).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from evaluate.metrics import TEST, Metric
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables
from evaluate.utility.models import FORMS, Form
from evaluate.utility.study import COMPARED, SIDES, Study, Variant, interval, study_of
from evaluate.utility.task import MAX_CLASSES, MAX_ROWS, giveaways_of

_OUTLIERS = "a few outliers decide it; name 'utility.gap.boosting.without'"
METRICS = (
    Metric("utility.tstr.linear", "higher", "Linear model, trained on synthetic",
           "Score on real rows of a linear model that saw only synthetic ones (TSTR).", counted=TEST, key=True),
    Metric("utility.tstr.boosting", "higher", "Boosting, trained on synthetic",
           "Score on real rows of gradient boosting that saw only synthetic ones (TSTR).", counted=TEST, key=True),
    Metric("utility.gap.linear", "lower", "Linear model, loss",
           "What a linear model loses by training on synthetic rows.", counted=TEST),
    Metric("utility.gap.boosting", "lower", "Boosting, loss",
           "What gradient boosting loses by training on synthetic rows.", counted=TEST),
    Metric("utility.tstr.linear.without", "higher", "Linear model, target not given away", "Score on real rows of a "
           "linear model trained on synthetic ones that does not see columns which alone predict the target.",
           counted=TEST),
    Metric("utility.tstr.boosting.without", "higher", "Boosting, target not given away", "Score on real rows of "
           "gradient boosting trained on synthetic ones that does not see columns which alone predict the target.",
           counted=TEST),
    Metric("utility.gap.linear.without", "lower", "Linear model, loss, target not given away",
           "What a linear model loses where no single column tells it the target.", counted=TEST),
    Metric("utility.gap.boosting.without", "lower", "Boosting, loss, target not given away",
           "What gradient boosting loses where no single column tells it the target.", counted=TEST),
    Metric("utility.tstr.linear.uncut", "higher", "Linear model, outliers as they are", "Score of a linear model "
           "trained on synthetic rows, with the target's outliers left in; a few rows decide it.", describes=_OUTLIERS),
    Metric("utility.tstr.boosting.uncut", "higher", "Boosting, outliers as they are", "Score of gradient boosting "
           "trained on synthetic rows, with the target's outliers left in; a few rows decide it.", describes=_OUTLIERS),
    Metric("utility.gap.linear.uncut", "lower", "Linear model, loss, outliers as they are",
           "What a linear model loses where no outlier is cut off.", describes=_OUTLIERS),
    Metric("utility.gap.boosting.uncut", "lower", "Boosting, loss, outliers as they are",
           "What gradient boosting loses where no outlier is cut off.", describes=_OUTLIERS),
)  # fmt: skip

BOUNDS = {"roc_auc": (0.0, 1.0), "r2": (-1.0, 1.0)}
VARIANTS: tuple[Variant, ...] = ("without", "uncut")  # Models beside those of all columns, by the end of their names


def measure(tables: Tables) -> MetricResult:
    """Scores of models trained on the synthetic table and how far they fall behind.

    Estimates:

    * `utility.tstr.linear`, `utility.tstr.boosting`: higher; reference TRTR;
    * `utility.gap.linear`, `utility.gap.boosting`: TRTR - TSTR, lower; reference: fresh rows and as many training ones;
    * all four with `.without`: models that do not see columns which give the target away;
    * all four with `.uncut`: of numbers, with their outliers.
    """
    study = study_of(tables)
    if isinstance(study, str):
        return MetricResult(failures=_absent(study))
    estimates, models = [], []
    for form in FORMS:
        found = scored(form, study, study_note(study, tables))
        estimates += found
        models.append(_model_figure(form, study, found[1]))
    figure = {"target": study.task.target, "task": study.task.kind, "why": study.task.why, "metric": study.task.metric}
    parts = [_varied(variant, study, tables) for variant in VARIANTS]
    drawn = {key: part for one in parts for key, part in one.figures.items()}
    return MetricResult(
        tuple(estimates) + tuple(one for part in parts for one in part.estimates),
        tuple(one for part in parts for one in part.failures),
        {"utility": {**figure, "models": models, "giveaways": _giveaways(study, tables), **drawn}},
    )


def _absent(why: str, variants: Sequence[str] = ("", *VARIANTS)) -> tuple[Failure, ...]:
    ends = [f".{variant}" if variant else "" for variant in variants]
    names = [f"utility.{kind}.{form}{end}" for end in ends for form in FORMS for kind in ("tstr", "gap")]
    return tuple(Failure(name, "skipped", why) for name in names)


def _varied(variant: Variant, whole: Study, tables: Tables) -> MetricResult:
    """Scores of models without the columns that give the target away, or with a number's outliers."""
    study = study_of(tables, variant)
    if isinstance(study, str):
        return MetricResult(failures=_absent(study, (variant,)))
    note = study_note(study, tables)
    note = f"{_left_out(study.task.left_out)}{note}" if variant == "without" else note
    estimates = [one for form in FORMS for one in scored(form, study, note, f".{variant}")]
    drawn = [] if study is whole else [_model_figure(form, study, estimates[2 * i + 1]) for i, form in enumerate(FORMS)]
    return MetricResult(tuple(estimates), figures={variant: drawn} if drawn else {})


def _left_out(names: Sequence[str]) -> str:
    """Beginning of the note of models without some columns."""
    if not names:
        return "no column gives the target away, "
    return f"without {', '.join(map(repr, names))}, which {'give' if len(names) > 1 else 'gives'} the target away, "


def _giveaways(study: Study, tables: Tables) -> list[dict[str, Any]]:
    return [{"column": one.column, "score": one.score} for one in giveaways_of(tables, study.task)]


def scored(form: Form, study: Study, note: str, end: str = "") -> list[Estimate]:
    n, bounds = len(study.test.truth), BOUNDS[study.task.metric]
    note = note if study.models[form].converged else f"{note}; a linear fit did not converge"
    score = {side: _value(study, form, side) for side in SIDES}
    drawn = {side: study.drawn(form, side, study.score) for side in COMPARED}
    halves = {side: study.split(form, side, study.score) for side in COMPARED}
    low, high = interval(drawn["tstr"], halves["tstr"], bounds=bounds)
    gap, gap_halves = drawn["trtr"] - drawn["tstr"], halves["trtr"] - halves["tstr"]
    gap_low, gap_high = interval(gap, gap_halves, bounds=(bounds[0] - bounds[1], bounds[1] - bounds[0]))
    return [
        Estimate(
            f"utility.tstr.{form}{end}", score["tstr"], n, "higher",
            low=low, high=high, reference=score["trtr"], floor=score["floor"], note=note,
        ),
        Estimate(
            f"utility.gap.{form}{end}", float(gap[0]), n, "lower", low=gap_low, high=gap_high,
            reference=score["matched"] - score["fresh"],
            floor=score["trtr"] - score["floor"], note=f"TRTR - TSTR: {note}",
        ),
    ]  # fmt: skip


def _value(study: Study, form: Form, side: str) -> float:
    return float(study.score(study.models[form].predictions[side], study.blocks[0])[0])


def _model_figure(form: Form, study: Study, gap: Estimate) -> dict[str, Any]:
    scores = {side: _value(study, form, side) for side in SIDES}
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
        cut = np.isfinite(task.limits).all()
        parts.append("outliers cut off at the 1% and 99% quantiles" if cut else "outliers as they are")
    n_classes = len(np.unique(sides["tstr"].truth))
    if task.kind == "classification" and n_classes < len(task.classes):
        parts.append("the synthetic rows lack a class")
    if task.kind == "classification" and len(task.classes) == MAX_CLASSES:
        parts.append("rarer classes left out")
    if max(len(tables.control), len(tables.train)) > MAX_ROWS:
        parts.append(f"sampled at {MAX_ROWS} rows")
    return ", ".join(parts)
