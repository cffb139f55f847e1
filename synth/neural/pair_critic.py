"""A critic that looks at pairs of columns: bilinear in their codes, trained by DP-SGD on all of its weights at once.

With a weight for every pair of codes, W, a row x scores the sum of W over the pairs of codes it holds. What such a
critic, held small by an L2 penalty, tells real rows from fakes by is the difference of their two-way marginals, so
that the generator comes to match these, and what takes three columns to see it does not see. A row's gradient is the
list of its own pairs, whatever the weights: it has the same norm for every row, clipping distorts nothing, and the
critic is a decaying average of noisy two-way marginals less those of the fakes.

DEVIATES: the paper's critic is a network on packs of rows. Under DP-SGD at small epsilon it learns little: its
gradients point every way, are clipped, and noise grows with the number of its weights.

Source: Li et al. 2017 (1705.08584) for critics that compare means of features; Harder, Adamczewski, Park 2021
(2002.11603) and Liu, Vietri, Wu 2021 (2106.07153) for generators that match noisy ones, of marginals in the latter.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.neural.clipping import ClipTally
from synth.neural.dp_sgd import Clipping, Release, noisy_mean
from synth.neural.spans import Spans
from synth.neural.units import Units

LEAST_RATE = 0.005
"""Of the critic's steps, which begin at 1 and are 1 / t at step t until they come to this."""
SCORE_WEIGHT = 40.0
"""Of the scores in the generator's loss."""


class PairCritic:
    """Weights on pairs of codes of two columns.

    Args:
        units: *Sensitive*. The table.
        spans: of its rows, which have no scalars.
        clipping: the public numbers. A bound of 1 is the norm of one row's gradient, so that with one row a unit more
            than that is only more noise, and less changes nothing.

    Attributes:
        tally: *Sensitive*. How many units were clipped.
    """

    def __init__(self, units: Units, spans: Spans, clipping: Clipping) -> None:
        self._units, self._spans, self._clipping = units, spans, clipping
        self._pairs = (spans.span_of[:, None] < spans.span_of[None, :]).nonzero().T
        self._row_norm = math.sqrt(max(math.comb(len(spans.offsets), 2), 1))
        self._weights = _Weights(spans.n_codes).to(units.codes.device)
        self.tally = ClipTally()

    @property
    def weights(self) -> Tensor:
        """Of pairs, above the diagonal, zero elsewhere; shape (n_codes, n_codes)."""
        return self._weights.of_pairs

    def step(self, steps: Release, fakes: Tensor, condition: Tensor) -> None:
        """Learn to tell real rows from fakes, on the draws of one step; what fakes were made on is not looked at."""
        real = noisy_mean(steps, len(self._units), self._clipping, self._clipped_sum) * self._row_norm
        real = real / min(1.0, self._clipping.max_grad_norm)
        of_fakes = self._gradient(fakes, torch.ones(len(fakes), device=fakes.device)) / len(fakes)
        if self._units.max_rows_per_unit > 1:  # clipping leaves each unit another mass, of which this is the mean
            of_fakes *= real.sum() / self._row_norm**2
        self._weights.n_done += 1
        rate = max(LEAST_RATE, 1 / int(self._weights.n_done))
        ahead = (real - of_fakes).to(self.weights.dtype)
        # The step of gradient ascent under a penalty of half the squared weights.
        self.weights.mul_(1 - rate)
        self.weights[self._pairs[0], self._pairs[1]] += rate * ahead

    def scores(self, fakes: Tensor, condition: Tensor) -> Tensor:
        """Of fakes, shape (n,), as the generator's loss takes them."""
        return SCORE_WEIGHT * ((fakes @ self.weights) * fakes).sum(1)

    def _clipped_sum(self, sampled: NDArray[np.int64]) -> Tensor:
        """The sum of the units' gradients, each clipped; one row's is scaled to a norm of 1."""
        size = self._clipping.pass_units
        batch = self._units.batch(sampled, size)
        rows = self._spans.one_hot(batch.codes) * batch.mask[:, None]
        norms = self._norms(rows.view(size, -1, rows.shape[1]))
        self.tally.sampled(len(sampled))
        self.tally.see(norms, self._clipping.max_grad_norm)
        factors = (self._clipping.max_grad_norm / norms.clamp_min(1e-12)).clamp_max(1.0)
        k = self._units.max_rows_per_unit
        if k > 1 or self._clipping.max_grad_norm < 1:
            rows, factors = rows.double(), factors.double()  # sums of factors round, and would pass the bound a little
        return self._gradient(rows, factors.repeat_interleave(k)).double() / self._row_norm

    def _norms(self, rows: Tensor) -> Tensor:
        """Of each unit's gradient, one row's being 1: two rows share the pairs of the columns they agree in.

        Shape: (n_units, k, n_codes), one-hot, to (n_units,).
        """
        agreeing = rows @ rows.mT
        return (agreeing * (agreeing - 1) / 2).sum((1, 2)).sqrt() / self._row_norm

    def _gradient(self, rows: Tensor, factors: Tensor) -> Tensor:
        """Of the rows' scores, each times its factor: the pairs that they hold; shape (n_pairs,)."""
        found: Tensor = ((rows * factors[:, None]).T @ rows)[self._pairs[0], self._pairs[1]]
        return found

    def set_rate(self, share: float) -> None:
        """Nothing: the rate has a schedule of its own."""

    @property
    def finite(self) -> bool:
        """Whether all weights are finite numbers."""
        return bool(self.weights.isfinite().all())

    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {"critic": self._weights}


class _Weights(nn.Module):
    """Weights, and how many steps they have taken."""

    of_pairs: Tensor
    n_done: Tensor

    def __init__(self, n_codes: int) -> None:
        super().__init__()
        self.register_buffer("of_pairs", torch.zeros(n_codes, n_codes))
        self.register_buffer("n_done", torch.zeros((), dtype=torch.int64))
