"""What a membership attack's scores come to: the area under the ROC curve, and true positive rates, with intervals.

Targets are scored in parts, each by an attack that was chosen without them, so that scores of different parts are not
compared with each other: areas are averaged, and each part has a threshold of its own.

Source: Carlini et al. 2022, arXiv:2112.03570 (rates at low false positive rates); DeLong et al. 1988.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from evaluate.intervals import LEVEL, Rate, clopper_pearson, placements

N_CURVE = 300
THRESHOLD_TAIL = 0.02
"""Part of the upper end's error of 0.025 that the estimated thresholds get: few controls decide them."""


@dataclass(frozen=True)
class Scores:
    """How sure the attacker is of each target of one part; *Sensitive*.

    Attributes:
        members: scores of training rows, ascending.
        controls: scores of rows that were not used for training, ascending.
    """

    members: np.ndarray
    controls: np.ndarray

    @classmethod
    def of(cls, members: np.ndarray, controls: np.ndarray) -> "Scores":
        """Of scores in any order."""
        return cls(np.sort(members), np.sort(controls))

    def n_allowed(self, rate: float) -> int:
        """Controls that may score above the threshold at a false positive rate."""
        return int(np.floor(rate * len(self.controls) + 1e-9))

    def n_above(self, allowed: int) -> int:
        """How many members score above all controls but the `allowed` highest: ties never help the attacker."""
        n = len(self.controls)
        threshold = self.controls[n - 1 - allowed] if allowed < n else -np.inf
        return len(self.members) - int(np.searchsorted(self.members, threshold, "right"))


def area(parts: Sequence[Scores], n_comparisons: int = 1) -> Rate:
    """The area under the ROC curve, the mean over the parts by their members, with its interval (DeLong).

    A perfect separation has no estimated variance: its interval is that of a rate of all of the smaller class.

    Args:
        parts: at least one, with two members and two controls each.
        n_comparisons: from how many areas this one was picked (Bonferroni).
    """
    n_members, n_controls = n_targets(parts)
    value = variance = 0.0
    for part in parts:
        wins, losses = placements(part.members, part.controls)
        share = len(part.members) / n_members
        value += share * float(wins.mean())
        variance += share**2 * float(wins.var(ddof=1) / len(wins) + losses.var(ddof=1) / len(losses))
    tail = (1 - LEVEL) / 2 / n_comparisons
    if variance == 0.0 and value in (0.0, 1.0):
        n = min(n_members, n_controls)
        return value, *clopper_pearson(n * value, n, level=1 - 2 * tail)
    half = float(-special.ndtri(tail)) * variance**0.5
    return value, max(value - half, 0.0), min(value + half, 1.0)


def n_targets(parts: Sequence[Scores]) -> tuple[int, int]:
    """Members and controls of all parts."""
    return sum(len(part.members) for part in parts), sum(len(part.controls) for part in parts)


def true_positive_rate(parts: Sequence[Scores], rate: float) -> Rate:
    """The true positive rate at a false positive rate, with its 95% interval.

    A part's threshold is a control's score, and only scores above it count, so ties never help the attacker. The
    interval allows for thresholds being estimated. Upper end: most of the error pays for thresholds whose true false
    positive rate is at least `rate` (order statistics), the rest for the members (Clopper-Pearson). Lower end: given
    the controls above the thresholds, the members above them are negative binomial, which bounds the ratio of the two
    rates from below; exact where the attack is no better than chance, safe for every concave ROC curve.

    Args:
        parts: at least one.
        rate: the false positive rate.
    """
    m, n = n_targets(parts)
    allowed = [part.n_allowed(rate) for part in parts]
    above = sum(part.n_above(k) for part, k in zip(parts, allowed, strict=True))
    odds = float(stats.beta.ppf((1 - LEVEL) / 2, above, sum(allowed) + len(parts))) if above > 0 else 0.0
    low = rate * odds / (1 - odds) * n / m
    tail = (1 - LEVEL) / 2 - THRESHOLD_TAIL
    each = 1 - THRESHOLD_TAIL / len(parts)
    possible = sum(part.n_above(int(stats.binom.ppf(each, len(part.controls), rate))) for part in parts)
    high = float(stats.beta.ppf(1 - tail, possible + 1, m - possible)) if possible < m else 1.0
    return above / m, min(low, above / m), max(high, above / m)


def curve(parts: Sequence[Scores]) -> dict[str, object]:
    """The ROC curve, dense where the false positive rate is small, as plain data."""
    m, n = n_targets(parts)
    rates = np.unique(np.geomspace(1 / (n + 1), 1.0, N_CURVE))
    false, true = [], []
    for rate in rates:
        allowed = [part.n_allowed(float(rate)) for part in parts]
        false.append(sum(allowed) / n)
        reached = zip(parts, allowed, strict=True)
        true.append(sum(p.n_above(k) if k < len(p.controls) else len(p.members) for p, k in reached) / m)
    kept = np.unique(false, return_index=True)[1]
    return {
        "fpr": [round(false[i], 6) for i in kept],
        "tpr": [round(true[i], 6) for i in kept],
        "auc": area(parts)[0],
        "n_members": m,
        "n_controls": n,
        "floor_fpr": 1.0 / n,
    }
