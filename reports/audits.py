"""What an audit says of a claim, in the words of the report."""

import math
from dataclasses import dataclass

from evaluate.privacy.audit.result import EXCEEDS, TOO_WEAK, Audit, AuditError, AuditPart
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
IN_PARTS = (
    "The sums of one training run were attacked by canaries in it, the counts before it by fits of their own. Each "
    "part had its share of the error, so that the confidence is of all bounds together."
)
LONGEST, MOST_PARTS = 240, 4
"""Of what an audit says that it ran on, and of its parts: an evaluation may come from anyone."""
UNREADABLE = "The audit of this table cannot be read, so nothing is known of its claim; evaluate again."


@dataclass(frozen=True)
class AuditNote:
    """One audit as the report shows it.

    Attributes:
        bound: lower bound on epsilon, to two digits after the point, cut off; a dash where it cannot be read.
        sentence: bound, claim, confidence, and on what.
        reading: what follows from that.
        evidence: error rates of the attacker, trials, and the bound that assumes nothing of the noise; part by part
            where there are several.
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
    what = "one training run and the counts before it" if found.parts else "the measurement log"
    ran_on = "a public stand-in" if found.parts else plain(found.ran_on, LONGEST)
    sentence = (
        f"Audit of {what}: lower bound {cut(found.bound)}, claim {exact(found.epsilon)} at delta "
        f"{exact(found.delta)}, {100 * found.confidence:g}% confidence, on {ran_on}."
    )
    reading = READINGS.get(found.verdict, NOT_DISPROVED)
    return AuditNote(cut(found.bound), sentence, reading, _parts(found) or _evidence(found), found.verdict == EXCEEDS)


def _parts(found: Audit) -> str:
    """Every part; nothing where all was attacked at once."""
    return " ".join([IN_PARTS, *(_of_part(part) for part in found.parts[:MOST_PARTS])]) if found.parts else ""


def _of_part(part: AuditPart) -> str:
    """One part of several, on what, and with which bound."""
    return (
        f"{_capitalized(plain(part.what, 60))}: lower bound {cut(part.bound)}, on {plain(part.ran_on, LONGEST)}. "
        f"{_evidence(part)}"
    )


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _evidence(found: Audit | AuditPart) -> str:
    """What the attacker got wrong, and what follows without assumptions."""
    return (
        f"In {found.n_trials:,} trials the attacker took {percent(found.false_positives[0])} of absent canaries for "
        f"present and {percent(found.false_negatives[0])} of present ones for absent. Without the assumption that "
        f"noise is Gaussian, the bound is {cut(found.distribution_free)}. An attacker who never errs would have shown "
        f"{cut(found.strongest)}."
    )


def cut(bound: float) -> str:
    """A lower bound with two digits after the point: cut off, since rounding up would claim too much.

    >>> cut(2.999), cut(0.0)
    ('2.99', '0.00')
    """
    return f"{math.floor(bound * 100) / 100:.2f}"
