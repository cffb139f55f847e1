"""The first screen: verdicts with their reasons, and one line each on utility, fidelity, attacks and the guarantee.

Each line is one number on an axis that all tables share, with what is worse on the left and better on the right.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.claim import Protection
from evaluate.gate.decision import Finding
from evaluate.gate.policy import STATEMENT, shipped
from evaluate.gate.policy_checks import BROKEN, TITLES, Check
from evaluate.gate.verdict import Verdict, judge
from evaluate.result import Candidate, Estimate, Evaluation, Failure
from evaluate.text import at_most, listed, mapping
from reports.glossary import entry, shown, spoken
from synth import extras

Anchor = Literal["utility", "comparison", "attacks", "guarantee"]
WITHOUT = "utility.gap.boosting.without"
MEASURES: Mapping[Anchor, tuple[str, ...]] = {
    "utility": (WITHOUT, "utility.tstr.boosting", "utility.tstr.linear"),
    "comparison": ("joint.c2st.auc", "pairs.tvd.excess", "columns.tvd.excess"),
    "attacks": ("privacy.membership.auc",),
}
"""The number of each line: the first of them that any table has. Without columns that give the target away only where
there are such columns."""
ABSENT: Mapping[Anchor, str] = {"utility": "Utility", "comparison": "Fidelity", "attacks": "Membership attack"}
"""The title of a line without a number."""
AROUND: Mapping[Anchor, tuple[float, ...]] = {"attacks": (0.4, 0.6)}
"""Values that an axis reaches at least, so that noise about 0.5 does not look like a leak."""
FALSE_ALARM_RATE = 0.01


Guarantee = tuple[Protection | None, str, str]
"""What protects a table, its units of privacy as a noun, and what it lacks without protection."""


@dataclass(frozen=True)
class Cell:
    """One table on a line: the number and its words, or the words alone where there is none."""

    words: str
    estimate: Estimate | None = None
    spoken: str = ""


@dataclass(frozen=True)
class OverviewLine:
    """One number of all tables, with what it means and values that its axis holds beside theirs."""

    anchor: Anchor
    title: str
    meaning: str
    cells: tuple[Cell, ...]
    around: tuple[float, ...] = ()

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        return tuple(cell.estimate for cell in self.cells if cell.estimate is not None)


def answers_of(evaluation: Evaluation, applied: Sequence[Verdict], names: Iterable[str]) -> tuple[Verdict, ...]:
    """What the policies that ship and were not applied say; nothing where none was, nor of a comparison of vendors."""
    missing = [policy for policy in shipped() if policy not in {verdict.policy for verdict in applied}]
    return judge(evaluation, missing, names) if applied and evaluation.ranking is None else ()


def overview_of(
    candidates: Sequence[Candidate], guarantees: Sequence[Guarantee], unlearned: Sequence[str] = ()
) -> tuple[OverviewLine, ...]:
    lines = [_line(anchor, measures, candidates, unlearned) for anchor, measures in MEASURES.items()]
    return (*lines, _limits(guarantees))


def _line(
    anchor: Anchor, measures: Sequence[str], candidates: Sequence[Candidate], unlearned: Sequence[str]
) -> OverviewLine:
    given_away = anchor == "utility" and any(map(_gives_away, candidates))
    names = [name for name in measures if (name == WITHOUT) == given_away]
    measure = next((n for n in names if any(isinstance(c.find(n), Estimate) for c in candidates)), "")
    cells = []
    for candidate in candidates:
        answers = [candidate.find(name) for name in measures]
        estimate = candidate.find(measure) if measure else None
        if isinstance(estimate, Estimate):
            words = spoken(estimate, "guessing" if anchor == "attacks" else "fresh real sample")
            cells.append(Cell(shown(estimate), estimate, f"{entry(measure).title}: {words}"))
        else:
            reason = next((answer.reason for answer in answers if isinstance(answer, Failure)), "not run")
            cells.append(Cell("target given away" if given_away else reason))
    if not measure:
        return OverviewLine(anchor, ABSENT[anchor], "", tuple(cells))
    meaning = entry(measure).sentence.rstrip(".")
    if anchor == "comparison" and unlearned:
        meaning += f"; without the columns {listed(unlearned)}"
    return OverviewLine(anchor, entry(measure).title, meaning, tuple(cells), AROUND.get(anchor, ()))


def _gives_away(candidate: Candidate) -> bool:
    """True where a column gives the target away, so that a score with it says nothing."""
    utility = mapping(candidate.figures.get("utility"))
    return bool(utility.get("giveaways") or utility.get("without"))


def _limits(guarantees: Sequence[Guarantee]) -> OverviewLine:
    """The most that any test of "in or out" finds, which the noise or the claim proves."""
    cells, units = [], []
    for protection, noun, lacks in guarantees:
        if protection is None:
            cells.append(Cell(lacks))
            continue
        units.append(noun)
        most = protection.limit.detections(FALSE_ALARM_RATE)
        estimate = Estimate("statement.epsilon", most, 0, "lower", (), None, None, FALSE_ALARM_RATE, None)
        words = f"Guarantee: any test finds at most {at_most(most)} at 1% false alarms; guessing finds 1%"
        cells.append(Cell(f"≤ {at_most(most)}", estimate, words))
    named = " or ".join(dict.fromkeys(units))
    meaning = f"Share of the {named} in the real table that any attack can find while it accuses 1% of others"
    return OverviewLine("guarantee", "Guarantee on attacks", meaning if units else "", tuple(cells), (0.0, 1.0))


MOST_REASONS = 5  # That are told at once
Kind = Literal["upper end", "lower end", "bound", "claim", "proof"]


@dataclass(frozen=True)
class Ruling:
    """A verdict with its reasons: what is against it, the worst first, then `more`; or the closest calls of a pass."""

    verdict: Verdict
    reasons: tuple[Finding, ...]
    more: tuple[Finding, ...]
    lapsed: tuple[Finding, ...]
    broken: tuple[Check, ...]

    @property
    def words(self) -> str:
        return f"{self.verdict.verdict}: for {self.verdict.audience}"


def ruling_of(verdict: Verdict) -> Ruling:
    if verdict.verdict == "PASS":
        passed = [f for f in verdict.findings if f.outcome == "PASS" and f.estimate is not None]
        reasons = sorted(passed, key=lambda f: (f.rule.severity == "warn", _slack(f)))
    else:
        weight = {("FAIL", "fail"): 0, ("INCONCLUSIVE", "fail"): 1, ("FAIL", "warn"): 2, ("INCONCLUSIVE", "warn"): 3}
        against = [f for f in verdict.findings if f.outcome != "PASS"]
        reasons = sorted(against, key=lambda f: (f.waived, weight[f.outcome, f.rule.severity]))
    return Ruling(
        verdict=verdict,
        reasons=tuple(reasons[:MOST_REASONS]),
        more=() if verdict.verdict == "PASS" else tuple(reasons[MOST_REASONS:]),
        lapsed=tuple(f for f in verdict.findings if f.waiver is not None and not f.waived),
        broken=tuple(check for check in verdict.checks if check.outcome == BROKEN),
    )


def bound_of(finding: Finding) -> tuple[float, Kind] | None:
    """The end of the interval that decided: the favorable one breaks a limit, the unfavorable one keeps it."""
    estimate = finding.estimate
    if finding.proven is not None:
        return finding.proven, "proof"
    if estimate is None:
        return None
    if finding.rule.measure.startswith(STATEMENT):
        return estimate.value, "claim"
    if estimate.low is None or estimate.high is None:
        return None
    upper = (finding.rule.direction == "lower") != (finding.outcome == "FAIL")
    end = estimate.high if upper else estimate.low
    return end, "bound" if finding.rule.measure == AUDITED else "upper end" if upper else "lower end"


def first_sentence(reason: str) -> str:
    """The first sentence of a reason; a full stop within a quoted name ends none.

    >>> first_sentence("Column 'St. Louis' is off. Look at it."), first_sentence("It holds.")
    ("Column 'St. Louis' is off.", 'It holds.')
    """
    match = re.match(r"(?:'[^']*'|[^'])*?[.](?= [A-Z]|$)", reason)
    return match[0] if match else reason


def self_checks(evaluation: Evaluation, verdicts: Sequence[Verdict]) -> tuple[tuple[str, tuple[Check, ...], str], ...]:
    """Of each self-test its title, what policies said of it, and why it says nothing."""
    policies = {(v.policy, v.version): v for v in verdicts}.values()
    absent = {test.case: test.absent for test in evaluation.self_tests}
    titles = {**TITLES, **{case: spoiled.title for case, spoiled in extras.load("self-test").items()}}
    checks = {case: tuple(c for v in policies for c in v.checks if c.case == case) for case in titles}
    return tuple(
        (title, checks[case], absent.get(case, "")) for case, title in titles.items() if case in absent or checks[case]
    )


def _slack(finding: Finding) -> float:
    """The room that a rule had left, as a share of the way from a fresh real sample to the limit."""
    estimate, limit = finding.estimate, finding.rule.limit
    if estimate is None:
        return math.inf
    worst = estimate.high if finding.rule.direction == "lower" else estimate.low
    worst = worst if finding.proven is None else finding.proven
    room = abs(limit - (estimate.reference or 0.0))
    if room == 0.0:  # a limit that leaves none, kept to the letter, was no close call
        return math.inf
    return abs(limit - (estimate.value if worst is None else worst)) / room
