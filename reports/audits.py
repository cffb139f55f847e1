"""What an audit of the measurement log says of a claim, in the words of the report."""

import math
from dataclasses import dataclass

from evaluate.privacy.audit_result import EXCEEDS, TOO_WEAK, Audit, AuditError
from evaluate.result import Candidate
from reports.books import exact
from reports.text import percent, plain

DISPROVED = "The noise protects less than was claimed: the privacy statement is false and must not be relied on."
NOT_DISPROVED = (
    "A bound below the claim proves nothing beyond that no flaw of this kind was found: it is no evidence that the "
    "claim is true."
)
WEAK = (
    "Too weak to say anything: even without any noise, so few trials could not have shown a bound well above the "
    "claim; give the audit more time."
)
READINGS = {EXCEEDS: DISPROVED, TOO_WEAK: WEAK}
UNREADABLE = "The audit of this table cannot be read, so nothing is known of its claim; evaluate again."


@dataclass(frozen=True)
class AuditNote:
    """One audit as the report shows it.

    Attributes:
        bound: lower bound on epsilon, to two digits after the point, cut off; a dash where it cannot be read.
        sentence: bound, claim, confidence, and on what.
        reading: what follows from that.
        evidence: error rates of the attacker, trials, and the bound that assumes nothing of the noise.
        alarms: whether a reader has to be stopped.
    """

    bound: str
    sentence: str
    reading: str
    evidence: str
    alarms: bool


def audit_note(candidate: Candidate) -> AuditNote | None:
    """The audit of one candidate, which may come from anyone and hold anything; none where none ran."""
    if candidate.audit is None:
        return None
    try:
        found = Audit.from_dict(candidate.audit)
    except AuditError:
        return AuditNote("\u2014", UNREADABLE, "", "", alarms=True)
    sentence = (
        f"Audit of the measurement log: lower bound {cut(found.bound)}, claim {exact(found.epsilon)} at delta "
        f"{exact(found.delta)}, {100 * found.confidence:g}% confidence, on {plain(found.ran_on, 200)}."
    )
    evidence = (
        f"In {found.n_trials:,} trials the attacker took {percent(found.false_positives[0])} of absent canaries for "
        f"present and {percent(found.false_negatives[0])} of present ones for absent. Without the assumption that "
        f"noise is Gaussian, the bound is {cut(found.distribution_free)}. An attacker who never errs would have shown "
        f"{cut(found.strongest)}."
    )
    reading = READINGS.get(found.verdict, NOT_DISPROVED)
    return AuditNote(cut(found.bound), sentence, reading, evidence, found.verdict == EXCEEDS)


def cut(bound: float) -> str:
    """A lower bound with two digits after the point: cut off, since rounding up would claim too much.

    >>> cut(2.999), cut(0.0)
    ('2.99', '0.00')
    """
    return f"{math.floor(bound * 100) / 100:.2f}"
