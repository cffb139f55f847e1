"""A run of two related tables: one of the parents, then one of their rows, and one folder of both.

::

    OUT/
        index.html      both tables with their verdicts and claims
        tables.json     what holds of both together, and the verdict: the worse of the two
        synthetic/LABEL/{parents,rows}.csv      the two tables as the real ones are, with keys that match
        parents/        the output of the parents' run: with their numbers of rows
        rows/           the output of the rows' run: with the columns of their parents

Each is an ordinary run, with its own evaluation, report and seal. Until both are done they are in a hidden folder, from
which the same command goes on. What is private is paid for before it is drawn, table by table.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluate.provenance import ComposedClaim
from evaluate.result_io import evaluation_from
from synth import extras
from synth.distribution import VERSION
from synth.errors import JobError
from synth.histories.relation import RELATED_TABLES, KeyMatch, Relation, TableRole
from synth.output import RUN, Unfinished, check_new_folder, hidden_beside, is_taken, sync_all, whole_file
from synth.table import read_table, write_table
from understudy import provenance
from understudy.artifacts import EVALUATION
from understudy.budget.payment import SPENT
from understudy.bundle.keys import Signer
from understudy.console import DONE, FAILED, VERDICTS, Console
from understudy.data.related import RelatedTables
from understudy.data.source import find_table
from understudy.job.related import read_related
from understudy.job.spec import RelatedJob
from understudy.run import candidates, stages
from understudy.run.plan import Plan, check_left, plan_of
from understudy.run.run import MODELS, RunOutcome
from understudy.run.run import run as carry_out_one
from understudy.run.workspace import OtherWork, tidy

TABLES = "tables.json"
WORST_FIRST = ("FAIL", "INCONCLUSIVE", "PASS")


@dataclass(frozen=True)
class RelatedPlan:
    """The plan of a run of two related tables."""

    job: RelatedJob
    relation: Relation
    tables: Mapping[TableRole, Plan]
    together: Mapping[str, ComposedClaim]
    out: Path
    restart: bool

    @property
    def title(self) -> str:
        """The headline of both."""
        return self.job.name or self.tables["parents"].job_path.stem


@dataclass(frozen=True)
class RelatedOutcome:
    """The outcome of a run of two related tables."""

    plan: RelatedPlan
    tables: Mapping[TableRole, RunOutcome]
    matches: Mapping[str, KeyMatch]

    def verdict(self, label: str) -> str:
        """The verdict on both tables of a candidate: the worse of the two, and FAIL where keys do not match."""
        if not self.matches[label].holds:
            return "FAIL"
        found = {one.verdict for outcome in self.tables.values() for one in outcome.verdicts if one.candidate == label}
        return next((verdict for verdict in WORST_FIRST if verdict in found), "FAIL")

    @property
    def exit_code(self) -> int:
        """0, or what the verdict on the tables to release says; a key that does not match is a FAIL of any table."""
        if self.plan.job.release is not None:
            return VERDICTS[self.verdict(self.plan.job.release)]
        return DONE if all(match.holds for match in self.matches.values()) else FAILED

    def content(self) -> dict[str, Any]:
        """Verdict, key match and composed epsilon of both tables, as plain data."""
        return {
            "title": self.plan.title,
            "key": self.plan.relation.key,
            "release": self.plan.job.release,
            "verdict": None if self.plan.job.release is None else self.verdict(self.plan.job.release),
            "exit_code": self.exit_code,
            "candidates": {label: self._of(label) for label in self.matches},
        }

    def _of(self, label: str) -> dict[str, Any]:
        claim, match = self.plan.together.get(label), self.matches[label]
        statements = {
            role: one.statement
            for role, outcome in self.tables.items()
            for one in outcome.evaluation.candidates
            if one.name == label
        }
        return {
            "verdict": self.verdict(label),
            "keys_matched": match.keys_matched,
            "keys_unique": match.is_unique,
            "counts_matched": match.counts_matched,
            "epsilon": None if claim is None else claim.epsilon,
            "delta": None if claim is None else claim.delta,
            "epsilon_of": {role: None if one is None else one.epsilon for role, one in statements.items()},
            "guarantee": "no formal guarantee" if claim is None else "of both tables together",
        }


def make_related_plan(
    job_path: Path, out: Path, *, restart: bool = False, workers: int | None = None, executor: str | None = None
) -> RelatedPlan:
    """A plan of two related tables, or the first thing that would go wrong. No row is read and nothing is written."""
    if executor is not None:
        raise JobError("two related tables are made on this machine, and --executor names a cluster; leave it out")
    inputs, home = read_related(job_path), job_path.parent
    tidy(out)
    check_new_folder(out)
    folder = _work(out).result
    places = {role: find_table(getattr(inputs.job.tables, role).path, home) for role in RELATED_TABLES}
    plans: dict[TableRole, Plan] = {}
    for role in RELATED_TABLES:
        drawn = folder / "parents" / candidates.SYNTHETIC
        plan = plan_of(inputs.tables[role], places[role], job_path, folder / role)
        job = plan.job.model_copy(update={"name": f"{inputs.job.name or job_path.stem}: {role}"})
        plans[role] = replace(
            plan,
            job=job,
            workers=workers or plan.workers,
            related=RelatedTables(inputs.relation, places["parents"], places["rows"], role, drawn),
        )
    parents, rows = (plans[role].schedules for role in RELATED_TABLES)
    plans = {
        "parents": replace(plans["parents"], related_schedules=rows),
        "rows": replace(plans["rows"], related_schedules=parents),
    }
    check_left([plan if not restart else replace(plan, restart=True) for plan in plans.values() if not _is_made(plan)])
    return RelatedPlan(inputs.job, inputs.relation, plans, inputs.together, out, restart)


def run_related(plan: RelatedPlan, console: Console, signer: Signer | None = None) -> RelatedOutcome:
    """Carry out a plan of two related tables, from where an earlier start of the same run was cut short."""
    work = _work(plan.out)
    busy = f"another run is at work on --out {str(plan.out)!r}; wait for it to end, or name another --out"
    with work.held(busy):
        try:
            check_new_folder(plan.out)
            _claim(work, plan)
            tables = {role: _one(plan, role, console, signer) for role in RELATED_TABLES}
            matches = {label: _write_pair(plan, label, work.result) for label in plan.tables["rows"].points}
            outcome = RelatedOutcome(plan, _at(tables, plan.out), matches)
            with whole_file(work.result / TABLES) as tmp_path:
                tmp_path.write_text(json.dumps(outcome.content(), indent=1, ensure_ascii=False), encoding="utf-8")
            for name, make_page in extras.load("index page").items():
                make_page(work.result, work.result / name)
            sync_all(work.result)
            work.publish()
        except OtherWork:
            raise
        except BaseException as error:
            if _is_worth_keeping(work):
                error.add_note(
                    "the unfinished work is kept: the same command goes on from there, and with --restart anew "
                    f"({SPENT})"
                )
            else:
                work.discard()
            raise
        work.discard()
    return outcome


def _work(out: Path) -> Unfinished:
    folder = hidden_beside(out, RUN)
    return Unfinished(folder, out, folder / "result")


def _is_made(plan: Plan) -> bool:
    """True where an earlier start has finished this table."""
    return not plan.restart and is_taken(plan.out)


def _is_worth_keeping(work: Unfinished) -> bool:
    return work.result.is_dir() and any(work.result.iterdir())


def _claim(work: Unfinished, plan: RelatedPlan) -> None:
    """Take up the work if it is this run's, or if there is none."""
    of_rows, of_parents = plan.tables["rows"], plan.tables["parents"]
    names = {
        **{name: of_rows.given[name].sha256 if name in of_rows.given else None for name in provenance.INPUTS},
        "schema of the parents": of_parents.given["schema"].sha256,
        "version of understudy": VERSION,
        "output": str(plan.out.parent.resolve() / plan.out.name),
        "ledger": None if of_rows.fund is None else of_rows.fund.place,
    }
    other = [name for name, known in work.state.items() if name in names and names[name] != known]
    if other and not plan.restart and _is_worth_keeping(work):
        raise OtherWork(
            f"unfinished work stands in the way of --out {str(plan.out)!r}, and it is of another "
            f"{' and another '.join(other)}; finish that with what it was begun with, name another --out, or add "
            f"--restart, which removes it ({SPENT})"
        )
    if plan.restart or other or not work.state:
        work.clear()
    work.result.mkdir(exist_ok=True)
    work.write_state({**work.state, **names})


def _one(both: RelatedPlan, role: TableRole, console: Console, signer: Signer | None) -> RunOutcome:
    """The outcome of one table's run; one that an earlier start finished is not run again."""
    plan, given = both.tables[role], both.job.tables
    if not is_taken(plan.out):
        return carry_out_one(plan, console, signer)
    with console.stage("split"):
        sides = stages.split(plan, stages.read(plan, _work(both.out).folder))
        prints = provenance.fingerprints(sides.train, sides.holdout, plan.schema, plan.key)
    evaluation = evaluation_from((plan.out / EVALUATION).read_text(encoding="utf-8"))
    if evaluation.provenance.fingerprints != prints:
        raise OtherWork(
            f"unfinished work stands in the way of --out {str(both.out)!r}, and it is of other tables than "
            f"tables.parents={given.parents.path!r} and tables.rows={given.rows.path!r}; finish that with what it was "
            f"begun with, name another --out, or add --restart, which removes it ({SPENT})"
        )
    unsaved = {label: "" for label in plan.points if not (plan.out / MODELS / label).is_dir()}
    return RunOutcome(plan, evaluation, stages.verdicts_of(plan, evaluation), unsaved)


def _write_pair(plan: RelatedPlan, label: str, folder: Path) -> KeyMatch:
    """Both synthetic tables of a candidate as the real ones are, and the match of their keys, as they were written."""
    relation = plan.relation
    parents, rows = (
        read_table(one.out / candidates.SYNTHETIC / f"{label}{one.suffix}", one.schema)
        for one in (plan.tables[role] for role in RELATED_TABLES)
    )
    place = folder / candidates.SYNTHETIC / label
    place.mkdir(parents=True, exist_ok=True)
    written = dict(zip(RELATED_TABLES, relation.split(parents, rows), strict=True))
    schemas = dict(zip(RELATED_TABLES, (relation.parent_schema, relation.child_schema), strict=True))
    for role in RELATED_TABLES:
        write_table(written[role], place / f"{role}{plan.tables[role].suffix}", schemas[role])
    again = read_table(place / f"rows{plan.tables['rows'].suffix}", relation.child_schema)
    keys = read_table(place / f"parents{plan.tables['parents'].suffix}", relation.parent_schema)
    return relation.matches(keys.assign(**{relation.count: parents[relation.count]}), again)


def _at(tables: Mapping[TableRole, RunOutcome], out: Path) -> dict[TableRole, RunOutcome]:
    """The outcomes, where their outputs will be."""
    return {role: replace(found, plan=replace(found.plan, out=out / role)) for role, found in tables.items()}
