"""A critic that looks at pairs of columns: bilinear in their codes, trained by DP-SGD on all of its weights at once.

With a weight for every pair of codes, W, a row x scores the sum of W over the pairs of codes it holds. What such a
critic, held small by an L2 penalty, tells real rows from fakes by is the difference of their two-way marginals, so
that the generator comes to match these. A row's gradient is the list of its own pairs, whatever the weights: it has the
same norm for every row, clipping distorts nothing, and noise finds no layer to add up in.

DEVIATES: the paper's critic is a network on packs of rows. Under DP-SGD at small epsilon it learns little: its
gradients are spread over all rows' directions while noise grows with the number of weights.

Source: Harder, Adamczewski, Park 2021 (2002.11603), whose generator matches noisy means of random features; Li et al.
2017 (1705.08584) for critics that compare means; here the features are pairs of codes.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.neural.dp_sgd import Clipping, Release, noisy_mean
from synth.neural.spans import Spans
from synth.neural.units import Units
from synth.transforms.layout import Layout


class PairCritic(nn.Module):
    """How real rows look by the pairs of codes they hold.

    Shape: (n, n_codes) of codes' shares, to (n,).

    Attributes:
        weight: of each pair of codes of two columns, above the diagonal; zero elsewhere; shape (n_codes, n_codes).
    """

    weight: Tensor
    pairs: Tensor

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        span_of = Spans(layout).span_of
        self.n_pairs = math.comb(len(layout.spans), 2)
        pairs = (span_of[:, None] < span_of[None, :]).nonzero().T
        self.register_buffer("pairs", pairs, persistent=False)
        self.register_buffer("weight", torch.zeros(layout.n_codes, layout.n_codes))

    def forward(self, rows: Tensor) -> Tensor:
        """The scores."""
        return ((rows @ self.weight) * rows).sum(1)

    def gradient(self, rows: Tensor, weights: Tensor) -> Tensor:
        """The weighted sum of the rows' gradients, a number for each pair of codes of two columns; shape (n_pairs,)."""
        first, second = self.pairs
        found: Tensor = ((rows * weights[:, None]).T @ rows)[first, second]
        return found

    def ascend(self, gradient: Tensor, rate: float) -> None:
        """A step toward the gradient, which is where a critic with an L2 penalty of 1/2 comes to rest.

        Args:
            gradient: of real rows less that of fakes, shape (n_pairs,).
            rate: of the step, in (0, 1].
        """
        self.weight *= 1 - rate
        self.weight[self.pairs[0], self.pairs[1]] += rate * gradient.to(self.weight.dtype)


def noisy_gradient(critic: PairCritic, spans: Spans, units: Units, clipping: Clipping, steps: Release) -> Tensor:
    """The critic's mean gradient on real rows with the noise of one DP-SGD step; shape (n_pairs,), float64.

    Gradients are clipped in units of one row's norm, so that a bound of 1 leaves a unit of one row as it is.

    Args:
        critic: of the rows.
        spans: of the rows.
        units: *Sensitive*. The table.
        clipping: the public numbers.
        steps: what the budget has charged.
    """
    size, k = clipping.pass_units, units.max_rows_per_unit
    row_norm = math.sqrt(max(critic.n_pairs, 1))

    def clipped_sum(sampled: NDArray[np.int64]) -> Tensor:
        batch = units.batch(sampled, size)
        rows = spans.one_hot(batch.codes) * batch.mask[:, None]
        factors = (clipping.max_grad_norm / _norms(rows.view(size, k, -1)).clamp_min(1e-12)).clamp_max(1.0)
        return critic.gradient(rows, factors.repeat_interleave(k)).double() / row_norm

    def _norms(rows: Tensor) -> Tensor:
        """Of each unit's summed gradient, one row's being 1: two rows share the pairs of columns they agree in."""
        agreeing = rows @ rows.mT
        return (agreeing * (agreeing - 1) / 2).sum((1, 2)).clamp_min(0.0).sqrt() / row_norm

    return noisy_mean(steps, len(units), clipping, clipped_sum) * row_norm
