"""Workers of a Dask cluster, each piece of work in a process of its own beside the worker that was handed it.

Dask runs a task again whose worker was lost, and may do so while that worker is still at work. What draws noise must
not run twice. So each task first claims its piece, by a file that can be made once: a second execution finds it made.
A worker passes on bytes that only the process beside it takes apart: no row and no key goes through the scheduler.
"""

import hashlib
import hmac
import os
import queue
import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

from filelock import FileLock, Timeout

from synth.errors import JobError
from synth.extras import missing_extra
from understudy.executor import CUT, GRACE_S, SESSION, Ended, Processes, Service
from understudy.provenance import KEY_VARIABLE, fingerprint_key, key_path, versions

CONNECT_S = 10  # that a scheduler has to answer
LOOK_EVERY_S = 0.5
LOST = "its worker was lost with it, or failed, as one does that runs out of memory or that somebody ends"


def carry_out(service: Service, name: str, claim: Path, session: Path) -> Ended:
    from distributed import get_worker
    from distributed.worker import thread_state

    worker, key, began = get_worker(), thread_state.key, time.monotonic()
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return Ended(name, LOST)
    with Processes(service, 1, worker.state.nthreads, session, apart=True) as processes:
        processes.start(name, claim)
        while True:
            for ended in processes.ended(LOOK_EVERY_S):
                return ended
            # A scheduler that has lost its client drops the client's tasks.
            dropped = key not in worker.state.tasks or worker.state.tasks[key].state == "cancelled"
            if dropped or not session.exists():
                return next(iter(processes.stop()), Ended(name, stopped=CUT, seconds=time.monotonic() - began))


def _versions() -> dict[str, str]:
    """The versions that have to be the same everywhere, of Python the minor one."""
    seen = {name: version for name, version in versions().items() if name != "platform"}
    return {**seen, "python": ".".join(seen["python"].split(".")[:2])}


def _unfit(ours: dict[str, str], paths: Sequence[str]) -> str:
    theirs = _versions()
    other = [f"{name} {theirs.get(name)} (here {ours[name]})" for name in ours if theirs.get(name) != ours[name]]
    if other:
        return f"has other versions, and numbers depend on them: {', '.join(other)}; install those of this machine"
    unseen = next((path for path in paths if not Path(path).exists()), None)
    return "" if unseen is None else f"does not see path={unseen!r}; keep all files where all machines see them"


def _answer(challenge: str) -> str:
    """The answer of this machine's key to a challenge, which does not give the key away; empty where it has none."""
    if not (path := key_path()).exists():
        return ""
    return hmac.new(path.read_bytes(), f"one key for all: {challenge}".encode(), hashlib.sha256).hexdigest()


@dataclass
class Cluster:
    address: str
    service: Service
    most: int | None = None
    size: int = 1
    _client: Any = None  # under `with`
    _session: Path = Path()
    _pieces: dict[str, tuple[Any, Path, float]] = field(default_factory=dict)  # future, claim, when it began
    _done: "queue.SimpleQueue[str]" = field(default_factory=queue.SimpleQueue)

    def __enter__(self) -> "Cluster":
        self._client = connected(self.address)
        try:
            self._session = self.service.locks / f"{token_hex(8)}{SESSION}"
            self._session.touch()
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
            if not workers:
                raise JobError(f"no worker has joined --executor {self.address!r}; start some (`dask worker`)")
            self._check()
            threads = sum(each["nthreads"] for each in workers.values())
            self.size = min(self.most or threads, threads)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._client.close()

    @property
    def at_work(self) -> list[str]:
        return list(self._pieces)

    def start(self, name: str) -> None:
        claim = self.service.locks / token_hex(8)
        future = self._client.submit(
            carry_out, self.service, name, claim, self._session,
            key=f"understudy-{claim.name}", pure=False, retries=0,
        )  # fmt: skip
        self._pieces[name] = (future, claim, time.monotonic())
        future.add_done_callback(lambda _: self._done.put(name))

    def ended(self, wait_s: float = 0.0) -> list[Ended]:
        try:
            name = self._done.get(timeout=wait_s) if wait_s > 0 else self._done.get_nowait()
            future, claim, began = self._pieces.pop(name)
        except (queue.Empty, KeyError):
            return []
        try:
            ended: Ended = future.result()
        except Exception as error:  # noqa: BLE001 - whatever a cluster does to a task takes that task alone
            ended = Ended(name, f"{LOST} ({type(error).__name__})", seconds=time.monotonic() - began)
        if not ended.lost:  # else an execution that was lost may still come to it
            with suppress(OSError):
                claim.unlink(missing_ok=True)
        return [ended]

    def stop(self) -> list[Ended]:
        """End what is under way, everywhere, and wait until it has ended, or cannot be heard of."""
        self._session.unlink(missing_ok=True)
        self._client.cancel([future for future, _, _ in self._pieces.values()])
        until = time.monotonic() + 2 * GRACE_S
        while time.monotonic() < until and any(_is_held(claim) for _, claim, _ in self._pieces.values()):
            time.sleep(LOOK_EVERY_S)
        now = time.monotonic()
        stopped = [Ended(name, stopped=CUT, seconds=now - began) for name, (_, _, began) in self._pieces.items()]
        self._pieces.clear()
        return stopped

    def _check(self) -> None:
        paths = [str(path) for path in (self._session, self.service.home, *self.service.inputs)]
        try:
            answers = self._client.run(_unfit, _versions(), paths)
        except Exception as error:  # noqa: BLE001 - anything that a worker without our packages may raise
            raise JobError(
                f"the workers of --executor {self.address!r} cannot run understudy ({type(error).__name__}); install "
                "the same version there, with its extra `dask`"
            ) from None
        for worker, why in answers.items():
            if why:
                raise JobError(f"worker {worker} {why}")

    def check_key(self) -> None:
        fingerprint_key(key_path())  # made where there is none
        challenge = token_hex(16)
        for worker, theirs in self._client.run(_answer, challenge).items():
            if theirs != _answer(challenge):
                raise JobError(
                    f"worker {worker} has another fingerprint key than this machine, so that no other could go on from "
                    f"its work; set {KEY_VARIABLE} everywhere to one file that all see"
                )


def connected(address: str) -> Any:
    """Dask's client at an address, which also counts the parts of a table there, as long as a block lasts."""
    with warnings.catch_warnings(action="ignore"):  # of versions: ours are compared
        try:
            from distributed import Client

            return Client(address, timeout=CONNECT_S, set_as_default=False)
        except ImportError:
            raise missing_extra("--executor", "dask") from None
        except (OSError, ValueError, RuntimeError, TimeoutError):
            raise JobError(
                f"no Dask scheduler answers at --executor {address!r}; start one (`dask scheduler`), or correct it"
            ) from None


def _is_held(claim: Path) -> bool:
    try:
        with FileLock(claim, timeout=0) if claim.exists() else nullcontext():
            return False
    except Timeout:
        return True
