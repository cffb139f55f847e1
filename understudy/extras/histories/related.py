"""A run of two related tables: one of the parents, then one of their rows, and one folder of both.

::

    OUT/
        tables.json     what holds of both together, and the verdict: the worse of the two; written last
        index.html      both tables with their verdicts and claims
        synthetic/LABEL/{parents,rows}.csv      the two tables as the real ones are, with keys that match
        parents/        the output of the parents' run: with their numbers of rows
        rows/           the output of the rows' run: with the columns of their parents

Both are ordinary runs of a prepared table; one that is finished is not made again. An epsilon of the job is that of
both tables together: each fit has a share of it, and the two compose to no more.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import pandas as pd
from pydantic import Field, model_validator

from evaluate.provenance import ComposedClaim
from evaluate.result_io import evaluation_from
from evaluate.text import typed_loss
from synth import extras
from synth.dp.schedule import EPSILON_RANGE, Schedule
from synth.errors import BudgetError, JobError, SchemaError
from synth.generators.base import draws_in_order
from synth.output import check_new_folder, whole_file
from synth.progress import Progress
from synth.schema import Schema
from synth.schema_file import schema_of, to_toml
from synth.table import read_table, write_table
from synth.table.conforming import Outside, clamp
from synth.validation import Frozen, GivenFile, parse_toml, read_given, refuse
from understudy import provenance
from understudy.bundle.evidence import EVALUATION
from understudy.console import DONE, FAILED, VERDICTS
from understudy.data import RealTable, clamped, find_table
from understudy.extras.histories.relation import ROLES, Relation, Role
from understudy.extras.histories.wrapper import reason_against
from understudy.job.load import Inputs, JobKind, generator_of, read_terms
from understudy.job.spec import Job, JobTerms, PlannedCandidate, checked_job, composed
from understudy.run import candidates, stages
from understudy.run.plan import Plan, check_left, plan_of
from understudy.run.run import RunOutcome
from understudy.run.run import run as run_one
from understudy.run.workspace import OtherWork, tidy

if TYPE_CHECKING:
    from understudy.bundle.signing import Signer
    from understudy.console import Console

TABLES = "tables.json"
# Share of epsilon of the first guess for either table: of small epsilons it is about 1/sqrt(2), and less of others.
# Both compose to `LEAST_USED` of the job's epsilon at least, where one more guess comes nearer.
FIRST_SHARE, LEAST_USED, MOST_GUESSES = 0.68, 0.98, 8


class RelatedTableSpec(Frozen):
    path: str = Field(description="As in [table].")
    schema_path: str = Field(alias="schema", description="The schema file.")


class TablesSpec(Frozen):
    parents: RelatedTableSpec = Field(description="One row an entity; its key is an identifier that never repeats.")
    rows: RelatedTableSpec = Field(
        description="Rows of these entities; the schema names the key as entity, and an order."
    )
    outside: Literal["refuse", "clamp"] | None = Field(
        default=None, description="Of both: as in [table]; clamp leaves rows without a parent out."
    )


class RelatedJob(JobTerms):
    """One run over two related tables: as a job, with tables in place of a table. Constructing one checks it."""

    tables: TablesSpec = Field(description="Two related tables in place of [table].")

    @model_validator(mode="after")
    def _of_two_tables(self) -> Self:
        asked = {"a sweep": self.is_sweep, "[released_numbers]": self.released_numbers, "[tracking]": self.tracking}
        words = "is of one table, and this job has two related ones; leave it out"
        refuse((is_asked, f"{name} {words}") for name, is_asked in asked.items())
        return self

    def of_table(self, role: Role, epsilons: Mapping[str, float], *, has_target: bool) -> Job:
        table: RelatedTableSpec = getattr(self.tables, role)
        generators = {}
        for label, spec in self.generators.items():
            share = {"epsilon": epsilons[label]} if label in epsilons else {}
            content = {**spec.model_dump(), "rows": spec.rows if role == "parents" else None, **share}
            generators[label] = type(spec).model_validate(content)
        aim = {} if has_target else {"target": None, "task": None}
        outside = self.tables.outside or ("clamp" if self.is_private else "refuse")
        return Job.model_validate({
            **{name: getattr(self, name) for name in JobTerms.model_fields}, "generators": generators,
            "evaluation": self.evaluation.model_copy(update=aim),
            "table": {"path": table.path, "schema": table.schema_path, "outside": outside},
        })  # fmt: skip


@dataclass(frozen=True)
class RelatedInputs:
    job: RelatedJob
    relation: Relation
    tables: Mapping[Role, Inputs]
    together: Mapping[str, ComposedClaim]


def read_related(job_path: Path) -> RelatedInputs:
    """A job of two related tables with its files, or the first thing that is wrong with them. No row is read."""
    files, home = {"job": read_given(job_path, "job", JobError)}, job_path.parent
    job = checked_job(RelatedJob, parse_toml(files["job"], "job", JobError))
    policy, waivers = read_terms(job, home, files)
    own = [
        schema_of(read_given(home / getattr(job.tables, role).schema_path, f"schema of the {role}", SchemaError))
        for role in ROLES
    ]
    relation = Relation(*own, private=job.is_private)
    schemas: dict[Role, Schema] = {"parents": relation.parents, "rows": relation.rows}
    shares = {point.label: _shared(point, schemas) for point in job.points.values() if point.epsilon is not None}
    epsilons = {label: epsilon for label, (epsilon, _) in shares.items()}
    aim: Role = "parents" if job.evaluation.target in relation.parent_schema.columns else "rows"
    tables: dict[Role, Inputs] = {}
    for role, schema in schemas.items():
        if schema.texts:
            raise JobError(f"free text is of one table alone, and {role} hold column={schema.texts[0]!r}; drop it")
        of_table = job.of_table(role, epsilons, has_target=role == aim)
        of_table.evaluation.aim(schema)
        generators = {
            label: generator_of(point, schema, f"generators.{label}", home) for label, point in of_table.points.items()
        }
        for label, chosen in generators.items() if role == "rows" else ():
            if not draws_in_order(chosen, schema):
                why = f"does not draw the rows of a parent one after another: {reason_against(chosen, schema)}"
                raise JobError(f"generators.{label}: generator={chosen.name!r} {why}")
        text = GivenFile(home / f"{role}.schema.toml", to_toml(schema).encode())
        tables[role] = Inputs(of_table, {**files, "schema": text}, schema, policy, waivers, generators)
    return RelatedInputs(job, relation, tables, {label: claim for label, (_, claim) in shares.items()})


def _shared(point: PlannedCandidate, schemas: Mapping[Role, Schema]) -> tuple[float, ComposedClaim]:
    """The epsilon that either of two fits has, so that both compose to no more than the job asks for, and what they
    compose to. No row is read, and nothing depends on one.
    """
    epsilon = float(point.epsilon or 0.0)
    share, best = FIRST_SHARE * epsilon, None
    for _ in range(MOST_GUESSES):
        share = max(share, EPSILON_RANGE[0])
        schedules: dict[str, Schedule] = {}
        for role, schema in schemas.items():
            chosen: Any = generator_of(point, schema, f"generators.{point.label} of the {role}", Path(), epsilon=share)
            schedules[role] = chosen.schedule(schema)
        both: Any = composed(schedules)
        if both.epsilon <= epsilon and (best is None or share > best[0]):
            best = (share, both)
        if LEAST_USED <= both.epsilon / epsilon <= 1:
            break
        share *= (1 + LEAST_USED) / 2 * epsilon / both.epsilon
    if best is None:
        raise BudgetError(
            f"generators.{point.label}: epsilon={epsilon:g} is that of both tables together, and leaves no room for "
            "two fits; choose a larger epsilon"
        )
    return best


@dataclass(frozen=True)
class PreparedTable:
    """The table of one role, made from both real ones (`understudy.run.plan.Prepared`)."""

    relation: Relation
    tables: Mapping[Role, RealTable]
    what: Role
    drawn: Path
    beside: Mapping[str, Schedule]

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(path for table in self.tables.values() for path in table.paths)

    def read(self, outside: Outside, tell: Callable[[str], None] | None = None) -> pd.DataFrame:
        return self.read_both(outside, tell)[ROLES.index(self.what)]

    def read_both(
        self, outside: Outside, tell: Callable[[str], None] | None = None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        frames = []
        for role, schema in zip(ROLES, self.relation.schemas, strict=True):
            rows = read_table(self.tables[role].address, schema if outside == "refuse" else None)
            if outside == "clamp":
                rows, shares = clamp(rows, schema)
                if tell is not None and shares and role == self.what:
                    tell(clamped(shares))
            frames.append(rows)
        return self.relation.joined(frames[0], frames[1], outside=outside)

    def fingerprint(self, key: bytes, outside: Outside) -> str:
        """One name for both tables, so that a ledger takes neither for another version of the other."""
        both = zip(self.read_both(outside), (self.relation.parents, self.relation.rows), strict=True)
        return provenance.fingerprint_of_all([provenance.fingerprint(*table, key) for table in both], key)

    def sample(self, label: str, model: Any, n_rows: int | None, seed: int, progress: Progress) -> pd.DataFrame:
        if self.what == "parents":
            drawn: pd.DataFrame = model.sample(n_rows, seed=seed, progress=progress)
            return drawn
        path = self.drawn / f"{label}{self.tables['parents'].suffix or '.parquet'}"
        return self.relation.rows_of(model, read_table(path, self.relation.parents), seed=seed, progress=progress)


def make_related_plan(
    job_path: Path, out: Path, *, restart: bool = False, workers: int | None = None, executor: str | None = None
) -> tuple[RelatedInputs, dict[Role, Plan]]:
    if executor is not None:
        raise JobError("two related tables are made on this machine, and --executor names a cluster; leave it out")
    inputs = read_related(job_path)
    ours = {role for role in ROLES if (out / role / EVALUATION).is_file()}  # of an earlier start that was cut short
    known = {*ours, *([candidates.SYNTHETIC] if len(ours) == len(ROLES) else [])}
    if not out.is_dir() or {path.name for path in out.iterdir() if path.name[0] != "."} - known:
        check_new_folder(out)
    tables = {role: find_table(getattr(inputs.job.tables, role).path, job_path.parent) for role in ROLES}
    plans = {role: plan_of(inputs.tables[role], tables[role], job_path, out / role) for role in ROLES}
    title, drawn = inputs.job.name or job_path.stem, out / "parents" / candidates.SYNTHETIC
    planned: dict[Role, Plan] = {}
    for role, other in zip(ROLES, reversed(ROLES), strict=True):
        planned[role] = replace(
            plans[role],
            job=plans[role].job.model_copy(update={"name": f"{title}: {role}"}),
            workers=workers or plans[role].workers,
            restart=restart,
            prepared=PreparedTable(inputs.relation, tables, role, drawn, plans[other].schedules),
        )
    check_left([plan for role, plan in planned.items() if restart or role not in ours])
    return inputs, planned


@dataclass(frozen=True)
class RelatedOutcome:
    inputs: RelatedInputs
    tables: Mapping[Role, RunOutcome]
    keys_match: Mapping[str, bool]

    def verdict(self, label: str) -> str:
        """The verdict on both tables of a candidate: the worse of the two, and FAIL where keys do not match."""
        verdicts = {v.verdict for outcome in self.tables.values() for v in outcome.verdicts if v.candidate == label}
        worst_first = ("FAIL", "INCONCLUSIVE", "PASS") if self.keys_match[label] else ()
        return next((verdict for verdict in worst_first if verdict in verdicts), "FAIL")

    @property
    def exit_code(self) -> int:
        """0, or what the verdict on the tables to release says; a key that does not match is a FAIL of any table."""
        if self.inputs.job.release is not None:
            return VERDICTS[self.verdict(self.inputs.job.release)]
        return DONE if all(self.keys_match.values()) else FAILED

    def content(self) -> dict[str, Any]:
        told = {}
        for label, keys_match in self.keys_match.items():
            claim = self.inputs.together.get(label)
            told[label] = {
                "verdict": self.verdict(label), "keys_match": keys_match,
                "epsilon": claim and claim.epsilon, "delta": claim and claim.delta,
                "epsilon_of": {role: o.plan.schedules[label].epsilon for role, o in self.tables.items() if claim},
                "guarantee": "of both tables together" if claim else "no formal guarantee",
            }  # fmt: skip
        release, code = self.inputs.job.release, self.exit_code
        return {"key": self.inputs.relation.key, "release": release, "exit_code": code, "candidates": told}


def run_related(
    inputs: RelatedInputs, plans: Mapping[Role, Plan], console: "Console", signer: "Signer | None" = None
) -> RelatedOutcome:
    out = plans["parents"].out.parent
    if plans["parents"].restart:
        _remove_earlier(plans)
    out.mkdir(parents=True, exist_ok=True)
    try:
        tables = {role: _one(plan, console, signer) for role, plan in plans.items()}
    finally:
        if not any(out.iterdir()):
            out.rmdir()
    keys_match = {label: _write_pair(inputs, plans, label) for label in plans["rows"].points}
    outcome = RelatedOutcome(inputs, tables, keys_match)
    for name, write_page in extras.load("index page").items():
        write_page(out, out / name)
    with whole_file(out / TABLES) as beside:
        beside.write_text(json.dumps(outcome.content(), indent=1, ensure_ascii=False), encoding="utf-8")
    return outcome


def _remove_earlier(plans: Mapping[Role, Plan]) -> None:
    """Remove what an earlier start made, and nothing else: finished outputs, and pairs of tables of their labels."""
    for plan in plans.values():
        if (plan.out / EVALUATION).is_file():
            for path in (plan.out / candidates.SYNTHETIC).iterdir():
                pair = plan.out.parent / candidates.SYNTHETIC / path.stem
                for written in pair.glob(f"{plan.out.name}.*"):
                    written.unlink()
            shutil.rmtree(plan.out)


def _one(plan: Plan, console: "Console", signer: "Signer | None") -> RunOutcome:
    if not plan.out.is_dir():
        return run_one(plan, console, signer)
    tidy(plan.out)
    with console.stage("split"):
        sides = stages.split(plan, stages.read(plan, plan.out.parent))
        prints = provenance.fingerprints(sides.train, sides.holdout, plan.schema, plan.key)
    evaluation = evaluation_from((plan.out / EVALUATION).read_text(encoding="utf-8"))
    known = provenance.with_inputs(replace(evaluation.provenance, fingerprints=prints), plan.given)
    if evaluation.provenance != replace(known, versions=evaluation.provenance.versions):
        raise OtherWork(
            f"--out {str(plan.out.parent)!r} holds an unfinished run of other tables, or of another job, schema or "
            "policy; finish that with what it was begun with, name another --out, or add --restart, which removes it"
        )
    return RunOutcome(plan, evaluation, stages.verdicts_of(plan, evaluation))


def _write_pair(inputs: RelatedInputs, plans: Mapping[Role, Plan], label: str) -> bool:
    """Both synthetic tables of a candidate as the real ones are; true if their keys match, as they were written."""
    drawn = (read_table(p.out / candidates.SYNTHETIC / f"{label}{p.suffix}", p.schema) for p in plans.values())
    folder, again = plans["rows"].out.parent / candidates.SYNTHETIC / label, []
    folder.mkdir(parents=True, exist_ok=True)
    for role, frame, schema in zip(ROLES, inputs.relation.split(*drawn), inputs.relation.schemas, strict=True):
        path = folder / f"{role}{plans[role].suffix}"
        write_table(frame, path, schema)
        again.append(read_table(path, schema))
    keys, of_rows = (table[inputs.relation.key] for table in again)
    return bool(keys.is_unique and of_rows.isin(keys).all())


def run(
    job: Path, folder: Path, console: "Console", signer: "Signer | None", *, is_named: bool, yes: bool, **options: Any
) -> int:
    from understudy.cli.jobs import ask_to_spend, planned, show, show_plan

    inputs, plans = make_related_plan(job, folder, **options)
    for plan in plans.values() if not is_named else ():
        show_plan(plan, console)
    for warning in dict.fromkeys(warning for plan in plans.values() for warning in plan.warnings):
        console.warn(warning)
    if not is_named:
        return planned(job, folder, console)
    ask_to_spend([why for plan in plans.values() for why in plan.in_vain], yes=yes)
    outcome = run_related(inputs, plans, console, signer)
    for role, table in outcome.tables.items():
        console.say(f"Table of {role}:")
        show(table, console)
    for label, claim in inputs.together.items():
        both = f"epsilon {typed_loss(claim.epsilon)} at delta {typed_loss(claim.delta)}"
        console.say(f"{label}: both tables together come to {both}")
    for label in (label for label, is_match in outcome.keys_match.items() if not is_match):
        console.warn(f"{label}: keys do not match, so that the tables are not related; the verdict is FAIL")
    if (release := inputs.job.release) is not None:
        console.say(f"{release}: {outcome.verdict(release)}, the worse verdict of both tables")
    console.say(f"Both tables: {folder / TABLES}")
    content = {role: table.delivery.verdict_content() for role, table in outcome.tables.items()}
    console.result({**outcome.content(), "tables": content, "out": str(folder)})
    return outcome.exit_code


KIND = JobKind(run, read_related, RelatedJob)
