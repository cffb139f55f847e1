"""Whether a job was finished by an earlier start of its batch: its output is there, and made from what is there now."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluate.gate.policy import find_policy
from synth.errors import UnderstudyError
from synth.output import is_taken, whole_file
from understudy.batch.listing import BatchJob
from understudy.batch.outcome import provenance_of, read_content
from understudy.bundle.manifest import MANIFEST
from understudy.job import Job
from understudy.provenance import sha256
from understudy.real_table import file_state

BROKEN = "and no run left it so"
EXPIRED = "and a waiver that its verdict rests on has expired"


def write_mark(job: BatchJob) -> None:
    """Keep which table the job is about to read, so that another one under its name is noticed later.

    Raises:
        OSError: there is no room for it.
    """
    with whole_file(job.mark) as beside:
        beside.write_text(json.dumps(_table_mark(job)), encoding="utf-8")


def difference(job: BatchJob) -> str | None:
    """What speaks against taking an output that stands in the job's place for the job's, in words.

    Returns:
        Empty where the job is finished and nothing of what it reads has changed since; none where no output is there.
    """
    if not is_taken(job.out):
        return None
    evaluation, verdict = read_content(job.out / "evaluation.json"), read_content(job.out / "verdict.json")
    if evaluation is None or verdict is None or not (job.out / MANIFEST).is_file():
        return BROKEN
    if other := _others(job, provenance_of(evaluation)):
        return f"made from {' and '.join(f'another {name}' for name in other)}"
    if _rests_on_expired_waiver(verdict):
        return EXPIRED
    return _problem(job.out)


def _others(job: BatchJob, then: Mapping[str, Any]) -> list[str]:
    """What the job reads that is not what its output was made from."""
    home = job.path.parent
    spec = _spec(job)
    paths = {"job": job.path, "schema": home / spec.table.schema_path, "policy": _policy(spec, home)}
    other = [name for name, path in paths.items() if then.get(f"{name}_sha256") != _digest(path)]
    waivers = None if spec.waivers is None else home / spec.waivers
    if _digest(waivers) != _digest(job.out / "waivers.toml"):
        other.append("file of waivers")
    if not other and read_content(job.mark) != _table_mark(job):
        other.append("table")
    return other


def _problem(out: Path) -> str:
    """What of a sealed output is not as it was sealed, or has ended; empty for nothing."""
    from understudy.bundle.verification import Demand, verify

    try:
        found = verify(out, Demand())
    except UnderstudyError:
        return BROKEN
    return "" if found.is_sound else f"and cannot be relied upon: {found.problems[0].sentence}"


def _rests_on_expired_waiver(verdict: Mapping[str, Any]) -> bool:
    """Whether the table to release passed a rule by a waiver that is over."""
    today = datetime.now(UTC).date().isoformat()
    try:
        released = [one for one in verdict["candidates"] if one["candidate"] == verdict["release"]]
        waived = [finding["waiver"] for one in released for finding in one["findings"] if finding.get("waived")]
        return any(waiver["until"] < today for waiver in waived)
    except (AttributeError, KeyError, TypeError):  # somebody's own file: it rests on nothing that we know
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
    """What tells one table from another without reading it: equal or not, whatever a clock says."""
    given = _spec(job).table
    if given.path is not None and "://" in given.path:  # only reading it would tell
        return {"path": given.path, "source": None}
    known = {} if given.path is None else file_state(job.path.parent / given.path)
    return {**known, "path": given.path, **({} if len(known) > 1 else {"source": given.source})}


def _spec(job: BatchJob) -> Job:
    assert job.spec is not None
    return job.spec
