"""CTGAN's training without privacy, one step at a time, and its conditions on one column at a time.

Source: Xu et al. 2019 (1907.00503), section 4.3 and Algorithm 1; settings and losses are those of the library `ctgan`.

DEVIATES: the paper's conditions name categories alone; these name numbers, too, where a code says all of the value. The
paper's critic sees of a number its mode and the scalar within; this one sees the number as well. Modes alone have no
order, so that a relation of two numbers would have to be learned mode by mode.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.neural.encoding import Encoded, Layout
from synth.neural.modes import WIDTH
from synth.neural.networks import (
    BETAS,
    Critic,
    GeneratorNetwork,
    Precision,
    averaged,
    draw_codes,
    products_in,
    running_shares,
    widened,
)
from synth.neural.sampling import CtganNetwork
from synth.neural.training import DeviceRows, restore, states_of
from synth.table.spool import TEMPORARY, Disk


@dataclass(frozen=True, eq=False)
class ConditionIndex:
    """The codes that a condition may name, side by side, and where the rows that hold each of them are."""

    spans: Tensor  # whose codes say all of a value, shape (n_columns,)
    span_of: Tensor  # the span of each condition, shape (d_condition,)
    code_of: Tensor  # the code of each condition, counted over all spans, shape (d_condition,)
    running: Tensor
    rows: Tensor  # *Sensitive*, sorted by code, one column after the other, shape (n_columns * n,)
    first_row: Tensor  # of each condition among these, shape (d_condition,)
    n_rows: Tensor  # *Sensitive*, of each condition, shape (d_condition,)

    @classmethod
    def of(cls, encoded: Encoded, layout: Layout, device: torch.device, disk: Disk = TEMPORARY) -> Self:
        """The conditions of a table with a row at least, drawn by the logarithm of how often each code occurs."""
        chosen, n = np.array(layout.whole, dtype=np.int64), len(encoded)
        counts = [np.bincount(encoded.codes[:, index], minlength=layout.sizes[index]) for index in chosen]
        rows = disk((len(chosen) * n,), np.int32)
        for column, index in enumerate(chosen):
            rows[column * n : (column + 1) * n] = np.argsort(encoded.codes[:, index], kind="stable")
        n_rows = np.concatenate([np.empty(0, np.int64), *counts])
        span_of = np.repeat(chosen, [len(count) for count in counts])
        within = np.concatenate([np.empty(0, np.int64), *(np.arange(len(count)) for count in counts)])
        parts: tuple[NDArray[Any], ...] = (
            chosen,
            span_of,
            layout.offsets[span_of] + within,
            running_shares([np.log1p(count) for count in counts]).numpy(),
            rows,
            np.cumsum(n_rows) - n_rows,
            n_rows,
        )
        return cls(*(torch.from_numpy(part).to(device) for part in parts))

    @property
    def width(self) -> int:
        return len(self.running)

    def draw(self, n: int) -> tuple[Tensor, Tensor]:
        return draw_codes(self.running, len(self.spans), n)

    def matching(self, conditions: Tensor) -> Tensor:
        """A row that meets each condition, any of them as likely; int64 of shape (n,)."""
        n_rows = self.n_rows[conditions]
        share = torch.rand(len(conditions), dtype=torch.float64, device=n_rows.device)
        rank = torch.minimum((share * n_rows).long(), n_rows - 1)
        return self.rows[self.first_row[conditions] + rank].long()

    def frequencies(self) -> tuple[NDArray[np.float64], ...]:
        """Shares of the codes of each column, *sensitive*; they sum to one in each."""
        counts = [self.n_rows[self.span_of == span].cpu().numpy() for span in self.spans]
        return tuple(count / count.sum() for count in counts)

    def one_hot(self, conditions: Tensor) -> Tensor:
        hot = torch.zeros(len(conditions), self.width, device=conditions.device)
        return hot.scatter_(1, conditions[:, None], 1.0)


FARTHEST = 6.0  # standard deviations at which a far mode is shown, so that it does not hide the others


class Numbers(nn.Module):
    """The numbers of a row, each standardized on its line; linear in codes, real ones or relaxed."""

    starts: Tensor  # of the codes of each number, shape (n_codes, n_numbers)
    reaches: Tensor  # how far from there a scalar of 1 is, shape (n_codes, n_numbers)
    scalar_of: Tensor  # one where a scalar is of a number, shape (n_scalars, n_numbers)

    def __init__(self, encoded: Encoded, layout: Layout) -> None:
        """`encoded`: *Sensitive*. Mean and deviation of each number are of its rows."""
        super().__init__()
        numbers = [index for index, span in enumerate(layout.spans) if span.line]
        self.width = len(numbers)
        starts, reaches = np.zeros((2, layout.n_codes, self.width))
        for number, index in enumerate(numbers):
            start, reach = np.array(layout.spans[index].line).T
            shares = np.bincount(encoded.codes[:, index], minlength=len(start)) * np.isfinite(start)
            shares = shares / max(shares.sum(), 1)
            off = np.nan_to_num(start - shares @ np.nan_to_num(start))  # a missing value is shown as the mean
            deviation = np.sqrt(shares @ (off**2 + (reach / WIDTH) ** 2)) or 1.0
            codes = slice(layout.offsets[index], layout.offsets[index] + len(start))
            starts[codes, number] = np.clip(off / deviation, -FARTHEST, FARTHEST)
            reaches[codes, number] = np.minimum(reach / deviation, FARTHEST)
        names = np.array([layout.spans[index].column for index in numbers], dtype=object)
        scalar_of = np.array(layout.scalars, dtype=object)[:, None] == names
        for name, array in (("starts", starts), ("reaches", reaches), ("scalar_of", scalar_of)):
            self.register_buffer(name, torch.from_numpy(array).float(), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        codes, scalars = rows.split([len(self.starts), len(self.scalar_of)], 1)
        out: Tensor = codes @ self.starts + (codes @ self.reaches) * (scalars @ self.scalar_of)
        return out


N_NORM_BATCHES = 100  # batches of fakes that tell the statistics of batch norm


@dataclass(frozen=True)
class CtganSpec:
    d_latent: int = 128
    generator_widths: tuple[int, ...] = (256, 256)
    critic_widths: tuple[int, ...] = (256, 256)
    generator_rate: float = 2e-4
    critic_rate: float = 2e-4
    decay: float = 1e-6
    batch_size: int = 500
    critic_steps: int = 1
    pac: int = 1
    temperature: float = 0.2
    penalty: float = 10.0
    average_exponent: float = 17.0
    precision: Precision = "float32"


class CtganTraining:
    """CTGAN on a table: everything is on the device, and a step never waits for it. `encoded`: *Sensitive*."""

    def __init__(
        self, spec: CtganSpec, encoded: Encoded, layout: Layout, device: torch.device, disk: Disk = TEMPORARY
    ) -> None:
        self.spec, self.layout, self.device = spec, layout, device
        self.rows = DeviceRows(encoded, layout, device)
        self.conditions = ConditionIndex.of(encoded, layout, device, disk)
        d_condition = self.conditions.width
        self.generator = GeneratorNetwork(spec.d_latent + d_condition, spec.generator_widths, layout.width).to(device)
        self.average = copy.deepcopy(self.generator).requires_grad_(False).eval()
        self.numbers = Numbers(encoded, layout).to(device)
        d_row = layout.width + self.numbers.width + d_condition
        self.critic = Critic(d_row, spec.critic_widths, spec.pac).to(device)
        self.n_steps_per_epoch = max(len(encoded) // spec.batch_size, 1)
        self._generator_adam = self._adam(self.generator, spec.generator_rate)
        self._critic_adam = self._adam(self.critic, spec.critic_rate)
        self._generator_weights = list(self.generator.parameters())
        self._n_done = 0

    def step(self) -> dict[str, Tensor]:
        """Some steps of the critic and one of the generator; the losses of the last of each, detached and 0-d."""
        for _ in range(self.spec.critic_steps):
            critic = self._critic_step()
        losses = {"critic": critic, "generator": self._generator_step()}
        self._n_done += 1
        averaged(self.average, self.generator, kept_share(self._n_done, self.spec.average_exponent))
        return losses

    def sampled_generator(self) -> GeneratorNetwork:
        """The generator to draw rows from: a copy of the average, its batch norm fitted to its weights by fresh fakes.

        DEVIATES: the library `ctgan` samples from the generator of the last step, whose marginals swing about the
        average's. It leaves that one in training mode, so that a row depends on those that it is drawn with.
        """
        generator: GeneratorNetwork = copy.deepcopy(self.average)
        generator.fit_norms(self._inputs(self._conditions()[1]) for _ in range(N_NORM_BATCHES))
        return generator

    def network(self) -> CtganNetwork:
        return CtganNetwork(self.layout, self.sampled_generator().cpu(), self.conditions.frequencies())

    def state(self) -> dict[str, Any]:
        return {"n_done": self._n_done, **states_of(self._parts())}

    def load(self, state: Mapping[str, Any]) -> None:
        self._n_done = state["n_done"]
        restore(self._parts(), state)

    def penalized(self, rows: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """The critic's loss, and that with the gradient penalty; 0-d both.
        `rows`: fakes, then real rows, as the critic sees them, shape (2 batch_size, d_row).
        `shares`: of the real in what lies between, shape (batch_size / pac, 1).

        Source: Gulrajani et al. 2017 (1704.00028), equation 3.
        """
        with products_in(self.spec.precision, self.device):
            scores, norms = map(widened, self.critic.contrast(rows, shares))
        fake, real = scores.chunk(2)
        loss = fake.mean() - real.mean()
        return loss, loss + self.spec.penalty * (norms - 1).square().mean()

    def condition_loss(self, logits: Tensor, conditions: Tensor) -> Tensor:
        """The mean cross-entropy of logits, shape (n, width), and the conditions that they were asked for by, 0-d."""
        span, code = self.conditions.span_of[conditions], self.conditions.code_of[conditions]
        return self.rows.spans.nll_of_one(logits[:, : self.layout.n_codes], span, code).mean()

    def _critic_step(self) -> Tensor:
        size = self.spec.batch_size
        conditions, hot = self._conditions()
        order = torch.randperm(size, device=self.device)
        with torch.no_grad():
            fake = self._activated(self._logits(hot))
            if self.conditions.width:
                matching = self.conditions.matching(conditions.index_select(0, order))
            else:
                matching = torch.randint(len(self.rows), (size,), device=self.device)
            real = self.rows.encoded(*self.rows.take(matching))
            rows = torch.cat([self._seen(fake, hot), self._seen(real, hot.index_select(0, order))])
        loss, penalized = self.penalized(rows, torch.rand(size // self.spec.pac, 1, device=self.device))
        self._critic_adam.zero_grad()
        penalized.backward()
        self._critic_adam.step()
        return loss.detach()

    def _generator_step(self) -> Tensor:
        conditions, hot = self._conditions()
        logits = self._logits(hot)
        rows = self._seen(self._activated(logits), hot)
        with products_in(self.spec.precision, self.device):
            loss = -widened(self.critic(rows)).mean()
        if self.conditions.width:
            loss = loss + self.condition_loss(logits, conditions)
        self._generator_adam.zero_grad()
        loss.backward(inputs=self._generator_weights)
        self._generator_adam.step()
        return loss.detach()

    def _seen(self, rows: Tensor, hot: Tensor) -> Tensor:
        """Rows as the critic sees them."""
        return torch.cat([rows, self.numbers(rows), hot], 1)

    def _conditions(self) -> tuple[Tensor, Tensor]:
        """Conditions of a batch and their one-hot rows; those are empty where a table has none."""
        size = self.spec.batch_size
        if not self.conditions.width:
            return torch.empty(0, dtype=torch.int64), torch.empty(size, 0, device=self.device)
        conditions = self.conditions.draw(size)[0]
        return conditions, self.conditions.one_hot(conditions)

    def _inputs(self, hot: Tensor) -> Tensor:
        """Noise beside conditions."""
        return torch.cat([torch.randn(self.spec.batch_size, self.spec.d_latent, device=self.device), hot], 1)

    def _logits(self, hot: Tensor) -> Tensor:
        inputs = self._inputs(hot)
        with products_in(self.spec.precision, self.device):
            return widened(self.generator(inputs))

    def _activated(self, logits: Tensor) -> Tensor:
        codes, scalars = logits.split([self.layout.n_codes, len(self.layout.scalars)], 1)
        return torch.cat([self.rows.spans.gumbel_softmax(codes, self.spec.temperature), torch.tanh(scalars)], 1)

    def _adam(self, network: nn.Module, rate: float) -> torch.optim.Adam:
        return torch.optim.Adam(network.parameters(), rate, BETAS, weight_decay=self.spec.decay, fused=True)

    def _parts(self) -> dict[str, Any]:
        return {
            "generator": self.generator,
            "average": self.average,
            "critic": self.critic,
            "generator_adam": self._generator_adam,
            "critic_adam": self._critic_adam,
        }


def kept_share(n_done: int, exponent: float) -> float:
    """The share that a running average keeps of itself after some steps; the first step is taken whole.

    Source: Karras et al. 2024 (2312.02696), equation 2.

    >>> kept_share(1, 17.0), round(kept_share(1000, 17.0), 3)
    (0.0, 0.982)
    """
    return float((1 - 1 / n_done) ** (exponent + 1))
