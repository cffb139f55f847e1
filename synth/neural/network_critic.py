"""The critic of a private CTGAN that is a network, with its clipped gradients.

Source: Xu et al. 2019 (1907.00503), section 4.3; Gulrajani et al. 2017 (1704.00028) for the penalty.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.neural.clipping import ClipTally
from synth.neural.dp_sgd import Backend, Clipping, ExactSums, Release, noisy_mean, write_gradients
from synth.neural.networks import BETAS, Critic, is_finite
from synth.neural.opacus_sums import clipped_sums_by
from synth.neural.private_generator import ReleasedGenerator
from synth.neural.units import Units, secret_generator


class NetworkCritic:
    """A network that is shown a row with a condition it meets.

    Args:
        units: *Sensitive*. The table.
        maker: of the fakes; knows spans and conditions.
        clipping: the public numbers. The output layer's bias alone has a gradient of norm 1, so that a bound of up to 1
            scales every gradient to the bound: real units and fakes weigh the same.
        widths: of the hidden layers.
        rate: Adam's learning rate at the start.
        penalty: weight of the gradient penalty.
        backend: who clips what is private.

    Attributes:
        tally: *Sensitive*. How many units were clipped; with a bound of up to 1 that is all of them.
    """

    def __init__(
        self,
        units: Units,
        maker: ReleasedGenerator,
        clipping: Clipping,
        widths: Sequence[int],
        *,
        rate: float,
        penalty: float,
        backend: Backend,
    ) -> None:
        self._units, self._spans, self._conditions = units, maker.spans, maker.conditions
        self._clipping, self._rate, self._penalty = clipping, rate, penalty
        self._draws = secret_generator(units.codes.device)
        # A pack of several rows would let one unit move the scores of others, and dropout is noise on top of noise.
        d_row = self._spans.n_codes
        self.network = Critic(2 * d_row, widths, pac=1, dropout=0.0).to(units.codes.device)
        self._adam = torch.optim.Adam(self.network.parameters(), rate, BETAS, fused=True)
        self._parameters = list(self.network.parameters())
        self.tally = ClipTally()
        self._clipped = clipped_sums_by(backend, self.network, tally=self.tally)
        self._clipped_fakes = ExactSums(self.network)

    def step(self, steps: Release, fakes: Tensor, condition: Tensor) -> None:
        """As `PrivateCritic` says."""
        public = self._public_gradient(torch.cat([fakes, condition], 1))
        real = noisy_mean(steps, len(self._units), self._clipping, self._clipped_sum)
        write_gradients(self._parameters, real + public)
        self._adam.step()

    def _clipped_sum(self, sampled: NDArray[np.int64]) -> Tensor:
        size = self._clipping.pass_units
        self.tally.sampled(len(sampled))
        batch = self._units.batch(sampled, size)
        column = torch.randint(
            self._conditions.n_columns, (len(batch.codes),), generator=self._draws, device=self._draws.device
        )
        rows = torch.cat([self._spans.one_hot(batch.codes), self._conditions.of_rows(batch.codes, column)], 1)

        def losses() -> Tensor:
            return torch.where(batch.mask, -self.network(rows), 0.0)

        return self._clipped(losses, size, self._clipping.max_grad_norm)

    def _public_gradient(self, fakes: Tensor) -> Tensor:
        """The gradient on fakes, each clipped as real units are, and of the penalty; shape (d,), float64."""
        of_fakes = self._clipped_fakes(lambda: self.network(fakes), len(fakes), self._clipping.max_grad_norm)
        # DEVIATES: the paper takes the penalty between real rows and fakes; between fakes and fakes it reads no data.
        share = torch.rand(len(fakes), 1, device=fakes.device)
        between = torch.lerp(fakes, fakes[torch.randperm(len(fakes), device=fakes.device)], share)
        penalty = self._penalty * (self.network.gradient_norms(between) - 1).square().mean()
        gradients = torch.autograd.grad(penalty, self._parameters, allow_unused=True, materialize_grads=True)
        return of_fakes / len(fakes) + torch.cat([gradient.flatten() for gradient in gradients])

    def scores(self, fakes: Tensor, condition: Tensor) -> Tensor:
        """As `PrivateCritic` says."""
        self.network.requires_grad_(False)
        found: Tensor = self.network(torch.cat([fakes, condition], 1))
        self.network.requires_grad_(True)
        return found

    def set_rate(self, share: float) -> None:
        """As `PrivateCritic` says."""
        self._adam.param_groups[0]["lr"] = share * self._rate

    @property
    def finite(self) -> bool:
        """Whether all weights are finite numbers."""
        return is_finite(self.network)

    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {"critic": self.network, "critic_adam": self._adam}
