"""A job of related tables: `[tables.NAME]` in place of `[table]`, with keys and schemas, and the plan of its run.

An epsilon of the job is that of all tables together. What a private fit will draw follows from keys, schemas and
lookup tables, which are public: it is known, and paid for, before a row is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pandas as pd
from pydantic import Field, model_validator

from evaluate.gate.policy import Policy, Waiver
from evaluate.privacy.pii import WHOLE
from evaluate.provenance import ComposedClaim
from evaluate.text import listed, typed_loss
from synth.errors import JobError, SchemaError
from synth.generators.base import Generator, draws_in_order
from synth.infer import infer_schema
from synth.output import check_new_folder
from synth.schema import Schema
from synth.schema_file import schema_of
from synth.table import check_names, conform, read_table
from synth.validation import GivenFile, parse_toml, read_given, refuse
from understudy.budget import Fund, Payment, Release, RequestStore, ledger_of, open_fund
from understudy.data import RealTable, find_table
from understudy.extras.related.evaluation import Units, unit_of
from understudy.extras.related.fit import Releases, chosen_for, releases_of
from understudy.extras.related.keys import Keys, Orphans, TableKeys, check_kept, hidden_columns
from understudy.extras.related.units import bounded, check_private
from understudy.extras.related.walk import Walk, lay_out, without
from understudy.job.load import generator_of, read_terms
from understudy.job.spec import LABEL, JobTerms, checked_job, composed
from understudy.provenance import fingerprint_key
from understudy.run.preflight import Intent, cautions, doubts
from understudy.run.workspace import requested, tidy

OF_PEOPLE = {*WHOLE} - {"text", "url", "address"}  # kinds of personal data that no public table holds


class RelatedTableSpec(TableKeys):
    """One table: where it lies, its schema and its keys."""

    path: str = Field(description="As in [table].")
    schema_path: str | None = Field(
        default=None, alias="schema", description="The schema file; one that is kept needs none."
    )
    keep: bool = Field(default=False, description="Whether it is public, and taken over as it is.")

    @model_validator(mode="after")
    def _with_schema(self) -> Self:
        if self.schema_path is None and not self.keep:
            raise ValueError(
                "it names no schema; write one with `understudy schema infer TABLE --out NAME.toml`, or set keep = "
                "true for a public table that is taken over as it is"
            )
        return self


class RelatedJob(JobTerms):
    """One run over related tables: as a job, with tables in place of a table. Constructing one checks it."""

    tables: dict[str, RelatedTableSpec] = Field(min_length=1, description="Related tables in place of [table].")
    orphans: Orphans = Field(default="refuse", description="Rows whose foreign key names no row; with epsilon: drop.")
    unit: str | None = Field(
        default=None, description="The table whose rows are people; left out: the only one that is below none."
    )

    @model_validator(mode="after")
    def _of_tables(self) -> Self:
        aims = {"target": self.evaluation.target, "task": self.evaluation.task}
        asked = {
            "a sweep": self.is_sweep, "[released_numbers]": self.released_numbers, "[tracking]": self.tracking,
            "workers": self.workers > 1, "evaluation.shadow_models": self.evaluation.shadow_models,
        }  # fmt: skip
        words = "is of one table, and this job has related ones; leave it out"
        refuse((is_asked, f"{name} {words}") for name, is_asked in asked.items())
        refuse((value, f"evaluation.{key} is of one table; set it in that one's schema") for key, value in aims.items())
        if odd := next((name for name in self.tables if LABEL.fullmatch(name) is None), None):
            raise ValueError(f"table={odd!r} names files: use letters, digits, '.', '_' and '-' only")
        return self

    @property
    def keys(self) -> Keys:
        own = {name: {k: getattr(table, k) for k in TableKeys.model_fields} for name, table in self.tables.items()}
        return Keys.of(own)

    @property
    def keep(self) -> tuple[str, ...]:
        return tuple(name for name, table in self.tables.items() if table.keep)


@dataclass(frozen=True)
class RelatedInputs:
    job: RelatedJob
    files: Mapping[str, GivenFile]
    keys: Keys
    schemas: Mapping[str, Schema]
    """By table; of one that is kept, where the job names it."""
    policy: Policy
    waivers: tuple[Waiver, ...]
    generators: Mapping[str, Generator]

    @property
    def unit(self) -> str:
        return unit_of(self.keys, self.job.unit, self.job.keep)

    @property
    def measured(self) -> list[str]:
        """Tables of units and below."""
        return Units(self.keys, self.unit, self.job.keep).tables

    @property
    def entity(self) -> str:
        """What the unit of privacy is called: by the key of its table."""
        return " + ".join(self.keys.tables[self.unit].primary)


def read_related(job_path: Path) -> RelatedInputs:
    """A job of related tables with its files, or the first thing that is wrong with them. No row is read."""
    files, home = {"job": read_given(job_path, "job", JobError)}, job_path.parent
    job = checked_job(RelatedJob, parse_toml(files["job"], "job", JobError))
    policy, waivers = read_terms(job, home, files)
    keys, schemas = job.keys, dict[str, Schema]()
    check_kept(keys, job.keep)
    for name, table in job.tables.items():
        if table.schema_path is not None:
            files[f"{name}.schema"] = read_given(home / table.schema_path, f"schema of {name}", SchemaError)
            schemas[name] = schema_of(files[f"{name}.schema"])
            _check_columns(name, table, schemas[name])
            if table.keep:
                _check_public(name, schemas[name])
    inputs = RelatedInputs(job, files, keys, schemas, policy, waivers, {})
    if not keys.tables[inputs.unit].primary:
        raise JobError(f"unit={inputs.unit!r} needs a primary key, by which its rows are split; name one")
    if job.is_private and check_private(keys, job.keep, schemas) != inputs.unit:
        raise JobError(f"unit={job.unit!r}: with epsilon it is a row of the table that is below none; leave it out")
    top = schemas[inputs.unit]
    _check_together(inputs)
    generators = {label: generator_of(p, top, f"generators.{label}", home) for label, p in job.points.items()}
    inputs = replace(inputs, generators=generators)
    _check_orders(inputs)
    return inputs


def _check_together(inputs: RelatedInputs) -> None:
    """Refuse schemas that do not go together."""
    top = inputs.schemas[inputs.unit]
    for name, schema in ((n, s) for n, s in inputs.schemas.items() if n not in inputs.job.keep):
        if schema.dataset not in (None, top.dataset):
            raise SchemaError(
                f"{name}: dataset={schema.dataset!r}, and all tables are of one, that of {inputs.unit}, "
                f"{top.dataset!r}; name that, or leave dataset out"
            )
        own = without(schema, hidden_columns(inputs.keys, name))
        if own is not None and inputs.entity in {*own.kept} - {own.entity}:
            raise SchemaError(
                f"{name}: column={inputs.entity!r} is called like the key of {inputs.unit}; declare it as a foreign "
                "key, or rename it"
            )


def _check_orders(inputs: RelatedInputs) -> None:
    """Refuse generators that draw no histories where a table has some."""
    top, ordered = inputs.schemas[inputs.unit], (s for s in inputs.schemas.items() if s[1].order is not None)
    for name, schema in ordered:
        most = inputs.keys.tables[name].most or schema.max_rows_per_unit
        below = schema.model_copy(update={"max_rows_per_unit": most, "n_units": top.n_units})
        for label, chosen in inputs.generators.items():
            if not draws_in_order(chosen, below):
                raise JobError(
                    f"generators.{label}: generator={chosen.name!r} draws no rows of {name} that follow each other; "
                    "choose trees, arn, aim or mst, and with epsilon more of it or a lower most"
                )


def _check_public(name: str, schema: Schema) -> None:
    """Refuse to take a table over as it is that says of itself that it is of people."""
    roles = (*schema.sensitive, *schema.quasi_identifiers, *([] if schema.entity is None else [schema.entity]))
    columns: Any = {name: schema.columns[name] for name in schema.kept}
    personal = [
        n for n, column in columns.items() if n in roles or (column.is_personal and column.personal in OF_PEOPLE)
    ]
    if personal or schema.n_units is not None:
        why = f"column={personal[0]!r} is of people" if personal else f"n_units={schema.n_units} says that it has units"
        raise JobError(f"{name}: keep is for public tables, which leave as they are, and {why}; leave keep out")


def _check_columns(name: str, table: RelatedTableSpec, schema: Schema) -> None:
    if schema.texts:
        raise JobError(f"free text is of one table alone, and {name} holds column={schema.texts[0]!r}; drop it")
    if lost := sorted(table.columns - {*schema.kept}):
        raise SchemaError(f"{name}: column={lost[0]!r} is part of a key, and its schema does not keep it; add it")


@dataclass(frozen=True)
class RelatedPlan:
    """The plan of a run over related tables. *Sensitive*: `key`."""

    inputs: RelatedInputs
    job_path: Path
    out: Path
    places: Mapping[str, RealTable]
    kept: Mapping[str, pd.DataFrame]
    schemas: Mapping[str, Schema]
    """Of all tables, those that are kept, too."""
    walk: Walk | None
    """As tables without rows are laid out; `None`: without a promise rows decide."""
    releases: Mapping[str, Releases]
    chosen: Mapping[str, Mapping[str, Any]]
    """By label, the specification of each table's private fit."""
    fund: Fund | None
    key: bytes
    restart: bool = False

    @property
    def title(self) -> str:
        return self.inputs.job.name or self.job_path.stem

    @property
    def private(self) -> bool:
        return self.inputs.job.is_private

    def unit_schema(self) -> Schema:
        """The dataset and unit as a ledger knows them."""
        if self.releases:
            return next(iter(self.releases.values())).unit
        top, entity = self.schemas[self.inputs.unit], self.inputs.entity
        names = {"kind": "identifier", "bounds": (0, 1)}
        content = {"status": top.status, "dataset": top.dataset, "n_units": top.n_units, "entity": entity}
        return Schema.model_validate({**content, "columns": {entity: names, "rows": {"kind": "boolean"}}})

    def payment(self, kept: RequestStore) -> Payment:
        releases = {
            label: Release(each.schedule, f"{label} of a run over related tables", f"generators.{label}")
            for label, each in self.releases.items()
        }
        return Payment(self.fund, self.unit_schema(), releases, kept)

    @property
    def composed(self) -> ComposedClaim | None:
        """The claim of all private fits together; `None` where there are not two."""
        schedules = {label: each.schedule for label, each in self.releases.items()}
        return composed(schedules) if len(schedules) > 1 else None

    @cached_property
    def doubts(self) -> dict[str, list[str]]:
        """Sentences on the private fits that are expected to FAIL the policy, by label."""
        share, result = 1 - self.inputs.job.split.holdout_share, dict[str, list[str]]()
        for label, each in self.releases.items():
            for name, chosen in self.chosen[label].items():
                schema = self.walk.schemas[name] if self.walk is not None else self.schemas[name]
                what, alone = f"{label} of {name}", each.alone(name)
                intent = Intent({what: chosen}, {what: alone}, schema, self.fund, "clamp")
                result.setdefault(label, []).extend(doubts(intent, self.inputs.policy, share).values())
        return result

    @property
    def in_vain(self) -> list[str]:
        """Doubts on the fits still to pay for whose tables may be released; none unless all of these are in doubt."""
        release, paid = self.inputs.job.release, frozenset() if self.restart else requested(self.out)
        due = sorted(({*self.releases} if release is None else {*self.releases} & {release}) - paid)
        doubts = [self.doubts[label] for label in due]
        return [sentence for each in doubts for sentence in each] if all(doubts) else []

    @property
    def warnings(self) -> tuple[str, ...]:
        schedules = {label: each.schedule for label, each in self.releases.items()}
        intent = Intent(self.inputs.generators, schedules, self.unit_schema(), self.fund, "clamp")
        said = [*cautions(intent), *(sentence for each in self.doubts.values() for sentence in each)]
        if self.kept:
            said.append(f"{listed([*self.kept])}: taken over as they are, since keep says that they are public")
        return tuple(dict.fromkeys(said))


def make_plan(job_path: Path, out: Path, *, restart: bool, workers: int | None, executor: str | None) -> RelatedPlan:
    """A plan, or the first thing that would go wrong. No row of a table that is not public is read."""
    if executor is not None or (workers or 1) > 1:
        raise JobError("related tables are made on this machine, one candidate after another; leave the option out")
    inputs, home = read_related(job_path), job_path.parent
    tidy(out)
    check_new_folder(out)
    job, schemas = inputs.job, dict(inputs.schemas)
    places = {name: find_table(table.path, home) for name, table in job.tables.items()}
    kept = dict[str, pd.DataFrame]()
    for name in job.keep:
        if name not in schemas:
            schemas[name] = infer_schema(places[name].address, propose_entity=False, constraints=False)
            _check_public(name, schemas[name])
        kept[name] = read_table(places[name].address, schemas[name])
    for name in places:
        check_names(schemas[name].kept, out / f"{name}.csv")
    private = {label: chosen for label, chosen in inputs.generators.items() if chosen.promises}
    url = ledger_of(job, home) if private else None
    walk = laid_out(inputs, schemas, kept) if private else None
    chosen = {label: chosen_for(walk, each) for label, each in private.items()} if walk is not None else {}
    releases = {label: releases_of(walk, each) for label, each in chosen.items()} if walk is not None else {}
    plan = RelatedPlan(
        inputs, job_path, out, places, kept, schemas, walk, releases, chosen, None, fingerprint_key(), restart
    )
    if url is None:
        return plan
    fund, paid = open_fund(url, plan.unit_schema()), frozenset() if restart else requested(out)
    fund.check({label: each.schedule.curve for label, each in releases.items() if label not in paid})
    return replace(plan, fund=fund)


def laid_out(inputs: RelatedInputs, schemas: Mapping[str, Schema], kept: Mapping[str, pd.DataFrame]) -> Walk:
    """The walk of a private fit, which no row decides but those of public tables."""
    keys, keep = inputs.keys, inputs.job.keep
    empty = {
        name: conform(
            pd.DataFrame({c: pd.Series(dtype=object) for c in schemas[name].written}), schemas[name], part=True
        )
        for name in keys.order if name not in keep
    }  # fmt: skip
    rows, parents = bounded({**empty, **kept}, keys, keep, inputs.unit, schemas)
    return lay_out(rows, parents, keys, keep, inputs.schemas, private=True)


def plan_lines(plan: RelatedPlan) -> Sequence[str]:
    inputs, lines = plan.inputs, list[str]()
    for name in inputs.keys.order:
        below = [str(key) for key in inputs.keys.tables[name].foreign]
        kept = ", taken over as it is" if name in inputs.job.keep else ""
        lines.append(f"Table {name}: {len(plan.schemas[name].kept)} columns{kept}; {', '.join(below) or 'below none'}")
    lines.append(f"Unit of privacy: a row of {inputs.unit} with all rows below it")
    for label in inputs.job.points:
        promise = "no formal guarantee"
        if label in plan.releases:
            schedule = plan.releases[label].schedule
            promise = f"epsilon {typed_loss(schedule.epsilon)}, delta {schedule.delta:.3g}, of all tables together"
        lines.append(f"Generator {label}: {inputs.generators[label].name}, {promise}")
    lines.append(f"Policy: {inputs.policy.name}, version {inputs.policy.version}, for {inputs.policy.audience}")
    apart = [n for n in inputs.keys.order if n not in inputs.job.keep and n not in inputs.measured]
    if apart:
        lines.append(f"Not measured, since they are not below {inputs.unit}: {listed(apart)}; nothing can PASS")
    return lines
