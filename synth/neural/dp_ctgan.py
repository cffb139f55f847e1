"""DP-CTGAN: its generator, its critic, and one step of training with DP-SGD on the critic's gradient of real rows.

Nothing but that gradient reads real rows. The fakes are made of weights and marginals that noise has made releasable.
So is what the generator learns from the critic.

The critic is a bilinear form on pairs of columns. Of weights W for every pair of codes, a row scores the sum of W over
the pairs of codes that it holds. Held small by an L2 penalty, it tells real rows from fakes by the difference of their
two-way marginals. So the generator comes to match these, and nothing sees what takes three columns to see. A row's
gradient is the list of its own pairs, whatever the weights: it has the same norm for every row, and clipping distorts
nothing. The critic is a decaying average of noisy two-way marginals less those of the fakes.

DEVIATES: the paper's critic is a network on packs of rows. Under DP-SGD at small epsilon it learns little: its
gradients point every way, are clipped, and noise grows with the number of its weights.

Source: Xu et al. 2019 (1907.00503), section 4.3; Abadi et al. 2016 (1607.00133).

Source: Bie, Kamath, Zhang 2023 (2302.02936) for several critic steps to one of the generator, and large batches.

Source: Li et al. 2017 (1705.08584) for critics that compare means of features.

Source: Harder, Adamczewski, Park 2021 (2002.11603); Liu, Vietri, Wu 2021 (2106.07153) for generators that match noisy
means, of marginals in the latter.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.neural.dp_sgd import Clipping, ClipTally, StepRelease, keeps_digits, noisy_mean
from synth.neural.encoding import Layout
from synth.neural.networks import (
    BETAS,
    GeneratorNetwork,
    ReleasedConditions,
    Spans,
    averaged,
    is_finite,
    released_shares,
)
from synth.neural.sampling import CtganNetwork, match_one_way
from synth.neural.training import UnitIndex, restore, states_of

LAST_RATE_SHARE = 0.02  # of a learning rate, at the end of the schedule
RAREST_SHARE = 1e-3  # keeps the weight of rare codes in the matching loss finite


@dataclass(frozen=True)
class PrivateCtganSpec:
    d_latent: int = 64
    generator_widths: tuple[int, ...] = (128, 128)
    generator_rate: float = 4e-3
    max_grad_norm: float = 1.0
    matching: float = 1.0
    critic_steps: int = 2
    temperature: float = 0.2
    ema: float = 0.98
    max_rows_per_pass: int = 8192
    n_steps: int = 2000


class ReleasedGenerator:
    """A generator in training, and its fakes."""

    def __init__(
        self,
        spec: PrivateCtganSpec,
        layout: Layout,
        one_way: Sequence[NDArray[np.floating]],
        n_fakes: int,
        device: torch.device,
    ) -> None:
        self.spec, self._n_fakes = spec, n_fakes
        self.spans = Spans(layout).to(device)
        self.conditions = ReleasedConditions(one_way, layout, device)
        self.network = GeneratorNetwork(spec.d_latent + layout.width, spec.generator_widths, layout.width).to(device)
        self.average = copy.deepcopy(self.network).requires_grad_(False).eval()
        self._adam = torch.optim.Adam(self.network.parameters(), spec.generator_rate, BETAS, fused=True)

    @torch.no_grad()
    def fakes(self) -> Tensor:
        return self._relaxed(self._logits(self.conditions.draw(self._n_fakes)[0]))

    @torch.no_grad()
    def rows(self) -> Tensor:
        """Rows drawn from the generator as it is; codes of shape (n_fakes, n_spans), int64."""
        return self.spans.draw(self._logits(self.conditions.draw(self._n_fakes)[0]))

    def step(self, score: Callable[[Tensor], Tensor]) -> None:
        """Learn from a critic's scores of fakes, from the conditions, and from the released marginals."""
        condition, column, chosen = self.conditions.draw(self._n_fakes)
        logits = self._logits(condition)
        fakes = self._relaxed(logits)
        loss = self.spans.nll_of_one(logits, column, chosen).mean() - score(fakes).mean()
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
        self._adam.param_groups[0]["lr"] = share * self.spec.generator_rate

    @property
    def finite(self) -> bool:
        return is_finite(self.network)

    def parts(self) -> dict[str, Any]:
        return {"generator": self.network, "average": self.average, "generator_adam": self._adam}


def rate_share(n_done: int, n_steps: int) -> float:
    """Half a cosine over all steps: a schedule fixed in advance, hence public.

    >>> rate_share(0, 100), round(rate_share(100, 100), 2)
    (1.0, 0.02)
    """
    progress = min(n_done / n_steps, 1.0)
    return LAST_RATE_SHARE + (1 - LAST_RATE_SHARE) * 0.5 * (1 + math.cos(math.pi * progress))


LEAST_RATE = 0.005  # of the critic's steps, which begin at 1 and are 1 / t at step t until they come to this
SCORE_WEIGHT = 40.0  # of the scores in the generator's loss


class PairCritic:
    """Weights on pairs of codes of two columns. `units`, `tally` (how many units were clipped): *Sensitive*."""

    def __init__(self, units: UnitIndex, spans: Spans, clipping: Clipping) -> None:
        self._units, self._spans, self._clipping = units, spans, clipping
        self._pairs = (spans.span_of[:, None] < spans.span_of[None, :]).nonzero().T
        self._row_norm = math.sqrt(max(math.comb(len(spans.offsets), 2), 1))
        self.state = _Weights(spans.n_codes).to(units.codes.device)
        self.tally = ClipTally()

    @property
    def weights(self) -> Tensor:
        """Of pairs, above the diagonal, zero elsewhere; shape (n_codes, n_codes)."""
        return self.state.of_pairs

    def step(self, steps: StepRelease, fakes: Tensor) -> None:
        self.learn(self.gradient(steps), fakes)

    def gradient(self, steps: StepRelease) -> Tensor:
        """One step's noisy gradient on real rows, which no weight has a part in; shape (d,), float64."""
        return noisy_mean(steps, len(self._units), self._clipping, self._clipped_sum)

    def learn(self, gradient: Tensor, fakes: Tensor) -> None:
        """Move the weights by a noisy gradient on real rows and the one on fakes."""
        real = gradient * self._row_norm / min(1.0, self._clipping.max_grad_norm)
        of_fakes = self._gradient(fakes, torch.ones(len(fakes), device=fakes.device)) / len(fakes)
        if self._units.max_rows_per_unit > 1:  # clipping leaves each unit another mass, of which this is the mean
            of_fakes *= real.sum() / self._row_norm**2
        self.state.n_done += 1
        rate = max(LEAST_RATE, 1 / int(self.state.n_done))
        ahead = (real - of_fakes).to(self.weights.dtype)
        # The step of gradient ascent under a penalty of half the squared weights.
        self.weights.mul_(1 - rate)
        self.weights[self._pairs[0], self._pairs[1]] += rate * ahead

    def scores(self, fakes: Tensor) -> Tensor:
        return SCORE_WEIGHT * ((fakes @ self.weights) * fakes).sum(1)

    def _clipped_sum(self, sampled: NDArray[np.int64]) -> Tensor:
        """The sum of the units' gradients, each clipped; one row's is scaled to a norm of 1."""
        size = self._clipping.pass_units
        batch = self._units.batch(sampled, size)
        rows = self._spans.one_hot(batch.codes) * batch.mask[:, None]
        rows = rows if keeps_digits(rows) else rows.double()
        norms = self._norms(rows.view(size, -1, rows.shape[1]))
        self.tally.sampled(len(sampled))
        self.tally.see(norms, self._clipping.max_grad_norm)
        factors = (self._clipping.max_grad_norm / norms.clamp_min(1e-12)).clamp_max(1.0)
        k = self._units.max_rows_per_unit
        # In single precision a factor, and sums of factors, would round past the bound. Sums of ones are exact there.
        rows = rows.double() if k > 1 or self._clipping.max_grad_norm < 1 else rows
        return self._gradient(rows, factors.repeat_interleave(k).to(rows.dtype)).double() / self._row_norm

    def _norms(self, rows: Tensor) -> Tensor:
        """Of each unit's gradient, float64, shape (n_units,), one row's being 1. `rows`: one-hot, (n, k, n_codes)."""
        agreeing = (rows @ rows.mT).double()  # two rows share the pairs of the columns they agree in
        return (agreeing * (agreeing - 1) / 2).sum((1, 2)).sqrt() / self._row_norm

    def _gradient(self, rows: Tensor, factors: Tensor) -> Tensor:
        """Of the rows' scores, each times its factor: the pairs that they hold; shape (n_pairs,)."""
        gradient: Tensor = ((rows * factors[:, None]).T @ rows)[self._pairs[0], self._pairs[1]]
        return gradient


class _Weights(nn.Module):
    """Weights, and how many steps they have taken."""

    of_pairs: Tensor
    n_done: Tensor

    def __init__(self, n_codes: int) -> None:
        super().__init__()
        self.register_buffer("of_pairs", torch.zeros(n_codes, n_codes))
        self.register_buffer("n_done", torch.zeros((), dtype=torch.int64))


class PrivateCtganTraining:
    """CTGAN in training; real rows are read by a critic step's clipped sum alone. `units`: *Sensitive*."""

    def __init__(
        self,
        spec: PrivateCtganSpec,
        units: UnitIndex,
        layout: Layout,
        one_way: Sequence[NDArray[np.floating]],
        expected_batch: float,
        device: torch.device,
    ) -> None:
        self.spec, self._layout, self._n_done = spec, layout, 0
        self._shares = released_shares(one_way, layout)
        n_fakes = max(2, min(round(expected_batch), spec.max_rows_per_pass))
        self.maker = ReleasedGenerator(spec, layout, one_way, n_fakes, device)
        clipping = Clipping.planned(spec.max_grad_norm, expected_batch, units.max_rows_per_unit, spec.max_rows_per_pass)
        self.critic = PairCritic(units.to(device), self.maker.spans, clipping)

    @property
    def tally(self) -> ClipTally:
        """*Sensitive*. How many units were clipped."""
        return self.critic.tally

    @property
    def generator(self) -> GeneratorNetwork:
        average: GeneratorNetwork = self.maker.average
        return average

    def network(self) -> CtganNetwork:
        """What rows are drawn from, matched to the released marginals."""
        shares = np.split(self._shares.numpy(), self._layout.offsets[1:])
        network = CtganNetwork(self._layout, self.generator.cpu().eval(), shares)
        match_one_way(network, self._shares)
        return network

    def step(self, steps: StepRelease) -> None:
        """Take one step of the critic, with DP-SGD, and after every `critic_steps` of them one of the generator."""
        with self._one_step():
            self.critic.step(steps, self.maker.fakes())

    def update(self, steps: StepRelease, n_steps: int, start: Tensor) -> Tensor:
        """The mean noisy gradient on real rows over some steps, shape (d,); no weight moves.
        `start`: weights to begin from, of which there are none; shape (0,).
        """
        return torch.stack([self.critic.gradient(steps) for _ in range(n_steps)]).mean(0)

    def absorb(self, update: Tensor, n_steps: int) -> None:
        """Take so many steps of the critic on a mean gradient, and those of the generator."""
        for _ in range(n_steps):
            with self._one_step():
                self.critic.learn(update, self.maker.fakes())

    @property
    def weights(self) -> Tensor:
        """The weights that a gradient on real rows depends on: none; shape (0,)."""
        return torch.zeros(0)

    @property
    def d_update(self) -> int:
        """Numbers of a gradient: pairs of codes of different columns."""
        return int(self.critic._pairs.shape[1])

    @contextmanager
    def _one_step(self) -> Iterator[None]:
        """The generator's rate at a step of the critic, and its own step where one follows."""
        self.maker.set_rate(rate_share(self._n_done, self.spec.n_steps))
        yield
        self._n_done += 1
        if self._n_done % self.spec.critic_steps == 0:
            self.maker.step(self.critic.scores)

    @property
    def finite(self) -> bool:
        return bool(self.critic.weights.isfinite().all()) and self.maker.finite

    def state(self) -> dict[str, Any]:
        """All that a checkpoint needs: weights that noise has made releasable, and nothing of the table."""
        return {"n_done": self._n_done, **states_of(self._parts())}

    def load(self, state: Mapping[str, Any]) -> None:
        self._n_done = state["n_done"]
        restore(self._parts(), state)

    def _parts(self) -> dict[str, Any]:
        return {**self.maker.parts(), "critic": self.critic.state}
