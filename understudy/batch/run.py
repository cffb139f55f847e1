"""The run of a batch: its jobs checked, those that are finished left alone, the others run, every one accounted for.

A job is finished if an earlier start left its whole output, made from what is there now.
"""

import json
import pickle
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluate.gate.policy import find_policy
from synth.errors import OutputError, UnderstudyError
from synth.output import is_taken, sole, whole_file
from understudy.batch.jobs import OWN, SUMMARY_CSV, SUMMARY_JSON, BatchJob
from understudy.batch.result import (
    BAD,
    CRASHED,
    NOT_STARTED,
    JobOutcome,
    exit_code,
    finished,
    outcome_of,
    provenance_of,
    read_content,
    reserved,
    rests_on_expired_waiver,
)
from understudy.bundle.manifest import MANIFEST, moment
from understudy.console import DONE, INTERRUPTED, TERMINATED, Console, Tell, duration, printable
from understudy.data.source import file_state
from understudy.executors.executor import Executor, Service, opened, wait_for_workers
from understudy.executors.executor import check_elsewhere as check_executor
from understudy.job.spec import Job
from understudy.provenance import sha256
from understudy.run.plan import check_ledger
from understudy.run.workspace import tidy

DAMAGED = "and no run left it so"
LOCKS = "locks"
LOOK_EVERY_S = 0.1
EXPIRED = "and a waiver that its verdict rests on has expired"


def write_mark(job: BatchJob) -> None:
    """Keep which table the job is about to read, so that another one under its name is noticed later."""
    with whole_file(job.mark) as beside:
        beside.write_text(json.dumps(_table_mark(job)), encoding="utf-8")


def difference(job: BatchJob) -> str | None:
    """The difference, in words, between an output in the job's place and the job."""
    if not is_taken(job.out):
        return None
    evaluation, verdict = read_content(job.out / "evaluation.json"), read_content(job.out / "verdict.json")
    if evaluation is None or verdict is None or not (job.out / MANIFEST).is_file():
        return DAMAGED
    if other := _others(job, provenance_of(evaluation)):
        return f"made from {' and '.join(f'another {name}' for name in other)}"
    if _rests_on_expired_waiver(verdict):
        return EXPIRED
    return _problem(job.out)


def _others(job: BatchJob, then: Mapping[str, Any]) -> list[str]:
    """Inputs of the job that differ from those its output was made from."""
    home = job.path.parent
    spec = job.job
    paths = {"job": job.path, "schema": home / spec.table.schema_path, "policy": _policy(spec, home)}
    other = [name for name, path in paths.items() if then.get(f"{name}_sha256") != _digest(path)]
    waivers = None if spec.waivers is None else home / spec.waivers
    if _digest(waivers) != _digest(job.out / "waivers.toml"):
        other.append("file of waivers")
    if not other and read_content(job.mark) != _table_mark(job):
        other.append("table")
    return other


def _problem(out: Path) -> str:
    """The fault of a sealed output: it was changed, or has ended; empty for none."""
    from understudy.bundle.verification import Demand, verify

    try:
        found = verify(out, Demand())
    except UnderstudyError:
        return DAMAGED
    return "" if found.is_sound else f"and cannot be relied upon: {found.problems[0].sentence}"


def _rests_on_expired_waiver(verdict: Mapping[str, Any]) -> bool:
    """True where the table to release passed a rule by a waiver that is over."""
    today = datetime.now(UTC).date()
    try:
        released = [one for one in verdict["candidates"] if one["candidate"] == verdict["release"]]
        return any(rests_on_expired_waiver(one, today) for one in released)
    except (KeyError, TypeError):  # somebody's own file: it rests on nothing that we know
        return True


def _digest(path: Path | None) -> str | None:
    """SHA-256 of what is public of a job; none for a file that is not there."""
    return sha256(path) if path is not None and path.is_file() else None


def _policy(spec: Job, home: Path) -> Path | None:
    try:
        return find_policy(spec.policy, home)
    except UnderstudyError:
        return None


def _table_mark(job: BatchJob) -> dict[str, Any]:
    """The mark of a table that tells it from another without reading it, whatever a clock says."""
    given = job.job.table
    if given.path is not None and "://" in given.path:  # only reading it would tell
        return {"path": given.path, "source": None}
    known = {} if given.path is None else file_state(job.path.parent / given.path)
    return {**known, "path": given.path, **({} if len(known) > 1 else {"source": given.source})}


@dataclass(frozen=True)
class Settings:
    """Settings of a batch."""

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

    def begin(self, until_the_end: ExitStack, tell: Tell) -> Callable[[str], str]:
        """The function that runs a job by its name; its process exits as the command does."""

        def carry_out(name: str) -> str:
            sys.argv = ["understudy", *self.arguments[name]]
            self.command()
            return ""

        return carry_out


def executor_of(jobs: Iterable[BatchJob], settings: Settings) -> Executor:
    """The executor of a batch's jobs."""
    arguments = {job.name: ("run", str(job.path), f"--out={job.out}", *settings.options) for job in jobs}
    work = pickle.dumps(JobWork(settings.command, arguments))
    locks = settings.folder.absolute() / OWN / LOCKS
    service = Service(work, locks, settings.folder.absolute(), settings.timeout_s, Path.cwd())
    return opened(settings.executor, service, settings.workers)


def check_elsewhere(jobs: Sequence[BatchJob], folder: Path, executor: str) -> None:
    """Refuse a cluster that cannot run these jobs."""
    from understudy.budget.account import ledger_of, ledger_place

    usable = [job for job in jobs if job.spec is not None and not job.fault]
    for job in usable:
        url = ledger_of(job.job, job.path.parent)
        if any(point.epsilon is not None for point in job.job.points.values()) and url is not None:
            check_ledger(ledger_place(url))
    check_executor(executor, folder.absolute().parent, tuple(job.path for job in usable), keyed=True)


@dataclass
class BatchResult:
    """The result of a batch."""

    outcomes: tuple[JobOutcome, ...]
    cut: BaseException | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of the batch."""
        if self.cut is None:
            return exit_code(self.outcomes)
        return TERMINATED if isinstance(self.cut, SystemExit) else INTERRUPTED

    @property
    def states(self) -> Counter[str]:
        """The number of jobs by state."""
        return Counter(outcome.state for outcome in self.outcomes)


@dataclass
class _Progress:
    """The state of a batch at work."""

    jobs: Sequence[BatchJob]
    console: Console
    found: dict[str, JobOutcome] = field(default_factory=dict)
    took: list[float] = field(default_factory=list)
    reached: float = 0.0

    def add(self, outcome: JobOutcome) -> None:
        """Keep what a job came to, and say it."""
        self.found[outcome.name] = outcome
        took = "" if outcome.seconds is None else f" after {duration(outcome.seconds)}"
        line = f"{outcome.name}: {outcome.shown_state}{took}{f': {outcome.why}' if outcome.why else ''}"
        self.say(line)
        if self.console.quiet and outcome.exit_code != DONE:
            alone = replace(self.console, json=False)  # the one JSON object is the batch's, at its end
            alone.error(line, outcome.exit_code)

    def say(self, text: str) -> None:
        """A line with how many jobs are done, and when, in UTC."""
        self.console.note(f"[{len(self.found)}/{len(self.jobs)}] {moment(datetime.now(UTC))} {text}")

    def show(self, executor: Executor, tell: Tell) -> None:
        """Move the bar; a job under way counts as far as jobs before it tell how long one takes."""
        at_work = executor.at_work
        names = ", ".join(at_work)
        if not self.took:
            tell(names, None)
            return
        mean = sum(self.took) / len(self.took)
        under_way = sum(min(one.seconds / mean, 0.95) for one in at_work.values() if mean > 0)
        # A long job must not move the bar back.
        self.reached = max(self.reached, (len(self.found) + under_way) / len(self.jobs))
        tell(names, min(self.reached, 1.0))


def conduct(
    jobs: Sequence[BatchJob],
    settings: Settings,
    console: Console,
    sum_up: Callable[[BatchResult], None] = lambda result: None,
) -> BatchResult:
    """Run all jobs that are not finished, each in a process of its own, from where an earlier start left them."""
    with _alone(settings.folder):
        wait_for_workers(settings.folder / OWN / LOCKS, settings.folder)
        for name in (SUMMARY_JSON, SUMMARY_CSV):  # an old one must not pass for this start's
            (settings.folder / name).unlink(missing_ok=True)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever ignores it never learns how a process ended
        progress = _Progress(jobs, console)
        waiting = deque(job for job in jobs if not _settled(job, progress))
        cut = _run(waiting, progress, settings) if waiting else None
        result = BatchResult(
            tuple(progress.found.get(job.name) or JobOutcome(job.name, NOT_STARTED) for job in jobs), cut
        )
        sum_up(result)
    return result


def _settled(job: BatchJob, progress: _Progress) -> bool:
    """True where nothing is to be run for a job: it cannot run, or it is finished."""
    try:
        found = _standing(job)
    except Exception as error:  # noqa: BLE001 - files of one job, whatever is in them, must not end the others' batch
        why = f"what stands at {str(job.out)!r} could not be read ({type(error).__name__}); remove it"
        found = JobOutcome(job.name, CRASHED, error=why)
    if found is not None:
        progress.add(found)
    return found is not None


def _standing(job: BatchJob) -> JobOutcome | None:
    """The outcome of a job before it is begun; `None` where it is to be begun."""
    if job.fault:
        _log_fault(job)
        return JobOutcome(job.name, BAD, epsilon=reserved(job), error=job.fault)
    other = difference(job)
    if other is None:
        return None
    found = finished(job, earlier=True) if not other else None
    if found is not None:
        tidy(job.out)
        return found
    why = other or DAMAGED
    error = f"an output folder must be new: {str(job.out)!r} is there, {why}; remove it, or name another --out"
    return JobOutcome(job.name, BAD, error=error)


def _log_fault(job: BatchJob) -> None:
    """Write why a job cannot be used into its log, where an earlier start may have left another reason.

    Where there is no room for it the summary says the same.
    """
    with suppress(OSError, OutputError), whole_file(job.log) as beside:
        beside.write_text(f"Error: {printable(job.fault)}.\n", encoding="utf-8")


def _run(waiting: deque[BatchJob], progress: _Progress, settings: Settings) -> BaseException | None:
    """Jobs begun and ended, until none is left or the batch is told to end."""
    jobs = {job.name: job for job in waiting}
    with executor_of(waiting, settings) as executor, progress.console.stage("batch") as tell:
        try:
            while waiting or executor.at_work:
                if settings.fail_fast and any(outcome.exit_code != DONE for outcome in progress.found.values()):
                    waiting.clear()
                while waiting and len(executor.at_work) < executor.size:
                    _begin(waiting.popleft(), executor, progress)
                for ended in executor.ended(LOOK_EVERY_S):
                    progress.took.append(ended.seconds)
                    progress.add(outcome_of(jobs[ended.name], ended))
                progress.show(executor, tell)
        except (KeyboardInterrupt, SystemExit) as cut:
            for ended in executor.stop():
                progress.add(outcome_of(jobs[ended.name], ended))
            return cut
    return None


def _begin(job: BatchJob, executor: Executor, progress: _Progress) -> None:
    try:
        write_mark(job)
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
