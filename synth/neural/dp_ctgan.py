"""DP-CTGAN: its generator, its two critics, and one step of training with DP-SGD on the critic's gradient of real rows.

Nothing but that gradient reads real rows. The fakes, and the penalty between fakes and fakes, are made of weights and
marginals that noise has made releasable. So is what the generator learns from the critic.

One critic is a network, the other a bilinear form on pairs of columns. Of weights W for every pair of codes, a row x
of the pair critic scores the sum of W over the pairs of codes that it holds. Held small by an L2 penalty, it tells real
rows from fakes by the difference of their two-way marginals. So the generator comes to match these, and nothing sees
what takes three columns to see. A row's gradient is the list of its own pairs, whatever the weights: it has the same
norm for every row, and clipping distorts nothing. The critic is a decaying average of noisy two-way marginals less
those of the fakes.

DEVIATES: the paper's critic is a network on packs of rows. Under DP-SGD at small epsilon it learns little: its
gradients point every way, are clipped, and noise grows with the number of its weights.

Source: Xu et al. 2019 (1907.00503), section 4.3; Abadi et al. 2016 (1607.00133).

Source: Gulrajani et al. 2017 (1704.00028) for the penalty of the network.

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
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.errors import JobError
from synth.neural.batches import UnitIndex, secret_generator
from synth.neural.dp_sgd import (
    Backend,
    Clipping,
    ClipTally,
    ExactSums,
    StepRelease,
    clipped_sums_by,
    noisy_mean,
    write_gradients,
)
from synth.neural.networks import BETAS, Critic, GeneratorNetwork, Spans, is_finite
from synth.neural.released import ReleasedConditions, averaged
from synth.neural.training import restore, states_of
from synth.transforms.layout import Layout

LAST_RATE_SHARE = 0.02  # of a learning rate, at the end of the schedule
RAREST_SHARE = 1e-3  # keeps the weight of rare codes in the matching loss finite

Score = Callable[[Tensor, Tensor], Tensor]
"""A critic's scores of fakes on the conditions that they were made on, shape (n,), as the generator's loss has them."""


CriticKind = Literal["pairs", "network"]


@dataclass(frozen=True)
class PrivateCtganSpec:
    """Training parameters; all of them public."""

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

    def fakes(self) -> tuple[Tensor, Tensor]:
        """Relaxed rows without a gradient, and the conditions they were made on; shape (n_fakes, n_codes) both."""
        with torch.no_grad():
            condition, _, _ = self.conditions.draw(self._n_fakes)
            return self._relaxed(self._logits(condition)), condition

    @torch.no_grad()
    def rows(self) -> Tensor:
        """Rows drawn from the generator as it is; codes of shape (n_fakes, n_spans), int64."""
        condition, _, _ = self.conditions.draw(self._n_fakes)
        return self.spans.draw(self._logits(condition))

    def step(self, score: Score) -> None:
        """Learn from a critic, from the conditions, and from the released marginals."""
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


class NetworkCritic:
    """A network that is shown a row with a condition it meets.

    Args:
        units: *Sensitive*. The table.

    Attributes:
        tally: *Sensitive*. How many units were clipped; with a bound of up to 1 that is all of them.
    """

    def __init__(self, units: UnitIndex, maker: ReleasedGenerator, clipping: Clipping, spec: PrivateCtganSpec) -> None:
        self._units, self._spans, self._conditions = units, maker.spans, maker.conditions
        self._clipping, self._spec = clipping, spec
        self._draws = secret_generator(units.codes.device)
        # A pack of several rows would let one unit move the scores of others, and dropout is noise on top of noise.
        d_row = self._spans.n_codes
        self.network = Critic(2 * d_row, spec.critic_widths, pac=1, dropout=0.0).to(units.codes.device)
        self._adam = torch.optim.Adam(self.network.parameters(), spec.critic_rate, BETAS, fused=True)
        self._parameters = list(self.network.parameters())
        self.tally = ClipTally()
        self._clipped = clipped_sums_by(spec.backend, self.network, tally=self.tally)
        self._clipped_fakes = ExactSums(self.network)

    def step(self, steps: StepRelease, fakes: Tensor, condition: Tensor) -> None:
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
        penalty = self._spec.penalty * (self.network.gradient_norms(between) - 1).square().mean()
        gradients = torch.autograd.grad(penalty, self._parameters, allow_unused=True, materialize_grads=True)
        return of_fakes / len(fakes) + torch.cat([gradient.flatten() for gradient in gradients])

    def scores(self, fakes: Tensor, condition: Tensor) -> Tensor:
        self.network.requires_grad_(False)
        found: Tensor = self.network(torch.cat([fakes, condition], 1))
        self.network.requires_grad_(True)
        return found

    def set_rate(self, share: float) -> None:
        self._adam.param_groups[0]["lr"] = share * self._spec.critic_rate

    @property
    def finite(self) -> bool:
        return is_finite(self.network)

    def parts(self) -> dict[str, Any]:
        return {"critic": self.network, "critic_adam": self._adam}


LEAST_RATE = 0.005
"""Of the critic's steps, which begin at 1 and are 1 / t at step t until they come to this."""
SCORE_WEIGHT = 40.0  # of the scores in the generator's loss


class PairCritic:
    """Weights on pairs of codes of two columns.

    Args:
        units: *Sensitive*. The table.

    Attributes:
        tally: *Sensitive*. How many units were clipped.
    """

    def __init__(self, units: UnitIndex, spans: Spans, clipping: Clipping) -> None:
        self._units, self._spans, self._clipping = units, spans, clipping
        self._pairs = (spans.span_of[:, None] < spans.span_of[None, :]).nonzero().T
        self._row_norm = math.sqrt(max(math.comb(len(spans.offsets), 2), 1))
        self._weights = _Weights(spans.n_codes).to(units.codes.device)
        self.tally = ClipTally()

    @property
    def weights(self) -> Tensor:
        """Of pairs, above the diagonal, zero elsewhere; shape (n_codes, n_codes)."""
        return self._weights.of_pairs

    def step(self, steps: StepRelease, fakes: Tensor, condition: Tensor) -> None:
        """Learn to tell real rows from fakes, on the draws of one step; what fakes were made on is not looked at."""
        self.learn(self.gradient(steps), fakes)

    @property
    def d_gradient(self) -> int:
        """Numbers of a gradient: pairs of codes of different columns."""
        return int(self._pairs.shape[1])

    def gradient(self, steps: StepRelease) -> Tensor:
        """One step's noisy gradient on real rows, which no weight has a part in; shape (d,), float64."""
        return noisy_mean(steps, len(self._units), self._clipping, self._clipped_sum)

    def learn(self, gradient: Tensor, fakes: Tensor) -> None:
        """Move the weights by a noisy gradient on real rows and the one on fakes."""
        real = gradient * self._row_norm / min(1.0, self._clipping.max_grad_norm)
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
        return bool(self.weights.isfinite().all())

    def parts(self) -> dict[str, Any]:
        return {"critic": self._weights}


class _Weights(nn.Module):
    """Weights, and how many steps they have taken."""

    of_pairs: Tensor
    n_done: Tensor

    def __init__(self, n_codes: int) -> None:
        super().__init__()
        self.register_buffer("of_pairs", torch.zeros(n_codes, n_codes))
        self.register_buffer("n_done", torch.zeros((), dtype=torch.int64))


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
        """True if all weights are finite numbers."""

    def parts(self) -> dict[str, Any]:
        """The parts that a checkpoint keeps."""


class PrivateCtganTraining:
    """CTGAN in training; real rows are read by a critic step's clipped sum alone.

    Args:
        units: *Sensitive*. The table.
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
        self.maker = ReleasedGenerator(spec, layout, one_way, n_fakes, device)
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
        """The conditions given to a generator."""
        return self.maker.conditions

    def step(self, steps: StepRelease) -> None:
        """Take one step of the critic, with DP-SGD, and after every `critic_steps` of them one of the generator."""
        with self._one_step():
            self.critic.step(steps, *self.maker.fakes())

    def update(self, steps: StepRelease, n_steps: int, start: Tensor) -> Tensor:
        """The mean noisy gradient of a critic of pairs on real rows over some steps, shape (d,); no weight moves.
        `start`: weights to begin from, of which there are none; shape (0,).
        """
        pairs = self._pairs
        return torch.stack([pairs.gradient(steps) for _ in range(n_steps)]).mean(0)

    def absorb(self, update: Tensor, n_steps: int) -> None:
        """Take so many steps of the critic on a mean gradient, and those of the generator."""
        for _ in range(n_steps):
            with self._one_step():
                self._pairs.learn(update, self.maker.fakes()[0])

    @property
    def weights(self) -> Tensor:
        """The weights that a gradient on real rows depends on: none; shape (0,)."""
        return torch.zeros(0)

    @property
    def d_update(self) -> int:
        """Numbers of an update: pairs of codes of different columns."""
        return self._pairs.d_gradient

    @contextmanager
    def _one_step(self) -> Iterator[None]:
        """The rates of a step of the critic, and the generator's step where one follows."""
        share = rate_share(self._n_done, self._n_steps)
        self.maker.set_rate(share)
        self.critic.set_rate(share)
        yield
        self._n_done += 1
        if self._n_done % self.spec.critic_steps == 0:
            self.maker.step(self.critic.scores)

    @property
    def _pairs(self) -> PairCritic:
        if not isinstance(self.critic, PairCritic):
            raise JobError('gradients of several tables are for critic="pairs", and this one is a network; set that')
        return self.critic

    @property
    def finite(self) -> bool:
        return self.critic.finite and self.maker.finite

    def state(self) -> dict[str, Any]:
        """All that a checkpoint needs: weights that noise has made releasable, and nothing of the table."""
        return {"n_done": self._n_done, **states_of(self._parts())}

    def load(self, state: Mapping[str, Any]) -> None:
        self._n_done = state["n_done"]
        restore(self._parts(), state)

    def _parts(self) -> dict[str, Any]:
        return {**self.maker.parts(), **self.critic.parts()}


def _critic(spec: PrivateCtganSpec, units: UnitIndex, maker: ReleasedGenerator, clipping: Clipping) -> PrivateCritic:
    if spec.critic == "pairs":
        return PairCritic(units, maker.spans, clipping)
    return NetworkCritic(units, maker, clipping, spec)
