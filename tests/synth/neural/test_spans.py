"""Softmax, draws and likelihoods of all spans at once, against torch's own on one span after the other."""

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from synth.neural.networks import Spans
from synth.transforms.layout import Layout, Span

SIZES = (3, 1, 5, 2)
LAYOUT = Layout(tuple(Span(f"c{index}", size, whole=True) for index, size in enumerate(SIZES)))
SPANS = Spans(LAYOUT)
FALSE_ALARM = 1e-5
"""Of each chi-square test below, of which there are about ten; seeds are fixed."""


def _logits(kind: str) -> Tensor:
    logits = torch.randn(20, sum(SIZES), generator=torch.Generator().manual_seed(0))
    if kind == "huge":
        return logits * 1e30
    if kind == "far apart":
        return logits + torch.tensor([1e4, 0, -1e4, 500.0, 90, -90, 0, 1e3, -1e3, -88, 88])
    if kind == "impossible codes":
        logits[:, [0, 5, 10]] = -torch.inf
    if kind == "equal":
        return torch.full_like(logits, 7.0)
    return logits


KINDS = pytest.mark.parametrize("kind", ["usual", "huge", "far apart", "impossible codes", "equal"])


def _codes(n: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.stack([torch.randint(size, (n,), generator=generator) for size in SIZES], 1)


def _gradient(values: Tensor, logits: Tensor) -> Tensor:
    weights = torch.randn(values.shape, generator=torch.Generator().manual_seed(2))
    return torch.autograd.grad((values * weights).sum(), logits)[0]


@KINDS
def test_softmax_of_every_span_and_its_gradient_are_torchs(kind: str) -> None:
    logits = _logits(kind).requires_grad_()
    ours = SPANS.softmax(logits)
    theirs = torch.cat([part.softmax(1) for part in logits.split(SIZES, 1)], 1)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(_gradient(ours, logits), _gradient(theirs, logits), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("kind", ["usual", "far apart", "equal"])
def test_likelihoods_of_every_span_and_their_gradients_are_torchs(kind: str) -> None:
    logits, codes = _logits(kind).requires_grad_(), _codes(20)
    ours = SPANS.nll(logits, codes)
    parts = zip(logits.split(SIZES, 1), codes.T, strict=True)
    theirs = torch.stack([torch.nn.functional.cross_entropy(part, code, reduction="none") for part, code in parts], 1)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(_gradient(ours, logits), _gradient(theirs, logits), atol=1e-6, rtol=1e-6)


def test_the_likelihood_of_one_span_is_that_among_all_spans() -> None:
    logits, codes = _logits("usual").requires_grad_(), _codes(20)
    span = torch.arange(20) % len(SIZES)
    place = (codes + SPANS.offsets).gather(1, span[:, None]).squeeze(1)
    one = SPANS.nll_of_one(logits, span, place)
    among_all = SPANS.nll(logits, codes).gather(1, span[:, None]).squeeze(1)
    torch.testing.assert_close(one, among_all, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(_gradient(one, logits), _gradient(among_all, logits), atol=1e-6, rtol=1e-6)


def test_softmax_agrees_with_finite_differences() -> None:
    spans = Spans(LAYOUT).double()
    logits = _logits("usual")[:3].double().requires_grad_()
    assert torch.autograd.gradcheck(spans.softmax, (logits,))
    assert torch.autograd.gradcheck(lambda raw: spans.nll(raw, _codes(3)), (logits,))


def test_one_hot_rows_say_their_codes() -> None:
    codes = _codes(20)
    parts = SPANS.one_hot(codes).split(SIZES, 1)
    assert torch.equal(torch.stack([part.argmax(1) for part in parts], 1), codes)
    assert all(torch.equal(part.sum(1), torch.ones(20)) for part in parts)


def _fits(found: Tensor, logits: Tensor) -> None:
    """Chi-square of drawn codes, shape (n, n_spans), against softmax; codes of probability 0 never occur."""
    for codes, part in zip(found.T, logits.split(SIZES), strict=True):
        expected = part.double().softmax(0) * len(codes)
        counts = torch.bincount(codes, minlength=len(part)).double()
        possible = expected > 0
        assert counts[~possible].sum() == 0
        statistic = ((counts - expected)[possible].square() / expected[possible]).sum()
        assert statistic <= chi2.isf(FALSE_ALARM, max(int(possible.sum()) - 1, 1))


@pytest.mark.parametrize("kind", ["usual", "impossible codes", "equal"])
def test_drawn_codes_follow_the_softmax(kind: str) -> None:
    logits = _logits(kind)[0]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        found = SPANS.draw(logits.expand(40_000, -1))
    assert found.dtype == torch.int64
    _fits(found, logits)


def test_the_greatest_share_of_a_relaxed_draw_follows_the_softmax_at_any_temperature() -> None:
    logits = _logits("usual")[0]
    with torch.random.fork_rng():
        torch.manual_seed(4)
        relaxed = SPANS.gumbel_softmax(logits.expand(40_000, -1), 0.2)
    torch.testing.assert_close(relaxed.sum(1), torch.full((40_000,), float(len(SIZES))))
    _fits(torch.stack([part.argmax(1) for part in relaxed.split(SIZES, 1)], 1), logits)


def test_gumbel_noise_has_its_mean_and_variance() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        noise = SPANS.gumbel(torch.empty(1_000_000)).double()
    # Four standard errors: 1.28 / 1000 of the mean, about 3.4 / 1000 of the variance (kurtosis 5.4).
    assert noise.mean() == pytest.approx(0.577216, abs=4 * 1.283e-3)
    assert noise.var() == pytest.approx(torch.pi**2 / 6, abs=4 * 3.5e-3)


def test_gumbel_noise_is_finite_where_a_uniform_number_is_least_or_greatest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "rand_like", lambda like: torch.tensor([0.0, 1 - 2.0**-24]))
    noise = SPANS.gumbel(torch.empty(2))
    assert noise.isfinite().all()
    assert noise[0] < -4 < 16 < noise[1]
