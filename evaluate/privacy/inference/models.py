"""Attribute inference by models: gradient boosting learns the secret from synthetic rows and guesses it for targets.

The attacker is that of `evaluate.privacy.inference`. A model generalizes: it finds what the nearest row misses, and
most of what it finds it finds for everybody. So the baseline matters here, the same model trained on the attacker's own
sample of the population: what the synthetic model finds beyond that, and beyond what it finds of controls, is a leak.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evaluate.privacy.experiment import Experiment
from evaluate.privacy.inference.secrets import Attacked, Secret, secret_of
from evaluate.result import Estimate, Failure
from evaluate.tables import Tables
from evaluate.utility.models import Fitted
from evaluate.utility.study import fit
from evaluate.utility.task import MAX_CLASSES, Side, Task

MODEL = "privacy.inference.model"
MIN_TARGETS = 10
MAX_TREES_ROWS = 40_000
"""Rows learned from times classes, as boosting grows trees for each class: beyond so many, fewer rows are used."""


@dataclass(frozen=True)
class ModelAttacks:
    """What came of them: numbers, what could not be measured, and plain data to draw."""

    estimates: tuple[Estimate, ...] = ()
    failures: tuple[Failure, ...] = ()
    drawn: tuple[Mapping[str, Any], ...] = ()


def model_attacks(tables: Tables, attacked: Attacked, secrets: Sequence[str]) -> ModelAttacks:
    """The attack on each sensitive column and the target.

    Args:
        tables: *Sensitive*.
        attacked: who is attacked.
        secrets: the columns that vary.
    """
    schema = tables.schema
    columns = [name for name in secrets if name in schema.sensitive or name == schema.target]
    if not columns:
        message = "the schema names no sensitive column and no target that vary"
        return ModelAttacks(failures=(Failure(MODEL, "skipped", message),))
    found = {name: _attack(name, tables, attacked) for name in columns}
    tried = {name: one for name, one in found.items() if isinstance(one, Experiment)}
    failed = [Failure(MODEL, "skipped", one, (name,)) for name, one in found.items() if isinstance(one, str)]
    estimates = [
        one.estimate(MODEL, note=_note(one), subject=(name,), n_comparisons=len(tried)) for name, one in tried.items()
    ]
    drawn = [
        {"column": name, **one.figure(), "advantage": list(one.advantage(len(tried)))} for name, one in tried.items()
    ]
    return ModelAttacks(tuple(estimates), tuple(failed), tuple(drawn))


def _attack(name: str, tables: Tables, attacked: Attacked) -> Experiment | str:
    """The attack on one column, or why there is none. Targets whose value is missing are left out."""
    task, secret = _task(name, tables), secret_of(name, tables, attacked)
    members = np.flatnonzero(~np.isnan(secret.members))
    controls = np.flatnonzero(~np.isnan(secret.controls))
    if min(len(members), len(controls)) < MIN_TARGETS:
        return f"fewer than {MIN_TARGETS} targets on a side hold a value"
    targets = tables.train.iloc[attacked.members[members]], tables.control.iloc[attacked.controls[controls]]
    truths = secret.members[members], secret.controls[controls]
    model = _learned(tables.synthetic, task, tables)
    key = ("inference", name, tuple(task.classes))
    if key not in tables.kept_of_real:
        tables.kept_of_real[key] = _learned(tables.fresh, task, tables)
    own = tables.kept_of_real[key]
    if model is None or own is None:
        return "no synthetic row, or no fresh real row, holds a value to learn"
    attack, control = (
        _hits(model, task, rows, truth, secret, tables) for rows, truth in zip(targets, truths, strict=True)
    )
    baseline = _hits(own, task, targets[0], truths[0], secret, tables)
    return Experiment(attack, control, float(baseline.mean()))


def _task(name: str, tables: Tables) -> Task:
    """What models learn: of many classes, the most frequent ones of the synthetic table.

    The most frequent ones among the training rows hold, by luck, more of these rows than of others: an honest table
    would seem to tell.
    """
    task = Task.of(tables, name)
    if task.kind == "regression":
        return task
    counts = tables.synthetic[name].dropna().astype(object).value_counts().sort_index()
    return replace(task, classes=counts.sort_values(ascending=False, kind="stable").index[:MAX_CLASSES])


def _learned(frame: pd.DataFrame, task: Task, tables: Tables) -> Fitted | None:
    """A model of the column that has seen the rows; none where no row holds a value."""
    side = Side.of(frame, task, tables)
    n_classes = len(task.classes)
    if n_classes > 2:
        side = side.first(MAX_TREES_ROWS // n_classes)
    if len(side.truth) == 0:
        return None
    return fit("boosting", task, side, tables.schema.model_copy(update={"target": task.target}))


def _hits(
    model: Fitted, task: Task, rows: pd.DataFrame, truth: np.ndarray, secret: Secret, tables: Tables
) -> np.ndarray:  # fmt: skip
    """Which values the model finds, boolean."""
    guesses = model.predict(rows)
    if task.kind == "regression":
        return secret.found(guesses, truth)
    return np.asarray(guesses.argmax(axis=1) == task.truth(rows, tables.schema))


def _note(one: Experiment) -> str:
    attack, control = float(one.attack.mean()), float(one.control.mean())
    return (
        f"a model trained on synthetic rows finds the value for {attack:.1%} of members and {control:.1%} of controls; "
        f"one trained on fresh real rows, for {one.baseline or 0.0:.1%} of members"
    )
