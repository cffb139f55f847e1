"""What self-tests come to under a policy: when a case speaks, when it says nothing, and when something is broken."""

from typing import Any

import pytest

from evaluate.gate.checks import BROKEN, CAME_OUT, NOT_APPLICABLE, Check, checks_of
from evaluate.gate.policy import Policy, Rule
from evaluate.gate.verdict import judge_candidate
from evaluate.metrics import GATEABLE
from evaluate.result import CASES, Candidate, Case, Estimate, Failure, SelfTest

COPIES, AUC, KEPT, SHARE = (
    "privacy.copies.excess", "privacy.membership.auc", "pairs.dependence.within.worst", "pairs.dependence.floor_share",
)  # fmt: skip
COLUMNS = "columns.tvd.excess"
LIMITS = {COPIES: 0.05, AUC: 0.6, KEPT: 0.4, SHARE: 0.75, COLUMNS: 0.05, "statement.epsilon": 1.0}
MISSING: Any = object()


def policy_of(*measures: str, severity: str = "fail") -> Policy:
    rules = tuple(
        Rule(measure=m, limit=LIMITS[m], why="because", severity=severity)  # type: ignore[arg-type]
        for m in measures
    )
    return Policy(name="p", version=1, audience="a", rules=rules)


def number(measure: str, low: float, high: float, **landmarks: float) -> Estimate:
    return Estimate(measure, (low + high) / 2, 500, GATEABLE[measure], low=low, high=high, **landmarks)  # type: ignore[arg-type]


def check(case: Case, policy: Policy, *found: Estimate | Failure) -> Check:
    estimates = tuple(f for f in found if isinstance(f, Estimate))
    failures = tuple(f for f in found if isinstance(f, Failure))
    test = SelfTest(case, Candidate(case, estimates, failures))
    return {one.case: one for one in checks_of([test], policy)}[case]


ALL = policy_of(*LIMITS)


@pytest.mark.parametrize("measure", [COPIES, AUC])
def test_a_copy_comes_out_where_one_rule_on_privacy_fails(measure: str) -> None:
    others = [number(m, 0.0, 0.01) for m in (COPIES, AUC) if m != measure]
    found = check("copy", ALL, number(measure, 0.8, 1.0), *others, number(KEPT, 0.0, 0.1))
    assert found.outcome == CAME_OUT
    assert measure in found.reason


def test_a_copy_that_passes_every_rule_on_privacy_shows_a_broken_measure() -> None:
    found = check("copy", ALL, number(COPIES, -0.01, 0.01), number(AUC, 0.49, 0.52), number(KEPT, 0.9, 1.0))
    assert found.outcome == BROKEN
    assert "would not have seen it" in found.reason


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([number(COPIES, -0.1, 0.9), number(AUC, 0.4, 0.9)], "too small for any interval"),
        ([Failure(AUC, "skipped", "few rows")], "too small, or too many of its rows are alike"),
        ([], "not part of a self-test"),
    ],
)
def test_a_copy_says_nothing_where_no_rule_could_tell_it(found: list[Estimate | Failure], said: str) -> None:
    one = check("copy", ALL, *found)
    assert one.outcome == NOT_APPLICABLE
    assert said in one.reason


@pytest.mark.parametrize("case", ["honest", "copy", "shuffled"])
@pytest.mark.parametrize("reason", ["failed", "timed out"])
def test_a_measure_that_breaks_down_in_a_self_test_is_no_evidence(case: Case, reason: Any) -> None:
    measure = KEPT if case == "shuffled" else AUC
    one = check(case, policy_of(measure), Failure(measure, reason, "it broke down"))
    assert one.outcome == BROKEN
    assert "it broke down" in one.reason


def test_one_rule_that_tells_is_enough_though_another_measure_breaks_down() -> None:
    assert check("copy", ALL, Failure(AUC, "timed out", "late"), number(COPIES, 0.8, 1.0)).outcome == CAME_OUT


def test_honest_rows_need_no_measure_that_a_slow_machine_did_not_end_beside_others() -> None:
    quiet = number(COPIES, -0.01, 0.01, reference=0.0)
    assert check("honest", ALL, Failure(AUC, "timed out", "late"), quiet).outcome == CAME_OUT
    assert check("honest", ALL, Failure(AUC, "failed", "broken"), quiet).outcome == BROKEN


def test_shuffled_columns_come_out_by_what_holds_between_columns_only() -> None:
    right_alone = number(COLUMNS, -0.01, 0.01)
    assert check("shuffled", ALL, right_alone, number(SHARE, 0.9, 1.1, floor=1.0)).outcome == CAME_OUT
    assert check("shuffled", ALL, right_alone, number(SHARE, -0.1, 0.1, floor=1.0)).outcome == BROKEN
    assert check("shuffled", policy_of(COLUMNS), right_alone).outcome == NOT_APPLICABLE
    failed_alone = number(COLUMNS, 0.5, 0.9)
    assert check("shuffled", policy_of(COLUMNS, SHARE), failed_alone).outcome == NOT_APPLICABLE


def test_shuffled_columns_say_nothing_where_their_own_floor_keeps_the_limit() -> None:
    near = number(SHARE, 0.1, 0.3, floor=0.2)
    assert check("shuffled", policy_of(SHARE), near).outcome == NOT_APPLICABLE
    far = number(SHARE, 0.1, 0.3, floor=1.0)
    assert check("shuffled", policy_of(SHARE), far).outcome == BROKEN


def test_a_rule_left_open_excuses_those_that_do_not_see_sorted_columns_only_where_it_leans_to_fail() -> None:
    blind = number(KEPT, -0.1, 0.1)
    assert check("sorted", ALL, blind, number(SHARE, 0.5, 9.0)).outcome == NOT_APPLICABLE
    assert check("sorted", ALL, blind, number(SHARE, -0.9, 0.9)).outcome == BROKEN


def test_a_measure_that_skips_nearly_independent_columns_says_nothing() -> None:
    one = check("shuffled", ALL, Failure(KEPT, "skipped", "nearly independent"), Failure(SHARE, "skipped", "same"))
    assert one.outcome == NOT_APPLICABLE
    assert "nearly independent" in one.reason


def test_honest_rows_may_not_fail_a_rule_that_a_fresh_sample_keeps() -> None:
    good, bad = number(AUC, 0.48, 0.52, reference=0.5), number(COPIES, 0.5, 0.6, reference=0.0)
    assert check("honest", ALL, good).outcome == CAME_OUT
    one = check("honest", ALL, good, bad)
    assert one.outcome == BROKEN
    assert COPIES in one.reason


def test_a_rule_that_a_fresh_real_sample_breaks_itself_is_not_held_against_honest_rows() -> None:
    unreachable = number(KEPT, 0.8, 0.9, reference=0.7)
    assert check("honest", policy_of(KEPT), unreachable).outcome == NOT_APPLICABLE
    assert check("honest", ALL, unreachable, number(AUC, 0.4, 0.55)).outcome == CAME_OUT


def test_honest_rows_that_miss_a_limit_by_chance_do_not_take_the_verdict() -> None:
    """Several rules are tried on few rows of every table: one interval in forty lies beyond the truth on one side."""
    barely, clearly = number(AUC, 0.61, 0.69, reference=0.5), number(AUC, 0.65, 0.69, reference=0.5)
    assert check("honest", ALL, barely).outcome == CAME_OUT
    assert check("honest", ALL, clearly).outcome == BROKEN


def test_statements_and_warnings_are_no_concern_of_self_tests() -> None:
    assert check("honest", policy_of("statement.epsilon")).outcome == NOT_APPLICABLE
    warned = policy_of(COPIES, SHARE, severity="warn")
    assert check("honest", warned, number(COPIES, 0.8, 1.0, reference=0.0)).outcome == NOT_APPLICABLE
    assert check("copy", warned, number(COPIES, -0.1, 0.0)).outcome == NOT_APPLICABLE


def test_a_case_that_says_nothing_keeps_its_reason() -> None:
    found = {one.case: one for one in checks_of([SelfTest("copy", absent="Too many twins.")], ALL)}
    copy = found.pop("copy")
    assert (copy.outcome, copy.reason) == (NOT_APPLICABLE, "Too many twins.")
    # An older evaluation lacks cases, and what is missing shows nothing.
    assert len(found) == len(CASES) - 1
    assert all(one.outcome == BROKEN and "no such self-test" in one.reason for one in found.values())


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        ([number(COPIES, 0.01, 0.1)], CAME_OUT),
        ([number(COPIES, -0.01, 0.04)], BROKEN),
        ([number(COPIES, -0.01, 0.1)], NOT_APPLICABLE),
        ([number(COPIES, -0.01, 0.04), number("privacy.copies", 0.2, 0.5)], NOT_APPLICABLE),
        ([number(COPIES, -0.01, 0.04), number("privacy.copies", 0.0, 0.5)], BROKEN),
        ([Failure(COPIES, "failed", "broken")], BROKEN),
        ([number(AUC, 0.4, 0.5)], NOT_APPLICABLE),
    ],
)
def test_a_few_copies_are_a_matter_of_rules_on_copies_that_allow_fewer(
    found: list[Estimate | Failure], outcome: str
) -> None:
    rules = (
        Rule(measure=COPIES, limit=0.05, fails_beyond=0.0, why="w"), Rule(measure=AUC, limit=0.6, why="w"),
        Rule(measure="privacy.copies", limit=0.3, why="w"),
    )  # fmt: skip
    assert check("some copies", Policy(name="p", version=1, audience="a", rules=rules), *found).outcome == outcome
    lax = Policy(name="p", version=1, audience="a", rules=(Rule(measure=COPIES, limit=0.2, why="w"),))
    assert check("some copies", lax, number(COPIES, 0.03, 0.07)).reason.startswith("The policy allows 5%")


def test_sorted_columns_are_no_matter_of_a_rule_on_what_is_lost_where_another_one_is_open() -> None:
    kept = number(KEPT, 0.1, 0.2, floor=1.0)
    assert check("sorted", ALL, kept).outcome == BROKEN
    assert check("sorted", ALL, kept, number(SHARE, 0.5, 3.0, floor=1.0)).outcome == NOT_APPLICABLE
    assert check("sorted", ALL, kept, Failure(SHARE, "skipped", "few rows")).outcome == NOT_APPLICABLE
    assert check("sorted", ALL, kept, Failure(SHARE, "failed", "broken")).outcome == BROKEN
    assert check("sorted", ALL, kept, number(SHARE, 2.0, 3.0, floor=1.0)).outcome == CAME_OUT


@pytest.mark.parametrize(("low", "expected"), [(0.4, "INCONCLUSIVE"), (0.9, "FAIL")])
def test_a_broken_self_test_takes_a_pass_and_leaves_a_fail(low: float, expected: str) -> None:
    policy = policy_of(AUC)
    candidate = Candidate("c", (number(AUC, low, low + 0.1),))
    assert judge_candidate(candidate, policy, self_tests=()).verdict == expected
    blind = SelfTest("copy", Candidate("copy", (number(AUC, 0.4, 0.5),)))
    rest = [SelfTest(case, absent="x") for case in CASES if case != "copy"]
    assert judge_candidate(candidate, policy, self_tests=[blind, *rest]).verdict == expected
    assert judge_candidate(candidate, policy).verdict == ("PASS" if low == 0.4 else "FAIL")
