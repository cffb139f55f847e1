"""The result of an audit of a claimed epsilon: the lower bound, the claim, and which of them is larger.

It stands apart from `evaluate.privacy.audit`, so that whoever reads or shows one loads no generator.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evaluate.estimate import Count, Estimate, EvaluationError, Number, Record, Share
from evaluate.metrics import Metric

Rate = tuple[Number, Number, Number]  # A share with its interval

METRICS = (
    Metric("privacy.audit.excess", "lower", "Audited epsilon beyond the claim", "A lower bound on epsilon, found by "
           "attacking the noise itself, minus the claim; above 0 the claim is false.", without_holdout=True),
)  # fmt: skip

MEASURE = "privacy.audit.excess"  # Lower bound minus claim: what a rule is about
NO_FAULT, EXCEEDS, TOO_WEAK = "no fault found", "exceeds the claim", "too weak to say"
LEAST_STRENGTH = 2.0
"""An audit says something where an attacker who never errs would have shown so many times the claim."""
LEAST_POWER = 0.9  # An audit of reports says something where it shows half the noise with this probability


class AuditError(EvaluationError):
    """There is nothing to audit, or nothing that the audit understands; nothing is known."""


OUTSIDE = (
    "what only the real table would bring out: each release is held to its sensitivity by tests of the code",
    "counts that are made on a cluster",
    "what a step of DP-SGD does after its noise, and what units of a sample do to one another before it",
    "predictable randomness, and what floating point tells",
    "whether the list of events names all that was read",
)
"""No audit looks at these, whatever the events of a statement are."""


def in_ten(power: float) -> int:
    """Audits of ten that show a fault which they show with this probability, rounded down but for a twentieth of one.

    >>> in_ten(0.9951), in_ten(0.69)
    (10, 6)
    """
    return math.floor(10 * power + 0.05)


@dataclass(frozen=True)
class AuditCheck(Record):
    """A check beside the attack."""

    what: str
    looked_at: str
    would_show: str = ""
    power: Share | None = None
    """The probability to show half the noise."""
    fault: str | None = None
    bound: Number = 0.0
    """The epsilon that the fault proves, above the claim; 0 without one."""


@dataclass(frozen=True, kw_only=True)
class AuditPart(Record):
    """The attack on one part of a schedule."""

    what: str = ""
    """The events that it attacks; empty for all."""
    bound: Number
    """Epsilon is at least this, if the noise is of the stated kind, of any size; of reports, if each answer of a
    respondent is randomized on its own.
    """
    distribution_free: Number
    """The same without that assumption; lower."""
    strongest: Number
    """The bound that as many trials would have given an attacker who never errs."""
    n_trials: Count
    """Guesses, about half of them with the canary in."""
    false_positives: Rate
    """"in" where the canary was out, with the interval that the bounds rest on."""
    false_negatives: Rate
    """"out" where it was in."""
    ran_on: str


@dataclass(frozen=True, kw_only=True)
class Audit(AuditPart):
    """A claim, the attack on it, and what was checked beside it."""

    epsilon: Number
    delta: Number
    confidence: Number
    parts: tuple[AuditPart, ...] = ()
    """Each with its share of the error; empty where all was attacked at once."""
    checks: tuple[AuditCheck, ...] = ()
    covered: tuple[str, ...] = ()
    """Events of the statement that were attacked or checked."""
    not_covered: tuple[str, ...] = ()
    """Events that were not, and what no audit looks at."""
    attacked: Literal["noise", "reports"] = "noise"

    @staticmethod
    def of_parts(claim: tuple[float, float], parts: Sequence[AuditPart], confidence: float) -> "Audit":
        """The audit that attacked some parts, or all at once."""
        content = vars(max(parts, key=lambda part: part.bound)) | {
            "what": "",
            "distribution_free": max(part.distribution_free for part in parts),
            "strongest": min(part.strongest for part in parts),
            "parts": tuple(parts) if len(parts) > 1 else (),
        }
        return Audit(epsilon=claim[0], delta=claim[1], confidence=confidence, **content)

    @property
    def verdict(self) -> str:
        """The verdict: no fault found, claim exceeded, or too weak to say."""
        if self.faults or self.bound > self.epsilon:
            return EXCEEDS
        if self.attacked == "reports":
            return NO_FAULT if (self.weakest or 0.0) >= LEAST_POWER else TOO_WEAK
        return NO_FAULT if self.strongest >= LEAST_STRENGTH * self.epsilon else TOO_WEAK

    @property
    def estimate(self) -> Estimate:
        """By how much the bound exceeds the claim: what a rule is about."""
        excess = self.bound - self.epsilon
        if self.verdict == TOO_WEAK:
            note = (
                f"too weak to say: {self.n_trials:,} trials show no bound above {self.strongest:.3g} without any noise"
            )
            return Estimate(MEASURE, excess, self.n_trials, "lower", note=note)
        note = f"the claim is disproved above 0, at {self.confidence:.1%} confidence; below 0 nothing is proved"
        if self.weakest is not None:
            note += f"; half the noise would have shown in {in_ten(self.weakest)} of 10 such audits"
        return Estimate(MEASURE, excess, self.n_trials, "lower", low=excess, high=excess, note=note)

    @property
    def weakest(self) -> float | None:
        """The power where it is least; `None` where no check states any."""
        return min((check.power for check in self.checks if check.power is not None), default=None)

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults that checks found, in words."""
        return tuple(check.fault for check in self.checks if check.fault is not None)

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain data, with its verdict in words."""
        return {**asdict(self), "verdict": self.verdict}
