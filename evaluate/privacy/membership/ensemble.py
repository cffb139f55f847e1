"""The strongest attack for each number: chosen on one half of the targets, scored on the other, and the other way.

The maximum over several attacks on the same targets would be above chance by itself. So each half of the targets is
scored by the attack that did best on the other half, or by the first one if none did clearly better; halves are put
together as two parts with thresholds of their own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from evaluate.privacy.membership.rates import Scores, area

AREA = 0.0
"""Stands for the area under the curve among false positive rates."""
AROUND = (1.0, 2.0, 4.0)
"""Multiples of a false positive rate whose true positive rates choose its attack: the rate alone rests on few rows."""

CLEARLY = 2.0
"""Standard errors by which an attack has to do better than the first one to be chosen instead of it.

Halves that choose for each other are not independent: by luck that both share, both choose the same. Of several useless
attacks the variance of the mean of both is a third larger than if they were. With a threshold, luck chooses little.
"""

Both = tuple[np.ndarray, np.ndarray]
"""Something of members and of controls, in that order."""


@dataclass(frozen=True)
class Part:
    """One half of the targets.

    Attributes:
        attack: name of the attack that scores it, chosen on the other half.
        inside: which targets belong to it, among members and among controls; boolean.
    """

    attack: str
    inside: Both

    def scores(self, of: Mapping[str, Both], among: Both | None = None) -> Scores:
        """The scores of its targets.

        Args:
            of: scores of all targets by every attack.
            among: only these targets, boolean; none: all.
        """
        kept = self.inside if among is None else tuple(a & b for a, b in zip(self.inside, among, strict=True))
        members, controls = (scores[which] for scores, which in zip(of[self.attack], kept, strict=True))
        return Scores.of(members, controls)


def parts_for(rate: float, of: Mapping[str, Both]) -> tuple[Part, Part]:
    """The halves of the targets, each with the attack that is best at a number on the other half.

    Args:
        rate: the false positive rate at which the true one counts; `AREA` for the area under the curve.
        of: scores of all targets by every attack, in an order that tells nothing.
    """
    first = tuple(np.arange(len(scores)) % 2 == 0 for scores in next(iter(of.values())))
    one, other = (first[0], first[1]), (~first[0], ~first[1])
    return Part(_best(rate, of, other), one), Part(_best(rate, of, one), other)


def _best(rate: float, of: Mapping[str, Both], inside: Both) -> str:
    """Name of the attack with the highest merit on some targets; the first one, where none is clearly better."""
    first, found = next(iter(of)), {name: Part(name, inside).scores(of) for name in of}
    merit: Callable[[Scores], float] = _area if rate == AREA else lambda scores: _caught(scores, rate)
    merits = {name: merit(scores) for name, scores in found.items()}
    best = max(merits, key=lambda name: merits[name])
    return best if merits[best] - merits[first] > CLEARLY * _spread(rate, found[first], merits[first]) else first


def _spread(rate: float, scores: Scores, merit: float) -> float:
    """About one standard error of a merit, where the attack tells nothing or little."""
    m, n = len(scores.members), len(scores.controls)
    if rate == AREA:
        return float(np.sqrt((m + n + 1) / (12 * m * n)))
    # Members above the thresholds are Poisson counts, each including the one before; controls decide the thresholds.
    weights = np.cumsum([1 / times for times in reversed(AROUND)])[::-1]
    by_chance = rate * m * float((weights**2 * np.diff([0.0, *AROUND])).sum()) * (1 + m / n)
    return float(np.sqrt(by_chance * max(1.0, merit / (rate * m * len(AROUND)))))


def _area(scores: Scores) -> float:
    return round(area([scores])[0], 12)


def _caught(scores: Scores, rate: float) -> float:
    return sum(scores.n_above(scores.n_allowed(rate * times)) / times for times in AROUND)
