"""The result of an audit of a claimed epsilon: the lower bound, the claim, and which of them is larger.

The audits themselves are in `evaluate.privacy.audit` and fit generators. Their result stands apart, beside
`evaluate.result`: whoever only reads or shows one loads no generator, and a policy knows what it may rest on.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from evaluate.estimate import Estimate, EvaluationError
from evaluate.metrics import Metric
from synth.dp.statement import CLOSED

Number = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
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


@dataclass(frozen=True)
class Power:
    """The faults that a check would have shown: noise that is some share of what is stated.

    `half`: probability to show half of it; `share`: the largest share, in steps of a hundredth, that nine of ten such
    checks show, 0 being no noise at all, and `None` where not even that would show.
    """

    __pydantic_config__: ClassVar = CLOSED

    half: Share
    share: Share | None

    @property
    def in_ten(self) -> int:
        """Audits of ten that show half the noise, rounded down but for a twentieth of one.

        >>> Power(0.9951, 0.9).in_ten, Power(0.69, 0.4).in_ten
        (10, 6)
        """
        return math.floor(10 * self.half + 0.05)


@dataclass(frozen=True)
class AuditCheck:
    """A check beside the attack; `bound` is the epsilon that its fault proves, above the claim, 0 without one."""

    __pydantic_config__: ClassVar = CLOSED

    what: str
    looked_at: str
    would_show: str = ""
    power: Power | None = None
    fault: str | None = None
    bound: Number = 0.0


@dataclass(frozen=True)
class AuditPart:
    """The attack on one part of a schedule; fields as those of `Audit`."""

    __pydantic_config__: ClassVar = CLOSED

    what: str
    bound: Number
    distribution_free: Number
    strongest: Number
    n_trials: Annotated[int, Field(ge=0)]
    false_positives: Rate
    false_negatives: Rate
    ran_on: str


@dataclass(frozen=True)
class Audit:
    """A claim, the attack on it, and what was checked beside it."""

    __pydantic_config__: ClassVar = CLOSED

    epsilon: Number
    delta: Number
    bound: Number  # epsilon is at least this, if the noise is of the stated kind, of any size
    distribution_free: Number  # the same without that assumption; lower
    strongest: Number  # the bound that as many trials would have given an attacker who never errs
    confidence: Number
    n_trials: Annotated[int, Field(ge=0)]  # guesses, about half of them with the canary in
    false_positives: Rate  # "in" where the canary was out, with the interval that the bounds rest on
    false_negatives: Rate
    ran_on: str
    parts: tuple[AuditPart, ...] = ()  # each with its share of the error; empty where all was attacked at once
    checks: tuple[AuditCheck, ...] = ()
    covered: tuple[str, ...] = ()  # events of the statement
    not_covered: tuple[str, ...] = ()
    attacked: Literal["noise", "reports"] = "noise"
    """Of reports `bound` assumes that each answer of a respondent is randomized on its own."""

    @staticmethod
    def of_parts(claim: tuple[float, float], parts: Sequence[AuditPart], confidence: float) -> "Audit":
        """The audit that attacked some parts, or all at once."""
        highest = max(parts, key=lambda part: part.bound)
        return Audit(
            epsilon=claim[0],
            delta=claim[1],
            bound=highest.bound,
            distribution_free=max(part.distribution_free for part in parts),
            strongest=min(part.strongest for part in parts),
            confidence=confidence,
            n_trials=highest.n_trials,
            false_positives=highest.false_positives,
            false_negatives=highest.false_negatives,
            ran_on=highest.ran_on,
            parts=tuple(parts) if len(parts) > 1 else (),
        )

    @property
    def verdict(self) -> str:
        """The verdict: no fault found, claim exceeded, or too weak to say."""
        if self.faults or self.bound > self.epsilon:
            return EXCEEDS
        if self.attacked == "reports":
            return NO_FAULT if self.weakest is not None and self.weakest.half >= LEAST_POWER else TOO_WEAK
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
            note += f"; half the noise would have shown in {self.weakest.in_ten} of 10 such audits"
        return Estimate(MEASURE, excess, self.n_trials, "lower", low=excess, high=excess, note=note)

    @property
    def attacks(self) -> "tuple[Audit | AuditPart, ...]":
        """The attacks that the bound rests on: each part, or the whole where all was attacked at once."""
        return self.parts or (self,)

    @property
    def weakest(self) -> Power | None:
        """The power for the mechanism where it is least, each by its check; `None` where none states any."""
        known = [check.power for check in self.checks if check.power is not None]
        return min(known, key=lambda power: (power.half, power.share or 0.0), default=None)

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults that checks found, in words."""
        return tuple(check.fault for check in self.checks if check.fault is not None)

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain data, with its verdict in words."""
        return {**asdict(self), "verdict": self.verdict}
