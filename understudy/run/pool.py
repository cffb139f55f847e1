"""All candidates of a run, made one after the other, or side by side by an executor.

Each process of an executor makes the candidates that it is told to, from where an earlier one ended. It has its share
of the cores, and one that dies takes only its candidate with it. It reads the table itself. It shares the workspace on
the disk, where each candidate has files of its own, and the ledger, which takes turns.
"""

import logging
import pickle
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from synth.errors import BadInput, LedgerError, MissingExtra, UnderstudyError
from synth.generators.models.constraints import rejections
from synth.progress import Progress
from synth.split import Split
from understudy.console import Console, duration
from understudy.executors.executor import Executor, Service, cores, opened
from understudy.run.attacks import disproved
from understudy.run.candidates import CandidateContext, evaluation_of, finish, is_finished, made
from understudy.run.plan import Plan, with_fund
from understudy.run.workspace import RunWorkspace

if TYPE_CHECKING:
    from understudy.run.candidates import CandidateContext, Stage

SHARES = {"fit": (0.0, 0.5), "sample": (0.5, 0.1), "evaluate": (0.6, 0.3), "audit": (0.9, 0.1)}
"""The start and the share of each stage in a candidate, roughly: for a progress bar."""


@dataclass(frozen=True)
class CandidateWork:
    """The `Work` of making candidates; what a process cannot be handed, it opens anew."""

    plan: Plan
    work: RunWorkspace
    ledger: str | None
    debug: bool

    def begin(self, until_the_end: ExitStack, tell: Progress) -> Callable[[str], str]:
        """The function that makes a candidate by its label; the table is read with the first."""
        if not self.debug:
            # Warnings and logs of libraries may quote values of the table.
            warnings.simplefilter("ignore")
            logging.getLogger().addHandler(logging.NullHandler())
        bench = None

        def make(label: str) -> str:
            nonlocal bench
            try:
                bench = bench or self._bench(tell)
                from understudy.run.candidates import finish

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

    def _bench(self, tell: Progress) -> "CandidateContext":
        """The context of candidates, read anew: the same sides from the same seed."""
        from understudy.run import stages
        from understudy.run.candidates import CandidateContext

        plan = self.plan if self.ledger is None else with_fund(self.plan)
        if plan.fund is not None and plan.fund.place != self.ledger:
            raise LedgerError(
                "a worker's environment names another ledger than the one that this run was paid from; name the same"
            )
        sides = stages.split(plan, stages.read(plan, self.work.folder))
        return CandidateContext(plan, self.work, sides, _telling(tell))


def _telling(told: Progress) -> "Stage":
    """Stages that tell how far a candidate is."""

    @contextmanager
    def stage(name: str) -> Iterator[Progress]:
        start, width = SHARES.get(name.partition(" ")[0], (0.9, 0.1))

        def tell(label: str, share: float | None) -> None:
            told(name, start + width * (share or 0.0))

        tell(name, 0.0)
        yield tell

    return stage


TELL_EVERY_S = 0.2


def make(executor: Executor, labels: Sequence[str], tell: Progress) -> Iterator[tuple[str, str | None]]:
    """Each candidate as it ends, with the reason where it was lost."""
    left, n_ended = deque(labels), 0
    while n_ended < len(labels):
        while left and len(executor.at_work) < executor.size:
            executor.start(left.popleft())
        for ended in executor.ended(TELL_EVERY_S):
            n_ended += 1
            yield ended.name, ended.lost or None
        under_way = executor.at_work.values()
        share = (n_ended + sum(one.share for one in under_way)) / len(labels)
        tell(", ".join(one.text for one in under_way), min(share, 1.0))


def executor_of(plan: Plan, work: RunWorkspace, size: int | None, *, debug: bool) -> Executor:
    """The executor of a plan's candidates."""
    ledger = None if plan.fund is None else plan.fund.place
    handed = replace(plan, fund=None, key=b"")
    at = replace(work, folder=work.folder.absolute(), out=work.out.absolute())
    service = Service(
        pickle.dumps(CandidateWork(handed, at, ledger, debug)), at.workers, home=Path.cwd(), inputs=plan.inputs
    )
    return opened(plan.executor, service, size)


MOST_NAMED = 5


class LostCandidates(BadInput):
    """Some candidates could not be made; the others are finished, and no output was left."""


@dataclass
class FinishedCandidates:
    """Messages as candidates end, one after the other."""

    work: RunWorkspace
    console: Console
    n_left: int
    is_brief: bool
    n_ended: int = 0
    lost: dict[str, str] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._said |= set(self.work.warnings)

    def ended(self, label: str, why_lost: str | None) -> None:
        """One more has ended, well or lost."""
        self.n_ended += 1
        for sentence in self.work.warnings:
            if sentence not in self._said:
                self.console.warn(sentence)
        self._said |= set(self.work.warnings)
        if why_lost is not None:
            self.lost[label] = why_lost
            self.console.warn(f"{label} is lost: {why_lost}")
        else:
            self._made(label)
        if not self.is_brief:
            self.console.note(f"{label}: {'lost' if why_lost else 'done'}; {self._progress()}")

    def _made(self, label: str) -> None:
        rejected = made(self.work, label).rejected
        if rejected is not None:
            self.console.say(f"{label}: {rejections(rejected)}")
        for candidate in evaluation_of(self.work, label).candidates:
            for warning in disproved(candidate):
                self.console.warn(warning)

    def _progress(self) -> str:
        n_left = self.n_left - self.n_ended
        left_s = (time.monotonic() - self._began) / self.n_ended * n_left
        return f"{self.n_ended} of {self.n_left}" + (f", about {duration(left_s)} left" if n_left else "")


def make_all(plan: Plan, work: RunWorkspace, sides: Split, console: Console) -> None:
    """Every candidate that no earlier start has finished, made and measured.

    Args:
        sides: *Sensitive*. Train and holdout.
    """
    labels = [label for label in plan.points if not is_finished(work, label)]
    elsewhere = plan.executor is not None
    size = None if plan.workers is None else min(plan.workers, len(labels))
    if size is not None and not elsewhere:
        size = min(size, cores())
        if plan.workers is not None and plan.workers > cores():
            console.note(f"Workers: {max(size, 1)}, not {plan.workers}: there are no more cores.")
    alone = not elsewhere and (size is None or size < 2)
    tally = FinishedCandidates(work, console, len(labels), is_brief=alone and not plan.job.is_sweep)
    if labels and not alone:
        _side_by_side(plan, labels, size, tally)
    else:
        _one_by_one(CandidateContext(plan, work, sides, console.stage), labels, tally)
    if tally.lost:
        raise LostCandidates(_lost(tally.lost, len(plan.points)))


def _side_by_side(plan: Plan, labels: list[str], size: int | None, tally: FinishedCandidates) -> None:
    console = tally.console
    with (
        executor_of(plan, tally.work, size, debug=console.debug) as executor,
        console.stage(f"{len(labels)} candidates, {min(executor.size, len(labels))} at a time") as tell,
    ):
        for label, why_lost in make(executor, labels, tell):
            tally.ended(label, why_lost)


def _one_by_one(bench: CandidateContext, labels: list[str], tally: FinishedCandidates) -> None:
    for label in labels:
        why_lost = None
        try:
            finish(bench, label)
        except (BadInput, MissingExtra) as error:
            if not bench.plan.job.is_sweep:
                raise
            why_lost = str(error).rstrip(".")
        tally.ended(label, why_lost)


def _lost(lost: dict[str, str], n_all: int) -> str:
    named = "; ".join(f"{label} ({why})" for label, why in list(lost.items())[:MOST_NAMED])
    more = f"; and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
    return f"{len(lost)} of {n_all} candidates were lost, and the others are finished: {named}{more}"
