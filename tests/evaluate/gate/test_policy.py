"""The gate as a truth table: every way an interval can lie against a limit, and every way a number can be missing."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evaluate.gate.decision import NEVER_WAIVED, Finding, finding_of
from evaluate.gate.policy import Policy, Rule, Waiver, build_policy, build_waivers, load_policy
from evaluate.gate.verdict import Verdict, judge, judge_candidate
from evaluate.intervals import Rate, clopper_pearson, newcombe, wilson
from evaluate.metrics import CATALOG, GATEABLE, UNJUDGED
from evaluate.real_facts import RealFacts
from evaluate.result import Candidate, Estimate, Failure
from synth.dp.schedule import TradeOff
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError
from tests.evaluations import ABSENT, evaluation_of, stated

SHIPPED = Path(__file__).parents[3] / "evaluate" / "policies"
NAMES = ("internal", "partner", "public")  # from the loosest to the strictest
AUC, VALID, AUDIT = "privacy.membership.auc", "validity.rows", "privacy.audit.excess"
RARE = "privacy.membership.tpr_at_0.001"
DESCRIBES = next(name for name, number in CATALOG.items() if not number.gateable)


def policy_of(*rules: Rule) -> Policy:
    return Policy(name="test", version=1, audience="nobody", rules=rules)


def rule(measure: str = AUC, limit: float = 0.6, **more: object) -> Rule:
    return Rule(measure=measure, limit=limit, why="because", **more)  # type: ignore[arg-type]


def estimate(low: float | None, value: float, high: float | None, measure: str = AUC, n: int = 1000) -> Estimate:
    direction = GATEABLE.get(measure, "none")
    return Estimate(measure, value, n, direction, low=low, high=high)


def candidate(*result: Estimate | Failure, statement: PrivacyStatement | None = None) -> Candidate:
    return Candidate(
        "c",
        estimates=tuple(f for f in result if isinstance(f, Estimate)),
        failures=tuple(f for f in result if isinstance(f, Failure)),
        statement=statement,
    )


@pytest.mark.parametrize(
    ("low", "value", "high", "expected", "n_needed"),
    [
        (-0.01, 0.00, 0.01, "PASS", None),
        (0.00, 0.02, 0.04, "PASS", None),  # the favorable end lies on the second limit
        (0.00, 0.02, 0.05, "PASS", None),
        (0.01, 0.02, 0.03, "FAIL", None),  # little, and proved
        (0.06, 0.07, 0.08, "FAIL", None),
        (-0.07, 0.00, 0.07, "INCONCLUSIVE", 1960),  # keeps both in the end: .07 has to shrink to .05
        (-0.04, 0.04, 0.12, "INCONCLUSIVE", 4000),  # FAIL at 4,000, PASS at 64,000
        (-0.01, 0.08, 0.17, "INCONCLUSIVE", 1270),  # FAIL alone
        (None, 0.04, None, "INCONCLUSIVE", None),
    ],
)
@pytest.mark.parametrize("measure", ["privacy.copies.excess", "utility.accuracy.released"])
def test_a_second_limit_fails_what_chance_does_not_explain(measure, low, value, high, expected, n_needed):
    sign = 1 if GATEABLE[measure] == "lower" else -1
    ends = [None if end is None else sign * end for end in (low, value, high)][::sign]
    result = candidate(estimate(ends[0], sign * value, ends[2], measure))
    finding = judge_candidate(result, policy_of(rule(measure, sign * 0.05, fails_beyond=0.0))).findings[0]
    assert (finding.outcome, finding.n_needed) == (expected, n_needed)
    alike, alone = (rule(measure, sign * 0.05, **more) for more in ({"fails_beyond": sign * 0.05}, {}))
    assert judge_candidate(result, policy_of(alike)).verdict == judge_candidate(result, policy_of(alone)).verdict


def test_a_rule_on_privacy_that_does_not_apply_to_a_table_passes_nothing() -> None:
    good = candidate(estimate(0.99, 1.0, 1.0, VALID))
    for measure in ("privacy.texts.copied", AUDIT):
        (verdict,) = judge(evaluation_of(good, self_tests=ABSENT), policy_of(rule(VALID, 0.9), rule(measure, 0.1)))
        assert verdict.verdict == "INCONCLUSIVE" and "no binding rule on privacy" in str(verdict)


@pytest.mark.parametrize(("needs", "covered"), [("texts", {"texts": ("note",)}), ("order", {"order": "visit"})])
def test_a_rule_on_what_is_not_installed_counts_where_a_table_has_what_it_needs_and_never_passes(needs, covered):
    policy = policy_of(rule(VALID, 0.9), rule("absent.number", 0.1, needs=needs))
    plain = RealFacts(100, 100, 0, 0.0, 5)
    for facts, outcomes in ((plain, ["PASS"]), (replace(plain, **covered), ["PASS", "INCONCLUSIVE"])):
        for result in ([], [Estimate("absent.number", 0.0, 100, "lower", low=0.0, high=0.0)]):
            measured = candidate(estimate(0.99, 1.0, 1.0, VALID), *result)
            findings = judge_candidate(measured, policy, real=facts).findings
            assert [each.outcome for each in findings if each.rule.measure != UNJUDGED] == outcomes


def test_what_a_rule_needs_is_what_its_number_needs() -> None:
    for measure, needs in (("absent.number", ""), (AUC, "texts"), ("validity.rows", "order")):
        with pytest.raises(ValidationError):
            rule(measure, needs=needs)


def test_a_policy_is_printed_rule_by_rule_and_a_finding_in_a_line() -> None:
    policy = policy_of(rule(subject=("age",)), rule(VALID, severity="warn"))
    assert all(each.measure in text for each in policy.rules for text in (str(policy), policy._repr_html_()))
    assert "(warning)" in str(policy) and "2 rules" in repr(policy)
    assert repr(finding_of(candidate(estimate(0.4, 0.5, 0.55)), rule())).startswith("<Finding PASS privacy.")
    with pytest.raises(JobError, match="may not be gated"):
        finding_of(candidate(replace(estimate(0.4, 0.5, 0.55), direction="none")), rule())


def test_no_policy_of_ones_own_lets_columns_through_that_nobody_judged() -> None:
    with pytest.raises(ValidationError, match="let somebody answer for them by a waiver"):
        rule(UNJUDGED, 1.0)
    result = candidate(estimate(0.5, 0.5, 0.5, UNJUDGED), estimate(0, 0, 0, "privacy.copies"))
    for own in (rule(UNJUDGED, 0.0), rule(UNJUDGED, 0.0, subject=("memo",)), rule(UNJUDGED, 1.0, severity="warn")):
        assert judge_candidate(result, policy_of(own, rule("privacy.copies", 0.1))).verdict != "PASS"


@pytest.mark.parametrize("name", ["partner", "intern\u0430l", "public ", "\uff49nternal"])
def test_a_policy_of_ones_own_never_looks_like_one_that_ships(name: str) -> None:
    with pytest.raises(ValidationError):
        Policy(name=name, version=1, audience="anyone", rules=(rule(AUC, 1.0),))


COUNTED: dict[str, tuple[str, Callable[[float], Rate], int, tuple[float, float, float], str]] = {
    "a share that keeps it": ("privacy.copies", lambda n: wilson(0.01, n / 3), 2000, (0.02, 0.015, 0.012), "PASS"),
    "a share that breaks it": ("privacy.copies", lambda n: wilson(0.03, n), 300, (0.018, 0.02, 0.025), "FAIL"),
    "no copy at all": (
        "privacy.copies.excess", lambda n: newcombe(wilson(0.0, n), wilson(0.0, n / 4)), 300, (0.01, 0.005, 0.002),
        "PASS",
    ),
    "valid rows": (VALID, lambda n: (0.99, *clopper_pearson(0.99 * n, n)), 400, (0.976, 0.98, 0.985), "PASS"),
}  # fmt: skip


@pytest.mark.parametrize(("measure", "built", "n", "limits", "way"), COUNTED.values(), ids=COUNTED)
def test_at_the_n_that_is_named_the_same_number_decides_as_named_and_at_a_tenth_less_it_does_not(
    measure: str, built: Callable[[float], Rate], n: int, limits: tuple[float, ...], way: str
) -> None:
    def judged(limit: float, n: int) -> Finding:
        value, low, high = built(n)
        return finding_of(candidate(estimate(low, value, high, measure, n)), rule(measure, limit))

    named = set()
    for limit in limits:
        finding = judged(limit, n)
        assert f"as {way} if the number stays as it is" in finding.reason
        assert finding.n_needed is not None
        assert judged(limit, finding.n_needed).outcome == way
        assert judged(limit, int(0.9 * finding.n_needed)).outcome == "INCONCLUSIVE"
        named.add(finding.n_needed)
    assert len(named) == len(limits)


def test_a_rule_about_one_column_reads_that_column_only() -> None:
    result = (
        Estimate("columns.tvd.excess", 0.01, 100, "lower", subject=("age",), low=0.0, high=0.02),
        Estimate("columns.tvd.excess", 0.90, 100, "lower", subject=("sex",), low=0.8, high=0.95),
    )
    for column, expected in (("age", "PASS"), ("sex", "FAIL"), ("race", "INCONCLUSIVE")):
        verdict = judge_candidate(candidate(*result), policy_of(rule("columns.tvd.excess", 0.1, subject=(column,))))
        assert verdict.findings[0].outcome == expected


@pytest.mark.parametrize(
    ("content", "clause"),
    [
        ({"rule": []}, "did you mean 'rules'"),
        ({"rules": [{"measure": "privacy.copys", "limit": 0.6, "why": "w"}]}, "did you mean 'privacy.copies'"),
        ({"rules": [{"measure": DESCRIBES, "limit": 1, "why": "w"}]}, "only describes and may not be gated"),
        ({"rules": [{"measure": AUC, "limit": float("nan"), "why": "w"}]}, "finite"),
        ({"rules": [{"measure": AUC, "limit": 0.6}]}, "why' is missing"),
        ({"rules": [{"measure": AUC, "limit": 0.6, "why": "w"}] * 2}, "keep one"),
        ({"rules": [{"measure": "statement.epsilon", "limit": 1.0, "why": "w", "fails_beyond": 2.0}]}, "leave it out"),
        ({"valid_days": 0}, "valid_days"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_in_one_sentence(content: dict[str, object], clause: str) -> None:
    with pytest.raises(JobError, match="the policy cannot be used") as caught:
        build_policy({"name": "p", "version": 1, "audience": "a", **content})
    assert clause in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_policy_that_ships_is_loaded_by_its_name_from_anywhere(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        assert load_policy(name) == load_policy(SHIPPED / f"{name}.toml")
    with pytest.raises(JobError, match="did you mean 'internal'"):
        load_policy("intern")
    Path("intern").write_bytes((SHIPPED / "internal.toml").read_bytes())
    assert load_policy("intern") == load_policy("internal")


# What the shipped policies must say of known tables, in the figures that the measures give for them.

HONEST = {
    "privacy.personal": (0.0, 0.0, 0.0),
    "privacy.multiset": (0.97, 1.0, 1.03), "privacy.copies.people": (0.0, 0.0, 0.002),
    "privacy.copies.holdout": (0.0, 0.0, 0.002),
    "privacy.copies.values": (0.0, 0.01, 0.04), "privacy.copies.parts": (0.0, 0.01, 0.04),
    "privacy.copies.near": (0.0, 0.0, 0.02),
    "privacy.copies.excess": (-0.01, 0.0, 0.01), "privacy.copies.unique.excess": (-0.01, 0.0, 0.01),
    "privacy.membership.auc": (0.49, 0.50, 0.51),
    "privacy.membership.tpr_at_0.01": (0.007, 0.01, 0.013), "privacy.membership.tpr_at_0.001": (0.0003, 0.001, 0.0024),
    "privacy.singling_out.multivariate": (-0.01, 0.0, 0.01), "privacy.linkability": (-0.01, 0.0, 0.01),
    "privacy.inference": (-0.03, 0.0, 0.03), "privacy.reconstruction": (-0.03, 0.0, 0.2),
    "columns.tvd.excess": (-0.002, 0.0, 0.002), "columns.tvd.excess.worst": (-0.004, 0.01, 0.02),
    "columns.ks.excess.worst": (-0.01, 0.004, 0.02), "columns.tail.excess.worst": (-0.001, 0.0, 0.002),
    "pairs.dependence.within.worst": (0.0, 0.2, 0.9), "pairs.tvd.floor_excess": (-0.2, -0.18, -0.16),
    "columns.categories.kept.worst": (0.6, 0.9, 1.0), "triples.tvd.excess.worst": (-0.03, 0.02, 0.07),
    "joint.repeats.excess": (-0.01, 0.0, 0.01),
    "columns.spikes.kept.worst": (0.9, 1.0, 1.1), "columns.lattice.kept.worst": (0.9, 1.0, 1.1),
    "pairs.dependence.floor_share": (-0.01, 0.0, 0.01), "pairs.dependence.floor_share.worst": (-0.1, 0.0, 0.3),
    "relations.lost.worst": (-0.001, 0.0, 0.001),
    "validity.rows": (0.999, 1.0, 1.0), "utility.gap.boosting.without": (-0.01, 0.0, 0.01),
}  # fmt: skip
AUDITED = {AUDIT: (-1.0, -1.0, -1.0)}
"""What an audit gives where there is a claim."""
PROMISE = stated()


def known(statement: PrivacyStatement | None = None, **changed: tuple[float, float, float] | None) -> Candidate:
    audited = {} if statement is None else AUDITED
    figures = {**HONEST, **audited, **changed}
    result = (estimate(*interval, measure=name) for name, interval in figures.items() if interval is not None)
    return candidate(*result, statement=statement)


def failed(subject: Candidate, name: str) -> set[str]:
    verdict = judge_candidate(subject, load_policy(SHIPPED / f"{name}.toml"))
    return {f.rule.measure for f in verdict.findings if f.outcome == "FAIL"}


SPOILED: list[tuple[str, tuple[float, float, float]]] = [
    ("privacy.multiset", (0.0, 0.0, 0.0)), ("privacy.copies.people", (0.70, 0.75, 0.80)), (AUC, (0.84, 0.86, 0.88)),
    *((f"privacy.copies.{part}", (0.001, 0.002, 0.003)) for part in ("people", "values", "parts")),
    ("privacy.personal", (1e-5, 1e-5, 1e-5)), (AUDIT, (0.01, 0.01, 0.01)),
    ("pairs.dependence.floor_share", (0.9, 1.0, 1.1)), ("pairs.dependence.floor_share", (3.0, 3.4, 3.8)),
    ("pairs.tvd.floor_excess", (0.02, 0.03, 0.04)), ("columns.tail.excess.worst", (0.06, 0.07, 0.08)),
    ("columns.ks.excess.worst", (0.11, 0.12, 0.13)), ("pairs.dependence.within.worst", (1.5, 2.5, 3.5)),
    ("columns.tvd.excess.worst", (0.4, 0.5, 0.6)),
]  # fmt: skip
"""A number that is off, where all others are those of an honest table."""


@pytest.mark.parametrize("name", NAMES)
def test_one_spoiled_number_fails_a_shipped_policy_that_honest_ones_pass(name: str) -> None:
    policy = load_policy(SHIPPED / f"{name}.toml")
    assert policy.name == name and all(len(rule.why) > 40 for rule in policy.rules)
    assert judge_candidate(known(PROMISE), policy).verdict == "PASS"
    for measure, interval in SPOILED:
        spoiled = known(PROMISE, **{measure: interval})
        assert failed(spoiled, name) == {measure}, measure
        assert judge_candidate(spoiled, policy).verdict == "FAIL", measure
    leak = known(PROMISE, **{RARE: (0.0042, 0.0057, 0.0077)})
    assert name != "public" or judge_candidate(leak, policy).verdict != "PASS"


def test_a_rule_about_an_audit_applies_where_there_is_a_claim_or_an_audit() -> None:
    strict, valid = policy_of(rule(AUC), rule(AUDIT, 0.0)), estimate(0.5, 0.5, 0.5)
    assert [f.rule.measure for f in judge_candidate(candidate(valid), strict).findings] == [AUC]
    audits = {
        "INCONCLUSIVE": Failure(AUDIT, "failed", "it broke"), "PASS": estimate(-1, -1, -1, AUDIT),
        "FAIL": estimate(1, 1, 1, AUDIT),
    }  # fmt: skip
    for outcome, result in audits.items():
        for statement in (None, PROMISE):
            assert judge_candidate(candidate(valid, result, statement=statement), strict).verdict == outcome


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_that_was_not_audited_never_passes(name: str) -> None:
    verdict = judge_candidate(known(PROMISE, **{AUDIT: None}), load_policy(SHIPPED / f"{name}.toml"))
    assert verdict.verdict == "INCONCLUSIVE"
    assert {f.rule.measure for f in verdict.findings if f.outcome != "PASS"} == {AUDIT}


def test_a_fresh_sample_without_a_promise_passes_inside_and_fails_outside_on_epsilon_alone() -> None:
    assert judge_candidate(known(), load_policy(SHIPPED / "internal.toml")).verdict == "PASS"
    for name in ("partner", "public"):
        assert failed(known(), name) == {"statement.epsilon", "statement.delta"}


def test_policies_grow_stricter_with_the_audience() -> None:
    policies = [load_policy(SHIPPED / f"{name}.toml") for name in NAMES]
    for looser, stricter in ((policies[0], policies[1]), (policies[1], policies[2])):
        limits = {r.measure: r.limit for r in stricter.rules}
        for r in looser.rules:
            sign = 1 if r.direction == "lower" else -1
            assert sign * limits[r.measure] <= sign * r.limit


LIMIT = TradeOff.of_claim(1.0, 1e-6)  # at most .731 of the area, .0272 of the members at 1%


@pytest.mark.parametrize(
    ("measure", "limit", "result", "outcome", "by_proof", "clause"),
    [
        (AUC, 0.74, (0.4, 0.6, 0.8), "PASS", True, "would not decide"),
        (AUC, 0.74, (0.4, 0.5, 0.6), "PASS", True, "keeps it, too"),
        (AUC, 0.73, (0.4, 0.6, 0.8), "INCONCLUSIVE", False, "lies within"),
        (AUC, 0.74, (0.735, 0.75, 0.8), "INCONCLUSIVE", False, "It contradicts the privacy claim"),
        (AUC, 0.74, (0.75, 0.8, 0.9), "FAIL", False, "It contradicts the privacy claim, which allows at most 0.7311"),
        (AUC, 0.55, (0.56, 0.6, 0.64), "FAIL", False, "breaks the limit"),
        (RARE, 0.0028, "skipped", "PASS", True, "It was not measured."),
        (RARE, 0.0028, "failed", "INCONCLUSIVE", False, "the reason of it"),
        (RARE, 0.0028, None, "PASS", True, "allows at most 0.0028 on average"),
        ("privacy.copies", 0.99, (0.0, 0.5, 1.0), "INCONCLUSIVE", False, "lies within"),
    ],
)
def test_what_a_claim_proves_passes_and_never_hides_what_was_measured(
    measure: str, limit: float, result: Any, outcome: str, by_proof: bool, clause: str
) -> None:
    there = [] if result is None else [Failure(measure, result, "the reason of it")]
    there = there if result is None or isinstance(result, str) else [estimate(*result, measure)]
    plain, proved = (
        judge_candidate(candidate(*there), policy_of(rule(measure, limit)), limit=part) for part in (None, LIMIT)
    )
    assert (proved.verdict, proved.findings[0].proven is not None) == (outcome, by_proof)
    assert clause in proved.findings[0].reason and ("By proof" in proved.findings[0].reason) == by_proof
    assert plain.findings[0].proven is None and (by_proof or plain.verdict == outcome)
    assert json.loads(json.dumps(proved.to_dict()))["findings"][0]["proven"] == proved.findings[0].proven


LAST = date(2026, 12, 31)


def waiver(measure: str, **changed: Any) -> Waiver:
    known = {"policy": "test", "version": 1, "candidate": "c", "owner": "A. Owner", "reason": "agreed", "until": LAST}
    return Waiver.model_validate({**known, "measure": measure, **changed})


def answered(case: Waiver, *result: Estimate | Failure, rules: tuple[Rule, ...] = (), **more: Any) -> Verdict:
    """The verdict on what somebody answers for."""
    promised = candidate(*result, statement=more.pop("statement", None))
    return judge_candidate(promised, policy_of(*(rules or (rule(case.measure),))), today=LAST, waivers=[case], **more)


def test_a_waiver_of_one_column_leaves_the_others_binding_and_a_warning_needs_none() -> None:
    rules = tuple(rule("columns.tvd.excess", 0.1, subject=(name,)) for name in ("age", "sex"))
    result = [Estimate(rules[0].measure, 0.9, 100, "lower", subject=each.subject, low=0.8, high=1.0) for each in rules]
    case = waiver("columns.tvd.excess", subject=("age",))
    verdict = answered(case, *result, rules=rules)
    assert [finding.waived for finding in verdict.findings] == [True, False]
    assert verdict.verdict == "FAIL" and verdict.waived == verdict.findings[:1]
    warned = tuple(each.model_copy(update={"severity": "warn"}) for each in rules)
    assert not answered(case, *result, rules=warned).waived


@pytest.mark.parametrize("measure", sorted(NEVER_WAIVED))
def test_nobody_answers_for_a_false_claim_or_for_other_peoples_data(measure: str) -> None:
    wrong = Estimate(measure, 0.9, 100, "lower", low=0.9, high=0.9)
    verdict = answered(waiver(measure), wrong, statement=PROMISE)
    (finding,) = verdict.findings
    assert (verdict.verdict, finding.waived) == ("FAIL", False)
    assert finding.waiver is not None and NEVER_WAIVED[measure] in finding.reason
    unknown = answered(waiver(measure), Failure(measure, "timed out", "late"), statement=PROMISE)
    assert unknown.findings[0].waived  # that it is not known, an owner may answer for


def test_a_number_that_nothing_installed_reads_is_never_waived() -> None:
    """It may be real personal data, for which nobody may answer; what was never measured an owner may answer for."""
    absent, texts = rule("privacy.absent", needs="texts"), RealFacts(100, 100, 0, 0.0, 5, texts=("note",))
    for result in ((), (Estimate("privacy.absent", 0.9, 100, "lower", low=0.9, high=0.9),)):
        verdict = answered(
            waiver("privacy.absent"), *result, estimate(0.5, 0.52, 0.54), rules=(rule(), absent), real=texts
        )
        (finding,) = (each for each in verdict.findings if each.rule == absent)
        assert (finding.outcome, finding.waived) == ("INCONCLUSIVE", not result)


def test_no_guarantee_at_all_may_be_waived_but_is_said_in_as_many_words() -> None:
    verdict = answered(waiver("statement.epsilon"))
    assert verdict.findings[0].waived
    assert verdict.verdict == "INCONCLUSIVE"  # nothing is left that was shown to hold
    assert "without any formal guarantee" in verdict.findings[0].reason


@pytest.mark.parametrize(
    ("changed", "clause"),
    [
        ({"owner": "  "}, "one line of text"),
        ({"until": "some day"}, "a date"),
        ({"untill": "2026-01-01"}, "did you mean 'until'"),
        ({}, "keep one"),
    ],
)
def test_a_waiver_that_cannot_be_used_is_refused_in_one_sentence(changed: dict[str, object], clause: str) -> None:
    content = {**waiver(AUC).model_dump(mode="json", exclude_none=True), **changed}
    with pytest.raises(JobError, match=f"^the waivers cannot be used.*{clause}.*$"):
        build_waivers({"waivers": [content] * 2})


@pytest.mark.parametrize(("name", "binding"), [("columns.lattice.kept.worst", 1), ("relations.lost.worst", 0)])
def test_a_warning_about_what_the_real_table_has_not_is_no_finding_and_a_binding_rule_stays_open(name, binding):
    """Where nothing holds between the columns of the real table, no rule says that it should."""
    rules = [rule(name, severity="warn"), rule(name)]
    for reason, kept in (("not applicable", rules[1:][:binding]), ("skipped", rules)):
        failure = Failure(name, reason, "the real table has none")  # type: ignore[arg-type]
        verdict = judge_candidate(candidate(failure), policy_of(*rules))
        assert [finding.rule for finding in verdict.findings] == kept
        assert verdict.verdict == "INCONCLUSIVE"
