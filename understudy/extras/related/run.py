"""A run over related tables: one fit of all tables for each candidate, evidence of each table, one verdict, one seal.

::

    OUT/
        report.html                 the verdict, keys, dependence, the attack on whole units, a line for each table
        verdict.json                one verdict a candidate: the worst of all tables, of units and of keys
        tables.json                 what was measured over all tables
        synthetic/LABEL/NAME.csv    the tables as the real ones are, with keys that match
        models/LABEL/
        tables/NAME/                report, cards, evaluation and verdict of one table, joined with its parents
        to-hand-on/NAME/            the tables to release, each with a report and a card that hold no real number
        manifest.json               every file of all that, byte for byte

The synthetic tables are measured as they were written, each joined with the columns of its parents and of theirs.
"""

import json
import shutil
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pydantic import TypeAdapter

from evaluate.engine import evaluate_beside
from evaluate.gate.claim import claims_of, proven_limit
from evaluate.gate.decision import Finding, Outcome
from evaluate.gate.policy import Rule
from evaluate.gate.verdict import Verdict, judge, judge_candidate
from evaluate.provenance import Provenance
from evaluate.result import Candidate, Estimate, Evaluation, GeneratorRecord
from evaluate.result_io import evaluation_from
from evaluate.sampling import MIN_SYNTHETIC_ROWS
from reports.sections.quality import given_away
from synth.errors import TableError
from synth.extras import VERSION
from synth.generators.base import unwrapped
from synth.output import whole_file
from synth.schema import Schema
from synth.split import MIN_SIDE_ROWS
from synth.table import Table, read_table, write_table
from synth.table.conforming import clamp
from understudy import provenance
from understudy.budget import releases
from understudy.bundle.evidence import (
    Delivery,
    Handing,
    about_of,
    deliver,
    seal_public,
    write_public_table,
    write_verdict,
)
from understudy.bundle.manifest import TO_HAND_ON, seal
from understudy.console import DONE, FAILED, VERDICTS
from understudy.data import clamped
from understudy.extras.related.below import BelowOthers, without_known
from understudy.extras.related.evaluation import (
    COUNT,
    NAMES,
    OWN,
    PARENT,
    Compared,
    RealTables,
    Source,
    Units,
    compared,
    real_keys,
    split_related,
    unit_attack,
    valid_keys,
)
from understudy.extras.related.fit import fit_related
from understudy.extras.related.job import RelatedJob, RelatedPlan, make_plan, plan_lines, read_related
from understudy.extras.related.keys import candidates, hidden_columns
from understudy.extras.related.page import write_page
from understudy.extras.related.units import bounded
from understudy.extras.related.walk import of_unit, without
from understudy.job import child_seed
from understudy.job.load import JobKind
from understudy.run import stages
from understudy.run.candidates import SYNTHETIC
from understudy.run.workspace import RunWorkspace, unfinished

if TYPE_CHECKING:
    from understudy.bundle.signing import Signer
    from understudy.console import Console

TABLES, RESULT = "tables", "tables.json"
ATTACKS = ("privacy.membership.auc", "privacy.membership.tpr_at_0.01")  # the numbers of the attack on units
KEYS_RULE = Rule(measure="validity.rows", limit=1.0, why="A key names one row, and a foreign one a row that is there.")
REAL_RULE = Rule(measure="privacy.personal", limit=0.0, why="A real key says whose a row is; each is made anew.")
OTHER_FITS = "the fits of the other tables, which have an audit each: the claim here is this table's part"
UNMEASURED_RULE = Rule(measure="privacy.copies.people", limit=0.0, why="What was not measured was not shown to hold.")


@dataclass(frozen=True)
class Sides:
    """*Sensitive*. The real tables, as the schemas have them."""

    train: Mapping[str, pd.DataFrame]
    holdout: Mapping[str, pd.DataFrame]
    prints: Mapping[str, Mapping[str, str]]
    """By table, the keyed fingerprints of it and of its sides."""


@dataclass(frozen=True)
class Related:
    """What was measured of one candidate over all tables."""

    keys: Mapping[str, float]
    real_keys: Mapping[str, float]
    compared: tuple[Compared, ...]
    attack: tuple[Estimate, ...]
    rows: Mapping[str, int]


@dataclass(frozen=True)
class RelatedOutcome:
    plan: RelatedPlan
    evaluations: Mapping[str, Evaluation]
    verdicts: Mapping[str, tuple[Verdict, ...]]
    related: Mapping[str, Related]
    together: tuple[Verdict, ...]

    def verdict(self, label: str) -> Verdict:
        return next(verdict for verdict in self.together if verdict.candidate == label)

    def verdict_of(self, name: str, label: str) -> str:
        """The verdict on one table, or why there is none."""
        if (verdict := _of(self.verdicts.get(name, ()), label)) is not None:
            return verdict.verdict
        return "kept as it is" if name in self.plan.inputs.job.keep else "not measured"

    @property
    def exit_code(self) -> int:
        release = self.plan.inputs.job.release
        if release is not None:
            return VERDICTS[self.verdict(release).verdict]
        return DONE if all(min(each.keys.values(), default=1) == 1 for each in self.related.values()) else FAILED

    def content(self) -> dict[str, Any]:
        told = {}
        for label, each in self.related.items():
            of_tables = {name: self.verdict_of(name, label) for name in each.rows}
            claim = self.plan.releases.get(label)
            told[label] = {
                "verdict": self.verdict(label).verdict, "tables": of_tables, "rows": dict(each.rows),
                "keys": dict(each.keys), "real_keys": dict(each.real_keys),
                "compared": [asdict(part) | {"ratio": part.ratio} for part in each.compared],
                "units": [asdict(estimate) for estimate in each.attack],
                "epsilon": claim and claim.schedule.epsilon, "delta": claim and claim.schedule.delta,
                "guarantee": "of all tables together" if claim else "no formal guarantee",
            }  # fmt: skip
        inputs = self.plan.inputs
        return {
            "release": inputs.job.release, "exit_code": self.exit_code, "unit": inputs.unit, "candidates": told,
            "kept": list(inputs.job.keep),
        }  # fmt: skip


def _of(verdicts: tuple[Verdict, ...], label: str) -> Verdict | None:
    return next((verdict for verdict in verdicts if verdict.candidate == label), None)


def run_related(plan: RelatedPlan, console: "Console", signer: "Signer | None" = None) -> RelatedOutcome:
    """Carry out a plan, from where an earlier start of the same run was cut short."""
    with unfinished(plan.out, restart=plan.restart) as work:
        work.claim(_names(plan))
        sides = _sides(plan, work, console)
        reals = None
        for label in plan.inputs.job.points:
            if not work.measured(label).exists():
                reals = reals or _reals(plan, sides)
                _finish(plan, work, sides, reals, label, console)
        for path in work.result.iterdir():  # the evidence of an earlier start
            if path.name not in (SYNTHETIC, "models"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        outcome = _judged(plan, work, sides)
        with console.stage("report"):
            _write(outcome, work.result, signer)
        for candidate in outcome.evaluations[plan.inputs.unit].candidates:
            plan.payment(work).commit(candidate.statement)
        work.finish()
    return outcome


def _names(plan: RelatedPlan) -> dict[str, str | None]:
    """The identity of a run, as far as it is known before a table is read."""
    return {
        **{name: file.sha256 for name, file in plan.inputs.files.items()},
        "version of understudy": VERSION,
        "output": str(plan.out.parent.resolve() / plan.out.name),
        "ledger": None if plan.fund is None else plan.fund.url,
    }


def _sides(plan: RelatedPlan, work: RunWorkspace, console: "Console") -> Sides:
    """*Sensitive*. Train and holdout, their fingerprints; all draws are paid for."""
    inputs, frames = plan.inputs, dict[str, pd.DataFrame]()
    with console.stage("split"):
        for name, place in plan.places.items():
            if name in plan.kept:
                frames[name] = plan.kept[name]
                continue
            frames[name], shares = clamp(read_table(place.address), plan.schemas[name])
            if shares and not plan.private:
                raise TableError(
                    f"{name}: column={min(shares)!r} holds values that its schema has no room for; correct the schema, "
                    "or the table"
                )
            if shares:
                console.warn(f"{name}: {clamped(shares)}")
        train, holdout = split_related(
            frames, inputs.keys, unit=inputs.unit, keep=inputs.job.keep,
            holdout_share=inputs.job.split.holdout_share, seed=inputs.job.split_seed,
        )  # fmt: skip
        if min(len(side[inputs.unit]) for side in (train, holdout)) < MIN_SIDE_ROWS:
            raise TableError(
                f"train and holdout need at least {MIN_SIDE_ROWS} rows of {inputs.unit} each; use larger tables or a "
                "share nearer to 0.5"
            )
        prints = {
            name: provenance.fingerprints(train[name], holdout[name], plan.schemas[name], plan.key)
            for name in _drawn(plan)
        }  # fmt: skip
        whole = provenance.fingerprint_of_all([each["table"] for each in prints.values()], plan.key)
        work.claim({"tables": whole})
    plan.payment(work).reserve(whole)
    console.warn(*work.warnings)
    return Sides(train, holdout, prints)


def _reals(plan: RelatedPlan, sides: Sides) -> RealTables:
    """*Sensitive*. The real side of every evaluation."""
    inputs = plan.inputs
    units = Units(inputs.keys, inputs.unit, inputs.job.keep, inputs.entity)
    options = inputs.job.evaluation.options(
        child_seed(inputs.job.seed, "evaluate"), "clamp" if plan.private else "refuse"
    )

    def schema_of(name: str, frame: pd.DataFrame, sources: Mapping[str, Source]) -> Schema:
        return joined_schema(plan, name, sources)

    return RealTables.prepare(sides.train, sides.holdout, units, options, schema_of)


def joined_schema(plan: RelatedPlan, name: str, sources: Mapping[str, Source]) -> Schema:
    """The schema of a table's rows, joined. Histories are measured of rows right below the unit."""
    inputs, own = plan.inputs, without(plan.schemas[name], hidden_columns(plan.inputs.keys, name))
    first = next(iter(candidates(inputs.keys, name, inputs.job.keep)), None)
    base: dict[str, Any] = {} if own is None else dict(own)
    is_history = own is not None and own.order is not None and first is not None and first.table == inputs.unit
    columns: dict[str, Any] = {inputs.entity: NAMES}
    columns |= {} if own is None else {name: column for name, column in own.columns.items() if column.drop}
    for column, source in sources.items():
        if source.role == COUNT:
            most: dict[str, Any] = {"measure": True}
            if plan.walk is not None:
                most = {"bounds": (0, of_unit(inputs.keys, source.table, plan.walk))}
            columns[column] = {"kind": "integer", **most}
            continue
        known: Any = plan.schemas[source.table].columns[source.column]
        if source.role == OWN:
            columns[column] = known
        elif known.is_learned:
            columns[column] = known.model_copy(update={"modeled": None, "missing": True, "part": None})
    if not is_history:
        base |= {"order": None, "nondecreasing_in_entity": (), "constant_in_entity": ()}
    else:
        above = [c for c, each in sources.items() if each.role == PARENT and each.table == inputs.unit]
        base["constant_in_entity"] = tuple(c for c in above if c in columns)
    top = plan.schemas[inputs.unit]
    is_declared = all(schema.status == "declared" for schema in inputs.schemas.values())
    base |= {
        "status": "declared" if is_declared else "inferred", "dataset": top.dataset, "n_units": top.n_units,
        "entity": inputs.entity, "columns": columns,
        "max_rows_per_unit": 1 if plan.walk is None else of_unit(inputs.keys, name, plan.walk),
    }  # fmt: skip
    return Schema.model_validate(base)


def _finish(
    plan: RelatedPlan, work: RunWorkspace, sides: Sides, reals: RealTables, label: str, console: "Console"
) -> None:  # fmt: skip
    """One candidate made and measured, from what an earlier start drew of it."""
    inputs, job = plan.inputs, plan.inputs.job
    folder, seconds, generator = work.result / SYNTHETIC / label, dict[str, float](), inputs.generators[label]
    work.begin(label, folder)
    train, started = dict(sides.train), time.perf_counter()
    if plan.private and not generator.promises:  # no row of a job with epsilon stops it
        train = bounded(train, inputs.keys, job.keep, inputs.unit, inputs.schemas)[0]
    with (
        console.stage(f"fit {label}") as progress,
        plan.payment(work).budget(label) as budget,
        warnings.catch_warnings(record=True) as said,
    ):
        model = fit_related(
            train, inputs.keys, generator, schemas=inputs.schemas, keep=job.keep,
            orphans="drop" if plan.private else job.orphans, unit=None if generator.promises else inputs.unit,
            seed=child_seed(job.seed, "fit", label), progress=progress, budget=budget,
        )  # fmt: skip
    work.add_warnings([f"generators.{label}: {each.message}" for each in said if each.category is UserWarning])
    seconds["fit"] = time.perf_counter() - started
    model.save(work.model(label))
    started = time.perf_counter()
    with console.stage(f"sample {label}") as progress:
        drawn = model.sample(job.generators[label].rows, seed=child_seed(job.seed, "sample", label), progress=progress)
        folder.mkdir(parents=True)
        for name, frame in drawn.items():
            path = folder / f"{name}{_suffix(plan, name)}"
            if name in plan.kept:  # all columns, those too that no model knows
                _copy(plan.places[name].address, path)
            else:
                write_table(frame, path, plan.schemas[name])
    seconds["sample"] = time.perf_counter() - started
    written = _written(plan, folder)
    of_tables, sides_of_tables = dict[str, str](), {}
    for name, why in reals.unmeasured.items():
        work.add_warnings([f"{name} is not measured, so that nothing passes: {why}"])
    for name, real in reals.reals.items():
        rows = reals.rows(written, name)
        if len(rows) < MIN_SYNTHETIC_ROWS:
            work.add_warnings([f"{name} of {label} is not measured, so that it cannot pass: it has {len(rows)} rows"])
            continue
        with console.stage(f"evaluate {name} of {label}") as progress:
            evaluation = evaluate_beside(
                real, {label: rows}, measures=job.evaluation.measures, time_limit_s=job.evaluation.time_limit_s,
                progress=progress, statements={} if model.statement is None else {label: model.statement},
                generators={label: GeneratorRecord.of(generator.name, generator.parameters())},
                self_tested=label == next(iter(job.points)),
            )  # fmt: skip
        (candidate,) = evaluation.candidates
        candidate = replace(candidate, seconds={**seconds, **candidate.seconds})
        if label in plan.releases and job.evaluation.audit:
            with console.stage(f"audit {name} of {label}") as progress:
                candidate = _audited(plan, label, name, candidate, progress)
        of_tables[name] = replace(evaluation, candidates=(candidate,)).to_json()
        sides_of_tables[name] = real.beside(rows)
    with console.stage(f"units of {label}"):
        is_asked = job.evaluation.measures is None or "privacy.membership" in job.evaluation.measures
        found = _attacked(sides_of_tables, inputs.entity) if is_asked else ()
        related = Related(
            valid_keys(written, inputs.keys),
            real_keys([sides.train, sides.holdout], written, inputs.keys, _drawn(plan)),
            compared(sides_of_tables, reals.sources), found,
            {name: len(frame) for name, frame in written.items()},
        )  # fmt: skip
    with whole_file(work.measured(label)) as beside:
        content = {"tables": of_tables, "related": TypeAdapter(Related).dump_json(related).decode()}
        beside.write_text(json.dumps(content), encoding="utf-8")


def _drawn(plan: RelatedPlan) -> dict[str, Schema]:
    return {name: schema for name, schema in plan.schemas.items() if name not in plan.kept}


def _suffix(plan: RelatedPlan, name: str) -> str:
    return plan.places[name].suffix or ".parquet"


def _copy(address: str, path: Path) -> None:
    """A public table as it is."""
    rows = Table.of(address).frame()
    rows.to_csv(path, index=False) if path.suffix == ".csv" else rows.to_parquet(path, index=False)


def _written(plan: RelatedPlan, folder: Path) -> dict[str, pd.DataFrame]:
    """The synthetic tables as they were written."""
    places = {name: folder / f"{name}{_suffix(plan, name)}" for name in plan.places}
    return {name: clamp(Table.of(place), plan.schemas[name])[0] for name, place in places.items()}


def _audited(plan: RelatedPlan, label: str, name: str, candidate: Candidate, progress: Any) -> Candidate:
    """The candidate with the audit of its table's fit, at the epsilon which that has alone. No real row is read."""
    chosen, alone = plan.chosen[label].get(name), plan.releases[label]
    if chosen is None or plan.walk is None:  # nothing of this table is learned
        return candidate
    claimed: Any = unwrapped(chosen).model_copy(update={"epsilon": alone.alone(name).epsilon})
    schema, limit = plan.walk.schemas[name], plan.inputs.job.evaluation.time_limit_s
    if isinstance(chosen, BelowOthers):
        schema = without_known(schema, chosen.known)
    seed = child_seed(plan.inputs.job.seed, "audit", label, name)
    found = stages.audit_claim(candidate, lambda: (claimed, schema), seed=seed, time_limit_s=limit, progress=progress)
    if found.audit is None:
        return found
    return replace(found, audit=replace(found.audit, not_covered=(*found.audit.not_covered, OTHER_FITS)))


def _attacked(sides: Mapping[str, Any], entity: str) -> tuple[Estimate, ...]:
    n = min(int(tables.control[entity].nunique()) for tables in sides.values())
    return tuple(
        Estimate(measure, value, n, "lower", low=low, high=high, note="Of whole units, over all their rows.")
        for measure, (value, low, high) in zip(ATTACKS, unit_attack(sides, entity).values(), strict=True)
    )


def _judged(plan: RelatedPlan, work: RunWorkspace, sides: Sides) -> RelatedOutcome:
    """The evaluation of each table with all candidates, and the verdicts."""
    inputs, job = plan.inputs, plan.inputs.job
    measured = {label: json.loads(work.measured(label).read_text(encoding="utf-8")) for label in job.points}
    related = {label: TypeAdapter(Related).validate_json(each["related"]) for label, each in measured.items()}
    evaluations = dict[str, Evaluation]()
    for name in (n for n in inputs.keys.order if any(n in content["tables"] for content in measured.values())):
        each = {
            label: evaluation_from(content["tables"][name])
            for label, content in measured.items() if name in content["tables"]
        }  # fmt: skip
        first = next(iter(each.values()))
        candidates = tuple(one for evaluation in each.values() for one in evaluation.candidates)
        said = [*plan.warnings, *work.warnings, *given_away(replace(first, candidates=candidates))]
        said += [f"{c.name}: {sentence}" for c in candidates for sentence in stages.disproved(c)]
        known = Provenance(
            job=f"{plan.title}: {name}",
            release=job.release,
            split=f"keyed hash, seed {job.split_seed}",
            warnings=tuple(dict.fromkeys(said)),
            ledger=releases({candidate.name: candidate.statement for candidate in candidates}),
            composed=plan.composed,
            attempts=provenance.count_attempt(
                sides.prints[name]["table"], first.schema, attempt=work.attempt, n_tables=len(candidates)
            ),
            run_id=work.attempt,
            evaluated_at=work.began_at,
            seed=job.seed,
            fingerprints=sides.prints[name],
            files_sha256={
                f"{SYNTHETIC}/{path.parent.name}/{path.name}": provenance.sha256(path)
                for path in sorted((work.result / SYNTHETIC).glob(f"*/{name}{_suffix(plan, name)}"))
            },
        )
        files = {**inputs.files, "schema": inputs.files[f"{name}.schema"]}
        evaluations[name] = replace(first, candidates=candidates, provenance=provenance.with_inputs(known, files))
    verdicts = {name: judge(each, [inputs.policy], waivers=inputs.waivers) for name, each in evaluations.items()}
    together = tuple(_together(plan, label, evaluations, verdicts, related[label]) for label in job.points)
    return RelatedOutcome(plan, evaluations, verdicts, related, together)


def _together(
    plan: RelatedPlan,
    label: str,
    evaluations: Mapping[str, Evaluation],
    verdicts: Mapping[str, tuple[Verdict, ...]],
    related: Related,
) -> Verdict:
    """One verdict on all tables of a candidate: the worst of each table's, of whole units' and of keys'."""
    inputs = plan.inputs
    of_all = [(name, own) for name, each in verdicts.items() if (own := _of(each, label)) is not None]
    measured = {name for name, _ in of_all}
    if (of_units := _of_units(plan, label, evaluations, related)) is not None:
        of_all.append(("whole units", of_units))
    findings = [replace(f, reason=f"{name}: {f.reason}") for name, each in of_all for f in each.findings]
    checks = [replace(c, reason=f"{name}: {c.reason}") for name, each in of_all for c in each.checks]
    outcomes: set[Outcome] = {each.verdict for _, each in of_all}
    for key, share in related.keys.items():
        valid: Outcome = "PASS" if share == 1 else "FAIL"
        findings.append(Finding(KEYS_RULE, valid, f"{key}: {share:.2%} of its rows are valid."))
        outcomes.add(valid)
    for key, share in related.real_keys.items():
        made: Outcome = "FAIL" if share else "PASS"
        findings.append(Finding(REAL_RULE, made, f"{key}: {share:.2%} of its values are real, beyond chance."))
        outcomes.add(made)
    for name in (n for n in inputs.keys.order if n not in inputs.job.keep and n not in measured):
        why = f"{name}: it is not below {inputs.unit}, so that nothing of it was measured; set keep where it is public."
        why = f"{name}: it has too few rows to be measured." if name in inputs.measured else why
        findings.append(Finding(UNMEASURED_RULE, "INCONCLUSIVE", why))
        outcomes.add("INCONCLUSIVE")
    worst: Outcome = next(each for each in ("FAIL", "INCONCLUSIVE", "PASS") if each in outcomes)
    policy = inputs.policy
    return Verdict(label, policy.name, policy.version, policy.audience, worst, tuple(findings), tuple(checks))


def _of_units(plan: RelatedPlan, label: str, evaluations: Mapping[str, Evaluation], related: Related) -> Verdict | None:
    """The verdict of the policy's rules on membership, on whole units; `None` where it has none, or none was asked."""
    measured, top = {each.measure for each in related.attack}, evaluations[plan.inputs.unit]
    rules = tuple(rule for rule in plan.inputs.policy.rules if rule.measure in measured and not rule.subject)
    if not rules:
        return None
    own = next(each for each in top.candidates if each.name == label)
    claims = claims_of(top, own)
    policy = plan.inputs.policy.model_copy(update={"rules": rules})
    candidate = Candidate(label, related.attack, statement=own.statement)
    return judge_candidate(
        candidate, policy, waivers=plan.inputs.waivers, limit=proven_limit(top, own, claims), claims=claims,
        real=top.real,
    )  # fmt: skip


def _write(outcome: RelatedOutcome, folder: Path, signer: "Signer | None") -> None:
    """The evidence of all tables, sealed as one."""
    plan, job = outcome.plan, outcome.plan.inputs.job
    handing, seeds = Handing(job.card, job.split.holdout_share), {"job": job.seed, "split": job.split_seed}
    deliveries = dict[str, Delivery]()
    for name, evaluation in outcome.evaluations.items():
        labels = [candidate.name for candidate in evaluation.candidates]
        tables = {label: Path("../..") / SYNTHETIC / label / f"{name}{_suffix(plan, name)}" for label in labels}
        title = f"{plan.title}: {name}"
        deliveries[name] = Delivery(
            evaluation, outcome.verdicts[name], plan.inputs.policy, title, job.release, tables, handing
        )
        (folder / TABLES / name).mkdir(parents=True)
        deliver(deliveries[name], folder / TABLES / name)
    for name, file in plan.inputs.files.items():
        with whole_file(folder / f"{name}.toml") as beside:
            beside.write_bytes(file.content)
    whole = replace(deliveries[plan.inputs.unit], verdicts=outcome.together, title=plan.title)
    about, public = about_of(whole, seeds), None
    if job.release is not None:
        public = _hand_on(outcome, deliveries, folder)
        seal_public(folder / TO_HAND_ON, about, signer)
    write_verdict(whole, folder, public)
    with whole_file(folder / RESULT) as beside:
        beside.write_text(json.dumps(outcome.content(), indent=1, ensure_ascii=False), encoding="utf-8")
    write_page(outcome, folder / "report.html")
    seal(folder, about, signer)


def _hand_on(outcome: RelatedOutcome, deliveries: Mapping[str, Delivery], folder: Path) -> Outcome | None:
    """The tables to release as they are, each with its own report and card; the worst of what these say."""
    plan, outcomes = outcome.plan, set[Outcome | None]()
    for name, schema in plan.schemas.items():
        source = folder / SYNTHETIC / str(plan.inputs.job.release) / f"{name}{_suffix(plan, name)}"
        public = folder / TO_HAND_ON / name
        public.mkdir(parents=True)
        if name not in deliveries or deliveries[name].released is None:
            shutil.copyfile(source, public / source.name)
            continue
        shown = without(schema, hidden_columns(plan.inputs.keys, name)) or schema
        file = folder / f"{name}.schema.toml"
        outcomes.add(write_public_table(deliveries[name], source, public, schema, shown, file))
    return next((each for each in ("FAIL", "INCONCLUSIVE", "PASS") if each in outcomes), None)


def run(
    job: Path, folder: Path, console: "Console", signer: "Signer | None", *, is_named: bool, yes: bool, **options: Any
) -> int:
    from understudy.cli.jobs import ask_to_spend, planned

    plan = make_plan(job, folder, **options)
    if not is_named:
        console.say(*plan_lines(plan))
    console.warn(*plan.warnings)
    if not is_named:
        return planned(job, folder, console)
    ask_to_spend(plan.in_vain, yes=yes)
    outcome = run_related(plan, console, signer)
    for label in plan.inputs.job.points:
        rows = [
            (label, name, f"{n:,}", outcome.verdict_of(name, label)) for name, n in outcome.related[label].rows.items()
        ]
        console.table(("candidate", "table", "rows", "verdict"), rows)
    for label in plan.inputs.job.points:
        for key, share in outcome.related[label].keys.items():
            if share < 1:
                console.warn(f"{label}: {key}: {share:.2%} of its rows are valid, so that the verdict is FAIL")
    if (release := plan.inputs.job.release) is not None:
        verdict = outcome.verdict(release)
        console.say(f"{release}: {verdict.verdict} under policy {verdict.policy}, the worst of all tables")
    console.say(f"Report: {folder / 'report.html'}")
    console.result({**outcome.content(), "out": str(folder)})
    return outcome.exit_code


KIND = JobKind(run, read_related, RelatedJob)
