"""A worker process: it takes labels, makes the candidates that they name, and ends with its parent.

It is started anew (`spawn`), reads the table itself, by a connection of its own where the table is stored, and shares
nothing with the others but the workspace on the disk, where each candidate has files of its own, and the ledger, which
takes turns. It holds a lock for as long as it lives, so that no later start touches the workspace while it may still
draw. Heavy libraries are imported once it holds the lock.
"""

import logging
import multiprocessing
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from filelock import FileLock

from synth.errors import UnderstudyError
from synth.progress import Progress
from understudy.run.plan import Plan, with_fund
from understudy.run.workspace import RunWorkspace

if TYPE_CHECKING:
    from understudy.run.candidates import CandidateContext, Stage

TELL_EVERY_S = 0.2
SHARES = {"fit": (0.0, 0.5), "sample": (0.5, 0.1), "evaluate": (0.6, 0.3), "audit": (0.9, 0.1)}
"""Where each stage begins and how much of a candidate it is, roughly: for a bar, not for a claim."""


@dataclass(frozen=True)
class Told:
    """What a process says of its candidate: how far it is; at the end `lost` says why it was not made."""

    text: str
    share: float
    ended: bool = False
    lost: str | None = None


@dataclass(frozen=True)
class WorkerTask:
    """What a process needs to make candidates; what it cannot be handed over, it opens anew."""

    plan: Plan
    work: RunWorkspace
    paid: bool
    debug: bool
    lock: str


def serve(task: WorkerTask, pipe: Connection) -> None:
    """A process's life: it makes the candidates that it is given, and ends with its parent.

    Args:
        task: what they are made from.
        pipe: gives labels, and is told how far they are.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not task.debug:
        # Warnings and logs of libraries may quote values of the table.
        warnings.simplefilter("ignore")
        logging.getLogger().addHandler(logging.NullHandler())
    with FileLock(task.work.worker_lock(task.lock)):
        threading.Thread(target=_end_with_parent, daemon=True).start()
        parent = multiprocessing.parent_process()
        if parent is None or not parent.is_alive():
            return
        with suppress(EOFError, BrokenPipeError):
            _serve(task, pipe)


def _serve(task: WorkerTask, pipe: Connection) -> None:
    with ExitStack() as until_the_end:
        _make(task, pipe, until_the_end)


def _make(task: WorkerTask, pipe: Connection, until_the_end: ExitStack) -> None:
    bench = None
    while True:
        label: str = pipe.recv()
        try:
            if bench is None:
                bench = _bench(task, pipe, until_the_end)
            from understudy.run.candidates import finish

            finish(bench, label)
        except UnderstudyError as error:
            pipe.send(Told(label, 1.0, ended=True, lost=str(error).rstrip(".")))
        except MemoryError:
            pipe.send(Told(label, 1.0, ended=True, lost="there was not enough memory; use fewer workers"))
        except Exception as error:  # noqa: BLE001 - the outermost place of a process
            if task.debug:
                traceback.print_exc()
            lost = f"an internal error, {type(error).__name__}; please report it"
            pipe.send(Told(label, 1.0, ended=True, lost=lost))
        else:
            pipe.send(Told(label, 1.0, ended=True))


def _bench(task: WorkerTask, pipe: Connection, until_the_end: ExitStack) -> "CandidateContext":
    """What candidates are made of, read anew: the same sides from the same seed."""
    from understudy.run import stages
    from understudy.run.candidates import CandidateContext

    plan = with_fund(task.plan) if task.paid else task.plan
    real = until_the_end.enter_context(stages.read(plan))
    return CandidateContext(plan, task.work, stages.split(plan, real), _telling(pipe))


def _telling(pipe: Connection) -> "Stage":
    """Stages that tell the parent how far they are, a few times a second."""

    @contextmanager
    def stage(name: str) -> Iterator[Progress]:
        start, width = SHARES[name.partition(" ")[0]]
        last = 0.0

        def tell(label: str, share: float | None) -> None:
            nonlocal last
            if time.monotonic() - last >= TELL_EVERY_S:
                last = time.monotonic()
                pipe.send(Told(name, start + width * (share or 0.0)))

        tell(name, 0.0)
        yield tell

    return stage


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
    os._exit(1)
