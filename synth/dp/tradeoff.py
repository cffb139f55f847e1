"""The trade-off curve of a release: what any test of "in or out" can detect at most, at every rate of false alarms.

A test looks at all that is released and says whether one unit is in the table. Where it says "in", it raises a *false
alarm* if the unit is out, and a *detection* if the unit is in. A pair of epsilon and delta limits detections at every
rate of false alarms. The whole privacy curve of the events holds one such pair for every epsilon, and their limits hold
together.

Source: Wasserman & Zhou 2010 (tests); Kairouz, Oh, Viswanath 2015 (1311.0776), Theorem 2.1 (the region of a pair);
Dong, Roth, Su 2022 (1905.02383), Proposition 2.13 (the curve of all pairs).
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from synth.dp.accounting import composed_loss
from synth.dp.events import Event

FALSE_ALARMS = (0.001, 0.01, 0.1)  # rates of false alarms at which a limit is written out
N_PAIRS = 400  # pairs of epsilon and delta that a curve is made of; fewer only allow more
N_AREA = 1000  # pieces of the area under a curve, of each of two grids
SMALLEST_DELTA = 1e-13
"""The delta at which a privacy curve is cut off: below it, the accountant loses its digits in rounding."""
LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class TradeOff:
    """Limits on the detections of any test, from pairs that all hold.

    >>> claim = TradeOff.of_claim(1.0, 1e-6)
    >>> round(claim.detections(0.01), 4), round(claim.right_guesses, 3)
    (0.0272, 0.731)
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]

    @classmethod
    def of_claim(cls, epsilon: float, delta: float) -> "TradeOff":
        """The limit of one pair, whatever the mechanism."""
        return cls((epsilon,), (delta,))

    def detections(self, false_alarms: float) -> float:
        """The largest share of detections that any test reaches."""
        return float(self.curve(np.array([false_alarms]))[0])

    def curve(self, false_alarms: np.ndarray) -> np.ndarray:
        """`detections` at several rates of false alarms, of the same shape."""
        wrong = np.asarray(false_alarms, dtype=np.float64)[..., None]
        odds, deltas = np.exp(np.minimum(self.epsilons, LARGEST_EXPONENT)), np.array(self.deltas)
        few = odds * wrong + deltas
        many = 1 - np.maximum(1 - deltas - wrong, 0.0) / odds
        return np.asarray(np.clip(np.minimum(few, many).min(axis=-1), 0.0, 1.0))

    @cached_property
    def area(self) -> float:
        """The largest area under the ROC curve that any score reaches; not below the true one.

        >>> round(TradeOff.of_claim(1.0, 0.0).area, 4)  # e / (1 + e)
        0.7311
        """
        ends = np.unique(np.concatenate([np.linspace(0, 1, N_AREA), [0.0], np.geomspace(1e-9, 1, N_AREA)]))
        # A concave curve lies nowhere above its tangent: over a piece, its mean is at most the value in the middle.
        return float(min(1.0, np.sum(self.curve((ends[1:] + ends[:-1]) / 2) * np.diff(ends))))

    @property
    def right_guesses(self) -> float:
        """The largest share of right guesses where the unit is in the table as often as not."""
        odds = np.exp(np.minimum(self.epsilons, LARGEST_EXPONENT))
        gains = (odds - 1 + 2 * np.array(self.deltas)) / (odds + 1)
        return float(min(1.0, (1 + gains.min()) / 2))


@lru_cache(maxsize=64)
def trade_off(events: tuple[Event, ...]) -> TradeOff:
    """The trade-off curve of all events together, by their privacy loss distribution: not below the true one.

    But for what convolutions lose of each delta in rounding, which shows in no printed rate.

    >>> from synth.dp.events import GaussianEvent
    >>> round(trade_off((GaussianEvent("counts", sigma=4.22),)).detections(0.01), 4)
    0.0183
    """
    loss = composed_loss(events)
    if loss is None:
        return TradeOff.of_claim(0.0, 0.0)
    own, top = sum(event.delta for event in events), _top(loss)
    epsilons = np.unique(np.concatenate([np.linspace(0, top, N_PAIRS), np.geomspace(top / 1e4, top, N_PAIRS // 8)]))
    deltas = np.minimum(np.asarray(loss.get_delta_for_epsilon(epsilons.tolist())) + own, 1.0)
    return TradeOff(tuple(epsilons.tolist()), tuple(deltas.tolist()))


def _top(loss: Any) -> float:
    """The epsilon up to which a privacy curve is looked at."""
    for delta in (SMALLEST_DELTA, 1e-9, 1e-6, 1e-3):  # a mass of infinite loss leaves none at a smaller delta
        epsilon = float(loss.get_epsilon_for_delta(delta))
        if math.isfinite(epsilon):
            return max(epsilon, 1e-6)
    return 1.0
