"""The run of a batch: its jobs checked, those that are finished left alone, the others run, every one accounted for.

A job is finished if an earlier start left its whole output, made from what is there now.
"""

import json
import pickle
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluate.gate.policy import find_policy
from synth.errors import OutputError, UnderstudyError
from synth.output import is_taken, sole, whole_file
from understudy.batch.jobs import (
    BAD,
    CRASHED,
    NOT_STARTED,
    OWN,
    SUMMARY_CSV,
    SUMMARY_JSON,
    BatchJob,
    JobOutcome,
    exit_code,
    finished,
    outcome_of,
    read_content,
    rests_on_expired_waiver,
)
from understudy.bundle.manifest import MANIFEST
from understudy.console import DONE, INTERRUPTED, TERMINATED, Console, duration
from understudy.data import file_state
from understudy.executor import Executor, Service, carried_out, opened, wait_for_workers
from understudy.executor import check_elsewhere as check_executor
from understudy.provenance import now, sha256
from understudy.run.plan import check_ledger
from understudy.run.workspace import tidy

DAMAGED = "and no run left it so"
LOCKS = "locks"


def mark_of(job: BatchJob) -> dict[str, Any]:
    """What tells a job's inputs from others: digests of its files, and of its table all but its rows."""
    spec, home = job.spec, job.path.parent
    assert spec is not None  # a job that cannot be read is never begun
    try:
        policy = find_policy(spec.policy, home)
    except UnderstudyError:
        policy = None
    paths = {
        "job": job.path, "schema": home / spec.table.schema_path, "policy": policy,
        "file of waivers": None if spec.waivers is None else home / spec.waivers,
    }  # fmt: skip
    path = spec.table.path
    state = {} if path is None or "://" in path else file_state(home / path)
    files = {name: sha256(path) if path is not None and path.is_file() else None for name, path in paths.items()}
    return {**files, "table": json.dumps([path, spec.table.source, state], default=str)}


def difference(job: BatchJob) -> str | None:
    """The difference, in words, between an output in the job's place and the job; `None` where there is no output."""
    from understudy.bundle.verification import Demand, verify

    if not is_taken(job.out):
        return None
    verdict, then = read_content(job.out / "verdict.json"), read_content(job.mark)
    if verdict is None or then is None or not (job.out / MANIFEST).is_file():
        return DAMAGED
    if other := [name for name, value in mark_of(job).items() if then.get(name) != value]:
        return f"made from {' and '.join(f'another {name}' for name in other)}"
    if _rests_on_expired_waiver(verdict):
        return "and a waiver that its verdict rests on has expired"
    try:
        result = verify(job.out, Demand())
    except UnderstudyError:
        return DAMAGED
    return "" if result.is_sound else f"and cannot be relied upon: {result.problems[0].sentence}"


def _rests_on_expired_waiver(verdict: Mapping[str, Any]) -> bool:
    """True where the table to release passed a rule by a waiver that is over."""
    today = datetime.now(UTC).date()
    try:
        released = [judged for judged in verdict["candidates"] if judged["candidate"] == verdict["release"]]
        return any(rests_on_expired_waiver(judged, today) for judged in released)
    except (KeyError, TypeError):  # somebody's own file: it rests on nothing that we know
        return True


@dataclass(frozen=True)
class Settings:
    folder: Path
    workers: int | None = None
    timeout_s: float | None = None
    fail_fast: bool = False
    options: Sequence[str] = ()
    executor: str | None = None
    command: Callable[[], object] = field(kw_only=True)


@dataclass(frozen=True)
class JobWork:
    """The `Work` of running jobs, each by the command line as if somebody had typed it."""

    command: Callable[[], object]
    arguments: Mapping[str, Sequence[str]]

    def begin(self) -> Callable[[str], str]:
        def carry_out(name: str) -> str:
            sys.argv = ["understudy", *self.arguments[name]]
            self.command()
            return ""

        return carry_out


def check_elsewhere(jobs: Sequence[BatchJob], folder: Path, executor: str) -> None:
    from understudy.budget import ledger_of, ledger_place

    usable = [job for job in jobs if not job.fault]
    for spec, home in ((job.spec, job.path.parent) for job in usable):
        if spec is not None and spec.is_private and (url := ledger_of(spec, home)) is not None:
            check_ledger(ledger_place(url))
    check_executor(executor, folder.absolute().parent, tuple(job.path for job in usable), keyed=True)


@dataclass
class BatchResult:
    outcomes: tuple[JobOutcome, ...]
    cut: BaseException | None = None

    @property
    def exit_code(self) -> int:
        if self.cut is None:
            return exit_code(self.outcomes)
        return TERMINATED if isinstance(self.cut, SystemExit) else INTERRUPTED

    @property
    def states(self) -> Counter[str]:
        return Counter(outcome.state for outcome in self.outcomes)


@dataclass
class _Progress:
    jobs: Sequence[BatchJob]
    console: Console
    outcomes: dict[str, JobOutcome] = field(default_factory=dict)

    def add(self, outcome: JobOutcome) -> None:
        self.outcomes[outcome.name] = outcome
        took = "" if outcome.seconds is None else f" after {duration(outcome.seconds)}"
        line = f"{outcome.name}: {outcome.shown_state}{took}{f': {outcome.why}' if outcome.why else ''}"
        self.say(line)
        if self.console.quiet and outcome.exit_code != DONE:
            alone = replace(self.console, json=False)  # the one JSON object is the batch's, at its end
            alone.error(line, outcome.exit_code)

    def say(self, text: str) -> None:
        """A line with how many jobs are done, and when, in UTC."""
        self.console.note(f"[{len(self.outcomes)}/{len(self.jobs)}] {now()} {text}")


def conduct(jobs: Sequence[BatchJob], settings: Settings, console: Console) -> BatchResult:
    """Run all jobs that are not finished, each in a process of its own, from where an earlier start left them."""
    with _alone(settings.folder):
        wait_for_workers(settings.folder / OWN / LOCKS, settings.folder)
        for name in (SUMMARY_JSON, SUMMARY_CSV):  # an old one must not pass for this start's
            (settings.folder / name).unlink(missing_ok=True)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever ignores it never learns how a process ended
        progress = _Progress(jobs, console)
        waiting = [job for job in jobs if not _settled(job, progress)]
        cut = _run(waiting, progress, settings) if waiting else None
    known = progress.outcomes
    return BatchResult(tuple(known.get(job.name) or JobOutcome(job.name, NOT_STARTED) for job in jobs), cut)


def _settled(job: BatchJob, progress: _Progress) -> bool:
    """True where nothing is to be run for a job: it cannot run, or it is finished."""
    try:
        result = _standing(job)
    except Exception as error:  # noqa: BLE001 - files of one job, whatever is in them, must not end the others' batch
        why = f"what stands at {str(job.out)!r} could not be read ({type(error).__name__}); remove it"
        result = JobOutcome(job.name, CRASHED, error=why)
    if result is not None:
        progress.add(result)
    return result is not None


def _standing(job: BatchJob) -> JobOutcome | None:
    """The outcome of a job before it is begun; `None` where it is to be begun."""
    if job.fault:
        if job.log.is_file():  # of an earlier start, with another reason
            job.log.unlink()
        return JobOutcome(job.name, BAD, error=job.fault)
    other = difference(job)
    if other is None:
        return None
    result = finished(job, earlier=True) if not other else None
    if result is not None:
        tidy(job.out)
        return result
    why = other or DAMAGED
    error = f"an output folder must be new: {str(job.out)!r} is there, {why}; remove it, or name another --out"
    return JobOutcome(job.name, BAD, error=error)


def _run(waiting: Sequence[BatchJob], progress: _Progress, settings: Settings) -> BaseException | None:
    """Jobs begun and ended, until none is left or the batch is told to end."""
    jobs = {job.name: job for job in waiting}
    arguments = {job.name: ("run", str(job.path), f"--out={job.out}", *settings.options) for job in waiting}
    folder, work = settings.folder.absolute(), pickle.dumps(JobWork(settings.command, arguments))
    service = Service(work, folder / OWN / LOCKS, folder, settings.timeout_s, Path.cwd())
    with opened(settings.executor, service, settings.workers) as executor, progress.console.stage("batch") as tell:

        def begin(name: str) -> None:
            has_failed = any(outcome.exit_code != DONE for outcome in progress.outcomes.values())
            if not (settings.fail_fast and has_failed):
                _begin(jobs[name], executor, progress)

        def look() -> None:
            tell(", ".join(executor.at_work), len(progress.outcomes) / len(progress.jobs))

        try:
            for ended in carried_out(executor, deque(jobs), begin, look):
                progress.add(outcome_of(jobs[ended.name], ended))
        except (KeyboardInterrupt, SystemExit) as cut:
            for ended in executor.stop():
                progress.add(outcome_of(jobs[ended.name], ended))
            return cut
    return None


def _begin(job: BatchJob, executor: Executor, progress: _Progress) -> None:
    try:
        with whole_file(job.mark) as beside:
            beside.write_text(json.dumps(mark_of(job)), encoding="utf-8")
        executor.start(job.name)
    except (OSError, OutputError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).rstrip(".")
        progress.add(JobOutcome(job.name, CRASHED, error=f"the system did not let it begin: {why}"))
    else:
        progress.say(f"{job.name}: begun")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """This process has the batch's folder to itself; it is made where it is not there."""

    def refused(error: OSError) -> OutputError:
        return OutputError(
            f"--out {str(folder)!r} cannot be written ({error.strerror}); choose a folder, or one beside which there "
            "is room"
        )

    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise refused(error) from None
    busy = f"another batch is at work on --out {str(folder)!r}; wait for it to end, or name another --out"
    with sole(folder / OWN, busy, refused):
        try:
            (folder / OWN / LOCKS).mkdir(exist_ok=True)
        except OSError as error:
            raise refused(error) from None
        yield
