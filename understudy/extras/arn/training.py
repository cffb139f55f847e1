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
from synth.neural.networks import is_finite
from synth.neural.training import Epochs, seeded
from synth.progress import Progress
from understudy.extras.arn.network import AutoregressiveNetwork, Order

EPOCHS: Mapping[Order, int] = {"fixed": 6, "any": 14}
# Rows of a table that takes so many passes. Smaller ones take more, by the root of the ratio; larger ones fewer.
EPOCHS_ROWS, MOST_EPOCHS = (16_000, 64_000), 100
# Decay for so many rows; it falls by a power of their number. Chosen on parts of three tables, of 1,000 to 81,000 rows,
# by the likelihood of other rows, and by its distance from that of the rows themselves.
DECAY, DECAY_ROWS, DECAY_POWER, MOST_DECAY = 0.6, 20_000, 0.8, 10.0
# Of one cycle: the share of steps in which the rate rises, and its first and last value as shares of its peak.
RISE, FIRST, LAST = 0.3, 1 / 25, 1e-4
FEW_CODES = 12  # columns of no more codes have no curves


@dataclass(frozen=True)
class ArnSpec:
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


def fit_network(
    codes: NDArray[np.integer[Any]],
    sizes: Sequence[int],
    leaders: Sequence[int | None],
    spec: ArnSpec,
    device: torch.device,
    seed: int | None,
    progress: Progress,
) -> AutoregressiveNetwork:
    """The mean network of the last steps, in evaluation mode and on the CPU; torch's own generators are left as they
    were. `codes`: *Sensitive*. The table, shape (n, d), at least one row. It is on the device, and a step never waits.
    """
    with seeded(seed, device):
        rows = torch.from_numpy(np.ascontiguousarray(codes, dtype=np.int64)).to(device)
        batches = Epochs(len(codes), spec.batch_size, device)
        network, average = (
            AutoregressiveNetwork(
                sizes, leaders, spec.order, d_state=spec.d_state, d_hidden=spec.d_hidden, dropout=spec.dropout
            )
            for _ in range(2)
        )
        network.draw_weights()
        curves = Curves(sizes, spec.n_curves, (spec.d_state, spec.d_hidden)).to(device)
        network.to(device)
        average.to(device).eval().requires_grad_(False)
        weights = [*network.parameters(), *curves.parameters()]
        adam = torch.optim.AdamW(weights, spec.rate, weight_decay=spec.decay, fused=True)
        n_steps = spec.epochs * batches.n_steps
        for done in range(n_steps):
            if done % batches.n_steps == 0:
                if not is_finite(average):
                    break
                progress(f"epoch {done // batches.n_steps + 1} of {spec.epochs}", done / n_steps)
            index, shares = batches.draw()
            for group in adam.param_groups:
                group["lr"] = spec.rate * one_cycle(done / n_steps)
            losses = functional_call(network, curves.added(network), rows.index_select(0, index))
            adam.zero_grad()
            torch.dot(losses, shares).backward()
            adam.step()
            with torch.no_grad():
                # Early steps keep less, so that first weights are soon forgotten.
                kept = min(spec.averaging, done / (done + 10))
                for name, weight in curves.added(network).items():
                    average.get_parameter(name).lerp_(weight, 1 - kept)
    if not is_finite(average):
        raise ModelError("training of generator='arn' diverged: its numbers are no longer finite; take fewer epochs")
    return average.cpu()  # type: ignore[no-any-return]


def one_cycle(share: float) -> float:
    """The learning rate after a share of the steps, as a share of its peak: that of PyTorch's `OneCycleLR`."""
    first, last, done = (FIRST, 1.0, share / RISE) if share < RISE else (1.0, LAST, (share - RISE) / (1 - RISE))
    return last + (first - last) * (1 + math.cos(math.pi * done)) / 2
