"""Released values: shares of codes, known before training, and weights, averaged on the way; both free to use."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.neural.encoding import Layout


def released_shares(one_way: Sequence[NDArray[np.floating]], layout: Layout) -> Tensor:
    """The share of each code within its span, side by side; shape (n_codes,), float64.

    >>> from synth.transforms.layout import Span
    >>> released_shares([np.array([3.0, -1.0, 1.0])], Layout((Span("x", 3, True),))).tolist()
    [0.75, 0.0, 0.25]
    """
    if layout.scalars:
        raise ValueError(f"private training takes spans alone: n_scalars={len(layout.scalars)}; bin every column")
    sizes = tuple(len(counts) for counts in one_way)
    if sizes != layout.sizes:
        raise ValueError(f"released counts must be those of the layout: sizes={sizes}; measure {layout.sizes}")
    kept = [np.maximum(np.asarray(counts, dtype=np.float64), 0.0) for counts in one_way]
    shares = [counts / counts.sum() if counts.sum() > 0 else np.full(len(counts), 1 / len(counts)) for counts in kept]
    return torch.from_numpy(np.concatenate(shares))


def averaged(average: nn.Module, current: nn.Module, kept_share: float) -> None:
    """Move a network's running average, buffers included, toward its current weights, in place."""
    ours, theirs = average.state_dict(), current.state_dict()
    with torch.no_grad():
        for name, value in ours.items():
            if value.is_floating_point():
                value.lerp_(theirs[name], 1 - kept_share)
            else:
                value.copy_(theirs[name])


LESS_THAN_ONE = 1 - 2.0**-40
"""Keeps a column's number plus a share of 1 below the next column's number in double precision."""


def running_shares(weights: Sequence[NDArray[np.float64]]) -> Tensor:
    """The running share of each code's weight in its column, plus the column's number; shape (n_codes,), float64.

    It is exactly the next number from a column's last positive weight on, so that no code beyond is drawn.
    """
    totals = [np.cumsum(of_codes) for of_codes in weights]
    parts = [column + total / total[-1] for column, total in enumerate(totals)]
    return torch.from_numpy(np.concatenate([np.empty(0), *parts]))


def draw_codes(running: Tensor, n_columns: int, n: int) -> tuple[Tensor, Tensor]:
    """Codes, counted over all columns, by their running shares, and their columns, any as likely; shape (n,) both."""
    column = torch.randint(n_columns, (n,), device=running.device)
    share = torch.rand(n, dtype=torch.float64, device=running.device)
    return torch.searchsorted(running, column + share * LESS_THAN_ONE, right=True), column


class ReleasedConditions:
    """Conditions on one column at a time, one-hot: any column as likely, its codes by their released shares.

    Source: Xu et al. 2019 (1907.00503), section 4.3.
    """

    # DEVIATES: the paper draws codes by the logarithm of their exact counts; the fakes whose marginals are matched must
    # have the marginals' own shares, and exact counts are not to be had.
    def __init__(self, one_way: Sequence[NDArray[np.floating]], layout: Layout, device: torch.device) -> None:
        shares = released_shares(one_way, layout)
        self.shares, self._n_columns = shares.float().to(device), len(layout.spans)
        self._running = running_shares([part.numpy() for part in shares.split(layout.sizes)]).to(device)

    def draw(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        """Conditions, shape (n, n_codes); the column and the code that each names, shape (n,) both."""
        code, column = draw_codes(self._running, self._n_columns, n)
        hot = torch.zeros(n, len(self.shares), device=code.device)
        return hot.scatter_(1, code[:, None], 1.0), column, code
