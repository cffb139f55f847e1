"""Claims held against their own books: an edit that claims less than the events cost is refused, never judged."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from evaluate.gate.policy import build_policy
from evaluate.gate.verdict import Verdict, judge
from evaluate.result import Candidate, EvaluationError
from evaluate.result_io import evaluation_from
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, RandomizedResponseEvent
from synth.dp.schedule import Schedule
from synth.dp.statement import LedgerNote
from tests.evaluations import ABSENT, SCHEMA, evaluation_of, swept

FITS = {name: Schedule((GaussianEvent(name, sigma, count=4),), 1e-6) for name, sigma in (("a", 12.0), ("b", 20.0))}
NUMBERS = Schedule((GaussianEvent("numbers", 50.0),), 1e-6)
NOTE = LedgerNote("people", "row", "token", "entry", 1.0, 1.0, 3.0, 1e-6)
POLICY = build_policy({"name": "house", "version": 1, "audience": "us", "rules": [
    {"measure": "statement.epsilon", "limit": 0.1, "why": "w"},
    {"measure": "privacy.membership.auc", "limit": 0.51, "why": "w"},
]})  # fmt: skip


def cost_of(*schedules: Schedule) -> float:
    return Schedule(tuple(event for each in schedules for event in each.events), 1e-6).epsilon


def content(*, sweep: bool = False, numbers: bool = False) -> dict[str, Any]:
    """The file of two private fits, as a run writes it: with its sweep, or with numbers about the first of them."""
    tables = tuple(
        Candidate(name, (), statement=replace(Budget(each).statement(SCHEMA), ledger=NOTE))
        for name, each in FITS.items()
    )
    fits = {"epsilon": cost_of(*FITS.values()), "delta": 1e-6, "n_fits": 2}
    every = {"epsilon": cost_of(*FITS.values(), NUMBERS), "delta": 1e-6, "n_fits": 3} if numbers else fits
    both = Schedule((*FITS["a"].events, *NUMBERS.events), 1e-6)
    known = {
        "release": "a", "split": "keyed hash, seed 1", "composed": every,
        "sweep": swept({"releasable": True, "composed": fits}, *FITS) if sweep else None,
        "ledger": {"reserved_epsilon": dict.fromkeys((*FITS, "published numbers") if numbers else FITS, 1.0)},
        "released_numbers": {
            "table": "a", "statement": Budget(NUMBERS).statement(SCHEMA), "together": Budget(both).statement(SCHEMA),
            "every": every,
        } if numbers else None,
    }  # fmt: skip
    built: dict[str, Any] = json.loads(evaluation_of(*tables, self_tests=ABSENT, **known).to_json())
    return built


def judged(built: dict[str, Any]) -> tuple[Verdict, ...]:
    return judge(evaluation_from(json.dumps(built)), [POLICY])


@pytest.mark.parametrize("known", [{}, {"numbers": True}, {"sweep": True}])
def test_what_a_run_writes_is_judged_by_what_it_costs(known: dict[str, bool]) -> None:
    first, _ = judged(content(**known))
    assert [each.outcome for each in first.findings] == ["FAIL", "INCONCLUSIVE"]


Edit = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]
"""An edit of the first statement, of its first event, and of the provenance."""
SMALL = {"epsilon": 0.01, "epsilon_rdp": 0.01}

EDITS: dict[str, tuple[dict[str, bool], str, Edit]] = {
    "a smaller epsilon": ({}, "its own events cost", lambda stated, event, known: None),
    "no events": ({}, "no event", lambda stated, event, known: stated.update(events=[])),
    "an unknown relation": ({}, "relation", lambda stated, event, known: stated.update(relation="some")),
    "an unknown mechanism": ({}, "no fit draws", lambda stated, event, known: event.update(mechanism="Magic")),
    "next to no noise": ({}, "no accountant", lambda stated, event, known: event["noise"].update(sigma=1e-200)),
    "a sample that takes more memory than there is": (
        {}, "no accountant", lambda stated, event, known: event.update(
            mechanism="Poisson-subsampled Gaussian", noise={"noise_multiplier": 1e-9, "sampling_rate": 1e-300}),
    ),
    **{f"{mechanism} that no accountant takes": (
        {}, "its own events cost", lambda stated, event, known, mechanism=mechanism, noise=noise: stated[
            "events"].append({**event, "mechanism": mechanism, "noise": noise}),
    ) for mechanism, noise in (
        ("Laplace", {"scale": 4e5}),
        ("Poisson-subsampled Gaussian", {"noise_multiplier": 4e5, "sampling_rate": 0.1}),
    )},
    "another line that no accountant takes": (
        {}, "its own events cost",
        lambda stated, event, known: stated["events"].append({**event, "noise": {**event["noise"], "sigma": 4e5}}),
    ),
    "a large delta": ({}, "larger delta", lambda stated, event, known: stated.update(delta=0.9)),
    "a large delta for one unit": (
        {}, "number of units", lambda stated, event, known: (stated.update(delta=0.09, n_units=1), known.update(
            composed={"epsilon": 0.1, "delta": 0.09, "n_fits": 2})),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("known", "clause", "edit"), EDITS.values(), ids=EDITS)
def test_a_statement_that_claims_less_than_its_events_cost_is_damage(known, clause, edit):
    built = content(**known)
    stated = built["candidates"][0]["statement"]
    stated.update(SMALL)
    edit(stated, stated["events"][0], built["provenance"])
    with pytest.raises(EvaluationError, match=f"damaged: .*{clause}"):
        judged(built)


ANSWERS = Schedule((RandomizedResponseEvent("answers", 0.5, count=2),), 0.0)


def local_content(*others: Schedule, claim: tuple[float, float] | None = None) -> dict[str, Any]:
    """The file of a local fit, and of others beside it."""
    schedules = {"a": ANSWERS, **{f"b{i}": each for i, each in enumerate(others)}}
    fits = tuple(Candidate(name, (), statement=Budget(each).statement(SCHEMA)) for name, each in schedules.items())
    events = tuple(event for each in schedules.values() for event in each.events)
    delta = max(each.delta for each in schedules.values())
    epsilon, delta = (Schedule(events, delta).epsilon, delta) if claim is None else claim
    known = {"composed": {"epsilon": epsilon, "delta": delta, "n_fits": len(fits)}} if others else {}
    built: dict[str, Any] = json.loads(
        evaluation_of(*fits, self_tests=ABSENT, release="a", split="keyed hash, seed 1", **known).to_json()
    )
    return built


@pytest.mark.parametrize("others", [(), (ANSWERS,), (FITS["a"],), (FITS["a"], ANSWERS)])
def test_a_local_claim_is_judged_by_the_pure_losses_of_its_answers(others: tuple[Schedule, ...]) -> None:
    built = local_content(*others)
    stated = built["candidates"][0]["statement"]
    assert (stated["epsilon"], stated["delta"], stated["trust"]) == (1.0, 0.0, "local")
    first = judged(built)[0]
    assert [each.outcome for each in first.findings] == ["FAIL", "INCONCLUSIVE"]


@pytest.mark.parametrize(
    ("edit", "clause"),
    [
        (lambda stated: stated.update(epsilon=0.9, epsilon_rdp=0.9), "its own events cost"),
        (lambda stated: stated["events"][0].update(count=3), "its own events cost"),
        (lambda stated: stated["events"][0]["noise"].update(epsilon=0.6), "its own events cost"),
        (
            lambda stated: stated["events"].append(
                content()["candidates"][0]["statement"]["events"][0]
            ),
            "no respondent randomizes",
        ),
        (lambda stated: stated.update(trust="curator", relation="zero-out", events=content()["candidates"][0][
            "statement"]["events"]), "its own events cost"),
    ],
)  # fmt: skip
def test_a_local_claim_of_less_than_its_answers_cost_is_damage(edit, clause):
    built = local_content()
    edit(built["candidates"][0]["statement"])
    with pytest.raises(EvaluationError, match=f"damaged: .*{clause}"):
        judged(built)


COMPOSED: dict[str, tuple[dict[str, bool], str, Callable[[dict[str, Any]], object]]] = {
    "fewer fits": ({}, "fewer", lambda known: known["composed"].update(n_fits=1)),
    "a smaller epsilon": ({}, "smaller epsilon", lambda known: known["composed"].update(epsilon=0.3)),
    "a smaller delta": ({}, "smaller delta", lambda known: known["composed"].update(delta=1e-9)),
    "a table with its numbers": (
        {"numbers": True}, "its own events cost", lambda known: known["released_numbers"]["together"].update(SMALL),
    ),
    "a table with its numbers, of which the events are left out": (
        {"numbers": True}, "smaller epsilon", lambda known: known["released_numbers"].update(
            together={**known["released_numbers"]["statement"], "epsilon": 0.2, "epsilon_rdp": 0.2}),
    ),
    "fits of a sweep that was taken out": (
        {"numbers": True}, "as of a sweep", lambda known: known["released_numbers"].update(n_fits=2),
    ),
    "numbers that were taken out": (
        {"numbers": True}, "not there", lambda known: known.update(released_numbers=None, composed=None),
    ),
    "a sweep without points": ({"sweep": True}, "no point", lambda known: known["sweep"].update(points=[])),
    "a sweep of fewer fits": (
        {"sweep": True}, "fewer", lambda known: known["sweep"]["composed"].update(epsilon=1e-9, n_fits=1),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("known", "clause", "edit"), COMPOSED.values(), ids=COMPOSED)
def test_a_claim_of_several_releases_that_no_run_writes_is_damage(known, clause, edit):
    built = content(**known)
    edit(built["provenance"])
    with pytest.raises(EvaluationError, match=f"damaged: .*{clause}"):
        judged(built)


@pytest.mark.parametrize("taken", ["the table", "its statement"])
def test_a_release_that_the_ledger_still_names_cannot_be_taken_out(taken: str) -> None:
    built = deepcopy(content())
    built["provenance"]["composed"] = None
    if taken == "the table":
        del built["candidates"][1]
    else:
        built["candidates"][1]["statement"] = None
    with pytest.raises(EvaluationError, match=r"damaged: .*not there"):
        judged(built)
