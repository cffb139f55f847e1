"""Policies judge the claim of all that counts with a table, the one that its card quotes, and say which that is."""

from datetime import date
from typing import Any

import pytest

from evaluate.policy import build_policy
from evaluate.result import Candidate, Evaluation, SelfTest
from reports import render_html
from reports.model_card import CardFacts, card_content, public_card
from synth.dp.statement import EventRecord, PrivacyStatement
from understudy.verdicts import verdicts_on

OWN = PrivacyStatement(
    epsilon=1.0, delta=1e-6, unit="row", n_units=900, accountant="PLD", epsilon_rdp=1.1,
    events=(EventRecord("counts", "Gaussian", {"sigma": 9.0, "sensitivity": 1, "whole": True}, 1, 0.01),),
).to_dict()  # fmt: skip
RUN = {"epsilon": 1.5, "delta": 1e-6, "n_fits": 3}
PUBLISHED = {"table": "a", "together": {**OWN, "epsilon": 1.06}, "n_fits": 1, "every": RUN}
RULE = {"measure": "statement.epsilon", "limit": 1.2, "why": "w"}
POLICY = build_policy({"name": "house", "version": 1, "audience": "us", "rules": [RULE]})
ABSENT = tuple(SelfTest(case, absent="It says nothing here.") for case in ("honest", "copy", "shuffled"))


def of(*names: str, **provenance: Any) -> Evaluation:
    tables = tuple(Candidate(name, (), statement=OWN) for name in names)
    schema = {"status": "declared", "columns": {}}
    return Evaluation(tables, {}, schema, {"sweep": None, "split": "keyed hash, seed 1", **provenance}, ABSENT)


def judged(evaluation: Evaluation) -> dict[str, tuple[str, float]]:
    verdicts = verdicts_on(evaluation, [POLICY])
    return {v.candidate: (v.verdict, v.findings[0].estimate.value) for v in verdicts if v.findings[0].estimate}


@pytest.mark.parametrize(
    ("provenance", "expected"),
    [
        ({"release": "a", "composed": RUN}, {"a": ("PASS", 1.0), "b": ("FAIL", 1.5)}),
        ({"release": "b", "composed": RUN}, {"a": ("FAIL", 1.5), "b": ("PASS", 1.0)}),
        ({"release": None, "composed": RUN}, {"a": ("FAIL", 1.5), "b": ("FAIL", 1.5)}),
        ({"release": "a", "composed": RUN, "public_report": PUBLISHED}, {"a": ("PASS", 1.06), "b": ("FAIL", 1.5)}),
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
    evaluation = of("a", "b", release="a", composed=RUN, public_report=PUBLISHED)
    verdicts = verdicts_on(evaluation, [POLICY])
    page = " ".join(render_html(evaluation, verdicts=verdicts, release="a").split())
    for said in (
        "Epsilon 1.06 at delta 1e\u22126 is that of the table and the numbers published about it; this fit alone",
        "Whoever has the table and the numbers has both.",
        "Epsilon 1.5 at delta 1e\u22126 is that of all 3 private releases that its run drew; this fit alone claims",
        "No job named it for release before anything was drawn, and whoever picks one of several has looked at all.",
    ):
        assert page.count(said) >= 2, "in the policy's table, and in the statement"
    alone = of("a", release="a", composed=None)
    assert "this fit alone claims" not in render_html(alone, verdicts=verdicts_on(alone, [POLICY]), release="a")
