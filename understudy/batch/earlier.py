"""Whether a job was finished by an earlier start of its batch: its output is there, and made from what is there now."""

import json
from pathlib import Path
from typing import Any

from synth.errors import UnderstudyError
from synth.output import is_taken, whole_file
from understudy.batch.listing import BatchJob
from understudy.batch.outcome import finished_files, provenance_of, read_content
from understudy.job import Job
from understudy.policies import find_policy
from understudy.provenance import sha256


def write_mark(job: BatchJob) -> None:
    """Keep which table the job is about to read, so that another one under its name is noticed later.

    Raises:
        OSError: there is no room for it.
    """
    with whole_file(job.mark) as beside:
        beside.write_text(json.dumps(_table_mark(job)), encoding="utf-8")


def difference(job: BatchJob) -> str | None:
    """What an output that stands in the job's place was made from otherwise, in words.

    Returns:
        Empty where the job is finished and nothing of what it reads has changed since; none where no output is there.
    """
    if not is_taken(job.out):
        return None
    evaluation = read_content(job.out / "evaluation.json")
    if evaluation is None or not finished_files(job.out, evaluation):
        return "which no run left whole"
    now, then = _digests(job), provenance_of(evaluation)
    other = [name for name, digest in now.items() if then.get(f"{name}_sha256") != digest]
    if not other and read_content(job.mark) != _table_mark(job):
        other = ["table"]
    return f"made from another {' and another '.join(other)}" if other else ""


def _digests(job: BatchJob) -> dict[str, str | None]:
    """SHA-256 of what is public of a job; none for a file that is not there."""
    spec, home = _spec(job), job.path.parent
    paths = {"job": job.path, "schema": home / spec.table.schema_path, "policy": _policy(spec, home)}
    return {name: sha256(path) if path is not None and path.is_file() else None for name, path in paths.items()}


def _policy(spec: Job, home: Path) -> Path | None:
    try:
        return find_policy(spec.policy, home)
    except UnderstudyError:
        return None


def _table_mark(job: BatchJob) -> dict[str, Any]:
    """What tells one table from another without reading it: equal or not, whatever a clock says."""
    given = _spec(job).table
    path = None if given.path is None else job.path.parent / given.path
    if path is None or not path.is_file():
        return {"path": given.path, "source": given.source}
    found = path.stat()
    return {"path": given.path, "bytes": found.st_size, "modified_ns": found.st_mtime_ns}


def _spec(job: BatchJob) -> Job:
    assert job.spec is not None
    return job.spec
