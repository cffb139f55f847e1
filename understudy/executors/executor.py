"""The protocol of executors: pieces of work done elsewhere, several at a time; one that is lost takes no other with it.

Neither `concurrent.futures.ProcessPoolExecutor` nor `loky` serves here. With both a single process that is killed ends
all pieces under way and fails all that wait, and a parent that is killed leaves its processes behind.
"""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, Self

from filelock import FileLock, Timeout

from synth import extras
from synth.errors import JobError, OutputError

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


class Work(Protocol):
    """The work of processes, pickled. Unpickling it and `begin` happen under the process's lock."""

    def begin(self) -> Callable[[str], str]:
        """The function that does a piece by its name, and returns the reason for a loss, else an empty text."""
        ...


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
        ...

    def stop(self) -> Sequence[Ended]: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


LOOK_EVERY_S = 0.1


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
        from understudy.executors.processes import Processes

        return Processes(service, size or 1)
    elsewhere: Executor = _elsewhere(address)(address, service, size)
    return elsewhere


def check_elsewhere(address: str, folder: Path, inputs: tuple[Path, ...], *, keyed: bool = False) -> None:
    """Refuse an executor whose workers could not do the work, or would do another."""
    with TemporaryDirectory(prefix=".understudy-", dir=folder) as parent:
        here = Path(parent).absolute()
        with _elsewhere(address)(address, Service(b"", here, home=Path.cwd(), inputs=inputs), None) as executor:
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


def _elsewhere(address: str) -> Any:
    return extras.load("executor")[checked(address)]


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
    return {name: str(min(_asked(environment.get(name)) or share, share)) for name in THREADS}


def _asked(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and int(text) > 0 else None


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
