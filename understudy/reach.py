"""Rules that no table of a size could pass: what is public says so before anything is fitted.

An attack that finds nothing still has an interval, whose upper end lies the higher the fewer people it is tried on. A
rule whose limit lies below that end is INCONCLUSIVE whatever the table is, unless the privacy claim proves it. Rules on
membership are looked at, whose intervals follow from numbers of people alone. Those of copies and distances depend on
the table.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from evaluate.finding import BOUNDED, most_of
from evaluate.policy import Policy, Rule
from evaluate.privacy.membership.rates import Scores, true_positive_rate
from evaluate.privacy.vulnerable import share_exposed

if TYPE_CHECKING:
    from synth.dp.tradeoff import TradeOff

Z = float(special.ndtri(0.975))
STEP, MOST_TIMES = 1.25, 1_000.0
"""How the number of units grows until a rule could pass, and up to how many times as many are tried."""
LARGER_SHARES = (0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Size:
    """Public numbers that the width of an interval follows from.

    Attributes:
        n_units: the declared number of units.
        holdout_share: of them, kept from every generator.
        n_targets: of either side that attacks are tried on at most; none: all.
    """

    n_units: int
    holdout_share: float
    n_targets: int | None

    @property
    def sides(self) -> tuple[int, int]:
        """Members and controls of an attack; the other half of the holdout is the attacker's own sample."""
        held = self.n_units * self.holdout_share
        sides = (self.n_units - held, held / 2)
        return tuple(int(n if self.n_targets is None else min(n, self.n_targets)) for n in sides)  # type: ignore[return-value]


def beyond_reach(policy: Policy, size: Size, limits: "Mapping[str, TradeOff | None]") -> Iterator[str]:
    """Sentences without a final stop on binding rules that no table of this size could pass, and what would decide.

    Args:
        policy: to judge by.
        size: of the table.
        limits: that privacy claims prove, by label of the generator; none of one that promises nothing.
    """
    for rule in policy.rules:
        if rule.severity == "fail" and not rule.subject and not could_pass(rule, size):
            proofs = {label: None if limit is None else most_of(limit, rule.measure) for label, limit in limits.items()}
            left = [label for label, most in proofs.items() if most is None or not rule.keeps(most)]
            if left:
                yield _told(rule, policy, size, left if len(left) < len(limits) else [])


def could_pass(rule: Rule, size: Size) -> bool:
    """Whether a table that gives nobody away could pass a rule, by measurement, as far as numbers of people tell."""
    high = highest(rule.measure, size)
    return high is None or rule.keeps(high)


def highest(measure: str, size: Size) -> float | None:
    """The upper end of the interval of a table that gives nobody away: 1 where nothing is measured, none if unknown.

    >>> round(highest("privacy.membership.tpr_at_0.01", Size(40_000, 0.2, 8_000)), 4)
    0.0197
    """
    found = BOUNDED.fullmatch(measure)
    if found is None or ".group." in measure:
        return None
    exposed = share_exposed(size.sides[1]) if measure.startswith("privacy.vulnerable.") else 1.0
    n_members, n_controls = (int(n * exposed) for n in size.sides)
    if min(n_members, n_controls) < 2:
        return 1.0
    if found["rate"] is None:
        return 0.5 + Z * float(np.sqrt((n_members + n_controls + 1) / (12 * n_members * n_controls)))
    rate = float(found["rate"])
    if n_controls * rate < 1:
        return 1.0
    halves = [Scores.of(*(np.linspace(0, 1, n // 2 + 2)[1:-1] for n in (n_members, n_controls))) for _ in range(2)]
    return true_positive_rate(halves, rate)[2]


def _told(rule: Rule, policy: Policy, size: Size, labels: list[str]) -> str:
    high = highest(rule.measure, size)
    assert high is not None
    seen = "cannot be measured" if high >= 1.0 else f"comes to as much as {high:.2g} where nobody is given away"
    of = f" for {', '.join(f'generators.{label}' for label in labels)}" if any(labels) else ""
    remedies = " or ".join(_remedies(rule, size)) or "no table of a thousand times the size"
    return (
        f"policy={policy.name!r} asks for {rule.measure} of at most {rule.limit:g}, which a table of "
        f"n_units={size.n_units} is too small to show{of}: with holdout_share={size.holdout_share:g} it {seen}, so "
        f"that the verdict is INCONCLUSIVE, or a PASS by luck; what would decide: {remedies}"
    )


def _remedies(rule: Rule, size: Size) -> Iterator[str]:
    """What would decide, each alone, or more units and all targets together."""
    if size.n_targets is not None and could_pass(rule, replace(size, n_targets=None)):
        yield 'targets = "all"'
    share = next((s for s in LARGER_SHARES if could_pass(rule, replace(size, holdout_share=s))), None)
    if share is not None and share > size.holdout_share:
        yield f"holdout_share = {share:g}"
    for targets, words in ((size.n_targets, ""), (None, 'targets = "all" and ')):
        n_units = _enough(rule, replace(size, n_targets=targets))
        if n_units is not None:
            yield f"{words}about {n_units:,} units"
            return


def _enough(rule: Rule, size: Size) -> int | None:
    """Units of which a table could pass, to two digits; none where not even a thousand times as many are enough."""
    times = 1.0
    while times < MOST_TIMES:
        n_units = float(f"{size.n_units * times:.1e}")
        if could_pass(rule, replace(size, n_units=int(n_units))):
            return int(n_units)
        times *= STEP
    return None
