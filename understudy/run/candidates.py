"""One candidate of a run: fitted, saved, sampled, written, measured and audited, each once whatever cuts the run short.

What is done of it is on the disk in the unfinished work, so that any process may do it, and a later one go on.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.metrics import CLIPPED
from evaluate.result import Candidate, Estimate, Evaluation, Failure
from evaluate.result_io import evaluation_from
from evaluate.tables import Real
from synth.dp.statement import PrivacyStatement
from synth.errors import ModelError
from synth.generators.models.model import Model
from synth.generators.registry import load_model
from synth.output import whole_file
from synth.progress import Progress
from synth.split import Split
from understudy.evaluation_log import note_training
from understudy.run import stages
from understudy.run.plan import Plan
from understudy.run.workspace import RunWorkspace

Stage = Callable[[str], AbstractContextManager[Progress]]
"""Opens a stage by its name, and gives what is told the share done."""

SYNTHETIC = "synthetic"

_Answer = TypeVar("_Answer", Estimate, Failure)


@dataclass(frozen=True)
class FittedCandidate:
    """The outputs of one generator.

    Attributes:
        clipped: *Sensitive*. Units whose gradient DP-SGD clipped, and units sampled; `None` where it trained nothing.
    """

    statement: PrivacyStatement | None
    seconds: Mapping[str, float]
    unsaved: str
    rejected: int | None = None
    clipped: tuple[int, int] | None = None

    @property
    def of_training(self) -> tuple[Estimate, ...]:
        """Numbers of training for those who may see numbers computed from real rows."""
        if self.clipped is None or not self.clipped[1]:
            return ()
        n_clipped, n_units = self.clipped
        return (Estimate(CLIPPED, n_clipped / n_units, n_units, "none", note="Over all samples of all steps."),)


@dataclass(frozen=True)
class CandidateContext:
    """The inputs of candidates.

    Attributes:
        sides: *Sensitive*. Train and holdout.
    """

    plan: Plan
    work: RunWorkspace
    sides: Split
    stage: Stage

    @cached_property
    def real(self) -> Real:
        """*Sensitive*. The real side of every evaluation, prepared when the first candidate is measured."""
        return stages.real(self.plan, self.sides)


def is_finished(work: RunWorkspace, label: str) -> bool:
    """True where nothing is left to do for a candidate."""
    return work.measured(label).exists()


def finish(bench: CandidateContext, label: str) -> None:
    """One candidate made and measured, from where an earlier start left it."""
    if is_finished(bench.work, label):
        return
    if "statement" not in bench.work.stage(label):
        _make(bench, label)
    _measure(bench, label)


def made(work: RunWorkspace, label: str) -> FittedCandidate:
    """The record of a candidate's making."""
    done = work.stage(label)
    stated = None if done["statement"] is None else PrivacyStatement.from_dict(done["statement"])
    clipped = done.get("clipped")
    return FittedCandidate(
        stated, done["seconds"], done["unsaved"], done.get("rejected"), None if clipped is None else tuple(clipped)
    )  # fmt: skip


def evaluation_of(work: RunWorkspace, label: str) -> Evaluation:
    """The measurements of one candidate, beside facts about the real table."""
    return evaluation_from(work.measured(label).read_text(encoding="utf-8"))


def joined(plan: Plan, work: RunWorkspace) -> Evaluation:
    """One evaluation of all candidates; the seeds of a sweep share the audit of their mechanism."""
    found = [evaluation_of(work, label) for label in plan.points]
    candidates = {candidate.name: candidate for one in found for candidate in one.candidates}
    audited = {plan.points[label].setting: candidates[label] for label in stages.audited(plan)}
    shared = (_share_audit(one, audited.get(plan.points[name].setting)) for name, one in candidates.items())
    return replace(found[0], candidates=tuple(shared))


def _share_audit(candidate: Candidate, source: Candidate | None) -> Candidate:
    """The candidate with the audit of another seed's fit: it is of the mechanism, and reads no real row."""
    if source is None or source.name == candidate.name:
        return candidate
    return replace(
        candidate,
        audit=source.audit,
        estimates=(*candidate.estimates, *_audits(source.estimates)),
        failures=(*candidate.failures, *_audits(source.failures)),
    )


def _audits(found: Iterable[_Answer]) -> tuple[_Answer, ...]:
    return tuple(one for one in found if one.measure == AUDITED)


def _make(bench: CandidateContext, label: str) -> None:
    """Fitted, saved where it can be, sampled and written."""
    plan, work = bench.plan, bench.work
    model, unsaved = _fit(bench, label)
    started = time.perf_counter()
    with bench.stage(f"sample {label}") as progress:
        rejected = stages.sample(plan, label, model, table_path(plan, work, label), progress)
    seconds = {**work.stage(label)["seconds"], "sample": time.perf_counter() - started}
    statement = None if model.statement is None else model.statement.to_dict()
    known = {"seconds": seconds, "unsaved": unsaved, "statement": statement, "rejected": rejected}
    work.write_stage(label, {**known, "clipped": work.stage(label).get("clipped")})


def _fit(bench: CandidateContext, label: str) -> tuple[Model, str]:
    """A generator's model, fitted or loaded, and why it could not be saved."""
    plan, work = bench.plan, bench.work
    unsaved, model = "", load_model(work.model(label)) if work.model(label).is_dir() else None
    if model is None:
        started = time.perf_counter()
        with bench.stage(f"fit {label}") as progress, plan.payment(work).budget(label) as budget:
            if budget is not None:
                work.expect_clipping(label)
            model = stages.fit(plan, label, bench.sides.train, budget, work.training(label), progress)
        # Before the model: where that is, these are too.
        work.write_stage(label, {"seconds": {"fit": time.perf_counter() - started}, "clipped": work.clipped(label)})
        work.keep_log(label)
        unsaved = _save(model, work.model(label))
        # After the model: until that is there, a fit that has drawn all it may needs what it was trained to.
        work.forget_training(label)
    if work.model(label).is_dir():
        note_training(work.model(label), str(work.unfinished.state["train"]), plan.schema)
    plan.payment(work).commit(model.statement)
    return model, unsaved


def _save(model: Model, path: Path) -> str:
    """The reason that a model could not be saved; empty where it was."""
    try:
        model.save(path)
    except ModelError as error:
        return str(error)
    return ""


def table_path(plan: Plan, work: RunWorkspace, label: str) -> Path:
    """The path of a candidate's synthetic table."""
    return work.result / SYNTHETIC / f"{label}{plan.suffix}"


def _measure(bench: CandidateContext, label: str) -> None:
    """Measured once, and its claim audited; what is judged is what was written."""
    plan, work, done = bench.plan, bench.work, made(bench.work, label)
    synthetic = table_path(plan, work, label)
    with bench.stage(f"evaluate {label}") as progress:
        # Of one evaluation in several parts, the first alone carries the self-tests: they are of the real rows.
        evaluation = stages.evaluate(
            plan, bench.real, {label: synthetic}, {label: done.statement}, progress,
            self_tested=label == next(iter(plan.points)),
        )  # fmt: skip
    (candidate,) = evaluation.candidates
    if plan.job.evaluation.shadow_models is not None:
        with bench.stage(f"shadow models {label}") as progress:
            candidate = stages.shadow(plan, bench.real, candidate, synthetic, progress)
    candidate = replace(
        candidate,
        estimates=(*candidate.estimates, *done.of_training),
        seconds={**done.seconds, **candidate.seconds},
        expected=stages.expected(plan, label),
        n_rejected_rows=done.rejected,
    )
    if label in stages.audited(plan):
        with bench.stage(f"audit {label}") as progress:
            candidate = stages.audit(plan, candidate, progress)
    with whole_file(work.measured(label)) as beside:
        beside.write_text(replace(evaluation, candidates=(candidate,)).to_json(), encoding="utf-8")
