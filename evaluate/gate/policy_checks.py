"""Checks of self-tests: a policy's verdicts on tables of which the answer is known.

A half of the holdout must fail nothing, and each spoiled table on what it spoils. A rule says nothing of a case where
its limit lies within the interval, where a fresh real sample breaks it too, where shuffled columns keep it, or where it
allows as many copies as there are. Extras bring more cases by the registry kind "self-test".
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.decision import Finding, finding_of
from evaluate.gate.policy import STATEMENT, Policy, Rule
from evaluate.metrics import CATALOG
from evaluate.result import CASES, Candidate, Case, Failure, SelfTest
from synth import extras

COPIED = 0.05  # Share of training rows among honest ones in the self-test of some copies
_BETWEEN = ("pairs.", "triples.", "joint.")  # Of fidelity, what looks at several columns: each alone is right
_INDEPENDENT = "The columns are nearly independent, or the table is too small, to tell."


@dataclass(frozen=True)
class SpoiledCase:
    """A case in words, with the beginnings of the numbers that must show it, beside those whose `Metric.spoiled_by`
    says so. Of an extra, `spoil` makes the table of the real rows (`evaluate.tables.Real`), where the schema has what
    it `needs`, and `measure` measures it. Some rules are right to pass a `subtle` case.
    """

    title: str
    text: str
    subject: str
    silent: str
    families: tuple[str, ...] = ()
    subtle: bool = False
    needs: str = ""
    measure: str = ""
    spoil: Callable[[Any], Any] = attrgetter("train")


OURS: Mapping[Case, SpoiledCase] = {
    "copy": SpoiledCase(
        "A copy of the training table must fail on privacy", "A copy of the training rows", "privacy",
        "The table is too small, or too many of its rows are alike, to tell.", ("privacy.",),
    ),
    "some copies": SpoiledCase(
        f"Held-out rows with {COPIED:.0%} of training rows among them must fail on copies",
        f"A table of held-out rows with {COPIED:.0%} of training rows among them", "copies",
        f"The policy allows {COPIED:.0%} of copies, or too many rows are alike to tell.", ("privacy.copies",), True,
    ),
    "shuffled": SpoiledCase(
        "Columns shuffled on their own must fail on fidelity", "The training table with every column shuffled",
        "what holds between columns", _INDEPENDENT, _BETWEEN,
    ),
    "sorted": SpoiledCase(
        "Columns sorted on their own must fail on fidelity", "The training table with every column sorted on its own",
        "what holds between columns", _INDEPENDENT, _BETWEEN, True,
    ),
}  # fmt: skip
"""Those of every table, beside half of the holdout, which must not fail."""
TITLES: Mapping[Case, str] = {
    "honest": "Half of the holdout must not fail", **{case: OURS[case].title for case in CASES if case in OURS},
}  # fmt: skip


def brought_cases(has: Callable[[str], bool]) -> dict[str, SpoiledCase]:
    """The cases of extras for a table, by what it has."""
    return {case: spoiled for case, spoiled in extras.load("self-test").items() if has(spoiled.needs)}


def spoiled_case(name: Case) -> SpoiledCase:
    case: SpoiledCase = OURS[name] if name in OURS else extras.load("self-test")[name]
    return case


Result = Literal["came out", "did not come out", "not applicable"]
CAME_OUT: Result = "came out"
BROKEN: Result = "did not come out"
NOT_APPLICABLE: Result = "not applicable"

UNMEASURED = (STATEMENT, AUDITED)  # Numbers that no table gives of itself
OF_OTHERS = "privacy.copies.holdout"  # It asks for held-out people, none of whom stands in a spoiled table
STRETCH = 2.0
"""How much wider than its 95% interval a number has to miss a limit before honest rows are said to break it. Several
rules are tried on few rows of every table, and one in forty intervals lies beyond the truth on one side by chance;
twice as wide, it is one in ten thousand."""


@dataclass(frozen=True)
class Check:
    case: Case
    outcome: Result
    reason: str


def checks_of(self_tests: Iterable[SelfTest], policy: Policy, real: Any = None) -> tuple[Check, ...]:
    """The outcome of each case under a policy. A case without self-test has failed. `real`: facts about the table."""
    there = {test.case: test for test in self_tests}
    cases = (*CASES, *brought_cases(lambda need: bool(getattr(real, need, None))))
    return tuple(_check(case, there.get(case), policy) for case in cases)


def _check(case: Case, test: SelfTest | None, policy: Policy) -> Check:
    if test is None:
        why = "The evaluation holds no such self-test, so nothing shows that its measures work; evaluate again."
        return Check(case, BROKEN, why)
    if test.candidate is None:
        return Check(case, NOT_APPLICABLE, test.absent)
    rules = [rule for rule in policy.rules if rule.severity == "fail" and not rule.measure.startswith(UNMEASURED)]
    if case != "honest":
        rules = [rule for rule in rules if _shows(rule, case)]
        if not rules:
            return Check(case, NOT_APPLICABLE, f"The policy has no binding rule on {spoiled_case(case).subject}.")
    rules = [rule for rule in rules if test.candidate.get(rule.measure, rule.subject) is not None]
    findings = [finding_of(test.candidate, rule) for rule in rules]
    return _honest(test.candidate, findings) if case == "honest" else _spoiled(case, test.candidate, findings)


def _shows(rule: Rule, case: Case) -> bool:
    metric = CATALOG.get(rule.measure)
    by_name = rule.measure.startswith(spoiled_case(case).families) and rule.measure != OF_OTHERS
    return by_name or (metric is not None and case in metric.spoiled_by)


def _honest(candidate: Candidate, findings: list[Finding]) -> Check:
    """A half of the holdout must break no rule that a fresh real sample keeps."""
    told = [finding for finding in findings if finding.estimate is not None and not _unreachable(finding)]
    for finding in told:
        if finding.outcome == "FAIL" and not _by_chance(finding):
            why = f"Held-out real rows break {finding.name}, so a table that breaks it may be honest, too."
            return Check("honest", BROKEN, why)
    late = () if told else ("timed out",)  # what did end is evidence enough
    halted = _halted("honest", candidate, findings, ("failed", *late))
    if halted is None and not told:
        return Check("honest", NOT_APPLICABLE, "No measure that a binding rule names says anything of this table.")
    why = f"Held-out real rows break none of {len(told)} rules by more than chance."
    return halted or Check("honest", CAME_OUT, why)


def _spoiled(case: Case, candidate: Candidate, findings: list[Finding]) -> Check:
    """At least one rule has to fail; those that could not on this table are no evidence either way."""
    spoiled = spoiled_case(case)
    failed = [finding for finding in findings if finding.outcome == "FAIL"]
    if failed:
        return Check(case, CAME_OUT, f"{spoiled.text} breaks {failed[0].name}.")
    passed = [finding for finding in findings if finding.outcome == "PASS" and not _untelling(case, finding)]
    # Another rule may see with more rows what is not wrong in every way, and until then such a table passes nothing.
    if passed and not (spoiled.subtle and any(_leans_to_fail(finding) for finding in findings)):
        return Check(case, BROKEN, f"{spoiled.text} keeps {passed[0].name}, which would not have seen it.")
    silent = spoiled.silent
    if not findings:
        silent = "What the policy's rules on it rest on is not part of a self-test, or was not asked for."
    elif any(finding.outcome == "INCONCLUSIVE" and finding.estimate is not None for finding in findings):
        silent = "The table is too small for any interval to decide."
    return _halted(case, candidate, findings) or Check(case, NOT_APPLICABLE, silent)


def _halted(
    case: Case, candidate: Candidate, findings: list[Finding], ways: tuple[str, ...] = ("failed", "timed out")
) -> Check | None:  # fmt: skip
    """The check of a case in which a measure broke down or did not end; `None` where all did."""
    for rule in (finding.rule for finding in findings):
        failure = candidate.get(rule.measure, rule.subject)
        if isinstance(failure, Failure) and failure.reason in ways:
            return Check(case, BROKEN, f"{rule.measure} gave no number: {failure.message.rstrip('.')}.")
    return None


def _unreachable(finding: Finding) -> bool:
    """True where a fresh real sample breaks the rule, too, so that honest rows cannot keep it."""
    reference = None if finding.estimate is None else finding.estimate.reference
    return finding.outcome == "FAIL" and reference is not None and finding.rule.breaks(reference)


def _leans_to_fail(finding: Finding) -> bool:
    """True where more rows may make an open rule fail: its point estimate breaks it, or there is none."""
    estimate = finding.estimate
    return finding.outcome == "INCONCLUSIVE" and (estimate is None or finding.rule.breaks(estimate.value))


def _by_chance(finding: Finding) -> bool:
    """True where an interval `STRETCH` times as wide would hold the limit."""
    estimate = finding.estimate
    if estimate is None:
        return False
    value, interval = estimate.value, (estimate.low, estimate.high)
    ends = [value + STRETCH * (end - value) for end in interval if end is not None]
    return not all(finding.rule.breaks(end) for end in ends)


def _untelling(case: Case, finding: Finding) -> bool:
    """True where shuffled columns keep the rule by its own landmark, or it allows that many copies."""
    if case == "some copies":
        return not finding.rule.breaks(COPIED)
    floor = None if finding.estimate is None else finding.estimate.floor
    return case != "copy" and floor is not None and finding.rule.keeps(floor)
