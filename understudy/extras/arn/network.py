"""The autoregressive network: each column's softmax given the columns before it, in one order or in any.

The columns before are known by the sum of their embeddings alone. So all columns of a batch are trained in one pass,
and a row is drawn without computing anything twice. A network of any order learns most from the sets of columns that
draws have before them. These are the columns before by place, and any others that are known.

In a column of many codes, embeddings and heads are trained as a sum: of a code's own part, and of a few smooth curves
over all codes. So the codes of a number learn from their neighbors. The trained network holds the sums alone.

Source: Germain et al. 2015 (1502.03509) for one pass over all columns; Uria et al. 2014 (1310.1757) for any order;
Tiwald et al. 2025 (2501.12012) for tables.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from synth.errors import ModelError
from synth.neural.networks import is_finite
from synth.neural.training import Epochs, seeded
from synth.progress import Progress

Order = Literal["fixed", "any"]  # that a network learns: the one that columns are in, or all
Mask = Callable[[int, NDArray[np.int32]], NDArray[np.bool_] | None]
"""Called with a column and the codes of rows so far, shape (n, d). It returns which codes the column may take in each
row, shape (n, size), or `None` where it may take all."""
RANDOM, BY_PLACE = 0.3, 0.3  # shares of rows that are learned in an order of their own, and in that of the columns
UNDRAWN = -1  # code of a cell that is not drawn yet
Codes = NDArray[np.int32]
CHUNK_ROWS = 8_192  # rows that are drawn at once
EPOCHS: Mapping[Order, int] = {"fixed": 6, "any": 14}
# Rows of a table that takes so many passes. Smaller ones take more, by the root of the ratio; larger ones fewer.
EPOCHS_ROWS, MOST_EPOCHS = (16_000, 64_000), 100
# Decay for so many rows; it falls by a power of their number. Chosen on parts of three tables, of 1,000 to 81,000 rows,
# by the likelihood of other rows, and by its distance from that of the rows themselves.
DECAY, DECAY_ROWS, DECAY_POWER, MOST_DECAY = 0.6, 20_000, 0.8, 10.0
# Of one cycle: the share of steps in which the rate rises, and its first and last value as shares of its peak.
RISE, FIRST, LAST = 0.3, 1 / 25, 1e-4
FEW_CODES = 12  # columns of no more codes have no curves


class AutoregressiveNetwork(nn.Module):
    """The softmax of each column given any columns before it.

    A leader and its followers are a unit: no other column comes between them, in any order.
    """

    before: Tensor
    unit_of: Tensor
    starts: Tensor

    def __init__(
        self, sizes: Sequence[int], leaders: Sequence[int | None], order: Order, *, d_state: int = 128,
        d_hidden: int = 96, dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.sizes, self.leaders, self.order, self.dropout = tuple(sizes), tuple(leaders), order, dropout
        if order not in ("fixed", "any"):
            raise ValueError(f"a network has a fixed order or any, not order={order!r}")
        # Of each column, the position of the first column of its unit: a leader comes before its followers.
        self.units: list[int] = []
        for position, leader in enumerate(self.leaders):
            self.units.append(position if leader is None else self.units[leader])
        unit_of = torch.tensor(self.units)
        d, n_codes = len(self.sizes), sum(self.sizes)
        before = torch.ones(d, d, dtype=torch.bool).tril(-1)
        if order == "any":
            before &= unit_of[:, None] == unit_of
        self.register_buffer("before", before, persistent=False)
        self.register_buffer("unit_of", unit_of, persistent=False)
        starts = torch.tensor([0, *self.sizes[:-1]]).cumsum(0)
        self.register_buffer("starts", starts, persistent=False)
        self.embeddings = nn.Parameter(torch.zeros(n_codes, d_state))
        self.biases = nn.Parameter(torch.zeros(d, d_state))
        self.layers = nn.Parameter(torch.zeros(d, d_state, d_hidden))
        self.layer_biases = nn.Parameter(torch.zeros(d, d_hidden))
        self.heads = nn.Parameter(torch.zeros(n_codes, d_hidden))
        self.head_biases = nn.Parameter(torch.zeros(n_codes))

    def forward(self, codes: Tensor) -> Tensor:
        """Negative log-likelihood of rows, int64 (n, d); of any order, the sum over columns given some others each."""
        outputs = self._outputs(self.states(codes))
        logits = zip(outputs, self.heads.split(self.sizes), self.head_biases.split(self.sizes), strict=True)
        losses = [
            functional.cross_entropy(torch.addmm(bias, output, head.T), column, reduction="none")
            for (output, head, bias), column in zip(logits, codes.T.contiguous(), strict=True)
        ]
        return torch.stack(losses).sum(0)

    def states(self, codes: Tensor) -> Tensor:
        """For each column the sum of the embeddings before it; of those that it is learned from where the order is any.

        Shape: int64 (n, d), to (d, n, d_state).
        """
        if self.order == "fixed":
            embedded = functional.embedding(codes.T + self.starts[:, None], self.embeddings)
            # A product is faster than `cumsum` along the first axis, and its gradient is, too.
            return (self.before.to(embedded.dtype) @ embedded.flatten(1)).view(embedded.shape)
        embedded = functional.embedding(codes + self.starts, self.embeddings)
        return torch.bmm(self._contexts(len(codes)).to(embedded.dtype), embedded).transpose(0, 1)

    def _contexts(self, n_rows: int) -> Tensor:
        """The columns that each column of each row is learned from, shape (n, d, d): those that draws have before it.

        A part of the rows has an order of its own. In the others those before it by position are known, and any columns
        beside: rows are drawn so on conditions, and cells imputed.
        """
        # DEVIATES: Uria et al. draw all orders alike, so that the one in which tables are drawn is hardly ever learned.
        device, units = self.starts.device, self.unit_of
        turns = torch.rand(n_rows, len(units), device=device)[:, units]
        is_known = torch.rand(n_rows, len(units), device=device)[:, units]
        shares = torch.rand(n_rows, 1, 1, device=device)
        kinds = torch.rand(n_rows, 1, 1, device=device)
        shuffled = turns[:, :, None] > turns[:, None, :]
        beside = (is_known[:, None, :] < shares) & (kinds >= RANDOM + BY_PLACE)
        seen = torch.where(kinds < RANDOM, shuffled, (units[:, None] > units) | beside)
        return seen & (units[:, None] != units) | self.before

    def _outputs(self, states: Tensor) -> Tensor:
        active = functional.silu(states + self.biases[:, None])
        outputs = torch.baddbmm(self.layer_biases[:, None], active, self.layers).relu()
        return functional.dropout(outputs, self.dropout, self.training)

    def logits(self, column: int, state: Tensor) -> Tensor:
        """Of one column's codes, (n, size), given the sum of the embeddings before it, (n, d_state)."""
        active = functional.silu(state + self.biases[column])
        outputs = torch.addmm(self.layer_biases[column], active, self.layers[column]).relu()
        rows = self.rows_of(column)
        return torch.addmm(self.head_biases[rows], outputs, self.heads[rows].T)

    def rows_of(self, column: int) -> slice:
        start = sum(self.sizes[:column])
        return slice(start, start + self.sizes[column])


@torch.inference_mode()
def draw(
    network: AutoregressiveNetwork, codes: NDArray[np.integer[Any]], known: NDArray[np.bool_],
    generator: torch.Generator, *, allowed: Mapping[int, NDArray[np.bool_]] | None = None, mask: Mask | None = None,
    weigh: bool = False,
) -> tuple[Codes, NDArray[np.float64]]:  # fmt: skip
    """Rows on condition of the columns that are known, and their log weights; shapes (n, d) and (n,).

    A network of any order draws from the distribution given them. One of a fixed order weighs its rows instead, by how
    likely each known code is given the columns before it. Known columns that come first weigh nothing.
    `known`: true for known columns, shape (d,); a follower is known only where its leader is.
    `allowed`: codes that a column may take, by its position, shape (size,).
    """
    rows, weights = np.where(known, codes, UNDRAWN).astype(np.int32), np.zeros(len(codes))
    columns = list(range(len(known)))
    if network.order == "any" and not weigh:
        # What is known, then by position, the order that is learned best, but each follower directly after its leader.
        columns.sort(key=lambda position: (not known[position], network.units[position], position))
    n_leading = next((rank for rank, column in enumerate(columns) if not known[column]), len(columns))
    for start in range(0, len(rows), CHUNK_ROWS):
        chunk = slice(start, start + CHUNK_ROWS)
        drawn, everyone = rows[chunk], np.arange(len(rows[chunk]))
        states = torch.zeros(len(drawn), network.embeddings.shape[1])
        # A mask sees what comes before a column alone: else rows would not be drawn from what their weights are for.
        so_far = np.full_like(drawn, UNDRAWN)
        for rank, column in enumerate(columns):
            if rank >= n_leading:
                logits = network.logits(column, states).double()
                support = _support(None if allowed is None else allowed.get(column), mask and mask(column, so_far))
                log_shares = (logits if support is None else logits.masked_fill(~support, -math.inf)).log_softmax(1)
                if known[column]:
                    weights[chunk] += log_shares.numpy()[everyone, drawn[:, column]]
                else:
                    # A code for each row, by where a uniform number falls among cumulative probabilities.
                    cumulative = log_shares.exp().cumsum(1)
                    uniform = torch.rand(len(drawn), 1, generator=generator, dtype=torch.float64)
                    # A last code of probability zero cannot be drawn: sought is below the last cumulative one.
                    sought = torch.minimum(uniform * cumulative[:, -1:], cumulative[:, -1:].nextafter(torch.zeros(())))
                    drawn[:, column] = torch.searchsorted(cumulative, sought, right=True).squeeze(1).int().numpy()
            so_far[:, column] = drawn[:, column]
            embeddings = network.embeddings[network.rows_of(column)]
            states += functional.embedding(torch.from_numpy(drawn[:, column].copy()), embeddings)
    return rows, weights


def _support(allowed: NDArray[np.bool_] | None, narrow: NDArray[np.bool_] | None) -> Tensor | None:
    """Codes that a column may take, at least one in each row: a mask that leaves none gives way to what is allowed."""
    if narrow is not None:
        wide = np.ones_like(narrow) if allowed is None else np.broadcast_to(allowed, narrow.shape)
        both = narrow & wide
        return torch.from_numpy(np.where(both.any(1, keepdims=True), both, wide))
    return None if allowed is None else torch.from_numpy(allowed)


def to_arrays(network: AutoregressiveNetwork) -> dict[str, NDArray[Any]]:
    return {name: weight.detach().cpu().numpy() for name, weight in network.named_parameters()}


def from_arrays(
    arrays: Mapping[str, NDArray[Any]], sizes: Sequence[int], leaders: Sequence[int | None], order: Order
) -> AutoregressiveNetwork:
    """A network from what `to_arrays` gave; its widths are those of the arrays."""
    layers = arrays.get("layers")
    if layers is None or layers.ndim != 3 or layers.size == 0:
        raise ValueError("a network has a layer for each column")
    d_state, d_hidden = layers.shape[1:]
    if any(array.size > layers.size * sum(sizes) for array in arrays.values()):
        raise ValueError("weights fit the network")
    network = AutoregressiveNetwork(sizes, leaders, order, d_state=d_state, d_hidden=d_hidden)
    weights = dict(network.named_parameters())
    if set(arrays) != set(weights):
        raise ValueError(f"a network has the arrays {sorted(weights)}")
    for name, weight in weights.items():
        array = arrays[name]
        if array.dtype != np.float32 or array.shape != tuple(weight.shape) or not np.isfinite(array).all():
            raise ValueError(f"array={name!r} is damaged: it has float32 of shape {tuple(weight.shape)}, all finite")
        weight.data.copy_(torch.from_numpy(array))
    return network.eval().requires_grad_(False)  # type: ignore[no-any-return]


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
        waves = torch.arange(1, n_curves + 1)
        cosines = [  # at the codes of a column, shape (size, n_curves); short waves weigh less
            math.sqrt(2) * torch.cos(math.pi * waves * (torch.arange(size)[:, None] + 0.5) / size) / waves
            if size > FEW_CODES
            else torch.zeros(size, n_curves)
            for size in sizes
        ]
        self.register_buffer("cosines", torch.cat(cosines), persistent=False)
        self.amounts = nn.Parameter(torch.zeros(len(sizes), n_curves, sum(self._widths)))
        nn.init.normal_(self.amounts[..., : widths[0]], std=1 / math.sqrt(len(sizes)))

    def added(self, network: AutoregressiveNetwork) -> dict[str, Tensor]:
        columns = zip(self.cosines.split(self._sizes), self.amounts, strict=True)
        sums = torch.cat([cosines @ amounts for cosines, amounts in columns])
        embeddings, heads, biases = sums.split(self._widths, 1)
        weights = dict(network.named_parameters())
        more = {"embeddings": embeddings, "heads": heads, "head_biases": biases.squeeze(1)}
        return weights | {name: weights[name] + curve for name, curve in more.items()}


def fit_network(
    codes: NDArray[np.integer[Any]], sizes: Sequence[int], leaders: Sequence[int | None], spec: ArnSpec,
    device: torch.device, seed: int | None, progress: Progress,
) -> AutoregressiveNetwork:  # fmt: skip
    """The mean network of the last steps, in evaluation mode and on the CPU; torch's own generators are left as they
    were. `codes`: *Sensitive*. The table, shape (n, d), at least one row. It is on the device, and a step never waits.
    """
    with seeded(seed, device):
        rows = torch.from_numpy(np.ascontiguousarray(codes, dtype=np.int64)).to(device)
        batches = Epochs(len(codes), spec.batch_size, device)
        widths: Any = {"d_state": spec.d_state, "d_hidden": spec.d_hidden, "dropout": spec.dropout}
        network, average = (AutoregressiveNetwork(sizes, leaders, spec.order, **widths) for _ in range(2))
        nn.init.normal_(network.embeddings, std=1 / math.sqrt(len(sizes)))
        nn.init.normal_(network.biases, std=0.5)
        nn.init.normal_(network.layers, std=math.sqrt(2 / spec.d_state))  # heads are 0: every column is uniform
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
