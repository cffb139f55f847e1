"""What a claim comes to, as reports say it: of one fit, of several, and of none that holds."""

import math
from dataclasses import replace
from typing import Any

import pytest

from evaluate.gate.claim import Protection, claims_of, protection_of, standing_protection
from evaluate.result import Candidate, Evaluation, EvaluationError
from evaluate.text import at_most
from reports import render_html
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent
from synth.dp.schedule import Schedule, TradeOff
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


def test_a_claim_has_the_limit_and_the_groups_of_its_events_alone_or_as_a_run_composed_them() -> None:
    composed = {"epsilon": BOTH.epsilon, "delta": 1e-6, "n_fits": 2}
    for evaluation, schedule in ((fitted(ONE), ONE), (fitted(ONE, TWO, composed=composed), BOTH)):
        result = protection(evaluation)
        assert result.by_events
        assert result.epsilon == schedule.epsilon
        assert dict(result.groups) == schedule.groups
        assert result.limit == schedule.trade_off
        for (rate, most), by_claim in zip(result.detections, (0.001, 0.01, 0.1), strict=True):
            assert rate < most < result.by_claim.detections(by_claim)


@pytest.mark.parametrize(
    "known",
    [{}, {"composed": {"epsilon": 2 * BOTH.epsilon, "delta": 1e-6, "n_fits": 2}},
     {"composed": {"epsilon": BOTH.epsilon, "delta": 1e-6, "n_fits": 3}}],
    ids=["added up", "another claim", "one is missing"],
)  # fmt: skip
def test_a_claim_whose_events_are_not_all_known_has_the_limit_of_epsilon_and_delta(known: dict[str, Any]) -> None:
    result = protection(fitted(ONE, TWO, **known))
    assert not result.by_events
    assert result.limit == result.by_claim == TradeOff.of_claim(result.epsilon, result.delta)
    assert "their epsilon grows faster than their number" in result.together("row")


def test_books_that_cost_more_than_is_claimed_are_damage() -> None:
    evaluation = fitted(ONE)
    first = evaluation.candidates[0]
    liar = replace(first, statement=altered(first.statement, {"epsilon": ONE.epsilon / 2}))
    with pytest.raises(EvaluationError, match="its own events cost"):
        protection(replace(evaluation, candidates=(liar,)))


def test_sentences_name_what_the_accountant_says() -> None:
    claimed = Protection(1.0, 1e-6, TradeOff.of_claim(1.0, 1e-6), ((2, 2.118), (5, 5.9), (10, math.inf)))
    assert claimed.together("row") == (
        "Epsilon of several rows together, at the same delta: two 2.12, five 5.9; for ten there is no bound. "
        "That of two also limits what shows of one answer of one."
    )
    flagged, guessed = claimed.tests("patient")
    assert "wrongly flags 1% of the units of privacy (patient)" in flagged and "at most 2.8%" in flagged
    assert "right in at most 73.2% of cases" in guessed
    defined = " ".join(claimed.definition("row", "this table"))
    assert "at most 2.72 times what it is without one row, plus delta, one in 1,000,000" in defined
    huge = Protection(20.0, 1e-6, TradeOff.of_claim(20.0, 1e-6), ((2, math.inf),))
    assert "Epsilon is so large" in next(iter(huge.definition("row", "this table")))
    assert huge.together("row") == "Two rows together, or one answer of one, have no bound at this delta."


def test_attacks_stand_beside_the_limit_of_a_claim_that_stands_and_of_no_other(evaluation: Evaluation) -> None:
    first, *others = evaluation.candidates
    against = conclude((0.9987, 1e-6), (4, 4), 960, 0.99, ran_on="a public stand-in")
    void = altered(first.statement, {"private": False})
    claims = claims_of(evaluation, first)
    assert claims is not None
    most = at_most(protection_of(evaluation, first, claims).limit.detections(0.01))
    assert most in render_html(evaluation).split("<caption>What attacks found, and the limit</caption>")[1]
    for changed in (
        replace(evaluation, candidates=(replace(first, statement=void), *others)),
        replace(evaluation, candidates=(replace(first, audit=against), *others)),
        replace(evaluation, provenance=altered(evaluation.provenance, {"split": None})),
    ):
        claims = claims_of(changed, changed.candidates[0])
        assert standing_protection(changed, changed.candidates[0], claims) is None
        assert 'class="limited"' not in render_html(changed)
