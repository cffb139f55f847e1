"""The plan of a run: a job with everything checked that can be checked before a row of the real table is read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from evaluate.gate.policy import Policy, Waiver, lasting
from evaluate.metrics import CATALOG
from evaluate.provenance import ComposedClaim
from evaluate.tables import SEARCHED
from evaluate.text import typed_loss
from synth.dp.schedule import Schedule, TradeOff
from synth.errors import LedgerError
from synth.generators.base import Generator
from synth.output import check_new_folder
from synth.schema import Schema
from synth.table import check_names
from synth.validation import GivenFile
from understudy.budget import Fund, Payment, Release, plan_budget, publication_of
from understudy.data import RealTable, embedded_table, find_table
from understudy.executor import check_elsewhere, checked
from understudy.job.load import Inputs, read_inputs
from understudy.job.spec import Job, PlannedCandidate, composed
from understudy.provenance import fingerprint_key
from understudy.run.preflight import Intent, Size, Swept, beyond_reach, cautions, could_pass, doubts
from understudy.run.workspace import RunWorkspace, requested, tidy

PUBLICATION = "_published"
"""The label of the released numbers among the fits; no candidate's label begins like that."""


@dataclass(frozen=True)
class Plan:
    """The plan of a run. *Sensitive*: `key`."""

    job: Job
    job_path: Path
    given: Mapping[str, GivenFile]
    out: Path
    table: RealTable
    schema: Schema
    policy: Policy
    generators: Mapping[str, Generator]
    schedules: Mapping[str, Schedule]
    fund: Fund | None
    key: bytes
    restart: bool = False
    workers: int | None = 1
    publication: Schedule | None = None
    waivers: tuple[Waiver, ...] = ()
    executor: str | None = None

    @property
    def points(self) -> dict[str, PlannedCandidate]:
        return self.job.points

    @property
    def unpaid(self) -> bool:
        """True where this is a sweep with private fits that nobody pays for: nothing of it may be released."""
        return self.job.is_sweep and bool(self.schedules) and self.fund is None

    @property
    def reserved(self) -> dict[str, Schedule]:
        """All that is drawn and paid for, by label: private fits, and the released numbers."""
        return {**self.schedules, **({} if self.publication is None else {PUBLICATION: self.publication})}

    def payment(self, work: RunWorkspace) -> Payment:
        releases = {
            label: Release(schedule, f"{label} of a run, by {self.generators[label].name}", f"generators.{label}")
            for label, schedule in self.schedules.items()
        }
        if self.publication is not None:
            published = f"numbers published about {self.job.release} of a run"
            releases[PUBLICATION] = Release(self.publication, published, "released_numbers")
        return Payment(self.fund, self.schema, releases, work)

    @cached_property
    def together(self) -> ComposedClaim | None:
        """The composed claim of the released table, or of all fits of a sweep, and the numbers about it."""
        if self.publication is None or self.job.release is None:
            return None
        fits = self.schedules if self.job.is_sweep else {self.job.release: self.schedules[self.job.release]}
        return composed({**fits, PUBLICATION: self.publication})

    @cached_property
    def composed(self) -> ComposedClaim | None:
        """The composed claim of all private fits of a sweep; `None` outside one."""
        return composed(self.schedules) if self.job.is_sweep else None

    @cached_property
    def everything(self) -> ComposedClaim | None:
        """The composed claim of all draws from the real table: whoever picks one of several fits has looked at all."""
        if len(self.reserved) < 2:
            return None
        return (self.together or self.composed) if self.job.is_sweep else composed(self.reserved)

    @cached_property
    def _intent(self) -> Intent:
        # The seeds of a sweep share what there is to say: one line for all of them.
        shown = {label: point.setting_label for label, point in self.points.items()}
        return Intent(
            {shown[label]: chosen for label, chosen in self.generators.items()},
            {shown[label]: schedule for label, schedule in self.schedules.items()},
            self.schema,
            self.fund,
            self.job.outside,
            Swept(self.composed, self.unpaid, self.schedules) if self.job.is_sweep else None,
        )

    @cached_property
    def doubts(self) -> dict[str, str]:
        """Sentences on the private fits that are expected to FAIL the policy, by what warnings call them."""
        return doubts(self._intent, self._measured_policy, 1 - self.job.split.holdout_share)

    @property
    def in_vain(self) -> tuple[str, ...]:
        """Doubts on the fits still to pay for whose tables may be released; none unless all of these are in doubt."""
        paid = frozenset() if self.restart else requested(self.out)
        labels = self.schedules.keys() & ({*self.points} if self.job.release is None else {self.job.release})
        due = dict.fromkeys(self.points[label].setting_label for label in sorted(labels - paid))
        return tuple(self.doubts[name] for name in due) if due.keys() <= self.doubts.keys() else ()

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        published = []
        if self.together is not None:
            published = [
                f"released_numbers: whoever gets the table of generators.{self.job.release} and the numbers about it "
                f"has both: together they come to epsilon={typed_loss(self.together.epsilon)} at "
                f"delta={typed_loss(self.together.delta)}"
            ]
        long = lasting(self.waivers, self.policy.name, self.policy.valid_days, datetime.now(UTC).date())
        return (
            *cautions(self._intent), *self.doubts.values(), *published, *long, *self._unreachable,
        )  # fmt: skip

    @property
    def _measured_policy(self) -> Policy:
        """The policy with those of its rules whose numbers the job measures."""
        asked = self.job.evaluation.measures
        rules = tuple(
            rule
            for rule in self.policy.rules
            if asked is None or rule.measure not in CATALOG or CATALOG[rule.measure].by in asked
        )
        return self.policy.model_copy(update={"rules": rules})

    @property
    def _unreachable(self) -> tuple[str, ...]:
        """Rules that no table of the declared size could pass and no claim of this run proves."""
        options, schema, policy = self.job.evaluation, self.schema, self._measured_policy
        if schema.n_units is None:
            return ()
        share, rows_each = self.job.split.holdout_share, schema.max_rows_per_unit
        searched = SEARCHED * options.sample_rows
        sizes = {
            label: Size(schema.n_units, share, options.n_targets, rows_each, self._n_rows(label), searched)
            for label in (self.points if self.job.release is None else [self.job.release])
        }
        # Rules whose limits can be measured need no curve, which takes a moment to work out.
        if all(could_pass(rule, size) for rule in policy.rules for size in sizes.values()):
            return ()
        return tuple(beyond_reach(policy, sizes, {label: self._proven(label) for label in sizes}))

    def _n_rows(self, label: str) -> int | None:
        """Rows of a synthetic table: as the job says, else as many as units, or as training rows without an epsilon."""
        rows, n_units = self.points[label].spec.rows, self.schema.n_units
        if rows is not None or n_units is None or label in self.schedules:
            return rows
        return round(n_units * (1 - self.job.split.holdout_share))

    def _proven(self, label: str) -> TradeOff | None:
        """The limit on tests that the claim of a table proves, with all that counts with it."""
        if label not in self.schedules:
            return None
        alone = len(self.reserved) < 2 or (label == self.job.release and not self.job.is_sweep and not self.publication)
        together = None if alone else self.together or self.everything
        if together is None:
            return self.schedules[label].trade_off
        return TradeOff.of_claim(together.epsilon, together.delta)

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Absolute paths of what whoever makes candidates reads: none for a table in a database."""
        return tuple(path.absolute() for path in self.table.paths)

    @property
    def suffix(self) -> str:
        """The suffix of synthetic tables: of the real table's format, or empty where they are folders of parts."""
        return self.table.suffix

    @property
    def title(self) -> str:
        return self.job.name or self.job_path.stem


def make_plan(
    job_path: Path, out: Path, *, restart: bool = False, workers: int | None = None, executor: str | None = None
) -> Plan:  # fmt: skip
    """A plan, or the first thing that would go wrong. No row of the table is read and nothing is written."""
    if executor is not None:
        checked(executor)
    asked = read_inputs(job_path)
    if asked.job.tracking is not None:
        asked.job.tracking.check()
    tidy(out)
    check_new_folder(out)
    job, source = asked.job, asked.job.table.source
    address = str(asked.job.table.path) if source is None else str(embedded_table(source))
    plan = plan_of(asked, find_table(address, job_path.parent), job_path, out)
    workers = workers or (job.workers if executor is None or job.workers > 1 else None)
    plan = replace(plan, restart=restart, workers=workers, executor=executor)
    if executor is not None:
        check_ledger(None if plan.fund is None else plan.fund.url)
        out.absolute().parent.mkdir(parents=True, exist_ok=True)  # the workers have to see it
        check_elsewhere(executor, out.absolute().parent, plan.inputs)
    check_left(plan)
    return plan


def plan_of(asked: Inputs, table: RealTable, job_path: Path, out: Path) -> Plan:
    """A plan of what is asked for, from its start, on this machine. The output's place is not looked at."""
    job, schema, generators, home = asked.job, asked.schema, asked.generators, job_path.parent
    check_names(schema.kept, out / f"synthetic{table.suffix or '.parquet'}")
    schedules, fund = plan_budget(job, home, schema, generators)
    return Plan(
        job=job,
        job_path=job_path,
        given=asked.given,
        out=out,
        table=table,
        schema=schema,
        policy=asked.policy,
        generators=generators,
        schedules=schedules,
        fund=fund,
        key=fingerprint_key(),
        workers=job.workers,
        publication=publication_of(job, schema, generators),
        waivers=asked.waivers,
    )


def check_left(plan: Plan) -> None:
    """Refuse a plan that what is left of its total does not admit. Nothing is reserved."""
    paid = frozenset() if plan.restart else requested(plan.out)
    left = {label: schedule.curve for label, schedule in plan.reserved.items() if label not in paid}
    if plan.fund is not None:
        plan.fund.check({"released numbers" if label == PUBLICATION else label: c for label, c in left.items()})


def check_ledger(url: str | None) -> None:
    if url is not None and "://" not in url:
        raise LedgerError(
            f"workers of a cluster pay from a ledger in PostgreSQL, and {url!r} is a file, which takes turns on one "
            "machine alone; open the total there, or leave --executor out"
        )
