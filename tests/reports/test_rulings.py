"""What an officer reads first: the words, the end of the interval that decided, waivers, and self-tests that fail."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date

import pytest

from evaluate.gate.checks import Check
from evaluate.gate.finding import Finding, Outcome
from evaluate.gate.policy import Policy, Rule, Waiver
from evaluate.gate.spoiled_cases import TITLES
from evaluate.gate.verdict import Verdict, judge_candidate
from evaluate.result import Candidate, Estimate, Evaluation, SelfTest
from reports import render_html
from reports.sections.verdicts import bound_of, ruling_of, self_checks
from tests.evaluations import altered, evaluation_of

LOWER = Rule(measure="privacy.membership.auc", limit=0.6, why="because")
HIGHER = Rule(measure="validity.rows", limit=0.6, why="because")


def found(rule: Rule, outcome: Outcome, low: float | None = 0.5, high: float | None = 0.7) -> Finding:
    return Finding(rule, outcome, "So it is.", Estimate(rule.measure, 0.6, 9, rule.direction, low=low, high=high))


@pytest.mark.parametrize(
    ("rule", "outcome", "kind", "value", "favorable"),
    [
        (LOWER, "PASS", "upper end", 0.7, False),
        (LOWER, "INCONCLUSIVE", "upper end", 0.7, False),
        (LOWER, "FAIL", "lower end", 0.5, True),
        (HIGHER, "PASS", "lower end", 0.5, False),
        (HIGHER, "INCONCLUSIVE", "lower end", 0.5, False),
        (HIGHER, "FAIL", "upper end", 0.7, True),
    ],
)
def test_the_bound_is_the_end_of_the_interval_that_decided(
    rule: Rule, outcome: Outcome, kind: str, value: float, favorable: bool
) -> None:
    bound = bound_of(found(rule, outcome))
    assert bound is not None
    assert (bound.kind, bound.value, bound.favorable) == (kind, value, favorable)


def test_a_claim_and_a_number_without_an_interval_have_no_end() -> None:
    claim = Rule(measure="statement.epsilon", limit=1.0, why="because")
    bound = bound_of(found(claim, "PASS", None, None))
    assert bound is not None
    assert bound.kind == "claim"
    assert bound_of(found(LOWER, "INCONCLUSIVE", None, None)) is None
    assert bound_of(Finding(LOWER, "INCONCLUSIVE", "It was not run.")) is None


def judged(until: date, *, severity: str = "fail") -> tuple[Verdict, Evaluation]:
    """A table that breaks one rule, with a waiver until a day; it is judged on the first of June."""
    table = Candidate("t", (Estimate("validity.rows", 0.5, 9, "higher", low=0.4, high=0.55),))
    rules = (HIGHER.model_copy(update={"severity": severity}),)
    policy = Policy(name="p", version=2, audience="partners", rules=rules)
    waiver = Waiver(
        policy="p", version=2, candidate="t", measure="validity.rows", owner="Ada", reason="a <b>pilot</b>", until=until
    )
    verdict = judge_candidate(table, policy, waivers=[waiver], today=date(2026, 6, 1))
    return verdict, evaluation_of(table)


def test_a_waiver_in_force_is_counted_and_said_with_who_why_and_until_when() -> None:
    verdict, evaluation = judged(date(2026, 12, 31))
    ruling = ruling_of(verdict)
    assert len(ruling.waived) == 1
    assert ruling.lapsed == ()
    page = render_html(evaluation, verdicts=[verdict])
    assert "with 1 waiver</b>." in page
    row = page.split('id="policy"')[1].split('id="weakest"')[0]
    assert "<b>Waived</b>" in row
    assert "by <bdi>Ada</bdi> until 2026-12-31: a &lt;b&gt;pilot&lt;/b&gt;" in row
    assert "<s>" not in row


def test_a_waiver_that_ended_is_struck_and_said_so() -> None:
    verdict, evaluation = judged(date(2026, 5, 31))
    assert len(ruling_of(verdict).lapsed) == 1
    page = render_html(evaluation, verdicts=[verdict])
    assert "1 waiver does <b>not count</b>." in page
    assert "<s>by <bdi>Ada</bdi> until 2026-05-31" in page
    assert "with 1 waiver" not in page
    assert "FAIL: <small>for <bdi>" in page


def test_the_verdict_stands_in_one_line_with_its_audience_and_its_policy() -> None:
    verdict, evaluation = judged(date(2026, 5, 31))
    page = render_html(evaluation, verdicts=[verdict])
    assert ": <small>for <bdi>partners</bdi></small></span>" in page
    assert "under policy <b><bdi>p</bdi></b>, version 2" in page


def test_every_verdict_names_its_audience_its_policy_and_the_lack_of_a_guarantee(
    evaluation: Evaluation, verdicts_of: Callable[..., tuple[Verdict, ...]]
) -> None:
    first = evaluation.candidates[0]
    void = replace(first, name="void", statement=altered(first.statement, {"private": False}))
    known = altered(evaluation.provenance, {"release": first.name})
    several = replace(evaluation, candidates=(*evaluation.candidates, void), provenance=known)
    verdicts = verdicts_of(several)
    page = render_html(several, verdicts=verdicts, release=first.name)
    cover, policy = page.split('id="weakest"')[0], page.split('id="policy"')[1].split('id="guarantee"')[0]
    lines = re.findall('<p class="word .*?<p class="line">.*?</p>', cover, re.DOTALL)
    summaries = re.findall('<p class="judged".*?</p>', policy, re.DOTALL)
    assert len(lines) == len(summaries) == len(verdicts) == 4
    for said in (*lines, *summaries):
        for name in (verdicts[0].audience, verdicts[0].policy):
            assert f"<bdi>{name}</bdi>" in said
        assert f"version {verdicts[0].version}" in said
    for listed in (lines, summaries):
        assert ["no formal guarantee" in said for said in listed] == [False, True, True, True]
        assert "its privacy statement is void" in listed[3]
    # A table that was picked from what holds a void fit is void with it.
    picked = replace(several, provenance=replace(known, release=None))
    cover = render_html(picked, verdicts=verdicts_of(picked)).split('id="weakest"')[0]
    assert cover.count("its privacy statement is void") == cover.count("<b>void</b>") == 2
    unverified = replace(evaluation, provenance=altered(evaluation.provenance, {"split": None}))
    assert "its privacy statement is unverified" in render_html(unverified, verdicts=verdicts_of(unverified))


def test_a_warning_that_fails_does_not_look_like_a_binding_rule_that_fails() -> None:
    def shown(severity: str) -> tuple[str, str]:
        verdict, evaluation = judged(date(2026, 5, 31), severity=severity)
        page = render_html(evaluation, verdicts=[verdict])
        weakest, policy = page.split('id="weakest"')[1].split('id="policy"')
        return policy.split('id="guarantee"')[0], weakest.split("</ol>")[0]

    for binding in shown("fail"):
        assert '<span class="badge fail">' in binding
        assert "i-fail" in binding
        assert "WARNING" not in binding
    for warning in shown("warn"):
        assert '<span class="badge warn">' in warning
        assert "#i-warn" in warning
        assert "WARNING</span>" in warning
        assert "FAIL" in warning
        assert "changes no verdict" in warning
        assert "badge fail" not in warning


def test_self_tests_that_did_not_come_out_are_said_beside_the_verdict_and_told_in_the_limits() -> None:
    verdict, evaluation = judged(date(2026, 12, 31))
    checks = (Check("honest", "came out", "Fine."), Check("copy", "did not come out", "A copy passed."))
    verdict = replace(verdict, checks=checks)
    page = render_html(evaluation, verdicts=[verdict])
    cover, rest = page.split('id="policy"')
    assert "1 of 2 self-tests did not come out" in cover
    limits = rest.split('id="self-tests"')[1]
    assert TITLES["copy"] in limits
    assert "A copy passed." in limits
    assert [check.case for check in ruling_of(verdict).broken] == ["copy"]


def test_a_self_test_that_says_nothing_here_says_why_also_without_a_policy() -> None:
    evaluation = evaluation_of(self_tests=(SelfTest("shuffled", None, "It has one column."),))
    (test,) = self_checks(evaluation, ())
    assert (test.case, test.checks, test.absent) == ("shuffled", (), "It has one column.")
    assert "It has one column." in render_html(evaluation)
    assert "No self-test was run" in render_html(replace(evaluation, self_tests=()))


def test_waived_reasons_come_last(evaluation: Evaluation, verdicts_of: Callable[..., tuple[Verdict, ...]]) -> None:
    verdict = verdicts_of(evaluation, "public")[1]
    worst = ruling_of(verdict).reasons[0]
    findings = tuple(replace(f, waived=f.rule == worst.rule) for f in verdict.findings)
    assert worst.rule not in [f.rule for f in ruling_of(replace(verdict, findings=findings)).reasons[:1]]


def test_the_bound_column_holds_numbers(
    evaluation: Evaluation, verdicts_of: Callable[..., tuple[Verdict, ...]]
) -> None:
    page = render_html(evaluation, verdicts=verdicts_of(evaluation))
    cells = re.findall(r'data-label="95% bound">(.*?)</td>', page, re.DOTALL)
    assert len(cells) > 40
    shown = [re.sub(r"<small>.*?</small>|<[^>]*>", "", cell).strip() for cell in cells]
    assert [one for one in shown if not re.fullmatch(r"&mdash;|\u2212?[\d.,e\u2212]+%?", one)] == []
