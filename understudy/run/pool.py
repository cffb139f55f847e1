"""All candidates of a run, made one after the other, or side by side by an executor.

Each process of an executor makes the candidates that it is told to, from where an earlier one ended. It has its share
of the cores, and one that dies takes only its candidate with it. It reads the table itself. It shares the workspace on
the disk, where each candidate has files of its own, and the ledger, which takes turns.
"""

import logging
import pickle
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from evaluate.result import Candidate
from synth.errors import BadInput, LedgerError, MissingExtra, UnderstudyError
from synth.generators.models.constraints import rejections
from synth.progress import quiet
from synth.split import Split
from understudy.console import Console
from understudy.executors.executor import Executor, Service, carried_out, cores, opened
from understudy.run import stages
from understudy.run.attacks import disproved
from understudy.run.candidates import CandidateContext, candidate_of, finish
from understudy.run.plan import Plan, with_fund
from understudy.run.workspace import RunWorkspace


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
        plan = self.plan if self.ledger is None else with_fund(self.plan)
        if plan.fund is not None and plan.fund.url != self.ledger:
            raise LedgerError(
                "a worker's environment names another ledger than the one that this run was paid from; name the same"
            )
        sides = stages.split(plan, stages.read(plan, self.work.folder))
        return CandidateContext(plan, self.work, sides, lambda _: nullcontext(quiet))


def executor_of(plan: Plan, work: RunWorkspace, size: int | None, *, debug: bool) -> Executor:
    ledger = None if plan.fund is None else plan.fund.url
    handed = replace(plan, fund=None, key=b"")
    at = replace(work, folder=work.folder.absolute(), out=work.out.absolute())
    service = Service(
        pickle.dumps(CandidateWork(handed, at, ledger, debug)), at.workers, home=Path.cwd(), inputs=plan.inputs
    )
    return opened(plan.executor, service, size)


MOST_NAMED = 5


class LostCandidates(BadInput):
    """Some candidates could not be made; the others are finished, and no output was left."""


def make_all(plan: Plan, work: RunWorkspace, sides: Split, console: Console) -> None:
    """Every candidate that no earlier start has finished, made and measured. *Sensitive*: `sides`."""
    labels = [label for label in plan.points if not work.measured(label).exists()]
    elsewhere = plan.executor is not None
    size = None if plan.workers is None else min(plan.workers, len(labels))
    if size is not None and not elsewhere:
        size = min(size, cores())
        if plan.workers is not None and plan.workers > cores():
            console.note(f"Workers: {max(size, 1)}, not {plan.workers}: there are no more cores.")
    alone = not labels or not (elsewhere or (size or 1) > 1)
    bench = CandidateContext(plan, work, sides, console.stage)
    lost, told = dict[str, str](), set(work.warnings)
    ends = _one_by_one(bench, labels) if alone else _side_by_side(bench, labels, size, console)
    for n, (label, why_lost) in enumerate(ends, start=1):
        for sentence in work.warnings:
            if sentence not in told:
                console.warn(sentence)
        told |= set(work.warnings)
        if why_lost:
            lost[label] = why_lost
            console.warn(f"{label} is lost: {why_lost}")
        else:
            _tell(candidate_of(work, label), console)
        if plan.job.is_sweep or not alone:
            console.note(f"{label}: {'lost' if why_lost else 'done'}; {n} of {len(labels)}")
    if lost:
        named = "; ".join(f"{label} ({why})" for label, why in list(lost.items())[:MOST_NAMED])
        more = f"; and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
        all_lost = f"{len(lost)} of {len(plan.points)} candidates were lost, and the others are finished"
        raise LostCandidates(f"{all_lost}: {named}{more}")


def _tell(candidate: Candidate, console: Console) -> None:
    if candidate.n_rejected_rows is not None:
        console.say(f"{candidate.name}: {rejections(candidate.n_rejected_rows)}")
    for warning in disproved(candidate):
        console.warn(warning)


def _side_by_side(
    bench: CandidateContext, labels: list[str], size: int | None, console: Console
) -> Iterator[tuple[str, str]]:
    with (
        executor_of(bench.plan, bench.work, size, debug=console.debug) as executor,
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
