"""Policies judge the claim of all that counts with a table, the one that its card quotes, and say which that is."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from evaluate.gate.finding import Finding
from evaluate.gate.policy import build_policy
from evaluate.gate.verdict import judge
from evaluate.result import Candidate, Estimate, Evaluation
from reports import render_html
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


def test_a_table_alone_is_judged_by_its_own_claim() -> None:
    assert judged(of("a", release=None, composed=None)) == {"a": ("PASS", 1.0)}


def test_the_number_judged_is_shown_with_why_it_is_not_that_of_the_fit() -> None:
    evaluation = of("a", "b", release="a", composed=RUN, released_numbers=PUBLISHED)
    verdicts = judge(evaluation, [POLICY])
    page = " ".join(render_html(evaluation, verdicts=verdicts, release="a").split())
    for said in (
        "Epsilon 1.06 at delta 1e\u22126 is that of the table and the numbers published about it; this fit alone",
        "Whoever has the table and the numbers has both.",
        "Epsilon 1.5 at delta 1e\u22126 is that of all 3 private releases that its run drew; this fit alone claims",
        "No job named it for release before anything was drawn, and whoever picks one of several has looked at all.",
    ):
        assert page.count(said) >= 2, "in the policy's table, and in the statement"
    alone = of("a", release="a", composed=None)
    assert "this fit alone claims" not in render_html(alone, verdicts=judge(alone, [POLICY]), release="a")


FIT = Schedule((GaussianEvent("counts", 12.0, count=9),), 1e-6)
STATED = Budget(FIT).statement(SCHEMA)
AUC = "privacy.membership.auc"
BY_EVENTS, BY_CLAIM = FIT.trade_off.area, FIT.trade_off.of_claim(FIT.epsilon, FIT.delta).area


def attacked(limit: float, statement: PrivacyStatement | None, entity: str | None = None, **provenance: Any) -> Finding:
    """A rule on a membership attack that found nothing certain, on a table that says what it promises."""
    unsure = Estimate(AUC, 0.5, 100, "lower", low=0.1, high=0.99)
    known = {"split": "keyed hash, seed 1", "release": "a", **provenance}
    made = evaluation_of(Candidate("a", (unsure,), statement=statement), self_tests=ABSENT, **known)
    made = replace(made, schema=schema_of(entity=entity, n_units=900))
    policy = build_policy({**RULES, "rules": [{"measure": AUC, "limit": limit, "why": "w"}]})
    return judge(made, [policy])[0].findings[0]


def test_what_the_events_of_a_claim_prove_passes_by_proof() -> None:
    assert BY_EVENTS + 0.05 < BY_CLAIM
    found = attacked(BY_EVENTS + 1e-6, STATED)
    assert (found.outcome, found.proven) == ("PASS", BY_EVENTS)
    assert attacked(BY_EVENTS - 1e-6, STATED).outcome == "INCONCLUSIVE"


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
    found = attacked(0.98, replace(STATED, unit="patient"), entity)
    assert (found.outcome, found.proven) == ("PASS", BY_EVENTS)


def test_of_books_that_do_not_come_to_the_claim_the_claim_alone_counts() -> None:
    for limit, outcome in ((BY_EVENTS + 0.01, "INCONCLUSIVE"), (BY_CLAIM + 1e-6, "PASS")):
        short = (replace(STATED.events[0], count=1),)
        assert attacked(limit, replace(STATED, events=short)).outcome == outcome
    composed = {"epsilon": 2 * FIT.epsilon, "delta": FIT.delta, "n_fits": 2}
    assert attacked(BY_CLAIM, STATED, release=None, composed=composed).outcome == "INCONCLUSIVE"
