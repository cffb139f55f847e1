"""The pool of processes that make a run's candidates side by side; without one, they are made one after the other.

Each worker has its share of the machine's cores. One that dies takes only its candidate with it.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from secrets import token_hex

from synth.errors import BadInput, MissingExtra
from synth.generators.models.constraints import rejections
from synth.progress import Progress
from understudy.console import Console, duration
from understudy.run.attacks import disproved
from understudy.run.candidates import CandidateContext, evaluation_of, finish, is_finished, made
from understudy.run.plan import Plan
from understudy.run.stages import Sides
from understudy.run.worker import Told, WorkerTask, serve
from understudy.run.workspace import RunWorkspace

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""What tells the numerical libraries, torch among them, how many threads to use."""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shared(n_processes: int, n_cores: int, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment variables that give each of several processes its share of the cores.

    Args:
        n_processes: at work at once, at least 1.
        n_cores: to share, at least 1.
        environment: may ask for fewer threads; what it asks for beyond the share is not granted.

    >>> shared(4, 8, {})["OMP_NUM_THREADS"], shared(4, 8, {"OMP_NUM_THREADS": "1"})["OMP_NUM_THREADS"]
    ('2', '1')
    """
    share = max(1, n_cores // n_processes)
    return {name: str(min(_asked(environment.get(name)) or share, share)) for name in THREADS}


def _asked(given: str | None) -> int | None:
    return int(given) if given and given.isdigit() and int(given) > 0 else None


PATIENCE_S = 10.0
"""How long a process that has nothing to do is given to end by itself."""


@dataclass
class Worker:
    """One process, the candidate that it is at, and how far it is with that."""

    process: BaseProcess
    pipe: Connection
    label: str | None = None
    text: str = ""
    share: float = 0.0


@dataclass
class Pool:
    """Processes at work on candidates, under `with`; when the block is left, none of them is alive.

    Attributes:
        plan: says what to do.
        work: keeps what is done.
        size: processes at once.
        debug: whether internal errors show where they happened; that may hold values of the table.
    """

    plan: Plan
    work: RunWorkspace
    size: int
    debug: bool = False
    _workers: list[Worker] = field(default_factory=list)

    def __enter__(self) -> "Pool":
        """The same."""
        return self

    def __exit__(self, *_: object) -> None:
        """End every process: what is on the disk is whole at any moment."""
        for worker in self._workers:
            worker.pipe.close()  # at which a process that has nothing to do puts away what it holds open, and ends
            if worker.label is not None:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join(PATIENCE_S)
            worker.process.kill()
            worker.process.join()
        self._workers.clear()

    def make(self, labels: Sequence[str], tell: Progress) -> Iterator[tuple[str, str | None]]:
        """Each candidate as it ends, with the reason where it was lost.

        Args:
            labels: of the candidates, in the order of their beginning.
            tell: told what is under way, and the share of all that is done.
        """
        left, n_ended = deque(labels), 0
        while n_ended < len(labels):
            self._busy(left)
            for worker in self._heard():
                label, ended = worker.label, self._hear(worker)
                if ended is not None and label is not None:
                    n_ended += 1
                    yield label, ended.lost
            under_way = [worker for worker in self._workers if worker.label is not None]
            share = (n_ended + sum(worker.share for worker in under_way)) / len(labels)
            tell(", ".join(worker.text for worker in under_way), min(share, 1.0))

    def _busy(self, left: deque[str]) -> None:
        """Give every process something to do, as long as there is something."""
        for worker in self._workers:
            if worker.label is None and left:
                _give(worker, left.popleft())
        while left and len(self._workers) < self.size:
            worker = self._started()
            self._workers.append(worker)
            _give(worker, left.popleft())

    def _heard(self) -> list[Worker]:
        """The processes that have something to say, or have died."""
        ready = wait([worker.pipe for worker in self._workers])
        return [worker for worker in self._workers if worker.pipe in ready]

    def _hear(self, worker: Worker) -> Told | None:
        """What ended a candidate; none: it goes on."""
        try:
            told: Told = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
            worker.pipe.close()
            self._workers.remove(worker)
            return Told("", 1.0, ended=True, lost=_death(worker.process.exitcode))
        worker.text, worker.share = told.text, told.share
        if told.ended:
            worker.label = None
        return told if told.ended else None

    def _started(self) -> Worker:
        """A new process, which waits for its first candidate."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        plan = replace(self.plan, fund=None, table=self.plan.table.shared(self.size))
        task = WorkerTask(plan, self.work, self.plan.fund is not None, self.debug, token_hex(8))
        process = context.Process(target=serve, args=(task, theirs), daemon=True)
        with _few_threads(self.size), _deaf_to_ctrl_c():
            process.start()
        theirs.close()
        return Worker(process, ours)


def _give(worker: Worker, label: str) -> None:
    """One candidate to make; where the process is dead already, its end of the pipe will tell."""
    worker.label, worker.text, worker.share = label, label, 0.0
    with suppress(BrokenPipeError):
        worker.pipe.send(label)


def _death(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, as a system does that runs out of memory; use fewer workers if it was that"
    if code is not None and code < 0:
        return f"its process was ended by a signal ({signal.strsignal(-code) or -code})"
    return f"its process ended by itself with exit code {code}"


@contextmanager
def _few_threads(n_workers: int) -> Iterator[None]:
    """An environment in which a new process uses its share of the cores."""
    share = shared(n_workers, cores())
    before = {name: os.environ.get(name) for name in share}
    os.environ.update(share)
    try:
        yield
    finally:
        for name, given in before.items():
            os.environ.pop(name)
            if given is not None:
                os.environ[name] = given


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """A new process inherits that Ctrl-C is its parent's business."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)


MOST_NAMED = 5


class LostCandidates(BadInput):
    """Some candidates could not be made; the others are finished, and no output was left."""


@dataclass
class FinishedCandidates:
    """What is said as candidates end, one after the other.

    Attributes:
        work: keeps what is done.
        console: says it.
        n_left: candidates that this start has to make.
        is_brief: whether a line for each of them is too much.
    """

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


def make_all(plan: Plan, work: RunWorkspace, sides: Sides, console: Console) -> None:
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
    tally = FinishedCandidates(work, console, len(labels), is_brief=size < 2 and not plan.job.is_sweep)
    if size > 1:
        _side_by_side(plan, labels, size, tally)
    else:
        _one_by_one(CandidateContext(plan, work, sides, console.stage), labels, tally)
    if tally.lost:
        raise LostCandidates(_lost(tally.lost, len(plan.points)))


def _side_by_side(plan: Plan, labels: list[str], size: int, tally: FinishedCandidates) -> None:
    with (
        tally.console.stage(f"{len(labels)} candidates, {size} at a time") as tell,
        Pool(plan, tally.work, size, tally.console.debug) as pool,
    ):
        for label, why_lost in pool.make(labels, tell):
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
