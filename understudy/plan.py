"""A job with everything checked that can be checked before a row of the real table is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from evaluate.engine import MEASURES
from evaluate.policy import Policy, load_policy
from synth.dp.schedule import Schedule
from synth.errors import JobError, TableError, nearest
from synth.generators.base import Generator, PrivateGenerator
from synth.generators.registry import generator
from synth.schema import Schema
from synth.schema_file import read_schema
from understudy.cautions import Intent, cautions
from understudy.funds import Fund, ledger_url, open_fund, refuse_password
from understudy.job import Job, read_job
from understudy.policies import find_policy
from understudy.provenance import fingerprint_key, key_path
from understudy.sources import embedded_table
from understudy.unfinished import check_free, requested


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
        schedules: of those that promise something: all that their fits will draw.
        fund: the total that pays for these; none: no ledger, or nothing to pay for.
        key: *Sensitive*. Of the real table's fingerprint.
        restart: whether unfinished work of this output is removed first.
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
    schedules: Mapping[str, Schedule]
    fund: Fund | None
    key: bytes
    restart: bool = False

    @property
    def private(self) -> bool:
        """Whether any generator promises something."""
        return bool(self.schedules)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What should be said before a row is read."""
        return cautions(Intent(self.generators, self.schedules, self.schema, self.fund, self.job.table.outside))

    @property
    def suffix(self) -> str:
        """How synthetic tables are written: in the real table's format."""
        return ".parquet" if self.table.suffix == ".parquet" else ".csv"

    @property
    def title(self) -> str:
        """The report's headline."""
        return self.job.name or self.job_path.stem


def make_plan(job_path: Path, out: Path, *, restart: bool = False) -> Plan:
    """A plan, or the first thing that would go wrong. No row of the table is read and nothing is written.

    Args:
        job_path: the job file.
        out: the folder that will appear.
        restart: whether unfinished work of this output is removed first.

    Raises:
        BadInput: job, schema, policy, a generator's parameters, the table's place or the output's cannot be used, or
            the ledger does not admit what the job needs.
        MissingExtra: the table or a generator needs what is not installed.
    """
    job, home = read_job(job_path), job_path.parent
    check_free(out)
    schema_path = home / job.table.schema_path
    schema = read_schema(schema_path)
    policy_path = find_policy(job.policy, home)
    check_measures(job.evaluation.measures or ())
    generators = {label: _generator(job, label, schema) for label in job.generators}
    schedules, fund = _payment(job, home, schema, generators)
    if fund is not None:
        asked = frozenset() if restart else requested(out)
        fund.check([schedule.curve for label, schedule in schedules.items() if label not in asked])
    return Plan(
        job=job,
        job_path=job_path,
        out=out,
        table=_table(job, home),
        schema=schema,
        schema_path=schema_path,
        policy=load_policy(policy_path),
        policy_path=policy_path,
        generators=generators,
        schedules=schedules,
        fund=fund,
        key=fingerprint_key(key_path()),
        restart=restart,
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


def _payment(
    job: Job, home: Path, schema: Schema, generators: Mapping[str, Generator]
) -> tuple[dict[str, Schedule], Fund | None]:
    """The schedules of all private fits, and the total that pays for them."""
    if job.ledger is not None:
        refuse_password(job.ledger.url)
    url = ledger_url(None if job.ledger is None else job.ledger.url, home)
    private = {label: g for label, g in generators.items() if isinstance(g, PrivateGenerator) and g.promises}
    # Before the schedules, which take a while.
    fund = open_fund(url, schema) if private and url is not None else None
    found = {label: chosen.schedule(schema) for label, chosen in private.items()}
    return {label: schedule for label, schedule in found.items() if schedule is not None}, fund


def _table(job: Job, home: Path) -> Path:
    if job.table.source is not None:
        return embedded_table(job.table.source)
    assert job.table.path is not None
    path = home / job.table.path
    if not path.is_file():
        raise TableError(f"the table is not there: path={str(path)!r}; name a .csv, .csv.gz or .parquet file")
    return path
