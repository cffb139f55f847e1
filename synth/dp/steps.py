"""The draws of a stretch of DP-SGD steps: for each a Poisson sample of the units and one noisy sum.

Source: Abadi et al. 2016 (1607.00133), Algorithm 1.
"""

import numpy as np

from synth.dp.events import SubsampledGaussianEvent
from synth.dp.mechanisms import Noise
from synth.errors import BudgetError


class Steps:
    """What a budget has charged, and no more: every step draws a sample, then one noisy sum.

    Args:
        event: says how units are sampled and how much noise there is.
        n_steps: how many of its releases are charged.
        noise: draws.
    """

    def __init__(self, event: SubsampledGaussianEvent, n_steps: int, noise: Noise) -> None:
        self._event, self._noise = event, noise
        self._samples = self._sums = n_steps

    def sample(self, n_units: int) -> np.ndarray:
        """The units in the next step's sample, each with the event's rate on its own; ascending int64, often none.

        Args:
            n_units: *Sensitive*. Units in the table.

        Raises:
            BudgetError: all samples that were charged are drawn.
        """
        self._samples = _one_less(self._samples, self._event)
        return self._noise.sample(n_units, self._event.sampling_rate)

    def release(self, total: np.ndarray, max_grad_norm: float) -> np.ndarray:
        """The sum over a step's sample with noise of `noise_multiplier` times `max_grad_norm` in every number.

        Args:
            total: *Sensitive*. Sum of vectors, each unit's with an L2 norm of at most `max_grad_norm`; shape (d,).
            max_grad_norm: the bound.

        Returns:
            Float64, shape (d,).

        Raises:
            BudgetError: all sums that were charged are released.
        """
        self._sums = _one_less(self._sums, self._event)
        return self._noise.floats(total, self._event.noise_multiplier * max_grad_norm)


def _one_less(left: int, event: SubsampledGaussianEvent) -> int:
    if left == 0:
        raise BudgetError(f"the budget holds no further step of {event.what!r}; plan it before drawing")
    return left - 1
