"""The processes of a batch's jobs: each in a session of its own, with its share of the cores, and ended as a whole."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from understudy.batch.jobs import OWN, BatchJob
from understudy.batch.result import CUT, TIMED_OUT, Ended
from understudy.run.pool import cores, shared

GRACE_S = 10.0
"""How long a job that is told to end may take before it is killed."""
LOOK_EVERY_S = 0.05
LOCKS = "locks"


class Process(Protocol):
    """A started process."""

    @property
    def pid(self) -> int:
        """Its number, which is that of its group too."""
        ...

    def wait(self) -> int:
        """Its exit status, once it has ended; minus the signal's number where one ended it."""
        ...


@dataclass
class AtWork:
    """A job under way."""

    job: BatchJob
    process: Process
    lock: Path
    started: float
    stopped: str = ""
    kill_at: float = float("inf")


@dataclass
class Workers:
    """Processes at work on jobs, under `with`; when the block is left, none of them is alive.

    Attributes:
        folder: of the batch.
        size: jobs at once.
        options: of every job's command.
        timeout_s: seconds that a job may take; none: any.
    """

    folder: Path
    size: int
    options: Sequence[str] = ()
    timeout_s: float | None = None
    at_work: list[AtWork] = field(default_factory=list)
    _lifeline: tuple[int, int] = (-1, -1)

    def __enter__(self) -> "Workers":
        """The same, with the pipe whose end tells every process that this one is gone."""
        self._lifeline = os.pipe()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what is left."""
        for one in self.at_work:
            _signal_all(one, signal.SIGKILL)
        for one in self.at_work:
            one.process.wait()
        self.at_work.clear()
        for end in self._lifeline:
            os.close(end)

    @property
    def is_full(self) -> bool:
        """Whether as many jobs are under way as may be."""
        return len(self.at_work) >= self.size

    def start(self, job: BatchJob) -> None:
        """Begin a job.

        Raises:
            OSError: the system has no room for its log or its process; nothing was begun.
        """
        lock = self.folder / OWN / LOCKS / token_hex(8)
        command = [str(lock), "run", str(job.path), f"--out={job.out}", *self.options]
        process = started(command, job.log, self._lifeline[0], shared(self.size, cores()))
        self.at_work.append(AtWork(job, process, lock, time.monotonic()))

    def ended(self) -> Iterator[Ended]:
        """Every job that has ended since the last look; those that take too long are told to."""
        for one in list(self.at_work):
            if _is_over(one.process.pid):
                yield self._reaped(one)
                continue
            now = time.monotonic()
            if self.timeout_s is not None and not one.stopped and now - one.started > self.timeout_s:
                _tell_to_end(one, TIMED_OUT)
            if now > one.kill_at:
                _signal_all(one, signal.SIGKILL)

    def stop(self) -> Iterator[Ended]:
        """Tell every job to end, and each as it has."""
        for one in self.at_work:
            if not one.stopped:
                _tell_to_end(one, CUT)
        while self.at_work:
            yield from self.ended()
            time.sleep(LOOK_EVERY_S)

    def _reaped(self, one: AtWork) -> Ended:
        _signal_all(one, signal.SIGKILL)  # what it started and left behind; its number is still its own
        status = one.process.wait()
        self.at_work.remove(one)
        one.lock.unlink(missing_ok=True)
        return Ended(one.job, status, time.monotonic() - one.started, one.stopped)


def started(command: Sequence[str], log: Path, lifeline: int, threads: dict[str, str]) -> Process:
    """A process of its own session that runs a job's command and writes all that it says to a new log."""
    with log.open("wb") as said:
        return subprocess.Popen(  # noqa: S603 - our own module, and arguments that no shell reads
            # Without -P a file in the present folder could pass for one of our modules.
            [sys.executable, "-P", "-m", "understudy.batch.child", *command],
            stdin=lifeline,
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, **threads},
            start_new_session=True,
        )


def _is_over(pid: int) -> bool:
    """Whether a process has ended; it is left to be waited for, so that its number is not given away."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _tell_to_end(one: AtWork, why: str) -> None:
    """Ask a job's own process to end: it ends those that it has started."""
    one.stopped, one.kill_at = why, time.monotonic() + GRACE_S
    with suppress(ProcessLookupError):
        os.kill(one.process.pid, signal.SIGTERM)


def _signal_all(one: AtWork, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(one.process.pid, number)
