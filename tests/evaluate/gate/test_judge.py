"""Policies judge the claim of all that counts with a table, the one that its card quotes, and say which that is."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from evaluate.gate.finding import Finding
from evaluate.gate.policy import build_policy
from evaluate.gate.verdict import judge
from evaluate.result import Candidate, Estimate, Evaluation
from reports.model_card.card import CardFacts, public_card
from reports.model_card.render import card_content
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent
from synth.dp.schedule import Schedule
from synth.dp.statement import PrivacyStatement
from tests.evaluations import ABSENT, SCHEMA, evaluation_of, schema_of, stated

OWN = stated()
RUN = {"epsilon": 1.5, "delta": 1e-6, "n_fits": 3}
PUBLISHED = {"table": "a", "together": stated(epsilon=1.06), "n_fits": 1, "every": RUN}
RULE = {"measure": "statement.epsilon", "limit": 1.2, "why": "w"}
RULES = {"name": "house", "version": 1, "audience": "us"}
POLICY = build_policy({**RULES, "rules": [RULE]})


def of(*names: str, **provenance: Any) -> Evaluation:
    tables = tuple(Candidate(name, (), statement=OWN) for name in names)
    return evaluation_of(*tables, self_tests=ABSENT, split="keyed hash, seed 1", **provenance)


def judged(evaluation: Evaluation) -> dict[str, tuple[str, float]]:
    verdicts = judge(evaluation, [POLICY])
    return {v.candidate: (v.verdict, v.findings[0].estimate.value) for v in verdicts if v.findings[0].estimate}


@pytest.mark.parametrize(
    ("provenance", "expected"),
    [
        ({"release": "a", "composed": RUN}, {"a": ("PASS", 1.0), "b": ("FAIL", 1.5)}),
        ({"release": "b", "composed": RUN}, {"a": ("FAIL", 1.5), "b": ("PASS", 1.0)}),
        ({"release": None, "composed": RUN}, {"a": ("FAIL", 1.5), "b": ("FAIL", 1.5)}),
        ({"release": "a", "composed": RUN, "released_numbers": PUBLISHED}, {"a": ("PASS", 1.06), "b": ("FAIL", 1.5)}),
        ({"release": None}, {"a": ("FAIL", 2.0), "b": ("FAIL", 2.0)}),
    ],
)
def test_a_rule_judges_the_claim_that_the_card_of_the_table_quotes(
    provenance: dict[str, Any], expected: dict[str, tuple[str, float]]
) -> None:
    evaluation = of("a", "b", **provenance)
    assert judged(evaluation) == expected
    for name, (_, epsilon) in expected.items():
        card = public_card(evaluation, name, CardFacts(date(2026, 1, 2)))
        assert card_content(card)["privacy"]["epsilon"] == epsilon


FIT = Schedule((GaussianEvent("counts", 12.0, count=9),), 1e-6)
STATED = Budget(FIT).statement(SCHEMA)
AUC = "privacy.membership.auc"
BY_EVENTS, BY_CLAIM = FIT.trade_off.area, FIT.trade_off.of_claim(FIT.epsilon, FIT.delta).area


def attacked(limit: float, statement: PrivacyStatement | None, entity: str | None = None, **provenance: Any) -> Finding:
    """A rule on a membership attack that found nothing certain, on a table that says what it promises."""
    unsure = Estimate(AUC, 0.5, 100, "lower", low=0.1, high=0.99)
    known = {"split": "keyed hash, seed 1", "release": "a", **provenance}
    built = evaluation_of(Candidate("a", (unsure,), statement=statement), self_tests=ABSENT, **known)
    built = replace(built, schema=schema_of(entity=entity, n_units=900))
    policy = build_policy({**RULES, "rules": [{"measure": AUC, "limit": limit, "why": "w"}]})
    return judge(built, [policy])[0].findings[0]


@pytest.mark.parametrize(
    ("changed", "entity", "provenance"),
    [({"private": False}, None, {}), ({}, "patient", {}), ({}, None, {"split": None})],
    ids=["void", "each row of a patient, and patients are attacked", "what somebody else claims"],
)
def test_nothing_is_proved_where_no_guarantee_covers_those_who_are_attacked(
    changed: dict[str, Any], entity: str | None, provenance: dict[str, Any]
) -> None:
    assert attacked(0.98, replace(STATED, **changed), entity, **provenance).outcome == "INCONCLUSIVE"
    assert attacked(0.98, None).outcome == "INCONCLUSIVE"


@pytest.mark.parametrize("entity", [None, "patient"])
def test_a_unit_of_several_rows_covers_them_and_itself(entity: str | None) -> None:
    result = attacked(0.98, replace(STATED, unit="patient"), entity)
    assert (result.outcome, result.proven) == ("PASS", BY_EVENTS)


def test_of_books_that_do_not_come_to_the_claim_the_claim_alone_counts() -> None:
    for limit, outcome in ((BY_EVENTS + 0.01, "INCONCLUSIVE"), (BY_CLAIM + 1e-6, "PASS")):
        short = (replace(STATED.events[0], count=1),)
        assert attacked(limit, replace(STATED, events=short)).outcome == outcome
    composed = {"epsilon": 2 * FIT.epsilon, "delta": FIT.delta, "n_fits": 2}
    assert attacked(BY_CLAIM, STATED, release=None, composed=composed).outcome == "INCONCLUSIVE"
