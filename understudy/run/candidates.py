"""One candidate of a run: fitted, saved, sampled, written, measured and audited.

Once its evaluation is on the disk it is finished. One that was cut short before is made again from its journal, so that
nothing is drawn twice, and a network goes on from its checkpoint. Any process may do it.
"""

import time
from collections.abc import Callable, Iterable
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
from synth.errors import ModelError
from synth.generators.models.model import Model
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
class CandidateContext:
    """The inputs of candidates. *Sensitive*: `sides`."""

    plan: Plan
    work: RunWorkspace
    sides: Split
    stage: Stage

    @cached_property
    def real(self) -> Real:
        """*Sensitive*. The real side of every evaluation, prepared when the first candidate is measured."""
        return stages.real(self.plan, self.sides)


def finish(bench: CandidateContext, label: str) -> None:
    """One candidate made and measured, from what an earlier start drew of it."""
    plan, work, seconds = bench.plan, bench.work, dict[str, float]()
    table = table_path(plan, work, label)
    work.begin(label, table)
    started = time.perf_counter()
    with bench.stage(f"fit {label}") as progress, plan.payment(work).budget(label) as budget:
        if budget is not None:
            work.expect_clipping(label)
        model = stages.fit(plan, label, bench.sides.train, budget, work.training(label), progress)
    seconds["fit"] = time.perf_counter() - started
    work.keep_log(label)
    if _is_saved(model, work.model(label)):
        note_training(work.model(label), str(work.unfinished.state["train"]), plan.schema)
    started = time.perf_counter()
    with bench.stage(f"sample {label}") as progress:
        rejected = stages.sample(plan, label, model, table, progress)
    seconds["sample"] = time.perf_counter() - started
    with bench.stage(f"evaluate {label}") as progress:
        # Of one evaluation in several parts, the first alone carries the self-tests: they are of the real rows.
        evaluation = stages.evaluate(
            plan, bench.real, {label: table}, {label: model.statement}, progress,
            self_tested=label == next(iter(plan.points)),
        )  # fmt: skip
    (candidate,) = evaluation.candidates
    if plan.job.evaluation.shadow_models is not None:
        with bench.stage(f"shadow models {label}") as progress:
            candidate = stages.shadow(plan, bench.real, candidate, table, progress)
    candidate = replace(
        candidate,
        estimates=(*candidate.estimates, *_clipped(work.clipped(label))),
        seconds={**seconds, **candidate.seconds},
        expected=stages.expected(plan, label),
        n_rejected_rows=rejected,
    )
    if label in stages.audited(plan):
        with bench.stage(f"audit {label}") as progress:
            candidate = stages.audit(plan, candidate, progress)
    with whole_file(work.measured(label)) as beside:
        beside.write_text(replace(evaluation, candidates=(candidate,)).to_json(), encoding="utf-8")


def _is_saved(model: Model, path: Path) -> bool:
    try:
        model.save(path)
    except ModelError:  # SDV's models have no form that others may load
        return False
    return True


def _clipped(units: tuple[int, int] | None) -> tuple[Estimate, ...]:
    """*Sensitive*. The share of units whose gradient DP-SGD clipped; empty where it trained nothing."""
    if units is None or not units[1]:
        return ()
    return (Estimate(CLIPPED, units[0] / units[1], units[1], "none", note="Over all samples of all steps."),)


def table_path(plan: Plan, work: RunWorkspace, label: str) -> Path:
    return work.result / SYNTHETIC / f"{label}{plan.suffix}"


def candidate_of(work: RunWorkspace, label: str) -> Candidate:
    (candidate,) = _evaluation_of(work, label).candidates
    return candidate


def _evaluation_of(work: RunWorkspace, label: str) -> Evaluation:
    return evaluation_from(work.measured(label).read_text(encoding="utf-8"))


def joined(plan: Plan, work: RunWorkspace) -> Evaluation:
    """One evaluation of all candidates; the seeds of a sweep share the audit of their mechanism."""
    evaluations = [_evaluation_of(work, label) for label in plan.points]
    candidates = {candidate.name: candidate for each in evaluations for candidate in each.candidates}
    audited = {plan.points[label].setting: candidates[label] for label in stages.audited(plan)}
    shared = (_share_audit(each, audited.get(plan.points[name].setting)) for name, each in candidates.items())
    return replace(evaluations[0], candidates=tuple(shared))


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


def _audits(answers: Iterable[_Answer]) -> tuple[_Answer, ...]:
    return tuple(answer for answer in answers if answer.measure == AUDITED)
