"""The candidates of a run: each fitted, saved, sampled, written, measured and audited, one by one or side by side.

Once its evaluation is on the disk a candidate is finished. One that was cut short before is made again from its
journal, so that nothing is drawn twice, and a network goes on from its checkpoint. Any process may do it: those of an
executor read the table themselves, have their share of the cores, and one that dies takes only its candidate with it.
They share the workspace on the disk, where each candidate has files of its own, and the ledger, which takes turns.
"""

import logging
import pickle
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.metrics import CLIPPED
from evaluate.result import Candidate, Estimate, Evaluation
from evaluate.result_io import evaluation_from
from evaluate.tables import Real
from synth.errors import BadInput, LedgerError, MissingExtra, ModelError, UnderstudyError
from synth.generators.models.constraints import rejections
from synth.output import whole_file
from synth.progress import Progress, quiet
from synth.split import Split
from understudy.budget import ledger_of, open_fund
from understudy.console import Console
from understudy.executor import Service, carried_out, cores, opened
from understudy.provenance import note_training
from understudy.run import stages
from understudy.run.plan import Plan
from understudy.run.stages import disproved
from understudy.run.workspace import WORKERS, RunWorkspace

Stage = Callable[[str], AbstractContextManager[Progress]]
"""Opens a stage by its name, and gives what is told the share done."""

SYNTHETIC = "synthetic"
MOST_NAMED = 5


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
    with suppress(ModelError):  # SDV's models have no form that others may load
        model.save(work.model(label))
        note_training(work.model(label), str(work.unfinished.state["train"]), plan.schema)
    started = time.perf_counter()
    with bench.stage(f"sample {label}") as progress:
        rejected = stages.sample(plan, label, model, table, progress)
    seconds["sample"] = time.perf_counter() - started
    with bench.stage(f"evaluate {label}") as progress:
        evaluation = stages.evaluate(plan, bench.real, label, table, model.statement, progress)
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


def _clipped(units: tuple[int, int] | None) -> tuple[Estimate, ...]:
    """*Sensitive*. The share of units whose gradient DP-SGD clipped; empty where it trained nothing."""
    if units is None or units[1] == 0:
        return ()
    return (Estimate(CLIPPED, units[0] / units[1], units[1], "none", note="Over all samples of all steps."),)


def table_path(plan: Plan, work: RunWorkspace, label: str) -> Path:
    return work.result / SYNTHETIC / f"{label}{plan.suffix}"


def candidate_of(work: RunWorkspace, label: str) -> Candidate:
    (candidate,) = evaluation_from(work.measured(label).read_text(encoding="utf-8")).candidates
    return candidate


def joined(plan: Plan, work: RunWorkspace) -> Evaluation:
    """One evaluation of all candidates; the seeds of a sweep share the audit of their mechanism."""
    first = evaluation_from(work.measured(next(iter(plan.points))).read_text(encoding="utf-8"))
    candidates = {label: candidate_of(work, label) for label in plan.points}
    audited = {plan.points[label].setting: candidates[label] for label in stages.audited(plan)}
    for label, point in plan.points.items():
        # The audit of another seed's fit is of the mechanism, and reads no real row.
        source = audited.get(point.setting)
        if source is not None and source.name != label:
            own = candidates[label]
            candidates[label] = replace(
                own,
                audit=source.audit,
                estimates=(*own.estimates, *(each for each in source.estimates if each.measure == AUDITED)),
                failures=(*own.failures, *(each for each in source.failures if each.measure == AUDITED)),
            )
    return replace(first, candidates=tuple(candidates.values()))


@dataclass(frozen=True)
class CandidateWork:
    """The `Work` of making candidates; what a process cannot be handed, it opens anew."""

    plan: Plan
    work: RunWorkspace
    ledger: str | None
    debug: bool

    def begin(self) -> Callable[[str], str]:
        """The function that makes a candidate by its label; the table is read with the first."""
        if not self.debug:
            # Warnings and logs of libraries may quote values of the table.
            warnings.simplefilter("ignore")
            logging.getLogger().addHandler(logging.NullHandler())
        bench = None

        def make(label: str) -> str:
            nonlocal bench
            try:
                bench = bench or self._bench()
                finish(bench, label)
            except UnderstudyError as error:
                return str(error).rstrip(".")
            except MemoryError:
                return "there was not enough memory; use fewer workers"
            except Exception as error:  # noqa: BLE001 - the outermost place of a process
                if self.debug:
                    traceback.print_exc()
                return f"an internal error, {type(error).__name__}; please report it"
            return ""

        return make

    def _bench(self) -> CandidateContext:
        """The context of candidates, read anew: the same sides from the same seed."""
        plan = self.plan
        if self.ledger is not None:
            url = ledger_of(plan.job, plan.job_path.parent)
            fund = None if url is None else open_fund(url, plan.schema)
            if fund is None or fund.url != self.ledger:
                raise LedgerError(
                    "a worker's environment names another ledger than the one that this run was paid from, or none; "
                    "name the same"
                )
            plan = replace(plan, fund=fund)
        sides = stages.split(plan, stages.read(plan, self.work.folder))
        return CandidateContext(plan, self.work, sides, lambda _: nullcontext(quiet))


class LostCandidates(BadInput):
    """Some candidates could not be made; the others are finished, and no output was left."""


def make_all(plan: Plan, work: RunWorkspace, sides: Split, console: Console) -> None:
    """Every candidate that no earlier start has finished, made and measured. *Sensitive*: `sides`."""
    labels = [label for label in plan.points if not work.measured(label).exists()]
    size = plan.workers
    if size is not None and plan.executor is None and size > cores():
        console.note(f"Workers: {cores()}, not {size}: there are no more cores.")
        size = cores()
    size = None if size is None else min(size, len(labels))
    alone = not labels or (plan.executor is None and (size or 1) == 1)
    bench = CandidateContext(plan, work, sides, console.stage)
    lost, shown = dict[str, str](), set(work.warnings)
    ends = _one_by_one(bench, labels) if alone else _side_by_side(bench, labels, size, console)
    for n, (label, why_lost) in enumerate(ends, start=1):
        for sentence in work.warnings:
            if sentence not in shown:
                console.warn(sentence)
        shown |= set(work.warnings)
        if why_lost:
            lost[label] = why_lost
            console.warn(f"{label} is lost: {why_lost}")
        else:
            candidate = candidate_of(work, label)
            if candidate.n_rejected_rows is not None:
                console.say(f"{label}: {rejections(candidate.n_rejected_rows)}")
            console.warn(*disproved(candidate))
        if plan.job.is_sweep or not alone:
            console.note(f"{label}: {'lost' if why_lost else 'done'}; {n} of {len(labels)}")
    if lost:
        named = "; ".join(f"{label} ({why})" for label, why in list(lost.items())[:MOST_NAMED])
        more = f"; and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
        all_lost = f"{len(lost)} of {len(plan.points)} candidates were lost, and the others are finished"
        raise LostCandidates(f"{all_lost}: {named}{more}")


def _side_by_side(
    bench: CandidateContext, labels: list[str], size: int | None, console: Console
) -> Iterator[tuple[str, str]]:
    plan, work = bench.plan, bench.work
    at = replace(work, folder=work.folder.absolute(), out=work.out.absolute())
    ledger = None if plan.fund is None else plan.fund.url
    making = CandidateWork(replace(plan, fund=None, key=b""), at, ledger, console.debug)
    service = Service(pickle.dumps(making), at.folder / WORKERS, home=Path.cwd(), inputs=plan.inputs)
    with (
        opened(plan.executor, service, size) as executor,
        console.stage(f"{len(labels)} candidates, {min(executor.size, len(labels))} at a time") as tell,
    ):
        waiting, done = deque(labels), list[str]()

        def look() -> None:
            tell(", ".join(executor.at_work), len(done) / len(labels))

        for ended in carried_out(executor, waiting, executor.start, look):
            done.append(ended.name)
            yield ended.name, ended.lost


def _one_by_one(bench: CandidateContext, labels: list[str]) -> Iterator[tuple[str, str]]:
    for label in labels:
        try:
            finish(bench, label)
        except (BadInput, MissingExtra) as error:
            if not bench.plan.job.is_sweep:
                raise
            yield label, str(error).rstrip(".")
        else:
            yield label, ""
