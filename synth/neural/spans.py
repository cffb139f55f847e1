"""Softmax over the spans of a row, all at once: no loop over columns, and shapes that never change."""

from typing import Any

import torch
from torch import Tensor, nn

from synth.transforms.layout import Layout


class Spans(nn.Module):
    """The spans of a layout on a device.

    Attributes:
        span_of: span of each code, shape (n_codes,).
        inside: one where a code is of a span, shape (n_spans, n_codes).
        outside: zero where a code is of a span, else minus infinity, shape (n_spans, n_codes).
        offsets: where each span starts, shape (n_spans,).
    """

    span_of: Tensor
    inside: Tensor
    outside: Tensor
    offsets: Tensor

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
        """The softmax of each span.

        Shape: (n, n_codes), and the same.
        """
        return _Softmax.apply(logits, self.span_of, self.inside)

    def gumbel_softmax(self, logits: Tensor, temperature: float) -> Tensor:
        """A relaxed draw of each span.

        Shape: (n, n_codes), and the same.

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
        """The negative log-likelihood of one code in each span.

        Args:
            logits: shape (n, n_codes).
            codes: int64 of shape (n, n_spans), within their spans.

        Shape: (n, n_spans).
        """
        return _Nll.apply(logits, codes + self.offsets, self.span_of, self.inside)

    def nll_of_one(self, logits: Tensor, span: Tensor, place: Tensor) -> Tensor:
        """The negative log-likelihood of one code in one span a row.

        Args:
            logits: shape (n, n_codes).
            span: int64 of shape (n,).
            place: of the code among all codes, in that span; int64 of shape (n,).

        Shape: (n,).
        """
        within = logits + self.outside.index_select(0, span)
        return nn.functional.cross_entropy(within, place, reduction="none")

    def one_hot(self, codes: Tensor) -> Tensor:
        """Zeros and ones for codes.

        Shape: int64 (n, n_spans) within their spans, to float32 (n, n_codes).
        """
        hot = torch.zeros(len(codes), self.n_codes, device=codes.device)
        return hot.scatter_(1, codes + self.offsets, 1.0)

    def draw(self, logits: Tensor) -> Tensor:
        """A code of each span, drawn by its softmax.

        Shape: (n, n_codes), to int64 (n, n_spans).
        """
        noisy = (logits + self.gumbel(logits)).T.contiguous()
        at_peak = noisy == _peak(noisy, self.span_of, len(self.offsets)).index_select(0, self.span_of)
        # The first code at its span's peak: the others count as beyond the last.
        places = torch.arange(self.n_codes, device=logits.device)[:, None].where(at_peak, self.n_codes)
        first = places.new_full((len(self.offsets), len(logits)), self.n_codes)
        first.scatter_reduce_(0, self.span_of[:, None].expand_as(places), places, "amin")
        return first.T - self.offsets


# Below, a code is a row and a row of the table a column: reductions by span then go over whole rows of memory, which
# takes a tenth of the time on a CPU.


def _peak(logits: Tensor, span_of: Tensor, n_spans: int) -> Tensor:
    """Shape: (n_codes, n), to (n_spans, n)."""
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
    def forward(ctx: Any, logits: Tensor, places: Tensor, span_of: Tensor, inside: Tensor) -> Tensor:
        raised, total, peak = _raised(logits, span_of, inside)
        ctx.save_for_backward(raised, total, places, span_of)
        return (total.log() + peak).T - logits.gather(1, places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        raised, total, places, span_of = ctx.saved_tensors
        by_span = gradients[0].T
        gradient = raised * (by_span / total).index_select(0, span_of)
        return gradient.scatter_add_(0, places.T, -by_span).T, None, None, None
