"""The numbers of a report to hand on, released once under a budget of their own, and what may stand beside them.

What a run releases is on the disk before anything shows it: the noisy values in a journal, the finished numbers in the
workspace. A start that goes on from there draws nothing again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from evaluate.provenance import ComposedClaim, PublishedNumbers, Released
from evaluate.result import Evaluation
from reports.public.facts import Publication, PublicFacts
from reports.public.page import write_public_html
from synth.dp.budget import Budget
from synth.dp.schedule import Schedule
from synth.dp.statement import PrivacyStatement
from synth.errors import BudgetError
from synth.output import read_state, whole_file
from synth.progress import Progress
from synth.schema import Schema
from synth.split import Split
from synth.table import read_table
from understudy.run.candidates import candidate_of
from understudy.run.plan import PUBLICATION, Plan
from understudy.run.workspace import RunWorkspace

REPORT, NUMBERS = "report-to-hand-on.html", "released.json"
NOTICE = (
    "Public: every number here was released under a budget of its own; the statements say which, how and at what cost. "
    "Price them anew with `understudy ledger show --release released.json --candidate NAME`."
)
ALONE, BOTH = "published numbers", "the table and the published numbers"
"""Names of the statements that have no label."""


def release_numbers(plan: Plan, work: RunWorkspace, sides: Split, table: Path, progress: Progress) -> None:
    """The released numbers drawn and kept, once whatever cuts the run short. *Sensitive*: `sides`."""
    from evaluate.dp_release import release_numbers as released

    if work.measured(PUBLICATION).exists():
        return
    schema = plan.job.evaluation.aim(plan.schema)
    with plan.payment(work).budget(PUBLICATION) as budget:
        if budget is None:
            raise BudgetError("numbers are released under a budget only; set released_numbers.epsilon")
        numbers = released(sides, read_table(table), schema, budget, progress)
        statement = budget.statement(plan.schema)
    content = {"statement": statement.to_dict(), "numbers": [asdict(number) for number in numbers]}
    with whole_file(work.measured(PUBLICATION)) as beside:
        beside.write_text(json.dumps(content), encoding="utf-8")


def _kept(work: RunWorkspace) -> dict[str, Any]:
    kept: dict[str, Any] = read_state(work.measured(PUBLICATION), {})
    return kept


def statement_of(work: RunWorkspace) -> PrivacyStatement:
    return PrivacyStatement.from_dict(_kept(work)["statement"])


def publication(plan: Plan, work: RunWorkspace) -> PublishedNumbers | None:
    """The releases for the report to hand on, with all that counts with them; `None` where there are none."""
    if plan.publication is None or plan.together is None or plan.job.release is None:
        return None
    fit, own = candidate_of(work, plan.job.release).statement, statement_of(work)
    fits = plan.schedules if plan.job.is_sweep else {plan.job.release: plan.schedules[plan.job.release]}
    both = _together({**fits, PUBLICATION: plan.publication}, plan.together, plan.schema)
    try:
        numbers = TypeAdapter(tuple[Released, ...]).validate_json(json.dumps(_kept(work)["numbers"]))
    except ValueError:
        raise BudgetError("a published number is damaged; run the job anew (what was drawn stays spent)") from None
    together = replace(both, private=fit is not None and fit.private and own.private)
    return PublishedNumbers(plan.job.release, numbers, own, together, len(fits), plan.everything)


def _together(schedules: Mapping[str, Schedule], claim: ComposedClaim, schema: Schema) -> PrivacyStatement:
    events = tuple(event for schedule in schedules.values() for event in schedule.events)
    return Budget(Schedule(events, claim.delta)).statement(schema)


def with_numbers(evaluation: Evaluation, published: PublishedNumbers | None) -> Evaluation:
    if published is None:
        return evaluation
    estimates = tuple(number.estimate for number in published.numbers)
    candidates = (
        replace(candidate, estimates=(*candidate.estimates, *estimates))
        if candidate.name == published.table
        else candidate
        for candidate in evaluation.candidates
    )
    provenance = replace(evaluation.provenance, released_numbers=published)
    return replace(evaluation, candidates=tuple(candidates), provenance=provenance)


def write_public(facts: PublicFacts, folder: Path) -> None:
    """`report-to-hand-on.html`, and `released.json` where numbers were released; each file whole or not there."""
    write_public_html(facts, folder / REPORT)
    if facts.publication is not None:
        with whole_file(folder / NUMBERS) as beside:
            beside.write_text(released_json(facts, facts.publication), encoding="utf-8")


def _shown(statement: PrivacyStatement | None) -> dict[str, Any] | None:
    """A statement as plain data, without the names of what stays inside."""
    if statement is None:
        return None
    content = statement.to_dict()
    if content["ledger"] is not None:
        content["ledger"] = {name: value for name, value in content["ledger"].items() if value is not None}
    return content


def released_json(facts: PublicFacts, published: Publication) -> str:
    """The published numbers with the statements that anyone prices anew, as JSON text."""
    statements = {facts.table: facts.statement, ALONE: published.statement, BOTH: published.together}
    content = {
        "notice": NOTICE,
        "table": facts.table,
        "numbers": [asdict(number) for number in published.numbers],
        "candidates": [{"name": name, "statement": _shown(statement)} for name, statement in statements.items()],
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
