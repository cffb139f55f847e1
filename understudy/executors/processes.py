"""Processes on this machine: each with its share of the cores, supervised until it has ended."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from understudy.executors import child
from understudy.executors.executor import CUT, TIMED_OUT, Ended, Service, cores, death, shared

GRACE_S = 10.0
"""Seconds that a process may take to end before it is killed."""
LOOK_EVERY_S = 0.05


class Process(Protocol):
    @property
    def pid(self) -> int:
        """Its number, which is that of its group too where it has a session of its own."""
        ...

    def wait(self) -> int:
        """Its exit status, once it has ended; minus the signal's number where one ended it."""
        ...


@dataclass
class Worker:
    process: Process
    pipe: Connection
    lock: Path
    name: str | None = None
    began: float = 0.0
    stopped: str = ""
    kill_at: float = float("inf")


@dataclass
class Processes:
    service: Service
    size: int = 1
    sharing: int | None = None
    session: Path | None = None
    apart: bool = False
    workers: list[Worker] = field(default_factory=list)
    _lifeline: tuple[int, int] = (-1, -1)

    def __enter__(self) -> "Processes":
        """The same, with the pipe whose end tells every process that this one is gone."""
        self._lifeline = os.pipe()
        return self

    def __exit__(self, *_: object) -> None:
        """End every process: what is on the disk is whole at any moment."""
        for worker in self.workers:
            worker.pipe.close()  # at which a process that has nothing to do puts away what it holds open, and ends
            if worker.name is not None:
                self._kill(worker)
        until = time.monotonic() + GRACE_S
        for worker in self.workers:
            while not _is_over(worker.process.pid) and time.monotonic() < until:
                time.sleep(LOOK_EVERY_S)
            self._reap(worker)
        self.workers.clear()
        for end in self._lifeline:
            os.close(end)

    @property
    def at_work(self) -> list[str]:
        return [worker.name for worker in self.workers if worker.name is not None]

    def start(self, name: str, lock: Path | None = None) -> None:
        """Begin a piece, in a process that has nothing to do or a new one."""
        idle = (free for free in self.workers if free.name is None)
        worker = next(idle, None) or self._started(name, lock or self.service.locks / token_hex(8))
        worker.name, worker.began = name, time.monotonic()
        with suppress(OSError):  # where it is dead already, that will show
            worker.pipe.send(name)

    def ended(self, wait_s: float = 0.0) -> list[Ended]:
        """The pieces that have ended since the last look; those that take too long are told to."""
        until = time.monotonic() + wait_s
        while True:
            all_ended = [ended for worker in list(self.workers) if (ended := self._look(worker)) is not None]
            left = until - time.monotonic()
            if all_ended or left <= 0:
                return all_ended
            if pipes := [worker.pipe for worker in self.workers if not worker.pipe.closed]:
                wait(pipes, min(left, LOOK_EVERY_S))
            else:
                time.sleep(min(left, LOOK_EVERY_S))

    def stop(self) -> list[Ended]:
        """Tell every process at work to end, and wait until it has."""
        ended = []
        for worker in self.workers:
            if worker.name is not None and not worker.stopped:
                self._tell_to_end(worker, CUT)
        while self.at_work:
            ended += self.ended(LOOK_EVERY_S)
        return ended

    def _look(self, worker: Worker) -> Ended | None:
        """The end of a worker's piece; `None` where it goes on."""
        answer = None
        try:
            if not worker.pipe.closed and worker.pipe.poll():
                answer = worker.pipe.recv()
        except (EOFError, OSError):  # it has ended, or will
            worker.pipe.close()
        if answer is not None and not self.service.alone:
            ended = Ended(worker.name or "", answer, seconds=time.monotonic() - worker.began)
            worker.name = None
            return ended
        if _is_over(worker.process.pid):
            return self._buried(worker)
        now = time.monotonic()
        limit = self.service.timeout_s
        if limit is not None and worker.name is not None and not worker.stopped and now - worker.began > limit:
            self._tell_to_end(worker, TIMED_OUT)
        if now > worker.kill_at:
            self._kill(worker)
        return None

    def _buried(self, worker: Worker) -> Ended | None:
        """The end of a process with its piece; `None` where it was at none."""
        status, name = self._reap(worker), worker.name
        worker.pipe.close()
        self.workers.remove(worker)
        if name is None:
            return None
        lost = "" if self.service.alone else death(status)
        return Ended(name, lost, status, time.monotonic() - worker.began, worker.stopped)

    def _reap(self, worker: Worker) -> int:
        self._kill(worker)  # with what it started and left behind; its number is still its own
        status = worker.process.wait()
        if self.session is None:  # on a cluster the lock is a claim, which stays until its answer is there
            worker.lock.unlink(missing_ok=True)
        return status

    def _tell_to_end(self, worker: Worker, why: str) -> None:
        """Ask a process to end: it ends those that it has started."""
        worker.stopped, worker.kill_at = why, time.monotonic() + GRACE_S
        with suppress(ProcessLookupError):
            os.kill(worker.process.pid, signal.SIGTERM)

    def _kill(self, worker: Worker) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self.service.alone or self.apart:
                os.killpg(worker.process.pid, signal.SIGKILL)
            else:
                os.kill(worker.process.pid, signal.SIGKILL)

    def _started(self, name: str, lock: Path) -> Worker:
        """A new process, which waits for its first piece."""
        service = self.service
        ours, theirs = Pipe()
        log = None if service.logs is None else service.logs / f"{name}.log"
        threads = shared(self.sharing or self.size, cores())
        try:
            with _deaf_to_ctrl_c(not service.alone):
                process = started(
                    theirs.fileno(), self._lifeline[0], log, threads, service.home, service.alone or self.apart
                )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        with suppress(BrokenPipeError):
            ours.send((sys.path, str(lock), None if self.session is None else str(self.session), service.alone))
            ours.send(service.work)
        worker = Worker(process, ours, lock)
        self.workers.append(worker)
        return worker


def started(
    channel: int, lifeline: int, log: Path | None, threads: dict[str, str], home: Path, apart: bool
) -> Process:  # fmt: skip
    """A process that does what comes through a channel, and writes all that it says to a new log, where it has one."""
    # Without -P a file beside ours could pass for a module.
    command = [sys.executable, "-P", child.__file__, str(channel)]

    def process(output: int | None) -> Process:
        return subprocess.Popen(  # noqa: S603 - our own module, and arguments that no shell reads
            command,
            stdin=lifeline,
            stdout=output,
            stderr=output,
            env={**os.environ, **threads},
            cwd=home,
            pass_fds=[channel],
            start_new_session=apart,
        )

    if log is None:
        return process(None)
    with log.open("wb") as file:
        return process(file.fileno())


def _is_over(pid: int) -> bool:
    """True where a process has ended; it is left to be waited for, so that its number is not given away."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


@contextmanager
def _deaf_to_ctrl_c(deaf: bool) -> Iterator[None]:
    """A new process inherits that Ctrl-C is its parent's business."""
    if not deaf or threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)
