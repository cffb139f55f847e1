"""Workers of a Dask cluster, each piece of work in a process of its own beside the worker that was handed it.

Dask runs a task again whose worker was lost, and may do so while that worker is still at work. What draws noise must
not run twice. So each task first claims its piece, by a file that can be made once: a second execution finds it made.
A worker passes on bytes that only the process beside it takes apart: no row and no key goes through the scheduler.
"""

import hashlib
import hmac
import importlib.util
import os
import queue
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

from filelock import FileLock, Timeout

from synth.distribution import missing_extra
from synth.errors import JobError
from understudy.executors.executor import CUT, SESSION, Ended, Service, Status
from understudy.executors.processes import GRACE_S, Processes
from understudy.provenance import KEY_VARIABLE, fingerprint_key, key_path, versions

CONNECT_S = 10
"""Seconds that a scheduler has to answer."""
LOOK_EVERY_S = 0.5
LOST = "its worker was lost with it, as one is that runs out of memory or that somebody ends"


@dataclass(frozen=True)
class Errand:
    """One piece of work, as a worker is handed it."""

    service: Service
    name: str
    claim: Path
    session: Path


def carried_out(errand: Errand) -> Ended:
    """The end of a piece of work, carried out on a worker of a cluster."""
    from distributed import get_worker
    from distributed.worker import thread_state

    worker, key = get_worker(), thread_state.key
    began = time.monotonic()
    try:
        os.close(os.open(errand.claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return Ended(errand.name, LOST)
    except OSError as error:
        return Ended(errand.name, f"its worker could not write beside the output ({error.strerror})")
    with Processes(errand.service, 1, worker.state.nthreads, errand.session, apart=True) as processes:
        try:
            processes.start(errand.name, errand.claim)
        except OSError as error:
            return Ended(errand.name, f"the system of its worker did not let it begin: {error.strerror}")
        while True:
            for ended in processes.ended(LOOK_EVERY_S):
                return ended
            # A scheduler that has lost its client drops the client's tasks.
            dropped = key not in worker.state.tasks or worker.state.tasks[key].state == "cancelled"
            if dropped or not errand.session.exists():
                return next(iter(processes.stop()), Ended(errand.name, stopped=CUT, seconds=time.monotonic() - began))


def _look(paths: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The versions that have to be the same everywhere, of Python the minor one, and the files that are not seen."""
    seen = {name: version for name, version in versions().items() if name != "platform"}
    minor = ".".join(seen["python"].split(".")[:2])
    return {**seen, "python": minor}, [path for path in paths if not Path(path).exists()]


def _keyed(challenge: str) -> str:
    """The answer of a worker's key to a challenge; empty where it has none."""
    path = key_path()
    return _answer(path.read_bytes(), challenge) if path.exists() else ""


def _answer(key: bytes, challenge: str) -> str:
    return hmac.new(key, f"one key for all: {challenge}".encode(), hashlib.sha256).hexdigest()


@dataclass
class Cluster:
    """An `Executor` of a Dask cluster's workers, which see the same files under the same names."""

    address: str
    service: Service
    most: int | None = None
    size: int = 1
    _client: Any = None  # under `with`
    _session: Path = Path()
    _errands: dict[str, tuple[Any, Errand, float]] = field(default_factory=dict)  # future, errand, when it began
    _done: "queue.SimpleQueue[str]" = field(default_factory=queue.SimpleQueue)

    def __enter__(self) -> "Cluster":
        """The same, connected to workers that were found fit."""
        self._client = connected(self.address)
        try:
            self._session = self.service.locks / f"{token_hex(8)}{SESSION}"
            self._session.touch()
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
            if not workers:
                raise JobError(
                    f"no worker has joined --executor {self.address!r}; start some (`dask worker {self.address}`)"
                )
            self._check()
            threads = sum(one["nthreads"] for one in workers.values())
            self.size = min(self.most or threads, threads)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End what is under way, everywhere, and wait until it has ended, or cannot be heard of."""
        self._session.unlink(missing_ok=True)
        claims = [errand.claim for _, errand, _ in self._errands.values()]
        self._client.cancel([future for future, _, _ in self._errands.values()])
        until = time.monotonic() + 2 * GRACE_S
        while time.monotonic() < until and not all(map(_is_free, claims)):
            time.sleep(LOOK_EVERY_S)
        self._client.close()
        self._errands.clear()

    @property
    def at_work(self) -> dict[str, Status]:
        """The pieces that were handed over; one that waits for a worker is among them."""
        now = time.monotonic()
        return {name: Status(name, seconds=now - began) for name, (_, _, began) in self._errands.items()}

    def start(self, name: str) -> None:
        """Hand over a piece."""
        claim = self.service.locks / token_hex(8)
        errand = Errand(self.service, name, claim, self._session)
        future = self._client.submit(carried_out, errand, key=f"understudy-{claim.name}", pure=False, retries=0)
        self._errands[name] = (future, errand, time.monotonic())
        future.add_done_callback(lambda _: self._done.put(name))

    def ended(self, wait_s: float = 0.0) -> list[Ended]:
        """The pieces that have ended since the last look."""
        try:
            name = self._done.get(timeout=wait_s) if wait_s > 0 else self._done.get_nowait()
        except queue.Empty:
            return []
        if name not in self._errands:
            return []
        future, errand, began = self._errands.pop(name)
        try:
            ended: Ended = future.result()
        except Exception as error:  # noqa: BLE001 - whatever a cluster does to a task takes that task alone
            ended = Ended(name, f"{LOST} ({type(error).__name__})", seconds=time.monotonic() - began)
        if not ended.lost:  # else an execution that was lost may still come to it
            with suppress(OSError):
                errand.claim.unlink(missing_ok=True)
        return [ended]

    def stop(self) -> list[Ended]:
        """Tell every process at work to end, and wait until it has, or cannot be heard of."""
        self._session.unlink(missing_ok=True)
        pieces, until = [], time.monotonic() + 2 * GRACE_S
        while self._errands and time.monotonic() < until:
            pieces += self.ended(LOOK_EVERY_S)
        pieces += [Ended(name, stopped=CUT) for name in self._errands]
        return [Ended(one.name, one.lost, one.status, one.seconds, one.stopped or CUT) for one in pieces]

    def _check(self) -> None:
        """Refuse a cluster whose workers could not do the work, or would do another."""
        paths = [str(path) for path in (self._session, self.service.home, *self.service.inputs)]
        try:
            seen = self._client.run(_look, paths)
        except Exception as error:  # noqa: BLE001 - anything that a worker without our packages may raise
            raise JobError(
                f"the workers of --executor {self.address!r} cannot run understudy ({type(error).__name__}); install "
                "the same version there, with its extra `dask`"
            ) from None
        ours, _ = _look(())
        for worker, (theirs, missing) in seen.items():
            other = [
                f"{name} {theirs.get(name, 'missing')} (here {version})"
                for name, version in ours.items()
                if theirs.get(name) != version
            ]
            if other:
                raise JobError(
                    f"worker {worker} has other versions, and numbers depend on them: {', '.join(other)}; install the "
                    "same there"
                )
            if missing:
                raise JobError(
                    f"worker {worker} does not see path={missing[0]!r}; put job, table and --out on a file system that "
                    "all machines share under the same names, or the table into a database"
                )

    def check_key(self) -> None:
        """Refuse workers that would name tables by another key than this machine's."""
        challenge = token_hex(16)
        ours = _answer(fingerprint_key(key_path()), challenge)
        for worker, theirs in self._client.run(_keyed, challenge).items():
            if theirs != ours:
                raise JobError(
                    f"worker {worker} has another fingerprint key than this machine, so that no other could go on from "
                    f"its work; set {KEY_VARIABLE} everywhere to one file that all see"
                )


def connected(address: str) -> Any:
    """Dask's client at an address."""
    if importlib.util.find_spec("distributed") is None:
        raise missing_extra("--executor", "dask")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of versions: ours are compared
        from distributed import Client

        try:
            return Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError, RuntimeError, TimeoutError):
            raise JobError(
                f"no Dask scheduler answers at --executor {address!r}; start one (`dask scheduler`), or correct it"
            ) from None


def _is_free(claim: Path) -> bool:
    """True where no process holds a claim."""
    if not claim.exists():
        return True
    try:
        with FileLock(claim, timeout=0):
            return True
    except Timeout:
        return False
