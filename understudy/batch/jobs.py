"""The jobs of a batch, named after their files: which cannot run, what each came to, and the summary of all.

Several jobs may release privately from one dataset. Where no ledger holds them all, nothing bounds what they tell
together, which is said. What a job came to is read from how its process ended and from what it left: no value of a
table is in it.
"""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from evaluate.gate.policy_checks import BROKEN
from evaluate.text import typed_loss
from reports.exports import write_csv
from synth.errors import BadInput, JobError, MissingExtra, UnderstudyError
from synth.output import whole_file
from synth.schema_file import read_schema
from synth.validation import plain_json
from understudy.budget import LEDGER_VARIABLE, ledger_of
from understudy.bundle.manifest import MANIFEST, Manifest
from understudy.bundle.signing import Unsound, read_document
from understudy.console import BAD_INPUT, DONE, FAILED, INCONCLUSIVE, INTERNAL_ERROR, INTERRUPTED, TERMINATED, printable
from understudy.data import find_table
from understudy.executor import TIMED_OUT, Ended, death
from understudy.job.load import read_inputs
from understudy.job.spec import Job, read_job
from understudy.provenance import now

SUMMARY_JSON, SUMMARY_CSV = "summary.json", "summary.csv"
OWN = ".batch"
MOST_BYTES = 100
"""Of a name: unfinished work and files that are being written lengthen it, and file systems end at 255."""
PASSED, FAIL, OPEN, NO_VERDICT = "PASS", "FAIL", "INCONCLUSIVE", "no verdict"
BAD, CRASHED, KILLED = "bad input", "internal error", "killed by signal"
NOT_STARTED = "not started"
CODES = {PASSED: DONE, NO_VERDICT: DONE, FAIL: FAILED, BAD: BAD_INPUT, OPEN: INCONCLUSIVE}
"""The exit code of a state; of every other it is that of an internal error."""
WORST_FIRST = (INTERNAL_ERROR, BAD_INPUT, FAILED, INCONCLUSIVE)
"""Exit codes of jobs, the worst first. Jobs without an answer outrank answers, since the answers are not all there."""
GO_ON = "the same command goes on from its unfinished work"
TAIL_BYTES = 64 * 1024
MOST_CHARACTERS = 500
HEADINGS = ("job", "state", "policy", "epsilon in all", "seconds", "output", "why")
MOST_SHOWN = 90
"""Characters of an error or a reason in a table on a terminal; the rest is in the files."""


@dataclass(frozen=True)
class BatchJob:
    name: str
    path: Path
    folder: Path
    spec: Job | None
    fault: str = ""

    @property
    def out(self) -> Path:
        return self.folder / self.name

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def mark(self) -> Path:
        """What the job's latest start was to read: digests of its files, and a mark of its table."""
        return self.folder / OWN / f"{self.name}.json"


def listed(paths: Sequence[Path], folder: Path) -> list[BatchJob]:
    """The jobs of a batch in the order given, each checked with all that it names, but for rows and ledgers."""
    whole = list(dict.fromkeys(Path(os.path.normpath(path.absolute())) for path in paths))
    # No file of a batch may be another's, on file systems that know no upper case either.
    taken = dict.fromkeys((SUMMARY_JSON, SUMMARY_CSV), "the batch's own summary")
    for path in whole:
        if not path.exists() and any(sign in path.name for sign in "*?["):
            raise JobError(f"no job file is called so: path={str(path)!r}; name files that are there")
        name = path.stem
        speaks = name and name.isprintable() and name == name.strip() and not name.startswith((".", "-"))
        if not speaks or len(os.fsencode(name)) > MOST_BYTES:
            raise JobError(
                f"a job's file names its output, and path={str(path)!r} cannot; use at most {MOST_BYTES} bytes of "
                "printable characters, without '.' or '-' in front and spaces around"
            )
        names = {name.casefold(), f"{name}.log".casefold()}
        for written in sorted(names & taken.keys()):
            raise JobError(
                f"job={str(path)!r} would write {written!r}, as would {taken[written]}; rename the job's file, or give "
                "it a batch of its own"
            )
        taken |= dict.fromkeys(names, f"job={str(path)!r}")
    return [_job(path, Path(os.path.normpath(folder.absolute()))) for path in whole]


def _job(path: Path, folder: Path) -> BatchJob:
    if path.exists() and not path.is_file():  # a pipe would be waited for
        return BatchJob(path.stem, path, folder, None, f"the job is no file: path={str(path)!r}; name a TOML file")
    spec = None
    try:
        spec = read_job(path)
        read_inputs(path)
    except (BadInput, MissingExtra) as error:
        return BatchJob(path.stem, path, folder, spec, str(error).rstrip("."))
    except Exception:  # the job's own process meets the same, and tells it without harm to others
        if spec is None:
            raise
    return BatchJob(path.stem, path, folder, spec)


def uncounted(jobs: Iterable[BatchJob]) -> Iterator[str]:
    """A warning on every dataset of which several jobs make private releases that no ledger adds up; no row is read.

    What a job asks for counts, whether or not it comes to that. A sweep that nobody pays for releases nothing.

    Source: Dwork and Roth (2014), The Algorithmic Foundations of Differential Privacy, Theorem 3.16.
    """
    asked_of: dict[tuple[str, str], dict[str, float]] = {}
    for job in jobs:
        spec = job.spec
        if spec is None or job.fault or spec.is_sweep:
            continue
        published = None if spec.released_numbers is None else spec.released_numbers.epsilon
        epsilons = (*(point.epsilon for point in spec.points.values()), published)
        asked = [epsilon for epsilon in epsilons if isinstance(epsilon, int | float)]  # no other can be used
        with suppress(UnderstudyError):  # its own process tells what is wrong
            if asked and ledger_of(spec, job.path.parent) is None:
                schema = read_schema(job.path.parent / spec.table.schema_path)
                dataset = schema.dataset or _address(job, spec)
                asked_of.setdefault((dataset, schema.unit), {})[job.name] = sum(asked)
    for (dataset, _), asked_by in asked_of.items():
        if len(asked_by) > 1:
            yield (
                f"{len(asked_by)} jobs make private releases of dataset {dataset!r} outside a ledger, and they add up: "
                f"{', '.join(asked_by)} come to epsilon={typed_loss(sum(asked_by.values()))} together by basic "
                f"composition, and their deltas add up too; a ledger ([ledger] url in each job, or {LEDGER_VARIABLE}) "
                "keeps count of these and of all others, and refuses what its total does not admit"
            )


def _address(job: BatchJob, spec: Job) -> str:
    if spec.table.path is not None and "://" in spec.table.path:
        return find_table(spec.table.path).shown
    return str(spec.table.source or (job.path.parent / str(spec.table.path)).resolve())


def reason_of(verdict: Mapping[str, Any]) -> str:
    """The first rule that decides the verdict on the table to release, or the self-test; without full stop."""
    outcome = verdict.get("verdict")
    if outcome not in ("FAIL", "INCONCLUSIVE"):
        return ""
    try:
        (released,) = (judged for judged in verdict["candidates"] if judged["candidate"] == verdict["release"])
        findings = [
            finding
            for finding in released["findings"]
            if finding["rule"]["severity"] == "fail" and not finding["waived"] and finding["outcome"] == outcome
        ]
        if findings:
            rule = findings[0]["rule"]
            named = " ".join((rule["measure"], ", ".join(rule["subject"]))).strip()
            more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
            return f"{named} {outcome}: {findings[0]['reason'].rstrip('.')}{more}"
        for check in released["checks"]:
            if check["outcome"] == BROKEN:
                return f"self-test {check['case']} did not come out, so nothing passes: {check['reason'].rstrip('.')}"
    except (AttributeError, KeyError, TypeError, ValueError):  # somebody's own file: it must not end the others' batch
        return ""
    return "no rule of the policy counts, so nothing was shown to hold"


def rests_on_expired_waiver(judged: Mapping[str, Any], today: date) -> bool:
    """True where a recorded verdict on one table sets a rule aside by a waiver that is over, or cannot be read."""
    try:
        waived = [finding["waiver"] for finding in judged["findings"] if finding.get("waived")]
        return any(waiver["until"] < today.isoformat() for waiver in waived)
    except (AttributeError, KeyError, TypeError):  # somebody's own file: it rests on nothing that we know
        return True


@dataclass(frozen=True)
class JobOutcome:
    name: str
    state: str
    earlier: bool = False
    epsilon: float | None = None
    seconds: float | None = None
    out: Path | None = None
    error: str = ""
    exit_status: int | None = None
    signed_by: str | None = None
    reason: str = ""
    policy: str = ""
    audience: str = ""

    @property
    def why(self) -> str:
        return self.error or self.reason

    @property
    def exit_code(self) -> int:
        return CODES.get(self.state, INTERNAL_ERROR)

    @property
    def shown_state(self) -> str:
        return f"{self.state} (finished earlier)" if self.earlier else self.state


def exit_code(outcomes: Sequence[JobOutcome]) -> int:
    """The exit code of a batch: the worst of its jobs, those first that gave no answer.

    >>> exit_code([JobOutcome("a", "FAIL"), JobOutcome("b", "PASS"), JobOutcome("c", "bad input")])
    2
    """
    codes = {outcome.exit_code for outcome in outcomes if outcome.state != NOT_STARTED}
    worst = next((code for code in WORST_FIRST if code in codes), DONE)
    missing = any(outcome.state == NOT_STARTED for outcome in outcomes)
    return INTERNAL_ERROR if missing and worst == DONE else worst


def outcome_of(job: BatchJob, ended: Ended) -> JobOutcome:
    """The outcome of a job whose process has ended; a verdict counts only where it is on the disk."""
    status = ended.status
    if status in (DONE, FAILED, INCONCLUSIVE):
        result = finished(job, earlier=False)
        if result is not None and result.exit_code == status:
            return replace(result, seconds=ended.seconds, exit_status=status)
    state, error = _state(job, ended)
    return JobOutcome(job.name, state, seconds=ended.seconds, error=error, exit_status=status)


def finished(job: BatchJob, *, earlier: bool) -> JobOutcome | None:
    """The outcome of a job by its output; `None` where that does not say."""
    evaluation, verdict = read_content(job.out / "evaluation.json"), read_content(job.out / "verdict.json")
    if evaluation is None or verdict is None or verdict.get("verdict", "") not in (PASSED, FAIL, OPEN, None):
        return None
    try:
        epsilon = _drawn(evaluation)
    except (AttributeError, KeyError, TypeError, ValueError):  # somebody's own file: it must not end the others' batch
        return None
    reason = printable(reason_of(verdict))[:MOST_CHARACTERS]
    state = verdict["verdict"] or NO_VERDICT
    outcome = JobOutcome(job.name, state, earlier=earlier, epsilon=epsilon, out=job.out, reason=reason)
    try:
        manifest = read_document(job.out, MANIFEST, Manifest)
    except Unsound:
        return outcome
    policy, audience = printable(manifest.about.policy.name), printable(manifest.about.policy.audience)
    return replace(outcome, signed_by=manifest.signer, policy=policy, audience=audience)


def read_content(path: Path) -> dict[str, Any] | None:
    """The content of a JSON file; `None` where it is not there, or no run wrote it."""
    try:
        content = plain_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _state(job: BatchJob, ended: Ended) -> tuple[str, str]:
    """The state of a job that left no verdict, and why."""
    message, status = _last_error(job.log), ended.status
    if ended.stopped:
        cut_short = "the batch was ended while it was at work"
        why = "it took longer than --timeout-s allows" if ended.stopped == TIMED_OUT else cut_short
        return ended.stopped, f"{why}; {GO_ON}"
    if status == BAD_INPUT:
        return BAD, message or "it ended as bad input does, and its log does not say why"
    if status is None:
        return CRASHED, f"{ended.lost}; {GO_ON}"
    if status < 0 or status in (INTERRUPTED, TERMINATED):
        number = {INTERRUPTED: signal.SIGINT, TERMINATED: signal.SIGTERM}.get(status, -status)
        return f"{KILLED} {int(number)}", f"{death(-number)}; {GO_ON}"
    if status == INTERNAL_ERROR and message:
        return CRASHED, message
    return CRASHED, f"its process ended with exit code {status} and without an output that agrees; see its log"


def _last_error(log: Path) -> str:
    """The sentence of the last error in a log; empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).decode("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    error_line = next((line for line in reversed(lines) if line.startswith("Error: ")), "")
    return printable(error_line.removeprefix("Error: "))[:MOST_CHARACTERS].rstrip(". ")


def _drawn(evaluation: Mapping[str, Any]) -> float | None:
    """The epsilon of all that a finished job drew: as its run composed it, else added up.

    Source: Dwork and Roth (2014), The Algorithmic Foundations of Differential Privacy, Theorem 3.16.
    """
    known = evaluation.get("provenance") or {}
    if known.get("composed"):
        return float(known["composed"]["epsilon"])
    stated = [part.get("statement") for part in evaluation.get("candidates", ())]
    stated.append((known.get("released_numbers") or {}).get("statement"))
    drawn = [float(part["epsilon"]) for part in stated if part]
    return sum(drawn) if drawn else None


def content_of(outcomes: Sequence[JobOutcome], code: int, began: str) -> dict[str, Any]:
    jobs = []
    for outcome in outcomes:
        plain = {**asdict(outcome), "exit_code": outcome.exit_code}
        plain |= {"seconds": None if outcome.seconds is None else round(outcome.seconds, 3)}
        plain |= {"out": None if outcome.out is None else shown(outcome.out)}
        names = {"job": plain.pop("name"), "state": plain.pop("state"), "finished_earlier": plain.pop("earlier")}
        jobs.append({key: None if value == "" else value for key, value in {**names, **plain}.items()})
    return {
        "exit_code": code,
        "began": began,
        "ended": now(),
        "states": dict(Counter(outcome.state for outcome in outcomes)),
        "jobs": jobs,
    }


def rows_of(outcomes: Sequence[JobOutcome]) -> list[tuple[str, ...]]:
    return [
        (
            outcome.name,
            outcome.shown_state,
            outcome.policy,
            "" if outcome.epsilon is None else typed_loss(outcome.epsilon),
            "" if outcome.seconds is None else f"{outcome.seconds:.1f}",
            "" if outcome.out is None else shown(outcome.out),
            outcome.why if len(outcome.why) <= MOST_SHOWN else f"{outcome.why[: MOST_SHOWN - 1].rstrip()}…",
        )
        for outcome in outcomes
    ]


def write_summary(content: dict[str, Any], folder: Path) -> None:
    write_csv(folder / SUMMARY_CSV, list(content["jobs"][0]) if content["jobs"] else [], content["jobs"])
    with whole_file(folder / SUMMARY_JSON) as beside:
        beside.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


def shown(path: Path) -> str:
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
