"""The tail of scores that held-out people come to by chance: is one more score as high a copy?

Maxima by chance have an exponential tail. One more score above a threshold, beside k held-out scores above it, then
follows a Pareto law whose exponent is k: that allows for the tail being estimated.

Source: Karlin & Altschul 1990, "Methods for assessing the statistical significance of molecular sequence features";
Pickands 1975 on tails of maxima.
"""

from dataclasses import dataclass

import numpy as np

TAIL = 100  # Held-out scores that the tail is estimated by, at most: the highest
PRIOR_SCORES, PRIOR_SPREAD = 20, 2.0
"""Prior of the tail: so many scores, so many nats above the threshold. Independent rows come to one nat. Without a
prior a single row in common would be an alarm where no held-out one is."""
LEAST_CONTROLS = 40  # Held-out people that a tail takes


@dataclass(frozen=True)
class ScoreTail:
    threshold: float
    excess: float
    k: int
    n: int
    prior_spread: float = PRIOR_SPREAD

    @classmethod
    def of(cls, scores: np.ndarray, most: int = TAIL, prior_spread: float = PRIOR_SPREAD) -> "ScoreTail":
        """The tail of so many of the highest scores; of those above 0, where these are fewer."""
        ranked = np.sort(scores)[::-1]
        threshold = float(ranked[most]) if len(ranked) > most else 0.0
        above = ranked[ranked > threshold]
        return cls(threshold, float((above - threshold).sum()), len(above), len(ranked), prior_spread)

    def chance(self, scores: np.ndarray) -> np.ndarray:
        """With k exceedances whose sum is s, the next one is above x with probability (1 + x / s)^-k."""
        k, total = self.k + PRIOR_SCORES, self.excess + PRIOR_SCORES * self.prior_spread
        tail = (self.k + 1) / (self.n + 1) * (1.0 + np.maximum(scores - self.threshold, 0.0) / total) ** -k
        return np.where(scores > self.threshold, np.minimum(tail, 1.0), 1.0)
