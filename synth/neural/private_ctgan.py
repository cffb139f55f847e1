"""One step of training CTGAN with DP-SGD on the critic's gradient of real rows.

Nothing else reads them: the fakes and the penalty, which is taken between fakes and fakes, are made of weights and
marginals that noise has made releasable, and so is what the generator learns from the critic.

Source: Xu et al. 2019 (1907.00503), section 4.3; Abadi et al. 2016 (1607.00133); Bie, Kamath, Zhang 2023 (2302.02936)
for several critic steps to one of the generator and large batches.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.neural.dp_sgd import Backend, Clipping, ExactSums, Release, noisy_mean, write_gradients
from synth.neural.networks import Critic, Generator
from synth.neural.opacus_sums import clipped_sums_by
from synth.neural.released import ReleasedConditions, averaged
from synth.neural.spans import Spans
from synth.neural.units import N_DRAWS, Units
from synth.transforms.layout import Layout

LAST_RATE_SHARE = 0.02
RAREST_SHARE = 1e-3
"""Keeps the weight of rare codes in the matching loss finite."""


@dataclass(frozen=True)
class PrivateCtganSpec:
    """What is set before training; all of it public.

    Attributes:
        d_latent: width of the generator's noise.
        generator_widths: of its hidden layers.
        critic_widths: of the critic's; narrow, as noise grows with the number of its parameters.
        generator_rate: Adam's learning rate at the start.
        critic_rate: the same of the critic.
        max_grad_norm: bound on a unit's gradient over the critic. The output layer's bias alone has a gradient of norm
            1, so that up to 1 every gradient is scaled to the bound: real units and fakes weigh the same.
        penalty: weight of the gradient penalty.
        matching: weight of the fakes' distance from the released marginals in the generator's loss.
        critic_steps: to one step of the generator.
        temperature: of the relaxed draws.
        ema: what a generator step leaves of the averaged generator.
        max_rows_per_pass: rows in memory at a time.
        backend: who clips what is private.
    """

    d_latent: int = 64
    generator_widths: tuple[int, ...] = (256, 256)
    critic_widths: tuple[int, ...] = (128, 128)
    generator_rate: float = 4e-3
    critic_rate: float = 4e-3
    max_grad_norm: float = 1.0
    penalty: float = 1.0
    matching: float = 1.0
    critic_steps: int = 2
    temperature: float = 0.2
    ema: float = 0.98
    max_rows_per_pass: int = 8192
    backend: Backend = "exact"


class PrivateCtganTraining:
    """CTGAN in training; real rows are read by a critic step's clipped sum alone.

    Args:
        spec: settings.
        units: *Sensitive*. The table.
        layout: of its rows; spans alone.
        one_way: released counts of each span's codes.
        expected_batch: sampling rate times the declared number of units.
        n_steps: of the critic, over which learning rates fall.
        device: where it is trained.

    Attributes:
        generator: the average of the generators on the way, to sample from; its batch norm has seen fakes only.
        conditions: what a generator is asked for.
    """

    def __init__(
        self,
        spec: PrivateCtganSpec,
        units: Units,
        layout: Layout,
        one_way: Sequence[NDArray[np.floating]],
        expected_batch: float,
        n_steps: int,
        device: torch.device,
    ) -> None:
        self.spec, self._units, self._n_steps, self._n_done = spec, units.to(device), n_steps, 0
        self._spans = Spans(layout).to(device)
        self.conditions = ReleasedConditions(one_way, layout, device)
        d_row = layout.width
        self._generator = Generator(spec.d_latent + d_row, spec.generator_widths, d_row).to(device)
        # A pack of several rows would let one unit move the scores of others, and dropout is noise on top of noise.
        self._critic = Critic(2 * d_row, spec.critic_widths, pac=1, dropout=0.0).to(device)
        self.generator = copy.deepcopy(self._generator).requires_grad_(False).eval()
        self._generator_adam = _adam(self._generator.parameters(), spec.generator_rate)
        self._critic_adam = _adam(self._critic.parameters(), spec.critic_rate)
        self._parameters = list(self._critic.parameters())
        self._clipped = clipped_sums_by(spec.backend, self._critic)
        self._clipped_fakes = ExactSums(self._critic)
        self._clipping = Clipping.planned(
            spec.max_grad_norm, expected_batch, units.max_rows_per_unit, spec.max_rows_per_pass
        )
        self._n_fakes = max(2, min(round(expected_batch), spec.max_rows_per_pass))

    def step(self, steps: Release) -> None:
        """Take one step of the critic, with DP-SGD, and after every `critic_steps` of them one of the generator.

        Args:
            steps: what the budget has charged.
        """
        self._set_rates()
        self._critic_step(steps)
        self._n_done += 1
        if self._n_done % self.spec.critic_steps == 0:
            self._generator_step()

    def _critic_step(self, steps: Release) -> None:
        with torch.no_grad():
            condition, _, _ = self.conditions.draw(self._n_fakes)
            fakes = torch.cat([self._fakes(self._logits(condition)), condition], 1)
        # Whoever knows torch's seed may know them: drawn before anything is read, and a row's looked up by its slot,
        # they depend on no row, and the clip holds whatever they are.
        columns = torch.randint(self.conditions.n_columns, (N_DRAWS,), device=fakes.device)
        public = self._public_gradient(fakes)
        real = noisy_mean(steps, len(self._units), self._clipping, lambda units: self._clipped_sum(units, columns))
        write_gradients(self._parameters, real + public)
        self._critic_adam.step()

    def _clipped_sum(self, sampled: NDArray[np.int64], columns: Tensor) -> Tensor:
        size = self._clipping.pass_units
        batch = self._units.batch(sampled, size)
        column = columns[batch.slots % N_DRAWS]
        rows = torch.cat([self._spans.one_hot(batch.codes), self.conditions.of_rows(batch.codes, column)], 1)

        def losses() -> Tensor:
            return torch.where(batch.mask, -self._critic(rows), 0.0)

        return self._clipped(losses, size, self.spec.max_grad_norm)

    def _public_gradient(self, fakes: Tensor) -> Tensor:
        """The critic's gradient on fakes, each clipped as real units are, and of the penalty; shape (d,), float64."""
        of_fakes = self._clipped_fakes(lambda: self._critic(fakes), len(fakes), self.spec.max_grad_norm)
        # DEVIATES: the paper takes the penalty between real rows and fakes; between fakes and fakes it reads no data.
        share = torch.rand(len(fakes), 1, device=fakes.device)
        between = torch.lerp(fakes, fakes[torch.randperm(len(fakes), device=fakes.device)], share)
        penalty = self.spec.penalty * (self._critic.gradient_norms(between) - 1).square().mean()
        gradients = torch.autograd.grad(penalty, self._parameters, allow_unused=True, materialize_grads=True)
        return of_fakes / len(fakes) + torch.cat([gradient.flatten() for gradient in gradients])

    def _generator_step(self) -> None:
        condition, column, chosen = self.conditions.draw(self._n_fakes)
        logits = self._logits(condition)
        fakes = self._fakes(logits)
        self._critic.requires_grad_(False)
        loss = -self._critic(torch.cat([fakes, condition], 1)).mean()
        self._critic.requires_grad_(True)
        loss = loss + self._spans.nll_of_one(logits, column, chosen).mean()
        shares = self.conditions.shares
        loss = loss + self.spec.matching * ((fakes.mean(0) - shares).square() / (shares + RAREST_SHARE)).sum()
        self._generator_adam.zero_grad()
        loss.backward()
        self._generator_adam.step()
        averaged(self.generator, self._generator, self.spec.ema)

    def _logits(self, condition: Tensor) -> Tensor:
        latent = torch.randn(len(condition), self.spec.d_latent, device=condition.device)
        logits: Tensor = self._generator(torch.cat([latent, condition], 1))
        return logits

    def _fakes(self, logits: Tensor) -> Tensor:
        return self._spans.gumbel_softmax(logits, self.spec.temperature)

    def _set_rates(self) -> None:
        """Half a cosine over all steps: fixed in advance, hence public."""
        progress = min(self._n_done / self._n_steps, 1.0)
        share = LAST_RATE_SHARE + (1 - LAST_RATE_SHARE) * 0.5 * (1 + math.cos(math.pi * progress))
        self._generator_adam.param_groups[0]["lr"] = share * self.spec.generator_rate
        self._critic_adam.param_groups[0]["lr"] = share * self.spec.critic_rate

    @property
    def finite(self) -> bool:
        """Whether all weights are finite numbers."""
        weights = [*self._critic.parameters(), *self._generator.parameters()]
        return all(bool(weight.isfinite().all()) for weight in weights)

    def state(self) -> dict[str, Any]:
        """All that a checkpoint needs: weights that noise has made releasable, and nothing of the table."""
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        return copy.deepcopy({"n_done": self._n_done, **parts})

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._n_done = state["n_done"]
        for name, part in self._parts().items():
            part.load_state_dict(state[name])

    def _parts(self) -> dict[str, Any]:
        return {
            "generator": self._generator,
            "critic": self._critic,
            "average": self.generator,
            "generator_adam": self._generator_adam,
            "critic_adam": self._critic_adam,
        }


def _adam(parameters: Any, rate: float) -> torch.optim.Adam:
    return torch.optim.Adam(parameters, rate, (0.5, 0.9), fused=True)
