"""A job with everything checked that can be checked before a row of the real table is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluate.engine import MEASURES
from evaluate.policy import Policy, load_policy
from synth.errors import JobError, TableError, nearest
from synth.generators.base import Generator
from synth.generators.registry import generator
from synth.output import check_new_folder
from synth.schema import Schema
from synth.schema_file import read_schema
from understudy.job import Job, read_job
from understudy.policies import find_policy
from understudy.provenance import fingerprint_key, key_path
from understudy.sources import embedded_table


@dataclass(frozen=True)
class Plan:
    """What a run will do.

    Attributes:
        job: the specification.
        job_path: the file it was read from.
        out: the folder that will appear.
        table: the real table's file.
        schema: what is public about it.
        schema_path: the file it was read from.
        policy: what the verdicts rest on.
        policy_path: the file it was read from.
        generators: by label.
        key: *Sensitive*. Of the real table's fingerprint.
    """

    job: Job
    job_path: Path
    out: Path
    table: Path
    schema: Schema
    schema_path: Path
    policy: Policy
    policy_path: Path
    generators: Mapping[str, Generator]
    key: bytes

    @property
    def private(self) -> bool:
        """Whether any generator promises something."""
        return any(chosen.promises for chosen in self.generators.values())

    @property
    def suffix(self) -> str:
        """How synthetic tables are written: in the real table's format."""
        return ".parquet" if self.table.suffix == ".parquet" else ".csv"

    @property
    def title(self) -> str:
        """The report's headline."""
        return self.job.name or self.job_path.stem


def make_plan(job_path: Path, out: Path) -> Plan:
    """A plan, or the first thing that would go wrong. No row of the table is read and nothing is written.

    Raises:
        BadInput: job, schema, policy, a generator's parameters, the table's place or the output's cannot be used.
        MissingExtra: the table or a generator needs what is not installed.
    """
    job, home = read_job(job_path), job_path.parent
    check_new_folder(out)
    schema_path = home / job.table.schema_path
    schema = read_schema(schema_path)
    policy_path = find_policy(job.policy, home)
    check_measures(job.evaluation.measures or ())
    return Plan(
        job=job,
        job_path=job_path,
        out=out,
        table=_table(job, home),
        schema=schema,
        schema_path=schema_path,
        policy=load_policy(policy_path),
        policy_path=policy_path,
        generators={label: _generator(job, label, schema) for label in job.generators},
        key=fingerprint_key(key_path()),
    )


def check_measures(measures: Iterable[str]) -> None:
    """Refuse a measure that does not exist.

    Raises:
        JobError: a name is unknown; nothing was measured.
    """
    for name in measures:
        if name not in MEASURES:
            raise JobError(f"measure={name!r} is unknown; {nearest(name, MEASURES)}")


def _generator(job: Job, label: str, schema: Schema) -> Generator:
    spec = job.generators[label]
    parameters: dict[str, Any] = spec.parameters
    try:
        chosen = generator(spec.generator or label, **parameters)
    except JobError as error:
        raise JobError(f"generators.{label}: {error}") from None
    chosen.check(schema)
    return chosen


def _table(job: Job, home: Path) -> Path:
    if job.table.source is not None:
        return embedded_table(job.table.source)
    assert job.table.path is not None
    path = home / job.table.path
    if not path.is_file():
        raise TableError(f"the table is not there: path={str(path)!r}; name a .csv, .csv.gz or .parquet file")
    return path
