"""The networks of CTGAN and TVAE.

Source: Xu et al. 2019 (1907.00503), sections 4.3 and 4.4; equal to those of the library `ctgan` under its weights.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

NEGATIVE_SLOPE, DROPOUT = 0.2, 0.5
"""Of the critic's hidden layers, as in the library `ctgan`."""
BETAS = 0.5, 0.9
"""Of Adam, for generators and critics."""
Precision = Literal["float32", "bfloat16"]
"""Of the factors of a network's products; everything else is in float32, weights and optimizers too."""


def products_in(precision: Precision, device: torch.device) -> torch.autocast:
    """A context in which networks take their products in a precision; for forward passes alone."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def widened(outputs: Tensor) -> Tensor:
    """What a network gave, in float32 where it was less: softmax, means and losses would lose too much."""
    return outputs.float() if outputs.dtype == torch.bfloat16 else outputs


def is_finite(*networks: nn.Module) -> bool:
    """Whether all weights are finite numbers."""
    return all(bool(weight.isfinite().all()) for network in networks for weight in network.parameters())


class Generator(nn.Module):
    """Noise and a condition to the logits of a row: residual layers that carry their input along.

    Shape: (n, d_in), to (n, d_out).
    """

    def __init__(self, d_in: int, widths: Sequence[int], d_out: int) -> None:
        super().__init__()
        d_inputs = [d_in + sum(widths[:index]) for index in range(len(widths) + 1)]
        self.layers = nn.ModuleList(nn.Linear(d, width) for d, width in zip(d_inputs, widths, strict=False))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in widths)
        self.output = nn.Linear(d_inputs[-1], d_out)

    def forward(self, row: Tensor) -> Tensor:
        """The logits."""
        for layer, norm in zip(self.layers, self.norms, strict=True):
            row = torch.cat([torch.relu(norm(layer(row))), row], dim=1)
        out: Tensor = self.output(row)
        return out

    @torch.no_grad()
    def fit_norms(self, batches: Iterable[Tensor]) -> None:
        """Take the mean statistics of some batches for those of batch norm, in place of the running ones.

        Args:
            batches: of noise and conditions, at least one, each of shape (n, d_in) with n at least 2.
        """
        was_training, momenta = self.training, [norm.momentum for norm in self.norms]
        for norm in self.norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean of all batches, each as heavy
        self.train()
        for batch in batches:
            self(batch)
        for norm, momentum in zip(self.norms, momenta, strict=True):
            norm.momentum = momentum
        self.train(was_training)


class Critic(nn.Module):
    """How real rows look, a pack of them at a time.

    Shape: (n, d_row), to (n / pac,).
    """

    def __init__(self, d_row: int, widths: Sequence[int], pac: int = 1, dropout: float = DROPOUT) -> None:
        super().__init__()
        self.pac, self.dropout = pac, dropout
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([d_row * pac, *widths, 1]))

    def forward(self, rows: Tensor) -> Tensor:
        """The scores."""
        return self._scores(self._first(rows))

    def gradient_norms(self, rows: Tensor) -> Tensor:
        """Norms of the gradient of the scores by their packs of rows, differentiable by the weights.

        The critic is linear but for slopes that are constant around every row, so that the gradient is a product of
        its weights: no second pass through autograd's graph is needed.

        Shape: (n, d_row), to (n / pac,).
        """
        with torch.no_grad():
            before = self._first(rows)
        return self._norms(before)

    def contrast(self, rows: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of two batches, and the norms of the gradient between them.

        What the first layer makes of a row between two others lies as far between what it makes of these: the product
        that costs most is saved.

        Args:
            rows: both batches, one after the other, shape (2 n, d_row).
            shares: of the second in what lies between, one for each pack, shape (n / pac, 1).

        Shape: (2 n / pac,), and (n / pac,).
        """
        before = self._first(rows)
        first, second = before.detach().chunk(2)
        between = first + shares * (second - first)
        return self._scores(before), self._norms(between)

    def _first(self, rows: Tensor) -> Tensor:
        before: Tensor = self.layers[0](rows.reshape(-1, self.layers[0].in_features))
        return before

    def _scores(self, before: Tensor) -> Tensor:
        for layer in self.layers[1:]:
            before = layer(before * self._slopes(before))
        return before.squeeze(1)

    def _norms(self, before: Tensor) -> Tensor:
        slopes = []
        with torch.no_grad():
            for layer in self.layers[1:]:
                slopes.append(self._slopes(before))
                before = layer(before * slopes[-1])
        gradient = self.layers[-1].weight
        for layer, slope in zip(reversed(self.layers[:-1]), reversed(slopes), strict=True):
            gradient = (gradient * slope) @ layer.weight
        return torch.linalg.vector_norm(gradient, dim=1)

    @torch.no_grad()
    def _slopes(self, before: Tensor) -> Tensor:
        """The slope of leaky ReLU at each value, and dropout."""
        share = 1 - self.dropout if self.training else 1.0
        slopes = torch.where(before > 0, 1 / share, NEGATIVE_SLOPE / share)
        return slopes if share == 1 else slopes.mul_(torch.rand_like(slopes) < share)


class Encoder(nn.Module):
    """A row to the mean and log variance of its place in the latent space.

    Shape: (n, d_row), to twice (n, d_latent).
    """

    def __init__(self, d_row: int, widths: Sequence[int], d_latent: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([d_row, *widths]))
        self.mean = nn.Linear(widths[-1], d_latent)
        self.log_variance = nn.Linear(widths[-1], d_latent)

    def forward(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance."""
        for layer in self.layers:
            row = torch.relu(layer(row))
        return self.mean(row), self.log_variance(row)


class Decoder(nn.Module):
    """A place in the latent space to the logits of a row.

    Shape: (n, d_latent), to (n, d_row).
    """

    def __init__(self, d_latent: int, widths: Sequence[int], d_row: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([d_latent, *widths]))
        self.output = nn.Linear(widths[-1], d_row)

    def forward(self, latent: Tensor) -> Tensor:
        """The logits."""
        for layer in self.layers:
            latent = torch.relu(layer(latent))
        out: Tensor = self.output(latent)
        return out
