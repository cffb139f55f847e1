"""A job with everything checked that can be checked before a row of the real table is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from evaluate.engine import MEASURES, aimed
from evaluate.policy import Policy
from evaluate.waiver import Waiver, build_waivers, lasting
from synth.dp.schedule import Schedule
from synth.errors import JobError, LedgerError, SchemaError, TableError, nearest
from synth.generators.base import Generator
from synth.generators.registry import generator
from synth.given_file import GivenFile, read_given
from synth.schema import Schema
from synth.schema_file import schema_of
from synth.validation import parse_toml
from understudy.cautions import Intent, Swept, cautions, of_publication
from understudy.funds import Fund, open_fund
from understudy.generator_spec import NONE
from understudy.job import Job, build_job
from understudy.payment import ledger_of, payment, publication_of
from understudy.policies import given_policy, named_policy
from understudy.provenance import fingerprint_key, key_path
from understudy.sources import embedded_table
from understudy.sweep import Composed, Point, composed
from understudy.unfinished import check_free, requested
from understudy.verdicts import check_waivers

PUBLICATION = "_published"
"""What the numbers of the public report go by among the fits; no candidate's label begins like that."""
PUBLISHED = "numbers of the public report"


@dataclass(frozen=True)
class Plan:
    """What a run will do.

    Attributes:
        job: the specification.
        job_path: the file it was read from.
        given: the files of "job", "schema", "policy" and, where rules are waived, "waivers", as they were when they
            were understood: what is hashed and sealed is what was acted upon.
        out: the folder that will appear.
        table: the real table's file.
        schema: what is public about it.
        policy: what the verdicts rest on.
        generators: by label.
        schedules: of those that promise something: all that their fits will draw.
        fund: the total that pays for these; none: no ledger, or nothing to pay for.
        publication: all that the numbers of the public report will draw; none: there are none.
        key: *Sensitive*. Of the real table's fingerprint.
        restart: whether unfinished work of this output is removed first.
        workers: processes that make candidates side by side.
        waivers: rules that somebody answers for.
    """

    job: Job
    job_path: Path
    given: Mapping[str, GivenFile]
    out: Path
    table: Path
    schema: Schema
    policy: Policy
    generators: Mapping[str, Generator]
    schedules: Mapping[str, Schedule]
    fund: Fund | None
    key: bytes
    restart: bool = False
    workers: int = 1
    publication: Schedule | None = None
    waivers: tuple[Waiver, ...] = ()

    @property
    def points(self) -> dict[str, Point]:
        """Every candidate by its label."""
        return self.job.points

    @property
    def private(self) -> bool:
        """Whether any generator promises something."""
        return bool(self.schedules)

    @property
    def unpaid(self) -> bool:
        """Whether this is a sweep with private fits that nobody pays for: nothing of it may be released."""
        return self.job.is_sweep and self.private and self.fund is None

    @property
    def reserved(self) -> dict[str, Schedule]:
        """All that is drawn and paid for, by label: private fits, and the numbers of the public report."""
        return {**self.schedules, **({} if self.publication is None else {PUBLICATION: self.publication})}

    @cached_property
    def together(self) -> Composed | None:
        """What the released table and the numbers about it come to: of a sweep, all its fits and the numbers.

        None where there are no such numbers.
        """
        if self.publication is None or self.job.release is None:
            return None
        fits = self.schedules if self.job.is_sweep else {self.job.release: self.schedules[self.job.release]}
        return composed({**fits, PUBLICATION: self.publication})

    @cached_property
    def composed(self) -> Composed | None:
        """What all private fits of a sweep come to together; none outside one."""
        return composed(self.schedules) if self.job.is_sweep else None

    @cached_property
    def everything(self) -> Composed | None:
        """What all that is drawn from the real table comes to: whoever picks one of several fits has looked at all.

        None where that is one release at most.
        """
        if len(self.reserved) < 2:
            return None
        return (self.together or self.composed) if self.job.is_sweep else composed(self.reserved)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What should be said before a row is read."""
        # The seeds of a sweep share what there is to say: one line for all of them.
        shown = {label: point.setting_label for label, point in self.points.items()}
        intent = Intent(
            {shown[label]: chosen for label, chosen in self.generators.items()},
            {shown[label]: schedule for label, schedule in self.schedules.items()},
            self.schema,
            self.fund,
            self.job.table.outside,
            Swept(self.composed, self.unpaid, self.schedules) if self.job.is_sweep else None,
        )
        published = () if self.together is None else (of_publication(str(self.job.release), self.together),)
        long = lasting(self.waivers, self.policy.name, self.policy.valid_days, datetime.now(UTC).date())
        return (*cautions(intent), *published, *long)

    @property
    def suffix(self) -> str:
        """How synthetic tables are written: in the real table's format."""
        return ".parquet" if self.table.suffix == ".parquet" else ".csv"

    @property
    def title(self) -> str:
        """The report's headline."""
        return self.job.name or self.job_path.stem


def make_plan(job_path: Path, out: Path, *, restart: bool = False, workers: int | None = None) -> Plan:
    """A plan, or the first thing that would go wrong. No row of the table is read and nothing is written.

    Args:
        job_path: the job file.
        out: the folder that will appear.
        restart: whether unfinished work of this output is removed first.
        workers: processes that make candidates side by side; none: as the job says.

    Raises:
        BadInput: job, schema, policy, waivers, a generator's parameters, the table's place or the output's cannot be
            used, or the ledger does not admit what the job needs.
        MissingExtra: the table or a generator needs what is not installed.
    """
    given, home = {"job": read_given(job_path, "job", JobError)}, job_path.parent
    job = build_job(parse_toml(given["job"], "job", JobError))
    check_free(out)
    given["schema"] = read_given(home / job.table.schema_path, "schema", SchemaError)
    schema = schema_of(given["schema"])
    given["policy"] = given_policy(job.policy, home)
    policy = named_policy(given["policy"])
    waivers: tuple[Waiver, ...] = ()
    if job.waivers is not None:
        given["waivers"] = read_given(home / job.waivers, "waivers", JobError)
        waivers = build_waivers(parse_toml(given["waivers"], "waivers", JobError))
    check_waivers(waivers, [policy], list(job.points))
    check_measures(job.evaluation.measures or ())
    if job.evaluation.target is not None:
        aimed(schema, job.evaluation.target)
    generators = _generators(job, schema)
    schedules, fund = payment(job, home, schema, generators)
    publication = publication_of(job, schema, generators)
    plan = Plan(
        job=job,
        job_path=job_path,
        given=given,
        out=out,
        table=_table(job, home),
        schema=schema,
        policy=policy,
        generators=generators,
        schedules=schedules,
        fund=fund,
        key=fingerprint_key(key_path()),
        restart=restart,
        workers=workers or job.workers,
        publication=publication,
        waivers=waivers,
    )
    if fund is not None:
        asked = frozenset() if restart else requested(out)
        left = {label: schedule.curve for label, schedule in plan.reserved.items() if label not in asked}
        fund.check({PUBLISHED if label == PUBLICATION else label: curve for label, curve in left.items()})
    return plan


def with_fund(plan: Plan) -> Plan:
    """A plan that has lost its open ledger, with the ledger opened anew, as another process needs it.

    Raises:
        LedgerError: the ledger is not named any more, or cannot be opened.
    """
    url = ledger_of(plan.job, plan.job_path.parent)
    if url is None:
        raise LedgerError("a private fit of this run is paid for, and no ledger is named any more; name the same again")
    return replace(plan, fund=open_fund(url, plan.schema))


def check_measures(measures: Iterable[str]) -> None:
    """Refuse a measure that does not exist.

    Raises:
        JobError: a name is unknown; nothing was measured.
    """
    for name in measures:
        if name not in MEASURES:
            raise JobError(f"measure={name!r} is unknown; {nearest(name, MEASURES)}")


def _generators(job: Job, schema: Schema) -> dict[str, Generator]:
    """The specification of every candidate, checked; the seeds of a sweep share theirs."""
    found: dict[tuple[str, float | None], Generator] = {}
    for point in job.points.values():
        if point.setting not in found:
            found[point.setting] = _generator(job, point, schema)
    return {label: found[point.setting] for label, point in job.points.items()}


def _generator(job: Job, point: Point, schema: Schema) -> Generator:
    parameters: dict[str, Any] = point.spec.parameters
    try:
        chosen = generator(point.spec.generator or point.family, **parameters)
    except JobError as error:
        raise JobError(f"generators.{point.family}{_at(job, point)}: {error}") from None
    chosen.check(schema)
    return chosen


def _at(job: Job, point: Point) -> str:
    """Which epsilon of a list an error is about."""
    if not job.generators[point.family].sweeps:
        return ""
    return f" at epsilon={NONE if point.epsilon is None else format(point.epsilon, 'g')}"


def _table(job: Job, home: Path) -> Path:
    if job.table.source is not None:
        return embedded_table(job.table.source)
    assert job.table.path is not None
    path = home / job.table.path
    if not path.is_file():
        raise TableError(f"the table is not there: path={str(path)!r}; name a .csv, .csv.gz or .parquet file")
    return path
