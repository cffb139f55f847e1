"""One run: the stages one after the other, each done once whatever cuts the run short, and the folder they leave."""

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from evaluate.policy import Verdict
from evaluate.result import NOTICE, Candidate, Evaluation
from synth.dp.statement import PrivacyStatement
from synth.errors import ModelError
from synth.generators.base import Model
from synth.generators.lawful import REJECTED, rejections
from synth.generators.registry import load_model
from synth.output import whole_file
from synth.split import Split
from synth.table import read_table, write_table
from understudy import provenance, reservations, stages
from understudy.auditing import disproved
from understudy.console import Console
from understudy.exit_codes import DONE, VERDICTS
from understudy.funds import releases
from understudy.plan import Plan
from understudy.unfinished import unfinished
from understudy.work import Work

REPORT, EVALUATION, VERDICT = "report.html", "evaluation.json", "verdict.json"
SYNTHETIC, MODELS = "synthetic", "models"
KEYED, STRATIFIED = "keyed hash", "stratified draw"


@dataclass(frozen=True)
class Made:
    """What one generator left.

    Attributes:
        statement: what it promises; none: **no formal guarantee**.
        seconds: wall seconds of fit and sample.
        unsaved: why its model was not saved; empty where it was.
        rejected: rows that were drawn and rejected for breaking a constraint; none where the schema has none.
    """

    statement: PrivacyStatement | None
    seconds: Mapping[str, float]
    unsaved: str
    rejected: int | None = None


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
    """Carry out a plan, from where an earlier start of the same run was cut short.

    Raises:
        BadInput: the table does not fit, a fit is not possible, or other unfinished work is in the way; no output was
            left, and unfinished work only where something was reserved or drawn, or a fit was finished.
    """
    with unfinished(plan.out, restart=plan.restart) as work:
        work.claim(_names(plan))
        sides = _prepare(plan, work, console)
        made = {label: _make(plan, label, sides, work, console) for label in plan.generators}
        evaluation = _evaluate(plan, sides, made, work, console)
        verdicts = stages.judge(plan, evaluation)
        outcome = Outcome(plan, evaluation, verdicts, {label: m.unsaved for label, m in made.items() if m.unsaved})
        with console.stage("report"):
            _write(outcome, work.result)
        work.finish()
    return outcome


def _names(plan: Plan) -> dict[str, str | None]:
    """What makes this run this run, as far as it is known before the table is read."""
    paths = {"job": plan.job_path, "schema": plan.schema_path, "policy": plan.policy_path}
    return {
        **{name: provenance.sha256(path) for name, path in paths.items()},
        "version of understudy": metadata.version("understudy"),
        # A copy of unfinished work would draw under the same reservation once more.
        "output": str(plan.out.parent.resolve() / plan.out.name),
        "ledger": None if plan.fund is None else plan.fund.place,
    }


def _prepare(plan: Plan, work: Work, console: Console) -> Split:
    """The two sides of the real table, with everything paid for that is drawn from them."""
    with console.stage("split"):
        real = stages.read(plan)
        fingerprint = provenance.fingerprint(real, plan.schema, plan.key)
        work.claim({"table": fingerprint})
        sides = stages.split(plan, real)
    reservations.reserve(plan, work, fingerprint)
    for sentence in work.warnings:
        console.warn(sentence)
    return sides


def _make(plan: Plan, label: str, sides: Split, work: Work, console: Console) -> Made:
    """One candidate: fitted, saved where it can be, sampled and written; what is there of it is not done again."""
    if "statement" not in work.stage(label):
        model, unsaved = _fit(plan, label, sides, work, console)
        started = time.perf_counter()
        with console.stage(f"sample {label}") as progress:
            synthetic = stages.sample(plan, label, model, progress)
            write_table(synthetic, _table(plan, label, work), plan.schema)
        seconds = {**work.stage(label)["seconds"], "sample": time.perf_counter() - started}
        statement = None if model.statement is None else model.statement.to_dict()
        rejected = synthetic.attrs.get(REJECTED)
        if rejected is not None:
            console.say(f"{label}: {rejections(rejected)}")
        work.write_stage(label, {"seconds": seconds, "unsaved": unsaved, "statement": statement, "rejected": rejected})
    done = work.stage(label)
    stated = None if done["statement"] is None else PrivacyStatement.from_dict(done["statement"])
    return Made(stated, done["seconds"], done["unsaved"], done.get("rejected"))


def _fit(plan: Plan, label: str, sides: Split, work: Work, console: Console) -> tuple[Model, str]:
    """A generator's model, fitted or loaded, and why it could not be saved."""
    unsaved, model = "", load_model(work.model(label)) if work.model(label).is_dir() else None
    if model is None:
        started, warned = time.perf_counter(), len(work.warnings)
        with console.stage(f"fit {label}") as progress, reservations.budget(plan, work, label) as budget:
            model = stages.fit(plan, label, sides.train, budget, work.training(label), progress)
        for sentence in work.warnings[warned:]:
            console.warn(sentence)
        # Before the model: where that is, these are too.
        work.write_stage(label, {"seconds": {"fit": time.perf_counter() - started}})
        work.keep_log(label)
        unsaved = _save(model, work.model(label))
        # After the model: until that is there, a fit that has drawn all it may needs what it was trained to.
        work.forget_training(label)
    if plan.fund is not None and model.statement is not None:
        reservations.commit(plan.fund, model.statement)
    return model, unsaved


def _save(model: Model, path: Path) -> str:
    """Why a model could not be saved; empty where it was."""
    try:
        model.save(path)
    except ModelError as error:
        return str(error)
    return ""


def _table(plan: Plan, label: str, work: Work) -> Path:
    return work.result / SYNTHETIC / f"{label}{plan.suffix}"


def _evaluate(plan: Plan, sides: Split, made: Mapping[str, Made], work: Work, console: Console) -> Evaluation:
    """Everything measured, once; what is judged is what was written."""
    path = work.result / EVALUATION
    if path.exists():
        return Evaluation.from_json(path.read_text(encoding="utf-8"))
    with console.stage("evaluate") as progress:
        synthetic = {label: read_table(_table(plan, label, work)) for label in made}
        statements = {label: one.statement for label, one in made.items()}
        evaluation = stages.evaluate(plan, sides, synthetic, statements, progress)
    completed = (_completed(plan, candidate, made[candidate.name]) for candidate in evaluation.candidates)
    candidates = tuple(_audit(plan, candidate, console) for candidate in completed)
    evaluation = replace(evaluation, candidates=candidates, provenance=_provenance(plan, made, work, sides))
    with whole_file(path) as beside:
        beside.write_text(evaluation.to_json(), encoding="utf-8")
    return evaluation


def _completed(plan: Plan, candidate: Candidate, made: Made) -> Candidate:
    """The candidate with what its making took, rows rejected where there are constraints, and what was expected."""
    return replace(
        candidate,
        seconds={**made.seconds, **candidate.seconds},
        expected=stages.expected(plan, candidate.name),
        n_rejected_rows=made.rejected,
    )


def _audit(plan: Plan, candidate: Candidate, console: Console) -> Candidate:
    """The candidate with its claim audited, where it makes one; a claim that does not hold is said at once."""
    if candidate.name not in stages.audited(plan):
        return candidate
    with console.stage(f"audit {candidate.name}") as progress:
        candidate = stages.audit(plan, candidate, progress)
    warning = disproved(candidate)
    if warning is not None:
        console.warn(warning)
    return candidate


def _provenance(plan: Plan, made: Mapping[str, Made], work: Work, sides: Split) -> dict[str, Any]:
    outputs = sorted(path for path in work.result.rglob("*") if path.is_file())
    stated = {label: None if one.statement is None else one.statement.to_dict() for label, one in made.items()}
    said = provenance.Said(
        job=plan.title,
        release=plan.job.release,
        split=f"{KEYED if sides.keyed else STRATIFIED}, seed {plan.job.split_seed}",
        warnings=tuple(dict.fromkeys((*plan.warnings, *work.warnings))),
        ledger=releases(stated),
    )
    return provenance.record(
        plan.job.seed,
        provenance.fingerprints(sides.train, sides.holdout, plan.schema, plan.key),
        {"job": plan.job_path, "schema": plan.schema_path, "policy": plan.policy_path},
        {str(path.relative_to(work.result)): path for path in outputs},
        said,
    )


def _write(outcome: Outcome, folder: Path) -> None:
    plan = outcome.plan
    with whole_file(folder / VERDICT) as beside:
        beside.write_text(json.dumps(verdict_content(outcome), indent=1, ensure_ascii=False), encoding="utf-8")
    for name, path in (("job.toml", plan.job_path), ("schema.toml", plan.schema_path)):
        with whole_file(folder / name) as beside:
            shutil.copyfile(path, beside)
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
