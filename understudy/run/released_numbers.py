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

from evaluate.provenance import ComposedClaim, PublishedNumbers
from evaluate.released import Released
from evaluate.result import Evaluation
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
