"""The generator of a private CTGAN: it reads weights and marginals that were released, and no row.

Source: Xu et al. 2019 (1907.00503), section 4.3.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.neural.networks import BETAS, Generator, is_finite
from synth.neural.released import ReleasedConditions, averaged
from synth.neural.spans import Spans
from synth.transforms.layout import Layout

LAST_RATE_SHARE = 0.02
"""Of a learning rate, at the end of the schedule."""
RAREST_SHARE = 1e-3
"""Keeps the weight of rare codes in the matching loss finite."""

Score = Callable[[Tensor, Tensor], Tensor]
"""A critic's scores of fakes on the conditions that they were made on, shape (n,), as the generator's loss has them."""


@dataclass(frozen=True)
class GeneratorSpec:
    """What is set before training; all of it public.

    Attributes:
        d_latent: width of the noise.
        widths: of the hidden layers.
        rate: Adam's learning rate at the start.
        matching: weight of the fakes' distance from the released marginals in the loss.
        temperature: of the relaxed draws.
        ema: what a step leaves of the average.
    """

    d_latent: int
    widths: tuple[int, ...]
    rate: float
    matching: float
    temperature: float
    ema: float


class ReleasedGenerator:
    """A generator in training, and its fakes.

    Args:
        spec: settings.
        layout: of rows; spans alone.
        one_way: released counts of each span's codes.
        n_fakes: at a time; public.
        device: where it is trained.

    Attributes:
        average: of the generators on the way, to sample from; its batch norm has seen fakes only.
        conditions: what it is asked for.
    """

    def __init__(
        self,
        spec: GeneratorSpec,
        layout: Layout,
        one_way: Sequence[NDArray[np.floating]],
        n_fakes: int,
        device: torch.device,
    ) -> None:
        self.spec, self._n_fakes = spec, n_fakes
        self.spans = Spans(layout).to(device)
        self.conditions = ReleasedConditions(one_way, layout, device)
        self.network = Generator(spec.d_latent + layout.width, spec.widths, layout.width).to(device)
        self.average = copy.deepcopy(self.network).requires_grad_(False).eval()
        self._adam = torch.optim.Adam(self.network.parameters(), spec.rate, BETAS, fused=True)

    def fakes(self) -> tuple[Tensor, Tensor]:
        """Relaxed rows without a gradient, and the conditions they were made on; shape (n_fakes, n_codes) both."""
        with torch.no_grad():
            condition, _, _ = self.conditions.draw(self._n_fakes)
            return self._relaxed(self._logits(condition)), condition

    def step(self, score: Score) -> None:
        """Learn from a critic, from the conditions, and from the released marginals.

        Args:
            score: of fakes; its own weights stay as they are.
        """
        condition, column, chosen = self.conditions.draw(self._n_fakes)
        logits = self._logits(condition)
        fakes = self._relaxed(logits)
        loss = self.spans.nll_of_one(logits, column, chosen).mean() - score(fakes, condition).mean()
        shares = self.conditions.shares
        loss = loss + self.spec.matching * ((fakes.mean(0) - shares).square() / (shares + RAREST_SHARE)).sum()
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()
        averaged(self.average, self.network, self.spec.ema)

    def _logits(self, condition: Tensor) -> Tensor:
        latent = torch.randn(len(condition), self.spec.d_latent, device=condition.device)
        logits: Tensor = self.network(torch.cat([latent, condition], 1))
        return logits

    def _relaxed(self, logits: Tensor) -> Tensor:
        return self.spans.gumbel_softmax(logits, self.spec.temperature)

    def set_rate(self, share: float) -> None:
        """Learn at this share of the first rate."""
        self._adam.param_groups[0]["lr"] = share * self.spec.rate

    @property
    def finite(self) -> bool:
        """Whether all weights are finite numbers."""
        return is_finite(self.network)

    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {"generator": self.network, "average": self.average, "generator_adam": self._adam}


def rate_share(n_done: int, n_steps: int) -> float:
    """Half a cosine over all steps: a schedule fixed in advance, hence public.

    >>> rate_share(0, 100), round(rate_share(100, 100), 2)
    (1.0, 0.02)
    """
    progress = min(n_done / n_steps, 1.0)
    return LAST_RATE_SHARE + (1 - LAST_RATE_SHARE) * 0.5 * (1 + math.cos(math.pi * progress))
