"""DP-CTGAN: one step of training CTGAN with DP-SGD on the critic's gradient of real rows.

Nothing else reads them. The fakes and the penalty, which is taken between fakes and fakes, are made of weights and
marginals that noise has made releasable, and so is what the generator learns from the critic.

Source: Xu et al. 2019 (1907.00503), section 4.3; Abadi et al. 2016 (1607.00133); Bie, Kamath, Zhang 2023 (2302.02936)
for several critic steps to one of the generator and large batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.neural.batches import UnitIndex
from synth.neural.checkpoint import restore, states_of
from synth.neural.dp_ctgan_networks import (
    NetworkCritic,
    PairCritic,
    PrivateGeneratorSpec,
    ReleasedGenerator,
    rate_share,
)
from synth.neural.dp_sgd import Backend, Clipping, ClipTally, StepRelease
from synth.neural.networks import GeneratorNetwork
from synth.neural.released import ReleasedConditions
from synth.transforms.layout import Layout

CriticKind = Literal["pairs", "network"]


class PrivateCritic(Protocol):
    """A critic that reads real rows by DP-SGD alone, and tallies what it clips."""

    tally: ClipTally

    def step(self, steps: StepRelease, fakes: Tensor, condition: Tensor) -> None:
        """Learn to tell real rows from fakes, on the draws of one step."""

    def scores(self, fakes: Tensor, condition: Tensor) -> Tensor:
        """Of fakes, shape (n,), as the generator's loss takes them; the critic itself learns nothing from them."""

    def set_rate(self, share: float) -> None:
        """Learn at this share of the first rate."""

    @property
    def finite(self) -> bool:
        """Whether all weights are finite numbers."""

    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""


@dataclass(frozen=True)
class PrivateCtganSpec:
    """What is set before training; all of it public.

    Attributes:
        critic: "pairs" is bilinear in pairs of codes, "network" the paper's, without packs.
        d_latent: width of the generator's noise.
        generator_widths: of its hidden layers.
        critic_widths: of the network critic's; narrow, as noise grows with the number of its parameters.
        generator_rate: Adam's learning rate at the start.
        critic_rate: the same of the network critic.
        max_grad_norm: bound on a unit's gradient over the critic.
        penalty: weight of the network critic's gradient penalty.
        matching: weight of the fakes' distance from the released marginals in the generator's loss.
        critic_steps: to one step of the generator.
        temperature: of the relaxed draws.
        ema: what a generator step leaves of the averaged generator.
        max_rows_per_pass: rows in memory at a time.
        backend: who clips what is private of a network.
    """

    critic: CriticKind = "pairs"
    d_latent: int = 64
    generator_widths: tuple[int, ...] = (128, 128)
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
        expected_batch: sampling rate times the number of units, as released.
        n_steps: of the critic, over which learning rates fall.
        device: where it is trained.
    """

    def __init__(
        self,
        spec: PrivateCtganSpec,
        units: UnitIndex,
        layout: Layout,
        one_way: Sequence[NDArray[np.floating]],
        expected_batch: float,
        n_steps: int,
        device: torch.device,
    ) -> None:
        self.spec, self._n_steps, self._n_done = spec, n_steps, 0
        n_fakes = max(2, min(round(expected_batch), spec.max_rows_per_pass))
        self.maker = ReleasedGenerator(_of_generator(spec), layout, one_way, n_fakes, device)
        clipping = Clipping.planned(spec.max_grad_norm, expected_batch, units.max_rows_per_unit, spec.max_rows_per_pass)
        self.critic = _critic(spec, units.to(device), self.maker, clipping)

    @property
    def tally(self) -> ClipTally:
        """*Sensitive*. How many units were clipped."""
        return self.critic.tally

    @property
    def generator(self) -> GeneratorNetwork:
        """The average of the generators on the way, to sample from."""
        average: GeneratorNetwork = self.maker.average
        return average

    @property
    def conditions(self) -> ReleasedConditions:
        """What a generator is asked for."""
        return self.maker.conditions

    def step(self, steps: StepRelease) -> None:
        """Take one step of the critic, with DP-SGD, and after every `critic_steps` of them one of the generator.

        Args:
            steps: what the budget has charged.
        """
        share = rate_share(self._n_done, self._n_steps)
        self.maker.set_rate(share)
        self.critic.set_rate(share)
        self.critic.step(steps, *self.maker.fakes())
        self._n_done += 1
        if self._n_done % self.spec.critic_steps == 0:
            self.maker.step(self.critic.scores)

    @property
    def finite(self) -> bool:
        """Whether all weights are finite numbers."""
        return self.critic.finite and self.maker.finite

    def state(self) -> dict[str, Any]:
        """All that a checkpoint needs: weights that noise has made releasable, and nothing of the table."""
        return {"n_done": self._n_done, **states_of(self._parts())}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._n_done = state["n_done"]
        restore(self._parts(), state)

    def _parts(self) -> dict[str, Any]:
        return {**self.maker.parts(), **self.critic.parts()}


def _of_generator(spec: PrivateCtganSpec) -> PrivateGeneratorSpec:
    return PrivateGeneratorSpec(
        spec.d_latent, spec.generator_widths, spec.generator_rate, spec.matching, spec.temperature, spec.ema
    )


def _critic(spec: PrivateCtganSpec, units: UnitIndex, maker: ReleasedGenerator, clipping: Clipping) -> PrivateCritic:
    if spec.critic == "pairs":
        return PairCritic(units, maker.spans, clipping)
    rate, penalty = spec.critic_rate, spec.penalty
    return NetworkCritic(units, maker, clipping, spec.critic_widths, rate=rate, penalty=penalty, backend=spec.backend)
