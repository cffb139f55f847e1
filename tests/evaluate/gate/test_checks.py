"""What self-tests come to under a policy: when a case speaks, when it says nothing, and when something is broken."""

from typing import Any

import pytest

from evaluate.gate.policy import Policy, Rule
from evaluate.gate.policy_checks import BROKEN, CAME_OUT, NOT_APPLICABLE, Check, checks_of
from evaluate.metrics import GATEABLE
from evaluate.result import CASES, Candidate, Case, Estimate, Failure, SelfTest

COPIES, AUC, KEPT, SHARE = (
    "privacy.copies.excess", "privacy.membership.auc", "pairs.dependence.within.worst", "pairs.dependence.floor_share",
)  # fmt: skip
COLUMNS = "columns.tvd.excess"
LIMITS = {COPIES: 0.05, AUC: 0.6, KEPT: 0.4, SHARE: 0.75, COLUMNS: 0.05, "statement.epsilon": 1.0}


def policy_of(*measures: str, severity: str = "fail") -> Policy:
    rules = [Rule(measure=m, limit=LIMITS[m], why="w", severity=severity) for m in measures]  # type: ignore[arg-type]
    return Policy(name="p", version=1, audience="a", rules=tuple(rules))


def number(measure: str, low: float, high: float, **landmarks: float) -> Estimate:
    return Estimate(measure, (low + high) / 2, 500, GATEABLE[measure], low=low, high=high, **landmarks)  # type: ignore[arg-type]


def check(case: Case, policy: Policy, *result: Estimate | Failure) -> Check:
    estimates = tuple(f for f in result if isinstance(f, Estimate))
    failures = tuple(f for f in result if isinstance(f, Failure))
    test = SelfTest(case, Candidate(case, estimates, failures))
    return {each.case: each for each in checks_of([test], policy)}[case]


def silent(measure: str, reason: Any, message: str = "it broke down") -> Failure:
    return Failure(measure, reason, message)


ALL = policy_of(*LIMITS)
QUIET = number(COPIES, -0.01, 0.01, reference=0.0)
BLIND = number(KEPT, 0.1, 0.2, floor=1.0)
OUTCOMES: list[tuple[Case, Policy, list[Estimate | Failure], str, str]] = [
    # A copy comes out where one rule on privacy fails, and shows a broken measure where none does.
    ("copy", ALL, [number(COPIES, 0.8, 1.0), number(AUC, 0.0, 0.01)], CAME_OUT, COPIES),
    ("copy", ALL, [number(AUC, 0.8, 1.0), number(COPIES, 0.0, 0.01)], CAME_OUT, AUC),
    ("copy", ALL, [QUIET, number(AUC, 0.49, 0.52), number(KEPT, 0.9, 1.0)], BROKEN, "would not have seen it"),
    ("copy", ALL, [number(COPIES, -0.1, 0.9), number(AUC, 0.4, 0.9)], NOT_APPLICABLE, "too small for any interval"),
    ("copy", ALL, [silent(AUC, "skipped")], NOT_APPLICABLE, "too small, or too many of its rows are alike"),
    ("copy", ALL, [], NOT_APPLICABLE, "not part of a self-test"),
    ("copy", ALL, [silent(AUC, "timed out"), number(COPIES, 0.8, 1.0)], CAME_OUT, ""),
    # A measure that breaks down is no evidence; of honest rows a slow machine need not end every measure.
    *((case, policy_of(name), [silent(name, reason)], BROKEN, "it broke down")
      for case, name in (("honest", AUC), ("copy", AUC), ("shuffled", KEPT)) for reason in ("failed", "timed out")),
    ("honest", ALL, [silent(AUC, "timed out"), QUIET], CAME_OUT, ""),
    ("honest", ALL, [silent(AUC, "failed"), QUIET], BROKEN, ""),
    # Shuffled and sorted columns are a matter of what holds between columns, and of no rule that their floor keeps.
    ("shuffled", ALL, [number(COLUMNS, -0.01, 0.01), number(SHARE, 0.9, 1.1, floor=1.0)], CAME_OUT, ""),
    ("shuffled", ALL, [number(COLUMNS, -0.01, 0.01), number(SHARE, -0.1, 0.1, floor=1.0)], BROKEN, ""),
    ("shuffled", policy_of(COLUMNS), [number(COLUMNS, -0.01, 0.01)], NOT_APPLICABLE, ""),
    ("shuffled", policy_of(COLUMNS, SHARE), [number(COLUMNS, 0.5, 0.9)], NOT_APPLICABLE, ""),
    ("shuffled", policy_of(SHARE), [number(SHARE, 0.1, 0.3, floor=0.2)], NOT_APPLICABLE, ""),
    ("shuffled", policy_of(SHARE), [number(SHARE, 0.1, 0.3, floor=1.0)], BROKEN, ""),
    ("shuffled", ALL, [silent(KEPT, "skipped"), silent(SHARE, "skipped")], NOT_APPLICABLE, "nearly independent"),
    ("sorted", ALL, [BLIND], BROKEN, ""),
    ("sorted", ALL, [BLIND, number(SHARE, 0.5, 9.0, floor=1.0)], NOT_APPLICABLE, ""),
    ("sorted", ALL, [BLIND, number(SHARE, -0.9, 0.9)], BROKEN, ""),
    ("sorted", ALL, [BLIND, silent(SHARE, "skipped")], NOT_APPLICABLE, ""),
    ("sorted", ALL, [BLIND, silent(SHARE, "failed")], BROKEN, ""),
    ("sorted", ALL, [BLIND, number(SHARE, 2.0, 3.0, floor=1.0)], CAME_OUT, ""),
    # Honest rows may fail no rule that a fresh sample keeps, but by chance.
    ("honest", ALL, [number(AUC, 0.48, 0.52, reference=0.5)], CAME_OUT, ""),
    ("honest", ALL, [number(AUC, 0.48, 0.52, reference=0.5), number(COPIES, 0.5, 0.6, reference=0.0)], BROKEN, COPIES),
    ("honest", policy_of(KEPT), [number(KEPT, 0.8, 0.9, reference=0.7)], NOT_APPLICABLE, ""),
    ("honest", ALL, [number(KEPT, 0.8, 0.9, reference=0.7), number(AUC, 0.4, 0.55)], CAME_OUT, ""),
    ("honest", ALL, [number(AUC, 0.61, 0.69, reference=0.5)], CAME_OUT, ""),
    ("honest", ALL, [number(AUC, 0.65, 0.69, reference=0.5)], BROKEN, ""),
    # Statements and warnings are no concern of self-tests.
    ("honest", policy_of("statement.epsilon"), [], NOT_APPLICABLE, ""),
    ("honest", policy_of(COPIES, severity="warn"), [number(COPIES, 0.8, 1.0, reference=0.0)], NOT_APPLICABLE, ""),
    ("copy", policy_of(COPIES, severity="warn"), [number(COPIES, -0.1, 0.0)], NOT_APPLICABLE, ""),
]  # fmt: skip


@pytest.mark.parametrize(("case", "policy", "measured", "outcome", "clause"), OUTCOMES)
def test_a_case_speaks_only_where_it_could_show_a_fault(case, policy, measured, outcome, clause):
    result = check(case, policy, *measured)
    assert result.outcome == outcome
    assert clause in result.reason


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ([number(COPIES, 0.01, 0.1)], CAME_OUT),
        ([number(COPIES, -0.01, 0.04)], BROKEN),
        ([number(COPIES, -0.01, 0.1)], NOT_APPLICABLE),
        ([number(COPIES, -0.01, 0.04), number("privacy.copies", 0.2, 0.5)], NOT_APPLICABLE),
        ([number(COPIES, -0.01, 0.04), number("privacy.copies", 0.0, 0.5)], BROKEN),
        ([silent(COPIES, "failed")], BROKEN),
        ([number(AUC, 0.4, 0.5)], NOT_APPLICABLE),
    ],
)
def test_a_few_copies_are_a_matter_of_rules_on_copies_that_allow_fewer(result: Any, outcome: str) -> None:
    rules = (
        Rule(measure=COPIES, limit=0.05, fails_beyond=0.0, why="w"), Rule(measure=AUC, limit=0.6, why="w"),
        Rule(measure="privacy.copies", limit=0.3, why="w"),
    )  # fmt: skip
    assert check("some copies", Policy(name="p", version=1, audience="a", rules=rules), *result).outcome == outcome
    lax = Policy(name="p", version=1, audience="a", rules=(Rule(measure=COPIES, limit=0.2, why="w"),))
    assert check("some copies", lax, number(COPIES, 0.03, 0.07)).reason.startswith("The policy allows 5%")


def test_a_case_that_is_missing_shows_nothing_and_an_absent_one_keeps_its_reason() -> None:
    result = {each.case: each for each in checks_of([SelfTest("copy", absent="Too many twins.")], ALL)}
    copy = result.pop("copy")
    assert (copy.outcome, copy.reason) == (NOT_APPLICABLE, "Too many twins.")
    assert len(result) == len(CASES) - 1
    assert all(each.outcome == BROKEN and "no such self-test" in each.reason for each in result.values())
