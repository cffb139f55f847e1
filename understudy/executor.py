"""Executors do the work of runs and batches, several pieces at a time; one that is lost takes no other with it.

Here they are processes on this machine, each with its share of the cores. What works elsewhere is brought by extras:
"executor" (the scheme of an address -> a class that takes an address, a `Service` and a size), and "counting" (-> a
context that maps functions over parts of a table).

Neither `concurrent.futures.ProcessPoolExecutor` nor `loky` serves here. With both a single process that is killed ends
all pieces under way and fails all that wait, and a parent that is killed leaves its processes behind.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, Protocol, Self

from filelock import FileLock, Timeout

from synth import extras
from synth.errors import JobError, OutputError
from understudy import executor_process

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables that set the number of threads of numerical libraries, torch among them."""
CUT, TIMED_OUT = "interrupted", "timed out"
"""Reasons for which an executor ends a piece of work."""
SESSION = ".session"
"""The suffix of the file that is there as long as its run or batch wants work done elsewhere."""
WAIT_S = 30.0
"""Seconds that a new start waits for the processes of one that was killed."""
PROCESSES = "processes"
"""What counts parts of a table on this machine."""
GRACE_S = 10.0
"""Seconds that a process may take to end before it is killed."""
LOOK_EVERY_S = 0.05


class Work(Protocol):
    """The work of processes, pickled. Unpickling it and `begin` happen under the process's lock."""

    def begin(self) -> Callable[[str], str]:
        """The function that does a piece by its name, and returns the reason for a loss, else an empty text."""


@dataclass(frozen=True)
class Service:
    work: bytes
    locks: Path
    logs: Path | None = None
    timeout_s: float | None = None
    home: Path = Path()
    inputs: tuple[Path, ...] = ()

    @property
    def alone(self) -> bool:
        """True where each piece has a process and a session of its own."""
        return self.logs is not None


@dataclass(frozen=True)
class Ended:
    name: str
    lost: str = ""
    status: int | None = None
    seconds: float = 0.0
    stopped: str = ""


class Executor(Protocol):
    """Pieces of work under way, under `with`; when the block is left, nothing of them is alive."""

    @property
    def size(self) -> int: ...

    @property
    def at_work(self) -> Sequence[str]: ...

    def start(self, name: str) -> None: ...

    def ended(self, wait_s: float) -> Sequence[Ended]:
        """The pieces that have ended since the last look; empty where nothing has after a while."""

    def stop(self) -> Sequence[Ended]: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def carried_out(
    executor: Executor, waiting: deque[str], begin: Callable[[str], None], look: Callable[[], None]
) -> Iterator[Ended]:
    """Each piece as it ends, until none is at work and none waits; whoever iterates may clear what waits."""
    while waiting or executor.at_work:
        while waiting and len(executor.at_work) < executor.size:
            begin(waiting.popleft())
        yield from executor.ended(LOOK_EVERY_S)
        look()


def opened(address: str | None, service: Service, size: int | None) -> Executor:
    if address is None:
        return Processes(service, size or 1)
    elsewhere: Executor = extras.load("executor")[checked(address)](address, service, size)
    return elsewhere


def check_elsewhere(address: str, folder: Path, inputs: tuple[Path, ...], *, keyed: bool = False) -> None:
    """Refuse an executor whose workers could not do the work, or would do another."""
    with TemporaryDirectory(prefix=".understudy-", dir=folder) as parent:
        service = Service(b"", Path(parent).absolute(), home=Path.cwd(), inputs=inputs)
        with extras.load("executor")[checked(address)](address, service, None) as executor:
            if keyed:
                executor.check_key()


def checked(address: str, kind: str = "executor") -> str:
    """The scheme of an executor's address: an extra brings what is there."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, _, rest = address.partition("[")
    if not rest or scheme not in extras.entries(kind) or "@" in address:
        known = ", ".join(extras.entries(kind)) or "none"
        raise JobError(
            f"--executor is no address of a cluster; write it like tcp://host:8786 (known: {known}), or leave it out"
        )
    return scheme


@contextmanager
def counting(address: str) -> Iterator[Any]:
    """What maps a function over the parts of a table, as long as the block lasts."""
    if address == PROCESSES:
        with ProcessPoolExecutor(cores(), multiprocessing.get_context("spawn")) as pool:
            yield pool
        return
    with extras.load("counting")[checked(address, "counting")](address) as client:
        yield client


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shared(n_processes: int, n_cores: int, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment variables that give each of several processes its share of the cores.

    >>> shared(4, 8, {})["OMP_NUM_THREADS"], shared(4, 8, {"OMP_NUM_THREADS": "1"})["OMP_NUM_THREADS"]
    ('2', '1')
    """
    share = max(1, n_cores // n_processes)
    asked = {name: environment.get(name, "") for name in THREADS}
    return {name: str(min(int(n), share) if n.isdigit() and int(n) else share) for name, n in asked.items()}


def death(status: int) -> str:
    if status == -signal.SIGKILL:
        return "its process was killed, as a system does that runs out of memory; use fewer workers if it was that"
    if status < 0:
        return f"its process was ended by a signal ({signal.strsignal(-status) or -status})"
    return f"its process ended by itself with exit code {status}"


def wait_for_workers(locks: Path, out: Path) -> None:
    """Wait until the processes of an earlier start have noticed that it is over: they may be about to draw."""
    # First of all: a worker elsewhere takes its lock, then looks for this. One that we do not see will not see it.
    for session in locks.glob(f"*{SESSION}"):
        session.unlink(missing_ok=True)
    for lock in sorted(locks.glob("*")):
        try:
            with FileLock(lock, timeout=WAIT_S):
                lock.unlink(missing_ok=True)
        except Timeout:
            raise OutputError(
                f"a process of an earlier start is still at work on --out {str(out)!r}; wait for it, or end it"
            ) from None


@dataclass
class Worker:
    process: "subprocess.Popen[bytes]"
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
        answer, now, limit = None, time.monotonic(), self.service.timeout_s
        try:
            if not worker.pipe.closed and worker.pipe.poll():
                answer = worker.pipe.recv()
        except (EOFError, OSError):  # it has ended, or will
            worker.pipe.close()
        if answer is not None and not self.service.alone:
            ended = Ended(worker.name or "", answer, seconds=now - worker.began)
            worker.name = None
            return ended
        if _is_over(worker.process.pid):
            status = self._reap(worker)
            worker.pipe.close()
            self.workers.remove(worker)
            lost = "" if self.service.alone else death(status)
            ended = Ended(worker.name or "", lost, status, now - worker.began, worker.stopped)
            return None if worker.name is None else ended
        if limit is not None and worker.name is not None and not worker.stopped and now - worker.began > limit:
            self._tell_to_end(worker, TIMED_OUT)
        if now > worker.kill_at:
            self._kill(worker)
        return None

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
        end = os.killpg if self.service.alone or self.apart else os.kill
        with suppress(ProcessLookupError, PermissionError):
            end(worker.process.pid, signal.SIGKILL)

    def _started(self, name: str, lock: Path) -> Worker:
        """A new process, which waits for its first piece."""
        service = self.service
        ours, theirs = Pipe()
        log = None if service.logs is None else service.logs / f"{name}.log"
        threads, apart = shared(self.sharing or self.size, cores()), service.alone or self.apart
        try:
            with _deaf_to_ctrl_c(not service.alone):
                process = started(theirs.fileno(), self._lifeline[0], log, threads, service.home, apart)
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
) -> "subprocess.Popen[bytes]":
    """A process that does what comes through a channel, and writes all that it says to a new log, where it has one."""
    with nullcontext() if log is None else log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - our own module, and arguments that no shell reads
            # Without -P a file beside ours could pass for a module.
            [sys.executable, "-P", executor_process.__file__, str(channel)],
            stdin=lifeline,
            stdout=output,
            stderr=output,
            env={**os.environ, **threads},
            cwd=home,
            pass_fds=[channel],
            start_new_session=apart,
        )


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
