"""A claim has one text wherever it is quoted: three digits, rounded up, so that it is never understated."""

import json
import re
from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from evaluate.audit_result import MEASURE, Audit
from evaluate.gate.policy import build_policy
from evaluate.gate.verdict import judge
from evaluate.provenance import LedgerStanding
from evaluate.result import Evaluation
from evaluate.text import loss, typed_loss
from reports import render_html
from reports.exports.junit import render_junit
from reports.exports.summary import to_summary
from reports.model_card.card import CardFacts, internal_card, public_card
from reports.model_card.render import to_markdown
from reports.public.facts import public_facts
from reports.public.page import render_public
from synth.dp.statement import IN_LEDGER
from synth.schema import build_schema
from synth.usage_terms import Terms
from tests.evaluations import altered, stated
from tests.reports.conftest import sample_evaluation
from understudy.batch.result import JobOutcome
from understudy.batch.summary import rows_of
from understudy.budget.account import release_line
from understudy.run.preflight import of_publication

EXACT, ALONE, SHOWN = 0.8083544281560413, 0.799580464471311, "0.809"
NEAREST = re.compile(r"0\.808(?!354)|0\.8084|0\.80835\b")
POLICY = build_policy({"name": "p", "version": 1, "audience": "anyone", "rules": [
    {"measure": "statement.epsilon", "limit": 3.0, "why": "A strong promise."}]})  # fmt: skip
SCHEMA = build_schema({"status": "declared", "n_units": 900, "columns": {"x": {"kind": "boolean"}}})
FACTS = CardFacts(date(2026, 11, 22), Terms(), "mst.csv", 2, 1, 0.2)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    """A run whose one private table has numbers published about it."""
    found = sample_evaluation()
    first = found.candidates[0]
    fit, alone, both = (
        altered(first.statement, {"epsilon": epsilon, "events": stated(epsilon=epsilon).to_dict()["events"]})
        for epsilon in (ALONE, 0.1, EXACT)
    )
    published = {"statement": alone, "together": both}
    known = altered(found.provenance, {
        "release": "mst", "sweep": None, "released_numbers": published,
        "composed": {"epsilon": EXACT, "delta": 1e-6, "n_fits": 2},
    })  # fmt: skip
    return replace(found, candidates=(replace(first, statement=fit, audit=None),), provenance=known)


def _said(page: str) -> str:
    """The parts of a report that speak of epsilon: all else is full of numbers."""
    head, _, rest = page.partition('id="weakest"')
    return head.partition("<main>")[2] + rest.partition('id="guarantee"')[2].partition('id="comparison"')[0]


def quoted(evaluation: Evaluation) -> dict[str, str]:
    """Every place that people read, by name."""
    verdicts = judge(evaluation, [POLICY])
    facts = public_facts(
        evaluation, "mst", policy=POLICY, schema=SCHEMA, synthetic=pd.DataFrame({"x": [True, False]}), title="t"
    )
    noted = LedgerStanding(
        "d", "row", reserved_epsilon={"mst": EXACT}, spent_epsilon=1.7913, left_epsilon=1.2087, total_epsilon=3.0,
        total_delta=1e-6,
    )  # fmt: skip
    return {
        "report": _said(render_html(evaluation, verdicts=verdicts, release="mst")),
        "summary": to_summary(evaluation, verdicts, release="mst"),
        "junit": render_junit(verdicts),
        "report to hand on": render_public(facts),
        "card": to_markdown(internal_card(evaluation, "mst", FACTS, verdicts)),
        "card to hand on": to_markdown(public_card(evaluation, "mst", FACTS)),
        "warning": of_publication("mst", cast("Any", SimpleNamespace(epsilon=EXACT, delta=1e-6))),
        "ledger line": release_line(noted),
    }


def test_every_place_quotes_the_claim_with_the_same_digits(evaluation: Evaluation) -> None:
    for place, text in quoted(evaluation).items():
        visible = re.sub(r'title="[^"]*"', "", text)
        assert SHOWN in visible, place
        assert not NEAREST.search(visible), place
    outcome = JobOutcome("a", "passed", epsilon=EXACT)
    assert SHOWN in rows_of([outcome])[0]
    places = quoted(evaluation)
    assert f"1.2 of 3 is left, at delta 1e-6. {IN_LEDGER}" in places["ledger line"]


@pytest.mark.parametrize("epsilon", [EXACT, 0.8, 1.0001, 9.994, 12.34, 0.0123456])
def test_a_console_writes_what_a_page_writes(epsilon: float) -> None:
    assert typed_loss(epsilon) == loss(epsilon)
    assert float(loss(epsilon)) >= epsilon


def audited(evaluation: Evaluation, bound: float) -> Evaluation:
    never = (0.4, 0.3, 0.5)
    audit = Audit(
        epsilon=ALONE, delta=1e-6, bound=bound, distribution_free=0.1, strongest=30.0, confidence=0.99, n_trials=900,
        false_positives=never, false_negatives=never, ran_on="a public stand-in of 5 columns",
    )  # fmt: skip
    first = evaluation.candidates[0]
    estimates = (*(one for one in first.estimates if one.measure != MEASURE), audit.estimate)
    return replace(evaluation, candidates=(replace(first, estimates=estimates, audit=audit),))


def test_bound_claim_and_excess_add_up_where_a_claim_is_disproved(evaluation: Evaluation) -> None:
    policy = build_policy({**POLICY.model_dump(), "rules": [
        {"measure": "privacy.audit.excess", "limit": 0.0, "why": "The claim is not disproved."}]})  # fmt: skip
    disputed = audited(evaluation, 0.8867)
    verdicts = judge(disputed, [policy])
    facts = public_facts(
        disputed, "mst", policy=policy, schema=SCHEMA, synthetic=pd.DataFrame({"x": [True]}), title="t"
    )
    for page in (render_html(disputed, verdicts=verdicts, release="mst"), render_public(facts)):
        assert "lower bound 0.886, claim 0.800 at delta 1e\u22126, exceeded by 0.086" in page
        assert "0.087" not in re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert "| Audited epsilon beyond the claim | \u2264 0 | 0.086 | a bound |" in to_summary(disputed, verdicts)


def test_a_claim_that_an_audit_disproves_passes_no_rule(evaluation: Evaluation) -> None:
    for bound, outcome in ((0.2, "PASS"), (0.9, "INCONCLUSIVE")):
        found = audited(evaluation, bound)
        alone = replace(found, provenance=altered(found.provenance, {"released_numbers": None, "composed": None}))
        for one in (found, alone):
            (verdict,) = judge(one, [POLICY])
            assert [finding.outcome for finding in verdict.findings] == [outcome]
            assert ("An audit disproves" in json.dumps(verdict.to_dict())) == (outcome == "INCONCLUSIVE")
