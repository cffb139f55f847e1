"""How often clipping scales a unit's gradient down: whether the bound of a DP-SGD training suits its table.

This reads the norms of real units, and no noise covers it: it is for whoever may see numbers computed from real rows,
and reaches no model, no statement, no checkpoint and no training log.
"""

from torch import Tensor

ROUNDING = 1e-5
"""By how much a norm may pass the bound, as a share of it, and still count as one that is on it."""


class ClipTally:
    """Units that were sampled, and how many of them were clipped. *Sensitive.*"""

    def __init__(self) -> None:
        self._n_units = 0
        self._n_clipped: Tensor | int = 0

    def sampled(self, n_units: int) -> None:
        """Count the units of a sample; padding is none."""
        self._n_units += n_units

    def see(self, norms: Tensor, max_grad_norm: float) -> None:
        """Count the norms above the bound, shape (n,); the device is not waited for, and padding has a norm of 0.

        A norm that is no number counts as above: nothing is left of such a gradient.
        """
        self._n_clipped = self._n_clipped + (~(norms <= max_grad_norm * (1 + ROUNDING))).sum()

    def taken(self) -> tuple[int, int]:
        """Clipped units and sampled ones since this was last asked."""
        found = int(self._n_clipped), self._n_units
        self._n_clipped, self._n_units = 0, 0
        return found
