"""What a claim comes to, as reports say it: of one fit, of several, of none that holds, and of nonsense."""

import math
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from evaluate.gate.claim import claims_of
from evaluate.gate.protection import Protection, protection_of, standing_protection
from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError
from evaluate.text import at_most
from reports import render_html
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent
from synth.dp.schedule import Schedule
from synth.dp.tradeoff import TradeOff
from synth.schema import build_schema
from tests.evaluations import altered, conclude, evaluation_of

SCHEMA = build_schema({"status": "declared", "n_units": 5000, "columns": {"a": {"kind": "boolean"}}})
ONE, TWO = (Schedule((GaussianEvent(name, sigma, count=4),), 1e-6) for name, sigma in (("one", 12.0), ("two", 20.0)))
BOTH = Schedule((*ONE.events, *TWO.events), 1e-6)


def fitted(*schedules: Schedule, **known: Any) -> Evaluation:
    candidates = tuple(
        Candidate(f"table {i}", (), statement=Budget(schedule).statement(SCHEMA))
        for i, schedule in enumerate(schedules)
    )
    return replace(evaluation_of(*candidates, split="keyed hash", **known), schema=SCHEMA)


def protection(evaluation: Evaluation) -> Protection:
    candidate = evaluation.candidates[0]
    claims = claims_of(evaluation, candidate)
    assert claims is not None
    return protection_of(evaluation, candidate, claims)


def test_a_fit_alone_has_the_limit_and_the_groups_of_its_own_events() -> None:
    found = protection(fitted(ONE))
    assert found.by_events
    assert dict(found.groups) == ONE.groups
    assert found.limit == ONE.trade_off
    for (rate, most), by_claim in zip(found.detections, (0.001, 0.01, 0.1), strict=True):
        assert rate < most < found.by_claim.detections(by_claim)


def test_several_fits_have_those_of_all_their_events_where_a_run_composed_them() -> None:
    composed = {"epsilon": BOTH.epsilon, "delta": 1e-6, "n_fits": 2}
    found = protection(fitted(ONE, TWO, composed=composed))
    assert found.epsilon == BOTH.epsilon
    assert dict(found.groups) == BOTH.groups
    assert found.limit == BOTH.trade_off


@pytest.mark.parametrize(
    "known",
    [{}, {"composed": {"epsilon": 2 * BOTH.epsilon, "delta": 1e-6, "n_fits": 2}},
     {"composed": {"epsilon": BOTH.epsilon, "delta": 1e-6, "n_fits": 3}}],
    ids=["added up", "another claim", "one is missing"],
)  # fmt: skip
def test_a_claim_whose_events_are_not_all_known_has_the_limit_of_epsilon_and_delta(known: dict[str, Any]) -> None:
    found = protection(fitted(ONE, TWO, **known))
    assert not found.by_events
    assert found.limit == found.by_claim == TradeOff.of_claim(found.epsilon, found.delta)
    assert "their epsilon grows faster than their number" in found.together("row")


def test_books_that_cost_more_than_is_claimed_are_damage() -> None:
    evaluation = fitted(ONE)
    first = evaluation.candidates[0]
    liar = replace(first, statement=altered(first.statement, {"epsilon": ONE.epsilon / 2}))
    with pytest.raises(EvaluationError, match="its own events cost"):
        protection(replace(evaluation, candidates=(liar,)))


@pytest.mark.parametrize(
    "bad", [None, "much", [1], [{}], [{"mechanism": "Gaussian", "noise": {"sigma": -1}}]], ids=repr
)
def test_nonsense_in_the_books_is_refused(bad: Any) -> None:
    with pytest.raises(ValidationError):
        altered(fitted(ONE).candidates[0].statement, {"events": bad})


def test_sentences_name_what_the_accountant_says() -> None:
    found = Protection(1.0, 1e-6, TradeOff.of_claim(1.0, 1e-6), ((2, 2.118), (5, 5.9), (10, math.inf)))
    assert found.together("row") == (
        "Epsilon of several rows together, at the same delta: two 2.12, five 5.9; for ten there is no bound. "
        "That of two also limits what shows of one answer of one."
    )
    flagged, guessed = found.tests("patient")
    assert "wrongly flags 1% of the units of privacy (patient)" in flagged and "at most 2.8%" in flagged
    assert "right in at most 73.2% of cases" in guessed
    said = " ".join(found.definition("row", "this table"))
    assert "at most 2.72 times what it is without one row, plus delta, one in 1,000,000" in said
    assert "It is not the chance that the factor is exceeded" in said


def test_no_limit_is_drawn_of_a_claim_that_does_not_stand(evaluation: Evaluation) -> None:
    first, *others = evaluation.candidates
    against = conclude((0.9987, 1e-6), (4, 4), 960, 0.99, ran_on="a public stand-in")
    void = altered(first.statement, {"private": False})
    assert 'class="limited"' in render_html(evaluation)
    for changed in (
        replace(evaluation, candidates=(replace(first, statement=void), *others)),
        replace(evaluation, candidates=(replace(first, audit=against), *others)),
        replace(evaluation, provenance=altered(evaluation.provenance, {"split": None})),
    ):
        claims = claims_of(changed, changed.candidates[0])
        assert standing_protection(changed, changed.candidates[0], claims) is None
        assert 'class="limited"' not in render_html(changed)


def test_attacks_stand_beside_their_limit_in_the_internal_report(evaluation: Evaluation) -> None:
    first, *others = evaluation.candidates
    found = Estimate("privacy.membership.tpr_at_0.01", 0.02, 400, "lower", low=0.01, high=0.04, reference=0.01)
    estimates = (*(one for one in first.estimates if one.measure != found.measure), found)
    page = render_html(replace(evaluation, candidates=(replace(first, estimates=estimates), *others)))
    claims = claims_of(evaluation, first)
    assert claims is not None
    most = at_most(protection_of(evaluation, first, claims).limit.detections(0.01))
    rows = page.split("<caption>What attacks found, and the limit</caption>")[1].split("</table>")[0].split("<tr>")[2:]
    assert len(rows) == 2
    assert f'2.0%<small>1.0% to 4.0%</small></td><td class="n">{most}</td>' in rows[-1]
    assert "no test gets here" not in page
