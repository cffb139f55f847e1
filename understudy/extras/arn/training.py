"""Training of the autoregressive network without privacy, one step at a time.

In a column of many codes, embeddings and heads are a sum: of a code's own part, and of a few smooth curves over all
codes. So the codes of a number learn from their neighbors. The trained network holds the sums alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from synth.errors import ModelError
from synth.neural.batches import Epochs
from synth.neural.networks import is_finite
from synth.neural.training import Course, restore, seeded, states_of, train
from understudy.extras.arn.network import AutoregressiveNetwork, Order

EPOCHS: Mapping[Order, int] = {"fixed": 6, "any": 14}
"""Passes over the table where no number is set."""
EPOCHS_ROWS, MOST_EPOCHS = (16_000, 64_000), 100
"""Rows of a table that takes so many passes. Smaller ones take more, by the root of the ratio; larger ones fewer."""
DECAY, DECAY_ROWS, DECAY_POWER, MOST_DECAY = 0.6, 20_000, 0.8, 10.0
"""Decay for so many rows; it falls by a power of their number.

Chosen on parts of three tables, of 1,000 to 81,000 rows: by the likelihood of other rows, and by its distance from that
of the rows themselves.
"""
RISE, FIRST, LAST = 0.3, 1 / 25, 1e-4
"""Of the one cycle: the share of steps in which the rate rises, and its first and last value as shares of its peak."""
FEW_CODES = 12  # columns of no more codes have no curves


@dataclass(frozen=True)
class ArnSpec:
    """Training parameters of the autoregressive network."""

    order: Order = "fixed"
    epochs: int = 6
    d_state: int = 128
    d_hidden: int = 96
    n_curves: int = 6
    dropout: float = 0.05
    rate: float = 4e-3
    decay: float = 0.5
    batch_size: int = 128
    averaging: float = 0.98

    @classmethod
    def for_rows(cls, n_rows: int, order: Order, epochs: int | None = None, *, n_units: float | None = None) -> Self:
        """The usual training on so many rows; the fewer there are, the heavier the decay against memorization."""
        few, many = EPOCHS_ROWS
        usual = round(EPOCHS[order] * math.sqrt(max(few / n_rows, min(many / n_rows, 1.0))))
        decay = min(DECAY * (DECAY_ROWS / (n_units or n_rows)) ** DECAY_POWER, MOST_DECAY)
        return cls(order, min(usual, MOST_EPOCHS) if epochs is None else epochs, decay=decay)


class Curves(nn.Module):
    """Cosines over the codes of each column, and what embeddings, heads and their biases have of each."""

    cosines: Tensor

    def __init__(self, sizes: Sequence[int], n_curves: int, widths: tuple[int, int]) -> None:
        super().__init__()
        self._sizes, self._widths = tuple(sizes), (*widths, 1)
        self.register_buffer("cosines", torch.cat([_cosines(size, n_curves) for size in sizes]), persistent=False)
        self.amounts = nn.Parameter(torch.zeros(len(sizes), n_curves, sum(self._widths)))
        nn.init.normal_(self.amounts[..., : widths[0]], std=1 / math.sqrt(len(sizes)))

    def added(self, network: AutoregressiveNetwork) -> dict[str, Tensor]:
        columns = zip(self.cosines.split(self._sizes), self.amounts, strict=True)
        sums = torch.cat([cosines @ amounts for cosines, amounts in columns])
        embeddings, heads, biases = sums.split(self._widths, 1)
        weights = dict(network.named_parameters())
        more = {"embeddings": embeddings, "heads": heads, "head_biases": biases.squeeze(1)}
        return weights | {name: weights[name] + curve for name, curve in more.items()}


def _cosines(size: int, n_curves: int) -> Tensor:
    """Cosines at the codes of a column, shape (size, n_curves); short waves weigh less."""
    if size <= FEW_CODES:
        return torch.zeros(size, n_curves)
    waves = torch.arange(1, n_curves + 1)
    return math.sqrt(2) * torch.cos(math.pi * waves * (torch.arange(size)[:, None] + 0.5) / size) / waves


class ArnTraining:
    """The autoregressive network on a table: everything is on the device, and a step never waits for it.
    `codes`: *Sensitive*. The table, shape (n, d), at least one row.
    """

    def __init__(
        self,
        spec: ArnSpec,
        codes: NDArray[np.integer[Any]],
        sizes: Sequence[int],
        leaders: Sequence[int | None],
        device: torch.device,
    ) -> None:
        self.spec = spec
        self._codes = torch.from_numpy(np.ascontiguousarray(codes, dtype=np.int64)).to(device)
        self._epochs = Epochs(len(codes), spec.batch_size, device)
        self.network, self.average = (
            AutoregressiveNetwork(
                sizes, leaders, spec.order, d_state=spec.d_state, d_hidden=spec.d_hidden, dropout=spec.dropout
            )
            for _ in range(2)
        )
        self.network.draw_weights()
        self.curves = Curves(sizes, spec.n_curves, (spec.d_state, spec.d_hidden)).to(device)
        self.network.to(device)
        self.average.to(device).eval().requires_grad_(False)
        weights = [*self.network.parameters(), *self.curves.parameters()]
        self._adam = torch.optim.AdamW(weights, spec.rate, weight_decay=spec.decay, fused=True)
        self._n_done = 0

    @property
    def n_steps_per_epoch(self) -> int:
        """Steps that go through all rows once; the last is filled up with rows that weigh nothing."""
        return self._epochs.n_steps

    def step(self) -> dict[str, Tensor]:
        """A step on a batch; its loss, detached and 0-d."""
        index, shares = self._epochs.draw()
        for group in self._adam.param_groups:
            group["lr"] = self.spec.rate * one_cycle(self._n_done / (self.spec.epochs * self.n_steps_per_epoch))
        weights = self.curves.added(self.network)
        nll = functional_call(self.network, weights, self._codes.index_select(0, index))
        loss = torch.dot(nll, shares)
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()
        self._n_done += 1
        self._take_average()
        return {"nll": loss.detach()}

    @torch.no_grad()
    def _take_average(self) -> None:
        # Early steps keep less, so that first weights are soon forgotten.
        kept = min(self.spec.averaging, (self._n_done - 1) / (self._n_done + 9))
        weights = self.curves.added(self.network)
        for name, averaged in self.average.named_parameters():
            averaged.lerp_(weights[name], 1 - kept)

    def state(self) -> dict[str, Any]:
        """A copy of all that training goes on from, but for the state of torch's generators."""
        return {**states_of(self._parts()), "epochs": self._epochs.state(), "n_done": self._n_done}

    def load(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state of the same spec, columns and number of rows."""
        restore(self._parts(), state)
        self._epochs.load(state["epochs"])
        self._n_done = int(state["n_done"])

    def _parts(self) -> dict[str, Any]:
        return {"network": self.network, "curves": self.curves, "average": self.average, "adam": self._adam}


def fit_network(
    codes: NDArray[np.integer[Any]],
    sizes: Sequence[int],
    leaders: Sequence[int | None],
    spec: ArnSpec,
    device: torch.device,
    seed: int | None,
    course: Course,
) -> AutoregressiveNetwork:
    """A trained network, in evaluation mode and on the CPU; torch's own generators are left as they were.
    `codes`: *Sensitive*. The table, shape (n, d), at least one row; none is changed.
    """
    with seeded(seed, device):
        training = ArnTraining(spec, codes, sizes, leaders, device)
        train(training, spec.epochs, course)
    if not is_finite(training.average):
        raise ModelError(f"training of generator={course.name!r} diverged at its end; lower learning_rate")
    return training.average.cpu()  # type: ignore[no-any-return]


def one_cycle(share: float) -> float:
    """The learning rate after a share of the steps, as a share of its peak.

    Source: Smith, Topin 2017 (1708.07120), with the cosine that PyTorch's `OneCycleLR` has.
    """
    first, last, done = (FIRST, 1.0, share / RISE) if share < RISE else (1.0, LAST, (share - RISE) / (1 - RISE))
    return last + (first - last) * (1 + math.cos(math.pi * done)) / 2
