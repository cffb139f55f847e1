"""The result of one job of a batch, read from how its process ended and from what it left.

Where its verdict is no PASS, the first rule that decides it is the reason. No value of a table is in it.
"""

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from evaluate.gate.checks import BROKEN
from synth.validation import plain_json
from understudy.batch.jobs import BatchJob
from understudy.bundle.documents import Unsound, read_document
from understudy.bundle.manifest import MANIFEST, Manifest
from understudy.console import BAD_INPUT, DONE, FAILED, INCONCLUSIVE, INTERNAL_ERROR, INTERRUPTED, TERMINATED, printable
from understudy.executors.executor import TIMED_OUT, Ended


def reason_of(verdict: Mapping[str, Any]) -> str:
    """The first rule that decides the verdict on the table to release, without full stop."""
    outcome = verdict.get("verdict")
    if outcome not in ("FAIL", "INCONCLUSIVE"):
        return ""
    try:
        (released,) = (judged for judged in verdict["candidates"] if judged["candidate"] == verdict["release"])
        return _deciding(released, outcome)
    except (AttributeError, KeyError, TypeError, ValueError):  # somebody's own file: it must not end the others' batch
        return ""


def _deciding(released: Mapping[str, Any], outcome: str) -> str:
    """The first rule with the verdict's outcome; where there is none, the self-test that does not come out."""
    findings = deciding(released, outcome)
    if findings:
        rule = findings[0]["rule"]
        named = " ".join((rule["measure"], ", ".join(rule["subject"]))).strip()
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        return f"{named} {outcome}: {findings[0]['reason'].rstrip('.')}{more}"
    for check in released["checks"]:
        if check["outcome"] == BROKEN:
            return f"self-test {check['case']} did not come out, so nothing passes: {check['reason'].rstrip('.')}"
    return "no rule of the policy counts, so nothing was shown to hold"


def deciding(judged: Mapping[str, Any], outcome: str) -> list[Mapping[str, Any]]:
    """The findings that decided a recorded verdict on one table, first to last."""
    counting = [
        finding for finding in judged["findings"] if finding["rule"]["severity"] == "fail" and not finding["waived"]
    ]
    return [finding for finding in counting if finding["outcome"] == outcome]


def rests_on_expired_waiver(judged: Mapping[str, Any], today: date) -> bool:
    """True where a recorded verdict on one table sets a rule aside by a waiver that is over, or cannot be read."""
    try:
        waived = [finding["waiver"] for finding in judged["findings"] if finding.get("waived")]
        return any(waiver["until"] < today.isoformat() for waiver in waived)
    except (AttributeError, KeyError, TypeError):  # somebody's own file: it rests on nothing that we know
        return True


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
        """The reason for anything but a PASS; empty for one."""
        return self.error or self.reason

    @property
    def exit_code(self) -> int:
        return CODES.get(self.state, INTERNAL_ERROR)

    @property
    def shown_state(self) -> str:
        return f"{self.state} (finished earlier)" if self.earlier else self.state


def exit_code(outcomes: Iterable[JobOutcome]) -> int:
    """The exit code of a batch: the worst of its jobs, those first that gave no answer.

    >>> exit_code([JobOutcome("a", "FAIL"), JobOutcome("b", "PASS"), JobOutcome("c", "bad input")])
    2
    """
    results = list(outcomes)
    codes = {outcome.exit_code for outcome in results if outcome.state != NOT_STARTED}
    worst = next((code for code in WORST_FIRST if code in codes), DONE)
    missing = any(outcome.state == NOT_STARTED for outcome in results)
    return INTERNAL_ERROR if missing and worst == DONE else worst


def outcome_of(job: BatchJob, ended: Ended) -> JobOutcome:
    """The outcome of a job whose process has ended; a verdict counts only where it is on the disk."""
    status = ended.status
    if status in (DONE, FAILED, INCONCLUSIVE):
        result = finished(job, earlier=False)
        if result is not None and result.exit_code == status:
            return replace(result, seconds=ended.seconds, exit_status=status)
    state, error = _state(job, ended)
    return JobOutcome(
        job.name, state, seconds=ended.seconds, error=error, exit_status=status
    )  # fmt: skip


def finished(job: BatchJob, *, earlier: bool) -> JobOutcome | None:
    """The outcome of a job by its output; `None` where that does not say."""
    evaluation, verdict = read_content(job.out / "evaluation.json"), read_content(job.out / "verdict.json")
    if evaluation is None or verdict is None or verdict.get("verdict", "") not in (PASSED, FAIL, OPEN, None):
        return None
    try:
        epsilon = _drawn(evaluation)
    except (AttributeError, KeyError, TypeError, ValueError):  # somebody's own file: it must not end the others' batch
        return None
    try:
        manifest = read_document(job.out, MANIFEST, Manifest)
    except Unsound:
        manifest = None
    signed_by = None if manifest is None else manifest.signer
    state = verdict["verdict"] or NO_VERDICT
    reason = printable(reason_of(verdict))[:MOST_CHARACTERS]
    outcome = JobOutcome(
        job.name, state, earlier=earlier, epsilon=epsilon, out=job.out, signed_by=signed_by, reason=reason
    )
    if manifest is None:
        return outcome
    rules = manifest.about.policy
    return replace(outcome, policy=printable(rules.name), audience=printable(rules.audience))


def read_content(path: Path) -> dict[str, Any] | None:
    """The content of a JSON file; `None` where it is not there, or no run wrote it."""
    try:
        content = plain_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _state(job: BatchJob, ended: Ended) -> tuple[str, str]:
    message = _last_error(job.log)
    if ended.stopped:
        why = "it took longer than --timeout-s allows" if ended.stopped == TIMED_OUT else _CUT_SHORT
        return ended.stopped, f"{why}; {GO_ON}"
    if ended.status == BAD_INPUT:
        return BAD, message or "it ended as bad input does, and its log does not say why"
    if ended.status is None:
        return CRASHED, f"{ended.lost}; {GO_ON}"
    if ended.status < 0 or ended.status in (INTERRUPTED, TERMINATED):
        number = int(_SIGNALS.get(ended.status, -ended.status))
        return f"{KILLED} {number}", _death(number)
    if ended.status == INTERNAL_ERROR and message:
        return CRASHED, message
    return CRASHED, f"its process ended with exit code {ended.status} and without an output that agrees; see its log"


_CUT_SHORT = "the batch was ended while it was at work"
_SIGNALS = {INTERRUPTED: signal.SIGINT, TERMINATED: signal.SIGTERM}


def _death(number: int) -> str:
    if number == signal.SIGKILL:
        return f"its process was killed, as a system does that runs out of memory; {GO_ON}"
    return f"its process was ended from outside or by a fault ({signal.strsignal(number) or number}); {GO_ON}"


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
