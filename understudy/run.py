"""One run: the stages one after the other, and the folder they leave, whole or not at all."""

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from evaluate.policy import Verdict
from evaluate.result import NOTICE, Evaluation
from synth.dp.statement import PrivacyStatement
from synth.errors import ModelError
from synth.generators.base import Model
from synth.output import whole_folder
from synth.split import Split
from synth.table import write_table
from understudy import provenance, stages
from understudy.console import Console
from understudy.exit_codes import DONE, VERDICTS
from understudy.plan import Plan

REPORT, EVALUATION, VERDICT = "report.html", "evaluation.json", "verdict.json"
SYNTHETIC, MODELS = "synthetic", "models"
KEYED, STRATIFIED = "keyed hash", "stratified draw"


@dataclass(frozen=True)
class Made:
    """What one generator left.

    Attributes:
        synthetic: its table.
        statement: what it promises; none: **no formal guarantee**.
        seconds: wall seconds of fit and sample.
        model: why its model was not saved; empty where it was.
    """

    synthetic: pd.DataFrame
    statement: PrivacyStatement | None
    seconds: Mapping[str, float]
    model: str


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    plan: Plan
    evaluation: Evaluation
    verdicts: tuple[Verdict, ...]
    unsaved: Mapping[str, str]

    @property
    def released(self) -> Verdict | None:
        """The verdict on the table that the job names for release; none where it names none."""
        return next((v for v in self.verdicts if v.candidate == self.plan.job.release), None)

    @property
    def exit_code(self) -> int:
        """0, or what the verdict on the table to release says."""
        return DONE if self.released is None else VERDICTS[self.released.verdict]


def run(plan: Plan, console: Console) -> Outcome:
    """Carry out a plan.

    Raises:
        BadInput: the table does not fit, or a fit is not possible; no folder was left.
    """
    with whole_folder(plan.out) as folder:
        sides = _prepare(plan, console)
        (folder / SYNTHETIC).mkdir()
        (folder / MODELS).mkdir()
        made = {label: _make(plan, label, sides, folder, console) for label in plan.generators}
        evaluation = _evaluate(plan, sides, made, console)
        evaluation = replace(evaluation, provenance=_provenance(plan, folder, sides))
        verdicts = stages.judge(plan, evaluation)
        outcome = Outcome(plan, evaluation, verdicts, {label: m.model for label, m in made.items() if m.model})
        with console.stage("report"):
            _write(outcome, folder)
    return outcome


def _prepare(plan: Plan, console: Console) -> Split:
    """The two sides of the real table."""
    with console.stage("split"):
        return stages.split(plan, stages.read(plan))


def _make(plan: Plan, label: str, sides: Split, folder: Path, console: Console) -> Made:
    """One candidate: fitted, saved where it can be, sampled and written."""
    started = time.perf_counter()
    with console.stage(f"fit {label}") as progress:
        model = stages.fit(plan, label, sides.train, progress)
    fitted = time.perf_counter()
    unsaved = _save(model, folder / MODELS / label)
    with console.stage(f"sample {label}") as progress:
        synthetic = stages.sample(plan, label, model, progress)
    seconds = {"fit": fitted - started, "sample": time.perf_counter() - fitted}
    write_table(synthetic, folder / SYNTHETIC / f"{label}{plan.suffix}", plan.schema)
    return Made(synthetic, model.statement, seconds, unsaved)


def _save(model: Model, path: Path) -> str:
    """Why a model could not be saved; empty where it was."""
    try:
        model.save(path)
    except ModelError as error:
        return str(error)
    return ""


def _evaluate(plan: Plan, sides: Split, made: Mapping[str, Made], console: Console) -> Evaluation:
    synthetic = {label: one.synthetic for label, one in made.items()}
    statements = {label: one.statement for label, one in made.items()}
    with console.stage("evaluate") as progress:
        evaluation = stages.evaluate(plan, sides, synthetic, statements, progress)
    timed = tuple(replace(c, seconds={**made[c.name].seconds, **c.seconds}) for c in evaluation.candidates)
    return replace(evaluation, candidates=timed)


def _provenance(plan: Plan, folder: Path, sides: Split) -> dict[str, Any]:
    outputs = sorted(path for path in folder.rglob("*") if path.is_file())
    return provenance.record(
        plan.job.seed,
        provenance.fingerprints(sides.train, sides.holdout, plan.schema, plan.key),
        {"job": plan.job_path, "schema": plan.schema_path, "policy": plan.policy_path},
        {str(path.relative_to(folder)): path for path in outputs},
        job=plan.title,
        release=plan.job.release,
        split=f"{KEYED if sides.keyed else STRATIFIED}, seed {plan.job.split_seed}",
    )


def _write(outcome: Outcome, folder: Path) -> None:
    plan = outcome.plan
    (folder / EVALUATION).write_text(outcome.evaluation.to_json(), encoding="utf-8")
    (folder / VERDICT).write_text(json.dumps(verdict_content(outcome), indent=1, ensure_ascii=False), encoding="utf-8")
    shutil.copyfile(plan.job_path, folder / "job.toml")
    shutil.copyfile(plan.schema_path, folder / "schema.toml")
    stages.report(plan, outcome.evaluation, outcome.verdicts, folder / REPORT)
    if not any((folder / MODELS).iterdir()):
        (folder / MODELS).rmdir()


def verdict_content(outcome: Outcome) -> dict[str, Any]:
    """The verdicts as plain data."""
    return {
        "notice": NOTICE,
        "policy": outcome.plan.policy.name,
        "release": outcome.plan.job.release,
        "verdict": None if outcome.released is None else outcome.released.verdict,
        "candidates": [verdict.to_dict() for verdict in outcome.verdicts],
    }
