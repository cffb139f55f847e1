"""Candidates made side by side, each by a process of its own; one that dies takes only its candidate with it."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from secrets import token_hex

from synth.progress import Progress
from understudy.plan import Plan
from understudy.threads import cores, shared
from understudy.work import Work
from understudy.worker import Task, Told, serve

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
    work: Work
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
        task = Task(plan, self.work, self.plan.fund is not None, self.debug, token_hex(8))
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
