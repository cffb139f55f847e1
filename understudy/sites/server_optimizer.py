"""Adam at the server: weights move by the mean of the sites' gradients over rounds of several steps.

Adam divides a gradient by the root of its second moment, which under DP-SGD is nearly all noise. The server sees means
over sites and steps, in which little noise is left. It knows how much there was in one step of one site, and adds what
is missing. So weights move as the average of sites would that each divide by their own noise: far where gradients
agree, and little where noise is most of them. Noise has one size, so that this is the same for sites of all sizes.

Source: Kingma & Ba 2015 (1412.6980); Reddi et al. 2021 (2003.00295) for Adam at the server of a federation.

Source: Tang, Shpilevskiy, Lecuyer 2024 (2312.14334) for what noise is in Adam's second moment.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Of Adam, as usual."""


class ServerAdam:
    """Adam on mean gradients.

    Args:
        rate: of one step.
        n_sites: in a mean.
        noise: variance of the noise in the mean over all sites of one step's gradients; 0 where there is none.
        n_weights: d.
    """

    def __init__(self, rate: float, n_sites: int, noise: float, n_weights: int) -> None:
        self._rate, self._n_sites, self._noise = rate, n_sites, noise
        self._first, self._second = np.zeros(n_weights), np.zeros(n_weights)
        self._unseen = np.ones(2)

    def rates(self, n_steps: int) -> NDArray[np.float64]:
        """The distance that a gradient of 1 moves each weight in one step; zero before the first; shape (d,).

        Args:
            n_steps: of a round.
        """
        if self._unseen[1] == 1:
            return np.zeros_like(self._second)
        squares = self._second / (1 - self._unseen[1])
        missing = self._noise * (self._n_sites - 1 / n_steps)
        # Without noise as if steps of a round had nothing in common.
        squares = squares + missing if self._noise else squares * n_steps
        return self._rate / (np.sqrt(squares) + EPSILON)

    def step(self, weights: NDArray[np.float64], gradient: NDArray[np.float64], n_steps: int) -> NDArray[np.float64]:
        """The weights after a round, shape (d,).

        Args:
            weights: before it.
            gradient: the mean over sites and steps.
            n_steps: of the round.
        """
        first, second = (beta**n_steps for beta in BETAS)
        self._first = first * self._first + (1 - first) * gradient
        self._second = second * self._second + (1 - second) * gradient**2
        self._unseen = self._unseen * (first, second)
        return weights - n_steps * self.rates(n_steps) * self._first / (1 - self._unseen[0])

    def state(self) -> dict[str, Any]:
        """All that a checkpoint needs, as tensors."""
        from torch import from_numpy

        return {name: from_numpy(part.copy()) for name, part in self._parts().items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._first, self._second, self._unseen = (np.array(state[name]) for name in self._parts())

    def _parts(self) -> dict[str, NDArray[np.float64]]:
        return {"first": self._first, "second": self._second, "unseen": self._unseen}
