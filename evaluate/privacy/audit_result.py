"""What an audit of the measurement log found: the bound, the claim, and which of them is larger.

Kept apart from the audit itself, which fits generators, so that whoever only reads or shows one loads none of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from evaluate.result import Estimate, EvaluationError

if TYPE_CHECKING:
    from evaluate.intervals import Rate

MEASURE = "privacy.audit.excess"
"""Lower bound minus claim: what a rule is about."""
WITHIN, EXCEEDS, TOO_WEAK = "within the claim", "exceeds the claim", "too weak to say"
LEAST_STRENGTH = 2.0
"""An audit says something where an attacker who never errs would have shown so many times the claim."""


class AuditError(EvaluationError):
    """There is nothing to audit, or nothing that the audit understands; nothing is known."""


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        epsilon: claimed.
        delta: claimed.
        bound: epsilon is at least this at that delta, if the noise is Gaussian of any size.
        distribution_free: the same without that assumption; lower.
        strongest: the bound that as many trials would have given for an attacker who never errs.
        confidence: probability with which each bound holds, at least.
        n_trials: guesses made, half of them with the canary in the table.
        false_positives: share of "in" where the canary was out, with the interval that the bounds rest on.
        false_negatives: share of "out" where it was in, likewise.
        ran_on: the table, in words.
    """

    epsilon: float
    delta: float
    bound: float
    distribution_free: float
    strongest: float
    confidence: float
    n_trials: int
    false_positives: "Rate"
    false_negatives: "Rate"
    ran_on: str

    @property
    def verdict(self) -> str:
        """Within the claim, above it, or not to be told: too few trials would have found nothing either way."""
        if self.bound > self.epsilon:
            return EXCEEDS
        return WITHIN if self.strongest >= LEAST_STRENGTH * self.epsilon else TOO_WEAK

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
        return Estimate(MEASURE, excess, self.n_trials, "lower", low=excess, high=excess, note=note)

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain data, with its verdict in words."""
        return {**asdict(self), "verdict": self.verdict}

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> "Audit":
        """An audit from plain data.

        Raises:
            AuditError: the content is not an audit.
        """
        numbers = ("epsilon", "delta", "bound", "distribution_free", "strongest", "confidence")
        try:
            found = Audit(
                **{name: float(content[name]) for name in numbers},
                n_trials=int(content["n_trials"]),
                false_positives=_rate(content["false_positives"]),
                false_negatives=_rate(content["false_negatives"]),
                ran_on=str(content["ran_on"]),
            )
            if not all(math.isfinite(getattr(found, name)) for name in numbers):
                raise ValueError
            return found
        except (KeyError, TypeError, ValueError) as error:
            raise AuditError(f"the audit is damaged ({type(error).__name__}); evaluate again") from None


def _rate(ends: Sequence[float]) -> "Rate":
    rate, low, high = ends
    return float(rate), float(low), float(high)
