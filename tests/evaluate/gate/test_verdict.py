"""The verdict as a truth table: every way a number can lie, by who answers for it and what the self-tests say."""

import itertools
from datetime import date

import pytest

from evaluate.gate.finding import NEVER_WAIVED
from evaluate.gate.policy import Policy, Rule, Waiver, build_waivers
from evaluate.gate.verdict import Verdict, judge_candidate
from evaluate.metrics import GATEABLE
from evaluate.real_facts import RealFacts
from evaluate.result import Candidate, Estimate, Failure
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError
from tests.evaluations import ABSENT, stated

LOWER, HIGHER, EPSILON = "privacy.membership.auc", "validity.rows", "statement.epsilon"
AUDIT, PERSONAL = "privacy.audit.excess", "privacy.personal"
OTHER = "privacy.copies"
TODAY, YESTERDAY, LAST = date(2026, 5, 4), date(2026, 5, 3), date(2026, 12, 31)

# Ends and value of an interval against a limit of 0.6 where lower is better; mirrored at it where higher is.
LIMIT = 0.6
INTERVALS = {
    (0.50, 0.52, 0.54): "PASS",
    (0.50, 0.55, 0.60): "PASS",  # the unfavorable end lies on the limit
    (0.60, 0.60, 0.60): "PASS",  # a counted number on the limit
    (0.50, 0.55, 0.62): "INCONCLUSIVE",
    (0.50, 0.60, 0.70): "INCONCLUSIVE",  # the value lies on the limit
    (0.58, 0.64, 0.70): "INCONCLUSIVE",
    (0.60, 0.64, 0.68): "INCONCLUSIVE",  # the favorable end lies on the limit
    (0.61, 0.64, 0.68): "FAIL",
    (0.61, 0.61, 0.61): "FAIL",
    (None, 0.10, None): "INCONCLUSIVE",  # no interval, however good
    (None, 0.60, None): "INCONCLUSIVE",
    (None, 0.90, None): "INCONCLUSIVE",
}
STATEMENTS = {
    None: "FAIL", (("private", True), ("epsilon", 0.1)): "PASS", (("private", True), ("epsilon", LIMIT)): "PASS",
    (("private", True), ("epsilon", 0.7)): "FAIL", (("private", False), ("epsilon", 0.1)): "FAIL",
}  # fmt: skip
VOID = [each for each in STATEMENTS if each is not None and ("private", True) not in each]

WAIVERS = {"none": None, "in force": LAST, "on its last day": TODAY, "expired": YESTERDAY}
IN_FORCE = ("in force", "on its last day")
COMPANIONS = {"PASS": (0.0, 0.1, 0.2), "INCONCLUSIVE": (0.5, 0.6, 0.7), "FAIL": (0.8, 0.9, 1.0)}
SELF_TESTS = {"say nothing": ABSENT, "are missing": (), "lack one": ABSENT[:2]}
SPOILED = ("are missing", "lack one")


def rule(measure: str, severity: str = "fail", limit: float = LIMIT) -> Rule:
    return Rule(measure=measure, limit=limit, why="because", severity=severity)  # type: ignore[arg-type]


def waiver(measure: str, until: date, **changed: object) -> Waiver:
    content = {
        "policy": "p", "version": 3, "candidate": "c", "measure": measure, "owner": "A. Owner", "reason": "agreed",
        "until": until, **changed,
    }  # fmt: skip
    return Waiver.model_validate(content)


def policy_of(*rules: Rule) -> Policy:
    return Policy(name="p", version=3, audience="nobody", rules=rules)


def table(*result: Estimate | Failure, statement: PrivacyStatement | None = None) -> Candidate:
    return Candidate(
        "c",
        estimates=tuple(f for f in result if isinstance(f, Estimate)),
        failures=tuple(f for f in result if isinstance(f, Failure)),
        statement=statement,
    )


def estimate(measure: str, ends: tuple[float | None, float, float | None]) -> Estimate:
    low, value, high = ends
    if GATEABLE[measure] == "higher":  # mirrored at the limit
        low, value, high = (None if end is None else 2 * LIMIT - end for end in (high, value, low))
        assert value is not None
    return Estimate(measure, value, 1000, GATEABLE[measure], low=low, high=high)


def all_ways() -> list[tuple[str, tuple[Estimate | Failure, ...], PrivacyStatement | None, str, bool]]:
    """Measure, what was found, the statement, the outcome, and whether somebody may answer for it."""
    ways: list[tuple[str, tuple[Estimate | Failure, ...], PrivacyStatement | None, str, bool]] = []
    for measure in (LOWER, HIGHER):
        ways += [(measure, (estimate(measure, ends),), None, clause, True) for ends, clause in INTERVALS.items()]
        ways.append((measure, (), None, "INCONCLUSIVE", True))
        for reason in ("failed", "timed out", "skipped"):
            ways.append((measure, (Failure(measure, reason, "why"),), None, "INCONCLUSIVE", True))  # type: ignore[arg-type]
    for case, clause in STATEMENTS.items():
        ways.append((EPSILON, (), None if case is None else stated(**dict(case)), clause, case not in VOID))
    return ways


WAYS = all_ways()


def expected(outcomes: list[str], spoiled: bool) -> str:
    """The design, said once more: the worst counts, nothing is no pass, and what is unproven is none either."""
    if "FAIL" in outcomes:
        return "FAIL"
    if outcomes == [] or "INCONCLUSIVE" in outcomes or spoiled:
        return "INCONCLUSIVE"
    return "PASS"


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_every_combination_gives_the_verdict_of_the_design(way: int) -> None:
    measure, result, statement, outcome, answerable = WAYS[way]
    # What stands beside it is tried with the first way to each outcome.
    is_first = [each[3:] for each in WAYS].index((outcome, answerable)) == way
    beside = itertools.product(("fail", "warn"), ("none", "in force"), COMPANIONS, SELF_TESTS) if is_first else ()
    plain = itertools.product(("fail", "warn"), WAIVERS, (None,), ("not judged",))
    for severity, until, companion, tests in (*plain, *beside):
        rules, more = [rule(measure, severity)], []
        if companion is not None:
            rules.append(rule(OTHER))
            more = [estimate(OTHER, COMPANIONS[companion])]
        day = WAIVERS[until]
        verdict = judge_candidate(
            table(*result, *more, statement=statement), policy_of(*rules), today=TODAY,
            waivers=[] if day is None else [waiver(measure, day)], self_tests=SELF_TESTS.get(tests),
        )  # fmt: skip
        waived = severity == "fail" and until in IN_FORCE and outcome != "PASS" and answerable
        counted = [] if severity == "warn" or waived else [outcome]
        where = (measure, result, statement, severity, until, companion, tests)
        assert verdict.findings[0].outcome == outcome, where
        assert verdict.findings[0].waived == waived, where
        assert (verdict.findings[0].waiver is not None) == (
            day is not None and severity == "fail" and outcome != "PASS"
        ), where
        assert verdict.verdict == expected([*counted, *([companion] if companion else [])], tests in SPOILED), where


def judged(*result: Estimate | Failure, case: Waiver, statement: PrivacyStatement | None = None) -> Verdict:
    return judge_candidate(
        table(*result, statement=statement), policy_of(rule(case.measure)), today=TODAY, waivers=[case]
    )


def test_a_waiver_of_one_column_leaves_the_others_binding() -> None:
    rules = [Rule(measure="columns.tvd.excess", limit=0.1, why="w", subject=(name,)) for name in ("age", "sex")]
    result = [
        Estimate("columns.tvd.excess", 0.9, 100, "lower", subject=(name,), low=0.8, high=1.0) for name in ("age", "sex")
    ]
    part = waiver("columns.tvd.excess", LAST, subject=("age",))
    verdict = judge_candidate(table(*result), policy_of(*rules), today=TODAY, waivers=[part])
    assert [finding.waived for finding in verdict.findings] == [True, False]
    assert verdict.verdict == "FAIL"
    assert verdict.waived == verdict.findings[:1]


@pytest.mark.parametrize("measure", sorted(NEVER_WAIVED))
def test_nobody_answers_for_a_false_claim_or_for_other_peoples_data(measure: str) -> None:
    promise = stated()
    wrong = Estimate(measure, 0.9, 100, "lower", low=0.9, high=0.9)
    verdict = judged(wrong, case=waiver(measure, LAST), statement=promise)
    (finding,) = verdict.findings
    assert (verdict.verdict, finding.waived) == ("FAIL", False)
    assert finding.waiver is not None
    assert NEVER_WAIVED[measure] in finding.reason
    unknown = judged(Failure(measure, "timed out", "late"), case=waiver(measure, LAST), statement=promise)
    assert unknown.findings[0].waived  # that it is not known, an owner may answer for


def test_a_number_that_nothing_installed_reads_is_never_waived() -> None:
    """It may be real personal data, for which nobody may answer; what was never measured an owner may answer for."""
    absent = Rule(measure="privacy.absent", limit=LIMIT, why="because", needs="texts")
    wrong = Estimate("privacy.absent", 0.9, 100, "lower", low=0.9, high=0.9)
    case, facts = waiver("privacy.absent", LAST), RealFacts(100, 100, 0, 0.0, 5, texts=("note",))
    for result in ((), (wrong,)):
        measured = table(estimate(LOWER, (0.5, 0.52, 0.54)), *result)
        verdict = judge_candidate(measured, policy_of(rule(LOWER), absent), today=TODAY, waivers=[case], real=facts)
        (finding,) = (each for each in verdict.findings if each.rule == absent)
        assert (finding.outcome, finding.waived) == ("INCONCLUSIVE", not result)


def test_no_guarantee_at_all_may_be_waived_but_is_said_in_as_many_words() -> None:
    verdict = judged(case=waiver(EPSILON, LAST))
    assert verdict.findings[0].waived
    assert verdict.verdict == "INCONCLUSIVE"  # nothing is left that was shown to hold
    assert "without any formal guarantee" in verdict.findings[0].reason


@pytest.mark.parametrize(
    ("changed", "clause"),
    [({"owner": "  "}, "one line of text"), ({"untill": "2026-01-01"}, "did you mean 'until'"), ({}, "keep one")],
)
def test_a_waiver_that_cannot_be_used_is_refused_in_one_sentence(changed: dict[str, object], clause: str) -> None:
    content = {**waiver(LOWER, TODAY).model_dump(mode="json", exclude_none=True), **changed}
    with pytest.raises(JobError, match=f"^the waivers cannot be used.*{clause}.*$"):
        build_waivers({"waivers": [content] * 2})


@pytest.mark.parametrize(("name", "binding"), [("columns.lattice.kept.worst", 1), ("relations.lost.worst", 0)])
def test_a_warning_about_what_the_real_table_has_not_is_no_finding_and_a_binding_rule_stays_open(
    name: str, binding: int
) -> None:
    """Where nothing holds between the columns of the real table, no rule says that it should."""
    why, rules = "the real table has none", [rule(name, "warn"), rule(name)]
    for reason, kept in (("not applicable", rules[1:][:binding]), ("skipped", rules)):
        table = Candidate("a", (), failures=(Failure(name, reason, why),))  # type: ignore[arg-type]
        verdict = judge_candidate(table, Policy(name="p", version=1, audience="us", rules=tuple(rules)))
        assert [finding.rule for finding in verdict.findings] == kept
        assert verdict.verdict == "INCONCLUSIVE"
