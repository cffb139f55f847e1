"""The networks of CTGAN and TVAE, the softmax over the spans of a row that they end in, and released shares of codes.

`Spans` takes all spans at once: no loop over columns, and shapes that never change. Released shares are known before
training, and free to use.

Source: Xu et al. 2019 (1907.00503), sections 4.3 and 4.4; equal to those of the library `ctgan` under its weights.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.neural.encoding import Layout


class Spans(nn.Module):
    """The spans of a layout on a device."""

    span_of: Tensor  # span of each code, shape (n_codes,)
    inside: Tensor  # one where a code is of a span, shape (n_spans, n_codes)
    outside: Tensor  # zero where a code is of a span, else minus infinity, shape (n_spans, n_codes)
    offsets: Tensor  # the start of each span, shape (n_spans,)

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        sizes = torch.tensor(layout.sizes, dtype=torch.int64)
        span_of = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        inside = span_of == torch.arange(len(sizes))[:, None]
        self.register_buffer("span_of", span_of, persistent=False)
        self.register_buffer("inside", inside.float(), persistent=False)
        self.register_buffer("outside", torch.where(inside, 0.0, -torch.inf), persistent=False)
        self.register_buffer("offsets", torch.from_numpy(layout.offsets), persistent=False)
        self.n_codes = layout.n_codes

    def softmax(self, logits: Tensor) -> Tensor:
        return _Softmax.apply(logits, self.span_of, self.inside)

    def gumbel_softmax(self, logits: Tensor, temperature: float) -> Tensor:
        """A relaxed draw of each span. Shape: (n, n_codes), and the same.

        Source: Jang, Gu, Poole 2017 (1611.01144), equation 2.
        """
        return self.softmax((logits + self.gumbel(logits)) / temperature)

    @staticmethod
    def gumbel(logits: Tensor) -> Tensor:
        """Gumbel noise of that shape, always finite."""
        # By the logarithm of uniform numbers: `exponential_` takes six times as long on a CPU. A zero becomes the
        # least normal number, so that no noise is infinite.
        uniform = torch.rand_like(logits).clamp_(min=torch.finfo(logits.dtype).tiny)
        return uniform.log_().neg_().log_().neg_()

    def nll(self, logits: Tensor, codes: Tensor) -> Tensor:
        """The negative log-likelihood of one code in each span. Shape: (n, n_codes), int64 (n, n_spans), to that."""
        return _Nll.apply(logits, codes + self.offsets, self.span_of, self.inside)

    def nll_of_one(self, logits: Tensor, span: Tensor, code: Tensor) -> Tensor:
        """The negative log-likelihood of one code, counted over all spans, in its span a row; shape (n,)."""
        within = logits + self.outside.index_select(0, span)
        return nn.functional.cross_entropy(within, code, reduction="none")

    def one_hot(self, codes: Tensor) -> Tensor:
        """Zeros and ones for codes. Shape: int64 (n, n_spans), to float32 (n, n_codes)."""
        hot = torch.zeros(len(codes), self.n_codes, device=codes.device)
        return hot.scatter_(1, codes + self.offsets, 1.0)

    def draw(self, logits: Tensor) -> Tensor:
        """A code of each span, drawn by its softmax. Shape: (n, n_codes), to int64 (n, n_spans)."""
        noisy = (logits + self.gumbel(logits)).T.contiguous()
        at_peak = noisy == _peak(noisy, self.span_of, len(self.offsets)).index_select(0, self.span_of)
        # The first code at its span's peak: the others count as beyond the last.
        codes = torch.arange(self.n_codes, device=logits.device)[:, None].where(at_peak, self.n_codes)
        first = codes.new_full((len(self.offsets), len(logits)), self.n_codes)
        first.scatter_reduce_(0, self.span_of[:, None].expand_as(codes), codes, "amin")
        return first.T - self.offsets


# Below, a code is a row and a row of the table a column: reductions by span then go over whole rows of memory, which
# takes a tenth of the time on a CPU.


def _peak(logits: Tensor, span_of: Tensor, n_spans: int) -> Tensor:
    least = logits.new_full((n_spans, logits.shape[1]), -torch.inf)
    return least.scatter_reduce_(0, span_of[:, None].expand_as(logits), logits, "amax")


def _raised(logits: Tensor, span_of: Tensor, inside: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Exponentials below each span's peak, shape (n_codes, n); their sums and the peaks, shape (n_spans, n)."""
    by_code = logits.T.contiguous()
    peak = _peak(by_code, span_of, len(inside))
    raised = (by_code - peak.index_select(0, span_of)).exp_()
    return raised, inside @ raised, peak


class _Softmax(torch.autograd.Function):
    """Its backward pass needs the result alone, where autograd would keep every step on the way."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, span_of: Tensor, inside: Tensor) -> Tensor:
        raised, total, _ = _raised(logits, span_of, inside)
        shares = raised.div_(total.index_select(0, span_of))
        ctx.save_for_backward(shares, span_of, inside)
        return shares.T.contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        shares, span_of, inside = ctx.saved_tensors
        weighted = shares * gradients[0].T
        mean = (inside @ weighted).index_select(0, span_of)
        return weighted.addcmul_(shares, mean, value=-1).T, None, None


class _Nll(torch.autograd.Function):
    """Softmax minus one-hot is its gradient."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, codes: Tensor, span_of: Tensor, inside: Tensor) -> Tensor:
        raised, total, peak = _raised(logits, span_of, inside)
        ctx.save_for_backward(raised, total, codes, span_of)
        return (total.log() + peak).T - logits.gather(1, codes)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        raised, total, codes, span_of = ctx.saved_tensors
        by_span = gradients[0].T
        gradient = raised * (by_span / total).index_select(0, span_of)
        return gradient.scatter_add_(0, codes.T, -by_span).T, None, None, None


NEGATIVE_SLOPE, DROPOUT = 0.2, 0.5  # of the critic's hidden layers, as in the library `ctgan`
BETAS = 0.5, 0.9  # of Adam, for generators and critics
Precision = Literal["float32", "bfloat16"]
"""Of the factors of a network's products; everything else is in float32, weights and optimizers too."""


def products_in(precision: Precision, device: torch.device) -> torch.autocast:
    """A context in which networks take their products in a precision; for forward passes alone."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def widened(outputs: Tensor) -> Tensor:
    """The output of a network, in float32 where it was less: softmax, means and losses would lose too much."""
    return outputs.float() if outputs.dtype == torch.bfloat16 else outputs


def is_finite(*networks: nn.Module) -> bool:
    return all(bool(weight.isfinite().all()) for network in networks for weight in network.parameters())


class GeneratorNetwork(nn.Module):
    """Noise and a condition, shape (n, d_in), to the logits of a row: residual layers that carry their input along."""

    def __init__(self, d_in: int, widths: Sequence[int], d_out: int) -> None:
        super().__init__()
        d_inputs = [d_in + sum(widths[:index]) for index in range(len(widths) + 1)]
        self.layers = nn.ModuleList(nn.Linear(d, width) for d, width in zip(d_inputs, widths, strict=False))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in widths)
        self.output = nn.Linear(d_inputs[-1], d_out)

    def forward(self, row: Tensor) -> Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            row = torch.cat([torch.relu(norm(layer(row))), row], dim=1)
        out: Tensor = self.output(row)
        return out

    @torch.no_grad()
    def fit_norms(self, batches: Iterable[Tensor]) -> None:
        """Take the mean statistics of some batches of inputs for those of batch norm, in place of the running ones."""
        was_training, momenta = self.training, [norm.momentum for norm in self.norms]
        for norm in self.norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean of all batches, each as heavy
        self.train()
        for batch in batches:
            self(batch)
        for norm, momentum in zip(self.norms, momenta, strict=True):
            norm.momentum = momentum
        self.train(was_training)


class Critic(nn.Module):
    """CTGAN's critic: rows, shape (n, d_row), to the score of each pack, higher for real ones, shape (n / pac,)."""

    def __init__(self, d_row: int, widths: Sequence[int], pac: int = 1) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([d_row * pac, *widths, 1]))

    def forward(self, rows: Tensor) -> Tensor:
        return self._scores(self._first(rows))

    def contrast(self, rows: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of two batches, shape (2 n / pac,), and the norms of the gradient between them, shape (n / pac,).
        `rows`: both batches, one after the other, shape (2 n, d_row).
        `shares`: of the second in what lies between, one for each pack, shape (n / pac, 1).
        """
        # The first layer is linear: its output of a row between two others lies as far between theirs. So the product
        # that costs most is saved.
        before = self._first(rows)
        first, second = before.detach().chunk(2)
        between = first + shares * (second - first)
        return self._scores(before), self._norms(between)

    def _first(self, rows: Tensor) -> Tensor:
        before: Tensor = self.layers[0](rows.reshape(-1, self.layers[0].in_features))
        return before

    def _scores(self, before: Tensor) -> Tensor:
        for layer in self.layers[1:]:
            before = layer(before * self._slopes(before))
        return before.squeeze(1)

    def _norms(self, before: Tensor) -> Tensor:
        """Norms of the gradient of the scores by their packs of rows, differentiable by the weights."""
        # The critic is linear but for slopes that are constant around every row. So the gradient is a product of its
        # weights, without a second pass through autograd's graph.
        slopes = []
        with torch.no_grad():
            for layer in self.layers[1:]:
                slopes.append(self._slopes(before))
                before = layer(before * slopes[-1])
        gradient = self.layers[-1].weight
        for layer, slope in zip(reversed(self.layers[:-1]), reversed(slopes), strict=True):
            gradient = (gradient * slope) @ layer.weight
        return torch.linalg.vector_norm(gradient, dim=1)

    @torch.no_grad()
    def _slopes(self, before: Tensor) -> Tensor:
        """The slope of leaky ReLU at each value, and dropout."""
        share = 1 - DROPOUT if self.training else 1.0
        slopes = torch.where(before > 0, 1 / share, NEGATIVE_SLOPE / share)
        return slopes if share == 1 else slopes.mul_(torch.rand_like(slopes) < share)


class Encoder(nn.Module):
    """A row to the mean and log variance of its latent position; shape (n, d_row), to twice (n, d_latent)."""

    def __init__(self, d_row: int, widths: Sequence[int], d_latent: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([d_row, *widths]))
        self.mean = nn.Linear(widths[-1], d_latent)
        self.log_variance = nn.Linear(widths[-1], d_latent)

    def forward(self, row: Tensor) -> tuple[Tensor, Tensor]:
        for layer in self.layers:
            row = torch.relu(layer(row))
        return self.mean(row), self.log_variance(row)


class Decoder(nn.Module):
    """A latent position, shape (n, d_latent), to the logits of a row, shape (n, d_row)."""

    def __init__(self, d_latent: int, widths: Sequence[int], d_row: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([d_latent, *widths]))
        self.output = nn.Linear(widths[-1], d_row)

    def forward(self, latent: Tensor) -> Tensor:
        for layer in self.layers:
            latent = torch.relu(layer(latent))
        out: Tensor = self.output(latent)
        return out


def released_shares(one_way: Sequence[NDArray[np.floating]], layout: Layout) -> Tensor:
    """The share of each code within its span, side by side; shape (n_codes,), float64.

    >>> from synth.neural.encoding import Span
    >>> released_shares([np.array([3.0, -1.0, 1.0])], Layout((Span("x", 3, True),))).tolist()
    [0.75, 0.0, 0.25]
    """
    if layout.scalars:
        raise ValueError(f"private training takes spans alone: n_scalars={len(layout.scalars)}; bin every column")
    sizes = tuple(len(counts) for counts in one_way)
    if sizes != layout.sizes:
        raise ValueError(f"released counts must be those of the layout: sizes={sizes}; measure {layout.sizes}")
    kept = [np.maximum(np.asarray(counts, dtype=np.float64), 0.0) for counts in one_way]
    shares = [counts / counts.sum() if counts.sum() > 0 else np.full(len(counts), 1 / len(counts)) for counts in kept]
    return torch.from_numpy(np.concatenate(shares))


def averaged(average: nn.Module, current: nn.Module, kept_share: float) -> None:
    """Move a network's running average, buffers included, toward its current weights, in place."""
    ours, theirs = average.state_dict(), current.state_dict()
    with torch.no_grad():
        for name, value in ours.items():
            if value.is_floating_point():
                value.lerp_(theirs[name], 1 - kept_share)
            else:
                value.copy_(theirs[name])


LESS_THAN_ONE = 1 - 2.0**-40
"""Keeps a column's number plus a share of 1 below the next column's number in double precision."""


def running_shares(weights: Sequence[NDArray[np.float64]]) -> Tensor:
    """The running share of each code's weight in its column, plus the column's number; shape (n_codes,), float64.

    It is exactly the next number from a column's last positive weight on, so that no code beyond is drawn.
    """
    totals = [np.cumsum(of_codes) for of_codes in weights]
    parts = [column + total / total[-1] for column, total in enumerate(totals)]
    return torch.from_numpy(np.concatenate([np.empty(0), *parts]))


def draw_codes(running: Tensor, n_columns: int, n: int) -> tuple[Tensor, Tensor]:
    """Codes, counted over all columns, by their running shares, and their columns, any as likely; shape (n,) both."""
    column = torch.randint(n_columns, (n,), device=running.device)
    share = torch.rand(n, dtype=torch.float64, device=running.device)
    return torch.searchsorted(running, column + share * LESS_THAN_ONE, right=True), column


class ReleasedConditions:
    """Conditions on one column at a time, one-hot: any column as likely, its codes by their released shares.

    Source: Xu et al. 2019 (1907.00503), section 4.3.
    """

    # DEVIATES: the paper draws codes by the logarithm of their exact counts; the fakes whose marginals are matched must
    # have the marginals' own shares, and exact counts are not to be had.
    def __init__(self, one_way: Sequence[NDArray[np.floating]], layout: Layout, device: torch.device) -> None:
        shares = released_shares(one_way, layout)
        self.shares, self._n_columns = shares.float().to(device), len(layout.spans)
        self._running = running_shares([part.numpy() for part in shares.split(layout.sizes)]).to(device)

    def draw(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        code, column = draw_codes(self._running, self._n_columns, n)
        hot = torch.zeros(n, len(self.shares), device=code.device)
        return hot.scatter_(1, code[:, None], 1.0), column, code
