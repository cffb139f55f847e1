"""Checks of self-tests: a policy's verdicts on tables of which the answer is known.

A half of the holdout must fail nothing. A copy of train must fail on privacy, a few copies among honest rows on copies.
Columns shuffled or sorted one by one must fail on what holds between columns; texts are shuffled with them. Extras
bring further cases, and their numbers say which cases spoil them. A case speaks only through rules that could show it
on this table:

* an interval that holds the limit has too few rows behind it to decide, which is no fault;
* a rule that a fresh real sample breaks itself (the reference) tells nothing of the table;
* nor does one that shuffled columns keep (the floor): columns are nearly independent, or nothing could break it;
* a rule that allows as many copies as there are is the policy's choice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.finding import Finding, finding_of
from evaluate.gate.policy import STATEMENT, Policy, Rule
from evaluate.gate.spoiled_cases import brought_cases, spoiled_case
from evaluate.metrics import CATALOG
from evaluate.result import CASES, Candidate, Case, Failure, Reason, SelfTest

CAME_OUT: Literal["came out"] = "came out"
BROKEN: Literal["did not come out"] = "did not come out"
NOT_APPLICABLE: Literal["not applicable"] = "not applicable"

PRIVACY = ("privacy.",)
COPYING = ("privacy.copies",)
COPIED = 0.05  # Share of training rows among honest ones in the self-test of some copies
BETWEEN = ("pairs.", "triples.", "joint.")
"""Of fidelity, what looks at several columns at once: each alone, shuffled columns are right."""
UNMEASURED = (STATEMENT, AUDITED)  # Numbers that no table gives of itself
OF_OTHERS = "privacy.copies.holdout"  # It asks for held-out people, none of whom stands in a spoiled table
FAMILIES: Mapping[Case, tuple[tuple[str, ...], str]] = {
    "copy": (PRIVACY, "privacy"),
    "some copies": (COPYING, "copies"),
    "shuffled": (BETWEEN, "what holds between columns"),
    "sorted": (BETWEEN, "what holds between columns"),
}
"""Beginnings of the measures on which a spoiled table must fail, and their subject."""
TEXTS: Mapping[Case, str] = {
    "copy": "A copy of the training rows",
    "some copies": f"A table of held-out rows with {COPIED:.0%} of training rows among them",
    "shuffled": "The training table with every column shuffled",
    "sorted": "The training table with every column sorted on its own",
}
SUBTLE: tuple[Case, ...] = ("some copies", "sorted")  # Cases in which some rules of the family are right to pass
STRETCH = 2.0
"""How much wider than its 95% interval a number has to miss a limit before honest rows are said to break it. Several
rules are tried on few rows of every table, and one in forty intervals lies beyond the truth on one side by chance;
twice as wide, it is one in ten thousand."""


@dataclass(frozen=True)
class Check:
    case: Case
    outcome: Literal["came out", "did not come out", "not applicable"]
    reason: str


def checks_of(self_tests: Iterable[SelfTest], policy: Policy, real: Any = None) -> tuple[Check, ...]:
    """The outcome of each case under a policy. A case without self-test has failed. `real`: facts about the table."""
    there = {one.case: one for one in self_tests}
    cases = (*CASES, *brought_cases(lambda need: bool(getattr(real, need, None))))
    return tuple(_check(case, there.get(case), policy) for case in cases)


def _check(case: Case, test: SelfTest | None, policy: Policy) -> Check:
    if test is None:
        return Check(
            case,
            BROKEN,
            "The evaluation holds no such self-test, so nothing shows that its measures work; evaluate again.",
        )
    if test.candidate is None:
        return Check(case, NOT_APPLICABLE, test.absent)
    rules = [rule for rule in policy.rules if rule.severity == "fail" and not rule.measure.startswith(UNMEASURED)]
    if case == "honest":
        return _honest(test.candidate, rules)
    family, of = FAMILIES.get(case) or ((), spoiled_case(case).subject)
    rules = [rule for rule in rules if _shows(rule, case, family) and rule.measure != OF_OTHERS]
    if not rules:
        return Check(case, NOT_APPLICABLE, f"The policy has no binding rule on {of}.")
    return _spoiled(case, test.candidate, rules)


def _shows(rule: Rule, case: Case, family: tuple[str, ...]) -> bool:
    metric = CATALOG.get(rule.measure)
    return rule.measure.startswith(family) or (metric is not None and case in metric.spoiled_by)


def _honest(candidate: Candidate, rules: list[Rule]) -> Check:
    """A half of the holdout must break no rule that a fresh real sample keeps."""
    found = [finding_of(candidate, rule) for rule in _measured(candidate, rules)]
    told = [finding for finding in found if finding.estimate is not None and not _unreachable(finding)]
    for finding in told:
        if finding.outcome == "FAIL" and not _by_chance(finding):
            why = f"Held-out real rows break {_named(finding)}, so a table that breaks it may be honest, too."
            return Check("honest", BROKEN, why)
    late = () if told else ("timed out",)  # what did end is evidence enough
    halted = _halted("honest", candidate, [finding.rule for finding in found], ("failed", *late))
    if halted is None and not told:
        return Check("honest", NOT_APPLICABLE, "No measure that a binding rule names says anything of this table.")
    return halted or Check(
        "honest", CAME_OUT, f"Held-out real rows break none of {len(told)} rules by more than chance."
    )


def _spoiled(case: Case, candidate: Candidate, rules: list[Rule]) -> Check:
    """At least one rule has to fail; those that could not on this table are no evidence either way."""
    found = [finding_of(candidate, rule) for rule in _measured(candidate, rules)]
    failed = [finding for finding in found if finding.outcome == "FAIL"]
    if failed:
        return Check(case, CAME_OUT, f"{_text(case)} breaks {_named(failed[0])}.")
    passed = [finding for finding in found if finding.outcome == "PASS" and not _untelling(case, finding)]
    # Another rule may see with more rows what is not wrong in every way, and until then such a table passes nothing.
    if passed and not (case in SUBTLE and any(_leans_to_fail(finding) for finding in found)):
        return Check(case, BROKEN, f"{_text(case)} keeps {_named(passed[0])}, which would not have seen it.")
    halted = _halted(case, candidate, [finding.rule for finding in found])
    return halted or Check(case, NOT_APPLICABLE, _silent(case, found))


def _text(case: Case) -> str:
    return TEXTS[case] if case in TEXTS else spoiled_case(case).text


def _silent(case: Case, found: list[Finding]) -> str:
    """The reason why no rule says anything of a spoiled table."""
    if not found:
        return "What the policy's rules on it rest on is not part of a self-test, or was not asked for."
    if any(finding.outcome == "INCONCLUSIVE" and finding.estimate is not None for finding in found):
        return "The table is too small for any interval to decide."
    if case == "some copies" and any(finding.outcome == "PASS" for finding in found):
        return f"The policy allows {COPIED:.0%} of copies."
    if case not in CASES:
        return spoiled_case(case).silent
    if any(finding.outcome == "PASS" for finding in found):
        return "Shuffled columns keep these limits by their own landmark: the columns are nearly independent."
    why = "The columns are nearly independent, or the table is too small" if case in ("shuffled", "sorted") else ""
    return f"{why or 'The table is too small, or too many of its rows are alike,'} to tell."


def _measured(candidate: Candidate, rules: list[Rule]) -> list[Rule]:
    return [rule for rule in rules if candidate.get(rule.measure, rule.subject) is not None]


def _halted(
    case: Case, candidate: Candidate, rules: list[Rule], ways: tuple[Reason, ...] = ("failed", "timed out")
) -> Check | None:  # fmt: skip
    """The check of a case in which a measure broke down or did not end; `None` where all did."""
    for rule in rules:
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
    found = finding.estimate
    return finding.outcome == "INCONCLUSIVE" and (found is None or finding.rule.breaks(found.value))


def _by_chance(finding: Finding) -> bool:
    """True where an interval `STRETCH` times as wide would hold the limit."""
    found = finding.estimate
    if found is None:
        return False
    ends = [found.value + STRETCH * (end - found.value) for end in (found.low, found.high) if end is not None]
    return not all(finding.rule.breaks(end) for end in ends)


def _untelling(case: Case, finding: Finding) -> bool:
    """True where shuffled columns or dealt rows keep the rule by its own landmark, or it allows that many copies."""
    if case == "some copies":
        return not finding.rule.breaks(COPIED)
    floor = None if finding.estimate is None else finding.estimate.floor
    return case != "copy" and floor is not None and finding.rule.keeps(floor)


def _named(finding: Finding) -> str:
    subject = f" of {', '.join(finding.rule.subject)}" if finding.rule.subject else ""
    return f"{finding.rule.measure}{subject}"
