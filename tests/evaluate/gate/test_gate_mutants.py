"""Faults of the gate, each planted in turn, each beside the check that must catch it.

Every check passes on the code as it is. A mutant that survives its check means that the check guards nothing.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from evaluate.audit_result import Audit
from evaluate.gate import claim, decision, policy, verdict
from evaluate.gate import policy_checks as checks
from evaluate.gate.policy import Policy, Rule, Waiver, build_policy, load_policy
from evaluate.gate.verdict import judge, judge_candidate
from evaluate.metrics import GATEABLE
from evaluate.provenance import ComposedClaim, SweepRecord
from evaluate.real_facts import Shift
from evaluate.result import Candidate, Estimate, EvaluationError, Failure, SelfTest
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent
from synth.dp.schedule import Schedule
from synth.errors import JobError
from tests.evaluations import ABSENT, SCHEMA, evaluation_of, facts, stated, swept
from tests.planting import plant

AUC, VALID, COPIES, SHARE, PERSONAL = (
    "privacy.membership.auc", "validity.rows", "privacy.copies.excess", "pairs.dependence.floor_share",
    "privacy.personal",
)  # fmt: skip
TODAY = date(2026, 5, 4)
ALIKE = facts(shift=Shift(n_train=900, n_holdout=300, p_value=0.5))
OTHER = facts(shift=Shift(n_train=900, n_holdout=300, auc=0.9, low=0.8, high=0.95, p_value=1e-9))


def number(measure: str, low: float, value: float, high: float, **known: Any) -> Estimate:
    return Estimate(measure, value, 1000, GATEABLE[measure], low=low, high=high, **known)


def table(*result: Estimate | Failure, name: str = "c", **known: Any) -> Candidate:
    estimates, failures = (tuple(each for each in result if isinstance(each, kind)) for kind in (Estimate, Failure))
    return Candidate(name, estimates, failures, **known)  # type: ignore[arg-type]


def rule(measure: str, limit: float, **more: Any) -> Rule:
    return Rule(measure=measure, limit=limit, why="because", **more)


def policy_of(*rules: Rule) -> Policy:
    return Policy(name="p", version=3, audience="a", rules=rules)


def outcome(measure: str, limit: float, ends: tuple[float, float, float], **more: Any) -> str:
    return judge_candidate(table(number(measure, *ends)), policy_of(rule(measure, limit, **more))).verdict


QUIET, LEAKY = number(AUC, 0.48, 0.5, 0.52), number(AUC, 0.8, 0.85, 0.9)
UNSURE, WHOLE = number(AUC, 0.5, 0.58, 0.66), number(VALID, 0.98, 0.99, 1.0)
RULES = policy_of(rule(AUC, 0.6), rule(VALID, 0.95))


# Checks


def the_unfavorable_end_decides_in_both_directions() -> None:
    ways = {
        (0.50, 0.55, 0.59): "PASS", (0.50, 0.55, 0.60): "PASS", (0.60, 0.60, 0.60): "PASS",
        (0.50, 0.55, 0.62): "INCONCLUSIVE", (0.58, 0.62, 0.66): "INCONCLUSIVE", (0.60, 0.64, 0.68): "INCONCLUSIVE",
        (0.61, 0.64, 0.68): "FAIL", (0.61, 0.61, 0.61): "FAIL",
    }  # fmt: skip
    for (low, value, high), clause in ways.items():
        assert outcome(AUC, 0.6, (low, value, high)) == clause
        assert outcome(VALID, 0.6, (1.2 - high, 1.2 - value, 1.2 - low)) == clause
    assert judge_candidate(table(Estimate(AUC, 0.1, 9, "lower")), policy_of(rule(AUC, 0.6))).verdict == "INCONCLUSIVE"


def a_second_limit_says_what_fails() -> None:
    for limit, beyond, ends, clause in (
        (0.05, 0.0, (0.01, 0.02, 0.03), "FAIL"), (0.05, 0.0, (-0.01, 0.0, 0.04), "PASS"),
        (0.05, 0.0, (-0.01, 0.02, 0.06), "INCONCLUSIVE"), (0.05, 0.2, (0.1, 0.12, 0.15), "INCONCLUSIVE"),
        (0.05, 0.2, (0.21, 0.25, 0.3), "FAIL"),
    ):  # fmt: skip
        assert outcome(COPIES, limit, ends, fails_beyond=beyond) == clause


def the_worst_of_the_binding_rules_counts() -> None:
    for result, clause in ((QUIET, "PASS"), (UNSURE, "INCONCLUSIVE"), (LEAKY, "FAIL"), (None, "INCONCLUSIVE")):
        both = table(WHOLE) if result is None else table(WHOLE, result)
        assert judge_candidate(both, RULES).verdict == clause
        warned = policy_of(rule(AUC, 0.6, severity="warn"), rule(VALID, 0.95))
        assert judge_candidate(both, warned).verdict == "PASS"
    assert judge_candidate(table(LEAKY, number(VALID, 0.9, 0.95, 1.0)), RULES).verdict == "FAIL"
    assert judge_candidate(table(QUIET), policy_of()).verdict == "INCONCLUSIVE"
    for reason in ("failed", "timed out", "skipped", "not applicable"):
        assert judge_candidate(table(WHOLE, Failure(AUC, reason, "why")), RULES).verdict == "INCONCLUSIVE"  # type: ignore[arg-type]


TESTED = policy_of(rule(AUC, 0.6), rule(COPIES, 0.02, fails_beyond=0.0), rule(SHARE, 0.75))
GOOD = {
    "honest": (QUIET, number(COPIES, -0.01, 0.0, 0.01, reference=0.0)), "copy": (number(COPIES, 0.9, 0.95, 1.0),),
    "some copies": (number(COPIES, 0.03, 0.05, 0.07),), "shuffled": (number(SHARE, 0.9, 1.0, 1.1, floor=1.0),),
    "sorted": (number(SHARE, 2.0, 3.0, 4.0, floor=1.0),),
}  # fmt: skip
BLIND = {
    "honest": (LEAKY,), "copy": (QUIET,), "some copies": (number(COPIES, -0.01, 0.0, 0.01),),
    "shuffled": (number(SHARE, -0.1, 0.0, 0.1, floor=1.0),), "sorted": (number(SHARE, -0.1, 0.0, 0.1, floor=1.0),),
}  # fmt: skip


def no_self_test_may_be_left_out_or_blind() -> None:
    honest = table(QUIET, number(COPIES, -0.01, 0.0, 0.01), number(SHARE, 0.0, 0.1, 0.2))
    tests = {case: SelfTest(case, table(*result)) for case, result in GOOD.items()}

    def said(part: dict[str, SelfTest]) -> str:
        return judge_candidate(honest, TESTED, self_tests=part.values()).verdict

    assert said(tests) == "PASS"
    for case, result in BLIND.items():
        assert said({name: each for name, each in tests.items() if name != case}) == "INCONCLUSIVE", case
        assert said({**tests, case: SelfTest(case, table(*result))}) == "INCONCLUSIVE", case
    broke = SelfTest("copy", table(Failure(COPIES, "failed", "it broke down")))
    assert said({**tests, "copy": broke}) == "INCONCLUSIVE"


def _waiver(**changed: Any) -> Waiver:
    content = {"policy": "p", "version": 3, "candidate": "c", "measure": AUC, "owner": "o", "reason": "r"}
    return Waiver.model_validate({**content, "until": TODAY, **changed})


def a_waiver_is_of_one_rule_until_its_day() -> None:
    def said(*waivers: Waiver) -> str:
        return judge_candidate(table(LEAKY, WHOLE), RULES, waivers=waivers, today=TODAY).verdict

    assert said(_waiver()) == "PASS" and said() == "FAIL"
    for changed in ({"version": 2}, {"candidate": "d"}, {"measure": VALID}, {"policy": "q"}, {"subject": ("a",)}):
        assert said(_waiver(**changed)) == "FAIL", changed
    assert said(_waiver(until=TODAY - timedelta(1))) == "FAIL"


def some_things_are_never_waived() -> None:
    void = table(WHOLE, statement=stated(private=False))
    people = table(WHOLE, number(PERSONAL, 0.1, 0.1, 0.1))
    for result, measure in ((void, "statement.epsilon"), (people, PERSONAL)):
        rules = policy_of(rule(measure, 0.0 if measure == PERSONAL else 3.0), rule(VALID, 0.95))
        clause = judge_candidate(result, rules, waivers=[_waiver(measure=measure)], today=TODAY)
        assert clause.verdict == "FAIL", measure


def a_waiver_that_never_counts_is_refused() -> None:
    evaluation = evaluation_of(table(QUIET, WHOLE))
    for changed in ({"version": 2}, {"candidate": "d"}, {"measure": COPIES}, {"policy": "q"}):
        with pytest.raises(JobError, match="a waiver is for"):
            judge(evaluation, RULES, waivers=[_waiver(**changed)])


FIT = Schedule((GaussianEvent("counts", 12.0, count=9),), 1e-6)
OWN = Budget(FIT).statement(SCHEMA)


def _judged(candidate: Candidate, rules: Policy, *others: Candidate, **known: Any) -> verdict.Verdict:
    """Of a run that split the table itself, unless it is said otherwise."""
    built = evaluation_of(
        candidate, *others, **{"self_tests": ABSENT, "split": "keyed hash", "release": candidate.name, **known}
    )
    return judge(replace(built, real=ALIKE), rules)[0]


def a_claim_proves_only_what_it_allows() -> None:
    limit = FIT.trade_off.area + 1e-6
    wide, rules = number(AUC, 0.1, 0.5, 0.99), policy_of(rule(AUC, limit))
    assert _judged(table(wide, statement=OWN), rules).verdict == "PASS"
    for result, statement in (
        (wide, None),
        (Failure(AUC, "failed", "it broke down"), OWN),
        (wide, stated(epsilon=9.0)),
    ):
        assert _judged(table(result, statement=statement), rules).verdict != "PASS"
    for measured in ((0.95, 0.97, 0.99), (limit + 0.01, limit + 0.02, 0.99)):
        assert _judged(table(number(AUC, *measured), statement=OWN), rules).verdict == "FAIL"
    strict = policy_of(rule(AUC, limit, fails_beyond=0.3))
    assert _judged(table(number(AUC, 0.31, 0.35, 0.4), statement=OWN), strict).verdict == "FAIL"
    tight = policy_of(rule(AUC, FIT.trade_off.area - 1e-4))
    assert _judged(table(wide, statement=OWN), tight).verdict == "INCONCLUSIVE"
    far = number("privacy.membership.tpr_at_0.01", 0.5, 0.6, 0.7)  # contradicts the claim, which proves nothing then
    assert _judged(table(wide, far, statement=OWN), rules).verdict != "PASS"


AGAINST = Audit(
    epsilon=1.0, delta=1e-6, bound=9.0, distribution_free=0.9, strongest=36.0, confidence=0.99, n_trials=900,
    false_positives=(0.3, 0.2, 0.4), false_negatives=(0.3, 0.2, 0.4), ran_on="a public stand-in of 5 columns",
)  # fmt: skip


def only_a_claim_that_stands_proves_anything() -> None:
    wide, rules = number(AUC, 0.1, 0.5, 0.99), policy_of(rule(AUC, 0.98))
    assert _judged(table(wide, statement=OWN), rules).verdict == "PASS"
    assert _judged(table(wide, statement=replace(OWN, private=False)), rules).verdict == "INCONCLUSIVE"
    assert _judged(table(wide, statement=OWN), rules, split=None).verdict == "INCONCLUSIVE"
    assert _judged(table(wide, statement=OWN, audit=AGAINST), rules).verdict == "INCONCLUSIVE"
    asked = policy_of(rule("statement.epsilon", 100.0))
    assert _judged(table(statement=OWN, audit=AGAINST), asked).verdict == "INCONCLUSIVE"
    assert _judged(table(statement=replace(OWN, private=False)), asked).verdict == "FAIL"
    assert _judged(table(), asked).verdict == "FAIL"


def a_table_counts_with_all_that_it_was_picked_from() -> None:
    epsilon = Schedule(FIT.events * 2, 1e-6).epsilon
    rules, twin = policy_of(rule("statement.epsilon", 1.01 * FIT.epsilon)), table(name="d", statement=OWN)
    composed = {"epsilon": epsilon, "delta": 1e-6, "n_fits": 2}
    assert _judged(table(statement=OWN), rules, twin, composed=composed).verdict == "PASS"
    assert _judged(table(statement=OWN), rules, twin, composed=composed, release=None).verdict == "FAIL"
    assert _judged(table(statement=OWN), rules, twin, release=None).verdict == "FAIL"  # they add up
    sweep = swept({"releasable": True, "composed": composed}, "c", "d")
    assert _judged(table(statement=OWN), rules, twin, sweep=sweep, composed=composed).verdict == "FAIL"


def a_claim_below_what_its_events_cost_is_damage() -> None:
    rules, twin = policy_of(rule("statement.epsilon", 9.0)), table(name="d", statement=OWN)
    lies: list[tuple[Candidate, dict[str, Any]]] = [
        (table(statement=replace(OWN, epsilon=FIT.epsilon / 1.1, epsilon_rdp=FIT.epsilon)), {}),
        (table(statement=replace(OWN, events=())), {}),
        (table(statement=OWN), {"composed": {"epsilon": FIT.epsilon, "delta": 1e-6, "n_fits": 2}}),
        (table(statement=OWN), {"composed": {"epsilon": 9.0, "delta": 1e-6, "n_fits": 1}}),
        (table(statement=OWN), {"composed": {"epsilon": 9.0, "delta": 1e-9, "n_fits": 2}}),
    ]
    for first, known in lies:
        with pytest.raises(EvaluationError, match="damaged"):
            _judged(first, rules, twin, **known)


def an_unpaid_sweep_fails_whatever_it_measures() -> None:
    every = ComposedClaim(epsilon=0.1, delta=1e-6, n_fits=2)
    assert SweepRecord(False, every, ()).composed == every
    sweep = swept({"releasable": False, "composed": None}, "c")
    assert _judged(table(QUIET, WHOLE), RULES).verdict == "PASS"
    assert _judged(table(QUIET, WHOLE), RULES, sweep=sweep).verdict == "FAIL"


def nothing_passes_on_use_alone() -> None:
    assert _judged(table(WHOLE), policy_of(rule(VALID, 0.95))).verdict == "INCONCLUSIVE"
    unjudged = Estimate("validity.columns.unjudged", 0.5, 2, "lower", low=0.5, high=0.5, note="'memo' is not looked at")
    assert _judged(table(WHOLE, QUIET, unjudged), RULES).verdict == "INCONCLUSIVE"


def another_population_tells_nothing() -> None:
    for result, clause in ((QUIET, "PASS"), (LEAKY, "FAIL")):
        for real, expected in ((ALIKE, clause), (OTHER, "INCONCLUSIVE")):
            assert judge_candidate(table(result, WHOLE), RULES, real=real).verdict == expected
    turned = table(number(AUC, 0.2, 0.25, 0.3), WHOLE)  # nearer to the holdout than to train
    assert judge_candidate(turned, RULES, real=ALIKE).verdict == "INCONCLUSIVE"


def nobody_takes_the_name_of_a_policy_that_ships() -> None:
    weak = {"name": "Public", "version": 8, "audience": "all", "rules": [rule(AUC, 0.99).model_dump()]}
    with pytest.raises(JobError):
        build_policy(weak)
    with pytest.raises(JobError):
        judge(evaluation_of(table(QUIET)), load_policy("public").model_copy(update={"rules": (rule(AUC, 0.99),)}))


def what_no_rows_decide_is_said_and_what_they_do_is_not() -> None:
    near = number(AUC, 0.59, 0.599, 0.608)
    result = _judged(table(near, WHOLE), RULES)
    assert result.reason.startswith("CANNOT BE DECIDED") and "epsilon 0.4, or about 1.5 of Gaussian" in result.reason
    wide = number(AUC, 0.5, 0.55, 0.601)
    assert _judged(table(wide, WHOLE), RULES).reason == ""
    assert _judged(table(near, number(VALID, 0.5, 0.6, 0.7)), RULES).reason == ""


# Mutants


Check = Callable[[], None]
IN_BOTH, SECOND, WORST = (
    the_unfavorable_end_decides_in_both_directions, a_second_limit_says_what_fails,
    the_worst_of_the_binding_rules_counts,
)  # fmt: skip
TESTS, PROOF, STANDS = (
    no_self_test_may_be_left_out_or_blind,
    a_claim_proves_only_what_it_allows,
    only_a_claim_that_stands_proves_anything,
)
DAMAGE, PICKED, POPULATION = (
    a_claim_below_what_its_events_cost_is_damage, a_table_counts_with_all_that_it_was_picked_from,
    another_population_tells_nothing,
)  # fmt: skip
STUCK = what_no_rows_decide_is_said_and_what_they_do_is_not

MUTANTS: list[tuple[str, Any, str, str, str, Check]] = [
    ("a rule keeps what it should not", Rule, "keeps", "<=", ">=", IN_BOTH),
    ("a number on the limit does not keep it", Rule, "keeps", "<=", "<", IN_BOTH),
    ("a rule breaks what it should not", Rule, "breaks", "> self", "< self", IN_BOTH),
    ("a number on the limit breaks it", Rule, "breaks", "> self", ">= self", IN_BOTH),
    ("directions are turned", Rule, "_turned", '"lower"', '"higher"', IN_BOTH),
    ("every rule wants less", Rule, "_turned", "else -value", "else value", IN_BOTH),
    ("the ends are swapped", decision, "_of_interval", "(low, high) if", "(high, low) if", IN_BOTH),
    ("the ends are not swapped where more is better", decision, "_of_interval", "else (high, low)", "else (low, high)",
     IN_BOTH),
    ("the favorable end keeps a limit", decision, "_of_interval", "rule.keeps(worst)", "rule.keeps(best)", IN_BOTH),
    ("the unfavorable end breaks a limit", decision, "_of_interval", "rule.breaks(best)", "rule.breaks(worst)",
     IN_BOTH),
    ("the number itself decides", decision, "_of_interval", "low, high = estimate.interval",
     "low = high = estimate.value", IN_BOTH),
    ("what has no interval passes", decision, "_measured", '"INCONCLUSIVE", "It has no', '"PASS", "It has no', IN_BOTH),
    ("the second limit is not looked at", Rule, "failing", "self.limit if self.fails_beyond is None else "
     "self.fails_beyond", "self.limit", SECOND),
    ("a FAIL is outweighed", verdict, "judge_candidate", 'barred or "FAIL" in outcomes', 'outcomes == {"FAIL"}', WORST),
    ("what is open passes", verdict, "judge_candidate", 'outcomes != {"PASS"}', '"PASS" not in outcomes', WORST),
    ("without rules all passes", verdict, "judge_candidate", 'outcomes != {"PASS"}', '"INCONCLUSIVE" in outcomes',
     WORST),
    ("warnings bind", decision.Finding, "binding", '== "fail"', '!= "none"', WORST),
    ("what was not run is no matter", verdict, "_applies", "return candidate.statement is not None or",
     "return number is not None and", WORST),
    ("what applies to no table is no matter", verdict, "_applies", "not CATALOG[rule.measure].may_lack", "False",
     WORST),
    ("broken self-tests are no matter", verdict, "judge_candidate", "check.outcome == BROKEN", "False", TESTS),
    ("a self-test is skipped", checks, "checks_of", "(*CASES,", "(*CASES[:-1],", TESTS),
    ("the honest one is skipped", checks, "checks_of", "(*CASES,", "(*CASES[1:],", TESTS),
    ("a missing self-test came out", checks, "_check", "Check(case, BROKEN, why)", "Check(case, CAME_OUT, why)", TESTS),
    ("honest rows that fail are by chance", checks, "_by_chance", "return not all(", "return True or all(", TESTS),
    ("honest rows may fail", checks, "_unreachable", "return finding.outcome", "return True or finding.outcome", TESTS),
    ("a blind measure has nothing to tell", checks, "_untelling", "return case !=", "return True or case !=", TESTS),
    ("copies that pass are allowed", checks, "_untelling", "return not finding.rule.breaks(COPIED)", "return True",
     TESTS),
    ("a blind measure is excused", checks, "_spoiled", "spoiled.subtle and any(", "True or any(", TESTS),
    ("a broken measure is excused", checks, "_halted", "failure.reason in ways", "False", TESTS),
    ("a waiver never ends", Waiver, "in_force", "today <= self.until", "True", a_waiver_is_of_one_rule_until_its_day),
    ("a waiver ends a day early", Waiver, "in_force", "<=", "<", a_waiver_is_of_one_rule_until_its_day),
    ("a waiver is of any version", verdict, "judge_candidate", "(policy.name, policy.version, candidate.name,",
     "(policy.name, next(iter(by_key), (0, 0))[1], candidate.name,", a_waiver_is_of_one_rule_until_its_day),
    ("a waiver is of any table", verdict, "judge_candidate", "policy.version, candidate.name,",
     "policy.version, next(iter(by_key), (0, 0, 0))[2],", a_waiver_is_of_one_rule_until_its_day),
    ("all may be waived", decision, "_never", 'return NEVER_WAIVED.get(rule.measure, "" if', 'return ("" if True or',
     some_things_are_never_waived),
    ("void statements may be waived", decision, "_never", "finding.reason == VOID", "False",
     some_things_are_never_waived),
    ("any waiver is taken", policy, "_fault_of", "if waiver.policy not in known:", 'return ""\n    if False:',
     a_waiver_that_never_counts_is_refused),
    ("the claim bounds half as much", decision, "most_of", "limit.area if", "0.5 + (limit.area - 0.5) / 2 if", PROOF),
    ("a proof outweighs what was measured", decision, "_proved", 'or finding.outcome == "FAIL" or', "or", PROOF),
    ("a contradiction is not seen", decision, "_contradicts", "estimate.low > most", "False", PROOF),
    ("a proof needs no rule that it keeps", decision, "_proved", "not finding.rule.keeps(most)", "False", PROOF),
    ("what broke down is proved", decision, "finding_of", "limit is None or broke", "limit is None", PROOF),
    ("a void claim proves", claim, "_stands", "claims.counted.private and", "", STANDS),
    ("a disputed claim proves", claim, "_stands", "not claims.counted.disputed and", "", STANDS),
    ("whoever claims is believed", claim, "_stands", "and made_here(evaluation)", "", STANDS),
    ("audits dispute nothing", claim, "disproved", "return audit is not None", "return False and audit is not None",
     STANDS),
    ("a void claim passes", decision, "_of_statement", "not (stated.private and counted.private)", "False", STANDS),
    ("no claim is needed", decision, "_of_statement", '"FAIL", NO_GUARANTEE', '"PASS", NO_GUARANTEE', STANDS),
    ("a composition is its smallest part", claim, "_covering", "epsilon=max(", "epsilon=min(", PICKED),
    ("a table stands alone", claim, "claims_of", "if run is not None and candidate.name != known.release",
     "if False", PICKED),
    ("every table was named", claim, "claims_of", "candidate.name != known.release", "known.release", PICKED),
    ("a sweep is one fit", claim, "claims_of", 'parts.append(composed("sweep", known.sweep.composed))', "pass", PICKED),
    ("what nobody composed is free", claim, "_added_up", "len(drawn) < 2", "True", PICKED),
    ("a smaller epsilon is believed", claim, "_exceeds", "return spent", "return False and spent", DAMAGE),
    ("no events are believed", claim, "_check_stated", "not stated.events", "False", DAMAGE),
    ("releases may be left out", claim, "_check_several", "n_releases < len(releases)", "False", DAMAGE),
    ("a smaller delta is believed", claim, "_check_several", "delta < least * (1 - ROUNDING)", "False", DAMAGE),
    ("an unpaid sweep is paid", verdict, "_unpaid", "not sweep.releasable", "False",
     an_unpaid_sweep_fails_whatever_it_measures),
    ("use alone passes", verdict, "_on_privacy", 'if verdict.verdict != "PASS" or', "if True or",
     nothing_passes_on_use_alone),
    ("nobody looks at unjudged columns", Policy, "all_rules", "(*(rule for rule in ALWAYS if rule.measure not in "
     "written), *self.rules)", "self.rules", nothing_passes_on_use_alone),
    ("a shift is no matter", verdict, "questioned", "stays or", "True or", POPULATION),
    ("swapped sides are no matter", verdict, "_turned_round", "< LARGEST", "< 0", POPULATION),
    ("names are free", policy, "check_name", "alike in shipped()", "False",
     nobody_takes_the_name_of_a_policy_that_ships),
    ("names are told apart by case", policy, "check_name", ".casefold()", "",
     nobody_takes_the_name_of_a_policy_that_ships),
    ("every table has all rows", decision, "_lacking", "counted.real_rows(n, n_needed, real) < n_rows", "True", STUCK),
    ("no table has more rows", decision, "_lacking", "counted.real_rows(n, n_needed, real) < n_rows", "False", STUCK),
    ("twice the epsilon proves it", decision, "_down", "return round(", "return round(2 * ", STUCK),
    ("what fails is said to be open", verdict.Verdict, "reason", 'self.verdict != "INCONCLUSIVE" or', "", STUCK),
]  # fmt: skip
CHECKS = list(dict.fromkeys(check for *_, check in MUTANTS))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_gate_as_it_is_passes(check: Check) -> None:
    check()


@pytest.mark.parametrize(
    ("owner", "name", "old", "new", "check"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS]
)
def test_a_fault_of_the_gate_is_caught(owner, name, old, new, check, monkeypatch):
    plant(monkeypatch, owner, name, old, new)
    decision.proving_epsilons.cache_clear()
    try:
        with pytest.raises((AssertionError, pytest.fail.Exception)) as caught:
            check()
    finally:
        decision.proving_epsilons.cache_clear()
    # Caught by the check, that is: a mutant that only breaks the program proves nothing about it.
    assert isinstance(caught.value, pytest.fail.Exception) or str(caught.traceback[-1].path) == __file__
