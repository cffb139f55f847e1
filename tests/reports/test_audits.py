"""An audit in the report: below the claim it is no praise, above it nobody can miss it, damaged it is not passed by."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from evaluate.audit_result import MEASURE, TOO_WEAK, Audit, AuditCheck, AuditPart
from evaluate.gate.verdict import Verdict
from evaluate.result import Candidate, Evaluation, Failure
from evaluate.result_io import evaluation_from
from reports import render_html
from reports.audits import DISPROVED, NOT_DISPROVED, audit_note
from reports.glossary import reading
from reports.sections.limitations import AUDIT_FAILED, LEFT_OUT, NOT_AUDITED, limits_of
from tests.evaluations import altered, conclude

WITHIN = conclude((1.0, 1e-6), (430, 440), 960, 0.99, ran_on="a public stand-in")
BEYOND = conclude((1.0, 1e-6), (100, 110), 960, 0.99, ran_on="a public stand-in")


CHECKED = replace(
    WITHIN,
    checks=(
        AuditCheck("choices of column pairs", "250 choices", power=1.0),
        AuditCheck("split into train and holdout", "6 tables", "any row that changes sides"),
    ),
    covered=("choices of column pairs",),
    not_covered=("bounds of column 'age'", "columns of text"),
)
SAYS = (
    "Where it is weakest, it would have shown half the noise in 10 of 10 such audits.",
    "Split into train and holdout: no fault found. Looked at: 6 tables. "
    "It would have shown any row that changes sides.",
    "It does not look at: bounds of column &#39;age&#39;; columns of text.",
)
STEPS, COUNTS = (
    AuditPart(
        what=what, bound=bound, distribution_free=free, strongest=strongest, n_trials=n, false_positives=wrong_in,
        false_negatives=wrong_out, ran_on=ran_on,
    )
    for what, bound, free, strongest, n, wrong_in, wrong_out, ran_on in (
        ("steps of DP-SGD", 0.62, 0.2, 30.0, 20_000, (0.46, 0.45, 0.47), (0.45, 0.44, 0.46), "1,000 steps"),
        ("one-way histograms", 0.1, 0.0, 36.0, 5_120, (0.49, 0.47, 0.51), (0.5, 0.48, 0.52), "160 fits"),
    )
)  # fmt: skip
IN_PARTS = Audit.of_parts((1.0, 1e-6), (STEPS, COUNTS), 0.99)


def with_audit(evaluation: Evaluation, audit: Audit) -> Evaluation:
    estimates = (*evaluation.candidates[0].estimates, audit.estimate)
    first = replace(evaluation.candidates[0], audit=audit, estimates=estimates)
    return replace(evaluation, candidates=(first, *evaluation.candidates[1:]))


def cover(page: str) -> str:
    return page[: page.index("Side by side")]


def test_a_bound_below_the_claim_is_shown_beside_the_statement_without_praise(evaluation: Evaluation) -> None:
    page = render_html(with_audit(evaluation, WITHIN))
    note = audit_note(with_audit(evaluation, WITHIN).candidates[0])
    assert note is not None
    assert not note.alarms
    assert f"lower bound {note.bound}, claim 1 at delta 1e\u22126, 99% confidence, on a public stand-in." in page
    assert "it is no evidence that the claim is true" in page
    assert "The audit speaks against" not in page
    assert "disputed" not in page


def test_an_audit_that_finds_nothing_says_what_it_would_have_shown_and_what_it_did_not_look_at(
    evaluation: Evaluation,
) -> None:
    page = render_html(with_audit(evaluation, CHECKED))
    assert "no fault found; lower bound" in page
    for said in SAYS:
        assert said in page
    note = audit_note(with_audit(evaluation, CHECKED).candidates[0])
    assert note is not None
    assert note.short == "would have shown half the noise in 10 of 10 such audits"
    assert "columns of text" in limits_of(replace(evaluation.candidates[0], audit=CHECKED)).power[-1]
    assert "half the noise would have shown in 10 of 10 such audits" in (CHECKED.estimate.note or "")
    assert altered(CHECKED, {}) == CHECKED


def test_a_fault_that_a_check_found_is_named_in_the_verdict(evaluation: Evaluation) -> None:
    fault = replace(CHECKED.checks[1], fault="<i>rows of others move", bound=9.0)
    found = replace(CHECKED, bound=9.0, checks=(CHECKED.checks[0], fault))
    page = render_html(with_audit(evaluation, found))
    assert "The audit speaks against the privacy statement." in cover(page)
    assert "rows of others move." in cover(page)
    assert "FAULT: &lt;i&gt;rows of others move" in page
    assert "<i>rows" not in page
    assert "Where it is weakest" not in page
    many = replace(found, checks=(fault,) * 50, not_covered=("x" * 500,) * 500)
    page = render_html(with_audit(evaluation, many))
    assert page.count("FAULT: ") == 8
    assert "x" * 250 not in page


@pytest.mark.parametrize(
    "damage",
    [
        {"checks": [{"what": "x"}]}, {"checks": 3},
        {"checks": [{"what": "x", "looked_at": "y", "power": 2.0}]},
        {"not_covered": "abc"}, {"covered": [1]},
    ],
)  # fmt: skip
def test_power_and_scope_that_cannot_be_read_are_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        altered(CHECKED, damage)


def test_an_audit_in_parts_says_what_each_found(evaluation: Evaluation) -> None:
    page = render_html(with_audit(evaluation, IN_PARTS))
    note = audit_note(with_audit(evaluation, IN_PARTS).candidates[0])
    assert note is not None
    assert note.bound == "0.620"
    assert "Audit of one training run and the counts before it: no fault found; lower bound 0.620, claim 1" in page
    assert "Steps of DP-SGD: lower bound 0.620, on 1,000 steps. In 20,000 trials" in page
    assert "One-way histograms: lower bound 0.100, on 160 fits. In 5,120 trials" in page
    assert "Each part had its share of the error" in page
    beyond = Audit.of_parts((0.5, 1e-6), (STEPS, COUNTS), 0.99)
    assert "The audit speaks against" in cover(render_html(with_audit(evaluation, beyond)))
    many = replace(IN_PARTS, parts=(replace(STEPS, what="<b>" + "x" * 500, ran_on="y" * 900),) * 50)
    page = render_html(with_audit(evaluation, many))
    assert "<b>xx" not in page
    assert "y" * 250 not in page
    assert page.count("In 20,000 trials") == 4


def test_a_bound_above_the_claim_is_in_the_verdict_whatever_the_policy(
    evaluation: Evaluation, verdicts_of: Any
) -> None:
    audited = with_audit(evaluation, BEYOND)
    for verdicts in ((), verdicts_of(audited), verdicts_of(audited, "public")):
        page = render_html(audited, verdicts=verdicts)
        assert "The audit speaks against the privacy statement." in cover(page)
        assert "the privacy statement is false" in cover(page)
        assert "disputed by its audit" in cover(page)
        assert verdicts == () or "FAIL</b>" in cover(page)


def test_the_rule_that_fails_says_what_that_means(evaluation: Evaluation, verdicts_of: Any) -> None:
    audited = with_audit(evaluation, BEYOND)
    for policy in ("internal", "partner", "public"):
        ruled: tuple[Verdict, ...] = verdicts_of(audited, policy)
        assert ruled[0].verdict == "FAIL"
        (finding,) = (f for f in ruled[0].findings if f.rule.measure == MEASURE)
        assert finding.outcome == "FAIL"
        assert finding.rule.severity == "fail"
        assert reading(finding.estimate) == DISPROVED
        assert not any(f.rule.measure == MEASURE for v in ruled[1:] for f in v.findings)
    assert reading(WITHIN.estimate) == NOT_DISPROVED


@pytest.mark.parametrize(
    "damage", [{"bound": "three"}, {"bound": float("nan")}, {"false_positives": None}, {"n_trials": {}}]
)
def test_an_audit_that_cannot_be_read_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        altered(WITHIN, damage)


def test_what_an_audit_says_of_itself_is_escaped(evaluation: Evaluation) -> None:
    hostile = replace(WITHIN, ran_on="<script>alert(1)</script>" + "x" * 1_000)
    page = render_html(with_audit(evaluation, hostile))
    assert "<script>alert(1)" not in page
    assert "x" * 250 not in page


def test_the_limits_say_what_an_audit_leaves_out(evaluation: Evaluation) -> None:
    private: Candidate = evaluation.candidates[0]
    assert NOT_AUDITED in limits_of(private).power
    audited = limits_of(replace(private, audit=WITHIN)).power
    assert LEFT_OUT in audited
    assert NOT_AUDITED not in audited
    assert not {NOT_AUDITED, LEFT_OUT} & set(limits_of(evaluation.candidates[1]).power)


def test_an_audit_that_failed_is_told_from_one_that_was_not_asked_for(evaluation: Evaluation) -> None:
    private = evaluation.candidates[0]
    failure = Failure(MEASURE, "failed", "there was nothing to audit")
    tried = replace(private, failures=(*private.failures, failure))
    said = limits_of(tried).power
    assert AUDIT_FAILED in said
    assert not {NOT_AUDITED, LEFT_OUT} & set(said)
    page = render_html(replace(evaluation, candidates=(tried, *evaluation.candidates[1:])))
    assert "audit failed" in page
    assert "not audited" not in page
    assert "audit failed" not in render_html(evaluation)


def test_evaluations_with_and_without_an_audit_are_read_back(evaluation: Evaluation) -> None:
    audited = with_audit(evaluation, WITHIN)
    again = evaluation_from(audited.to_json())
    assert again.candidates[0].audit == WITHIN
    assert all(one.audit is None for one in evaluation_from(evaluation.to_json()).candidates)


def test_an_audit_of_reports_speaks_of_answers_and_not_of_noise_on_counts(evaluation: Evaluation) -> None:
    of_reports = replace(
        WITHIN, delta=0.0, attacked="reports", ran_on="a public stand-in of 9 respondents",
        checks=(AuditCheck("reports to each question", "15 questions", power=0.95),),
    )  # fmt: skip
    page = render_html(with_audit(evaluation, of_reports))
    assert "Audit of the reports of respondents: no fault found; lower bound" in page
    assert "Without the assumption that each answer of a respondent is randomized on its own" in page
    assert "canaries for" not in page and "Gaussian, the bound" not in page
    weak = (replace(of_reports.checks[0], power=0.89),)
    assert replace(of_reports, checks=weak).verdict == replace(of_reports, checks=()).verdict == TOO_WEAK
    note = audit_note(with_audit(evaluation, replace(of_reports, bound=2.0)).candidates[0])
    assert note is not None and note.alarms
    assert note.reading.startswith("Reports tell more of their respondents than was claimed")
