"""An attack as a small experiment: how often it succeeds on members, on controls, and without the synthetic table.

Source: Giomi et al. 2023, "A Unified Framework for Quantifying Privacy Risk in Synthetic Data", arXiv:2211.10459.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from evaluate.intervals import LEVEL, Rate, newcombe, wilson
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult

MIN_TARGETS = 10  # Members, and as many controls, that an attack needs
POWER = 0.8  # Statistical power: share of repetitions in which a detectable advantage comes out above chance


@dataclass(frozen=True)
class Experiment:
    attack: np.ndarray  # success of each attempt on a member, boolean or in [0, 1], shape (n_members,)
    control: np.ndarray  # the same on rows that were not used for training, shape (n_controls,)
    baseline: float | None = None
    dependence: float = 1.0

    def rates(self, n_comparisons: int = 1) -> tuple[Rate, Rate]:
        # A mean of weighed hits may come to 1 and a last digit.
        sides = ((min(float(np.mean(hits)), 1.0), len(hits) / self.dependence) for hits in (self.attack, self.control))
        members, controls = (wilson(*side, n_comparisons) for side in sides)
        return members, controls

    def advantage(self, n_comparisons: int = 1) -> Rate:
        """Success on members minus success on controls, with its interval."""
        return newcombe(*self.rates(n_comparisons))

    def detectable(self, n_comparisons: int = 1) -> float:
        """The advantage that would have been told from none in 80 of 100 repetitions."""
        members, controls = (len(hits) / self.dependence for hits in (self.attack, self.control))
        return detectable_advantage(self.rates()[1][0], members, controls, n_comparisons)

    def estimate(self, measure: str, *, note: str, n_comparisons: int = 1) -> Estimate:
        """The advantage as a number of an evaluation; a table that tells nothing has none."""
        value, low, high = self.advantage(n_comparisons)
        return Estimate(
            measure, value, len(self.attack) + len(self.control), "lower", low=low, high=high, reference=0.0, note=note,
            detectable=self.detectable(n_comparisons),
        )  # fmt: skip

    def figure(self, n_comparisons: int | None = None) -> dict[str, Any]:
        """The rates as plain data: what a report draws; of several experiments with the advantage, too."""
        attack, control = self.rates()
        numbers = {"attack": list(attack), "control": list(control), "baseline": self.baseline}
        numbers |= {"advantage": list(self.advantage(n_comparisons))} if n_comparisons else {}
        return {**numbers, "n_attack": len(self.attack), "n_control": len(self.control)}

    @property
    def words(self) -> str:
        return f"{self.attack.mean():.1%} of members and {self.control.mean():.1%} of controls"


def not_measured(why: str, *names: str) -> MetricResult:
    """The result of an attack that there is no ground for."""
    return MetricResult(failures=tuple(Failure(name, "skipped", why) for name in names))


def too_few(n_members: int, n_controls: int) -> str:
    """The reason why so few cannot be attacked; else empty."""
    few = f"an attack needs at least {MIN_TARGETS} members and as many non-members; give a larger holdout"
    return few if min(n_members, n_controls) < MIN_TARGETS else ""


def standing_out(each: Sequence[Estimate]) -> int:
    return max(range(len(each)), key=lambda i: (each[i].interval[0], each[i].value))


def largest(measure: str, tried: Sequence[Experiment], note: Callable[[int], str]) -> Estimate:
    """The advantage that stands out most from chance, with the interval of the largest of all of them."""
    each = [experiment.estimate(measure, note="", n_comparisons=len(tried)) for experiment in tried]
    worst = standing_out(each)
    return replace(each[worst], high=max(estimate.interval[1] for estimate in each), note=note(worst))


def detectable_advantage(control: float, n_attack: float, n_control: float, n_comparisons: int = 1) -> float:
    """The advantage over a success rate on controls whose interval lies above zero in 80 of 100 repetitions; at most 1.

    >>> round(detectable_advantage(0.5, 2000, 2000), 3)
    0.044
    """
    against = wilson(control, n_control, n_comparisons)
    unlucky = float(special.ndtri(POWER))

    def low(advantage: float) -> float:
        share = min(control + advantage, 1.0)
        spread = share * (1 - share) / n_attack + control * (1 - control) / n_control
        return newcombe(wilson(max(share - unlucky * spread**0.5, 0.0), n_attack, n_comparisons), against)[1]

    if low(1 - control) <= 0:
        return 1.0
    return float(optimize.brentq(low, 0.0, 1 - control, xtol=1e-5))


def detectable_auc(n_members: int, n_controls: int) -> float:
    """The area under the curve whose interval lies above 1/2 in 80 of 100 repetitions.

    Of scores that are normal with the same variance, by the variance of Hanley & McNeil 1982 at 1/2.

    >>> round(detectable_auc(8000, 4000), 4)
    0.5157
    """
    spread = float(np.sqrt((n_members + n_controls + 1) / (12 * n_members * n_controls)))
    return min(1.0, 0.5 + float(special.ndtri(1 - (1 - LEVEL) / 2) + special.ndtri(POWER)) * spread)


def detectable_rate(rate: float, allowed: int, n_members: int, n_controls: int) -> float:
    """The true positive rate that 80 of 100 repetitions tell from a false positive rate; at most 1."""
    if allowed < 0:
        return 1.0

    def excess(share: float) -> float:
        above = float(stats.binom.ppf(1 - POWER, n_members, share))
        odds = float(stats.beta.ppf((1 - LEVEL) / 2, above, allowed + 1)) if above > 0 else 0.0
        return (rate * odds / (1 - odds) * n_controls / n_members if odds < 1 else 1.0) - rate

    return float(optimize.brentq(excess, rate / 100, 1.0, xtol=1e-6)) if excess(1.0) > 0 else 1.0
