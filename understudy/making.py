"""All candidates of a run: one after the other, or side by side in processes of their own."""

import time
from dataclasses import dataclass, field

from synth.errors import BadInput, MissingExtra
from synth.generators.models.rejection_sampling import rejections
from understudy.auditing import disproved
from understudy.candidates import Bench, evaluation_of, finish, is_finished, made
from understudy.console import Console, duration
from understudy.plan import Plan
from understudy.pool import Pool
from understudy.stages import Sides
from understudy.threads import cores
from understudy.work import Work

MOST_NAMED = 5


class LostCandidates(BadInput):
    """Some candidates could not be made; the others are finished, and no output was left."""


@dataclass
class Tally:
    """What is said as candidates end, one after the other.

    Attributes:
        work: keeps what is done.
        console: says it.
        n_left: candidates that this start has to make.
        is_brief: whether a line for each of them is too much.
    """

    work: Work
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


def make_all(plan: Plan, work: Work, sides: Sides, console: Console) -> None:
    """Every candidate that no earlier start has finished, made and measured.

    Args:
        plan: names them, and how many are made at once.
        work: keeps what is done.
        sides: *Sensitive*. Train and holdout.
        console: says how far it is.

    Raises:
        LostCandidates: of a sweep, or of several processes: some could not be made, the others are finished.
        BadInput: of a job that is none, in one process: the first that could not be made; no other was begun.
    """
    labels = [label for label in plan.points if not is_finished(work, label)]
    size = min(plan.workers, cores(), len(labels))
    if plan.workers > cores():
        console.note(f"Workers: {max(size, 1)}, not {plan.workers}: there are no more cores.")
    tally = Tally(work, console, len(labels), is_brief=size < 2 and not plan.job.is_sweep)
    if size > 1:
        _side_by_side(plan, labels, size, tally)
    else:
        _one_by_one(Bench(plan, work, sides, console.stage), labels, tally)
    if tally.lost:
        raise LostCandidates(_lost(tally.lost, len(plan.points)))


def _side_by_side(plan: Plan, labels: list[str], size: int, tally: Tally) -> None:
    with (
        tally.console.stage(f"{len(labels)} candidates, {size} at a time") as tell,
        Pool(plan, tally.work, size, tally.console.debug) as pool,
    ):
        for label, why_lost in pool.make(labels, tell):
            tally.ended(label, why_lost)


def _one_by_one(bench: Bench, labels: list[str], tally: Tally) -> None:
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
