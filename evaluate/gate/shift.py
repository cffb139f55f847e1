"""Distribution shift between train and holdout, and the findings that it puts in doubt.

Where the two are of different populations, an attack tells these apart, and no member: an honest table looks like a
leak, and a leak can look honest. So a rule that compares with the holdout is INCONCLUSIVE there, either way. What is
counted among training rows alone stands. A holdout that holds training rows hides leaks and feigns none: FAIL stands,
and nothing passes.

Source: Das, Zhang, Tramer 2024, "Blind Baselines Beat Membership Inference Attacks for Foundation Models",
arXiv:2406.16201.
"""

from collections.abc import Mapping
from dataclasses import replace

from evaluate.gate.checks import STRETCH
from evaluate.gate.finding import Finding, finding_of
from evaluate.metrics import CATALOG, SWAPPED
from evaluate.real_facts import NOT_HELD, RealFacts
from evaluate.result import Candidate, Estimate

EXCESS = ".excess"  # Ends the name of a share less that of the holdout's rows

COUNTED: Mapping[str, str] = dict.fromkeys(("privacy.copies.people", "privacy.copies.unique.excess"), "privacy.copies")
"""Numbers counted among training rows alone, by the number that compares with the holdout."""

LARGEST = 0.47
"""Area below which an attack is said to be turned round: a difference of populations that does not matter moves no area
further from a coin than `LEAST_AUC`."""


def questioned(finding: Finding, candidate: Candidate, real: RealFacts | None) -> Finding:
    """The finding as far as it stands where train and holdout may be of different populations."""
    if real is None or not rests_on_holdout(finding.rule.measure) or finding.estimate is None:
        return finding
    shift, passes = real.shift, finding.outcome == "PASS"
    if finding.proven is not None or (finding.outcome == "FAIL" and shift.only_shares_rows):
        return finding  # a proof compares nothing
    if passes and _turned_round(candidate):
        why = f"An attack takes held-out rows for training rows. {SWAPPED}"
        return replace(finding, outcome="INCONCLUSIVE", reason=why)
    if not shift.differs and not (shift.untested and passes):
        return finding
    if finding.outcome == "FAIL" and _beyond_twins(finding, candidate, real.duplicate_share_train):
        return replace(finding, reason=f"{finding.reason} Training rows' own twins do not explain it either.")
    remedy = "hold out rows of the same table at random, as `understudy split` does, and evaluate again"
    if shift.untested:
        remedy = "evaluate again" if shift.untested == NOT_HELD else "hold out more rows"
    why = f"It compares training rows with held-out ones, so that it tells nothing here. {shift.sentence} So {remedy}."
    return replace(finding, outcome="INCONCLUSIVE", reason=why, n_needed=None)


def _turned_round(candidate: Candidate) -> bool:
    """True where a table is nearer to the holdout than to train, by more than chance and small differences explain."""
    auc = candidate.find("privacy.membership.auc")
    if not isinstance(auc, Estimate) or auc.high is None:
        return False
    return auc.value + STRETCH * (auc.high - auc.value) < LARGEST


def rests_on_holdout(measure: str) -> bool:
    """True for privacy measures that compare with the holdout, unknown ones included."""
    return measure.startswith("privacy.") and not (measure in CATALOG and CATALOG[measure].without_holdout)


def _beyond_twins(finding: Finding, candidate: Candidate, twins: float) -> bool:
    """True where copies break the rule beyond training rows' own twins."""
    rule = finding.rule
    name = COUNTED.get(rule.measure, rule.measure.removesuffix(EXCESS))
    counted = candidate.find(name, rule.subject)
    if name == rule.measure or rests_on_holdout(name) or not isinstance(counted, Estimate) or counted.low is None:
        return False
    value, low, high = (end - twins for end in (counted.value, *counted.interval))
    beyond = replace(counted, measure=rule.measure, value=value, low=low, high=high, reference=None)
    return finding_of(Candidate(candidate.name, (beyond,)), rule).outcome == "FAIL"
