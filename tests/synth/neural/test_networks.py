"""Networks: their layers, data, spans, units, weights, and matching to released marginals."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from ctgan.synthesizers import ctgan, tvae
from scipy.stats import chi2
from torch import Tensor, nn

from synth.neural.encoding import Layout, Span
from synth.neural.networks import Critic, Decoder, Encoder, GeneratorNetwork, Spans, released_shares
from synth.neural.sampling import N_MATCHED_ROWS, CtganNetwork, TvaeNetwork, draw, from_arrays, match_one_way, to_arrays
from synth.neural.training import Epochs, UnitIndex
from tests.synth.neural.toy import CLOSE, CPU, KINDS, encoded

N, PAC = 20, 5


def _same_weights(ours: nn.Module, theirs: nn.Module) -> None:
    """Copies weights over; both list them in the order of their layers."""
    mine, yours = _in_order(ours), _in_order(theirs)
    with torch.no_grad():
        for a, b in zip(mine, yours, strict=True):
            b.copy_(a)


def _in_order(network: nn.Module) -> list[Tensor]:
    """All weights, layer by layer, a norm's right after its layer's."""
    if isinstance(network, GeneratorNetwork):
        pairs = zip(network.layers, network.norms, strict=True)
        layers: Iterable[nn.Module] = [*(layer for pair in pairs for layer in pair), network.output]
    else:
        layers = [module for module in network.modules() if isinstance(module, nn.Linear | nn.BatchNorm1d)]
    return [weight for layer in layers for weight in layer.parameters()]


def _rows(n: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(n, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _gradients(values: Tensor, weights: list[Tensor]) -> list[Tensor]:
    by = torch.randn(values.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    return list(torch.autograd.grad((values * by).sum(), weights, allow_unused=False))


def _assert_equal(
    ours: nn.Module, theirs: nn.Module, rows: Tensor, outputs: Callable[[nn.Module, Tensor], Tensor]
) -> None:
    """The same outputs, and the same gradients by all weights and by the rows."""
    _same_weights(ours, theirs)
    values = []
    for network in (ours, theirs):
        leaf = rows.clone().requires_grad_()
        out = outputs(network, leaf)
        values.append([out, *_gradients(out, [leaf, *_in_order(network)])])
    torch.testing.assert_close(*values, **CLOSE)


def _both_heads(network: nn.Module, rows: Tensor) -> Tensor:
    outputs = network(rows)
    return torch.cat([outputs[0], outputs[-1]], 1)


def _decoded(network: nn.Module, latent: Tensor) -> Tensor:
    outputs = network(latent)
    return outputs[0] if isinstance(network, tvae.Decoder) else outputs  # theirs gives its deviations along


def test_networks_are_the_librarys() -> None:
    ours, theirs = GeneratorNetwork(7, (6, 5), 9).double(), ctgan.Generator(7, (6, 5), 9).double()
    _assert_equal(ours, theirs, _rows(N, 7), lambda network, rows: network(rows))
    # Running statistics have moved alike, too.
    _assert_equal(ours.eval(), theirs.eval(), _rows(N, 7), lambda network, rows: network(rows))
    for pac in (1, PAC):
        critic, theirs = Critic(7, (6, 5), pac).double().eval(), ctgan.Discriminator(7, (6, 5), pac).double().eval()
        _assert_equal(critic, theirs, _rows(N, 7), lambda network, rows: network(rows).flatten())
    _assert_equal(Encoder(7, (6, 5), 3).double(), tvae.Encoder(7, (6, 5), 3).double(), _rows(N, 7), _both_heads)
    _assert_equal(Decoder(3, (6, 5), 7).double(), tvae.Decoder(3, (6, 5), 7).double(), _rows(N, 3), _decoded)


@pytest.mark.parametrize("widths", [(6,), (6, 5, 4)])
def test_gradient_norms_are_those_of_autograd_with_dropout(widths: tuple[int, ...]) -> None:
    critic = Critic(7, widths, PAC).double()
    rows = _rows(N, 7).requires_grad_()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ours = critic._norms(critic._first(rows).detach())
        torch.manual_seed(0)  # the same values are dropped
        gradient = torch.autograd.grad(critic(rows).sum(), rows, create_graph=True)[0]
    theirs = gradient.reshape(N // PAC, -1).norm(dim=1)
    torch.testing.assert_close(ours, theirs, **CLOSE)
    weights = [layer.weight for layer in critic.layers]
    torch.testing.assert_close(_gradients(ours, weights), _gradients(theirs, weights), **CLOSE)


@pytest.mark.parametrize(("n", "batch_size"), [(1, 5), (5, 5), (23, 5), (3, 1)])
def test_every_row_comes_once_an_epoch_and_counts_as_a_loaders_batches_would(n: int, batch_size: int) -> None:
    epochs = Epochs(n, batch_size, CPU)
    assert epochs.n_steps == -(-n // batch_size)
    for _ in range(3):
        batches = [epochs.draw() for _ in range(epochs.n_steps)]
        assert all(len(index) == len(weights) == min(n, batch_size) for index, weights in batches)
        seen = torch.cat([index[weights > 0] for index, weights in batches])
        assert sorted(seen.tolist()) == list(range(n))
        # The mean over a batch is that over its own rows alone.
        for step, (_, weights) in enumerate(batches):
            n_rows = min(batch_size, n - step * batch_size)
            assert weights[weights > 0].tolist() == pytest.approx([1 / n_rows] * n_rows)


SIZES = (3, 1, 5, 2)
CATEGORIES = Layout(tuple(Span(f"c{index}", size, whole=True) for index, size in enumerate(SIZES)))
SPANS = Spans(CATEGORIES)
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


LOGITS = pytest.mark.parametrize("kind", ["usual", "huge", "far apart", "impossible codes", "equal"])


def _codes(n: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.stack([torch.randint(size, (n,), generator=generator) for size in SIZES], 1)


def _gradient(values: Tensor, logits: Tensor) -> Tensor:
    weights = torch.randn(values.shape, generator=torch.Generator().manual_seed(2))
    return torch.autograd.grad((values * weights).sum(), logits)[0]


@LOGITS
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


def _fits(drawn: Tensor, logits: Tensor) -> None:
    """Chi-square of drawn codes, shape (n, n_spans), against softmax; codes of probability 0 never occur."""
    for codes, part in zip(drawn.T, logits.split(SIZES), strict=True):
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
        drawn = SPANS.draw(logits.expand(40_000, -1))
    assert drawn.dtype == torch.int64
    _fits(drawn, logits)


def test_the_greatest_share_of_a_relaxed_draw_follows_the_softmax_at_any_temperature() -> None:
    logits = _logits("usual")[0]
    with torch.random.fork_rng():
        torch.manual_seed(4)
        relaxed = SPANS.gumbel_softmax(logits.expand(40_000, -1), 0.2)
    torch.testing.assert_close(relaxed.sum(1), torch.full((40_000,), float(len(SIZES))))
    _fits(torch.stack([part.argmax(1) for part in relaxed.split(SIZES, 1)], 1), logits)


def test_gumbel_noise_is_finite_where_a_uniform_number_is_least_or_greatest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "rand_like", lambda like: torch.tensor([0.0, 1 - 2.0**-24]))
    noise = SPANS.gumbel(torch.empty(2))
    assert noise.isfinite().all()
    assert noise[0] < -4 < 16 < noise[1]


def rows_by_unit(units: UnitIndex, *which: int, size: int = 4) -> list[list[int]]:
    batch = units.batch(np.array(which, dtype=np.int64), size)
    assert (batch.codes.shape, batch.codes.dtype) == ((size * units.max_rows_per_unit, 1), torch.int64)
    assert not batch.codes[~batch.mask].any()
    parts = zip(batch.codes[:, 0].view(size, -1), batch.mask.view(size, -1), strict=True)
    return [codes[mask].tolist() for codes, mask in parts]


@pytest.mark.parametrize(
    ("entities", "k", "which", "expected"),
    [
        (None, 1, (1, 4), [[1], [4], [], []]),
        ([1, 0, 1, 2, 0, 1], 3, (0, 1, 2), [[0, 2, 5], [1, 4], [3], []]),
        ([7, 7, 7, 7, 8, 8], 2, (0, 1), [[0, 1], [4, 5], [], []]),  # of more rows than allowed the first stay
        ([-1, 0, -1, 1], 2, (0, 1), [[1], [3], [], []]),  # rows of nobody are left out, and no unit of their own
        ([], 2, (), [[], [], [], []]),
    ],
)
def test_a_batch_has_the_rows_of_its_units_side_by_side_and_a_public_shape(
    entities: list[int] | None, k: int, which: tuple[int, ...], expected: list[list[int]]
) -> None:
    n = 5 if entities is None else len(entities)
    codes = np.arange(n, dtype=np.int32)[:, None]
    units = UnitIndex.of(encoded(codes), None if entities is None else np.array(entities, dtype=np.int64), k)
    assert len(units) == (n if entities is None else len({*entities} - {-1}))
    assert rows_by_unit(units, *which) == expected


LAYOUT = Layout((Span("a", 4, True), Span("n", 3, False), Span("b", 3, True)), ("n",))
SHARES = (np.array([0.7, 0.2, 0.09, 0.01]), np.array([0.5, 0.3, 0.2]))
Arrays = dict[str, np.ndarray]


def small_network(kind: str, widths: tuple[int, ...] = (6, 5)) -> CtganNetwork | TvaeNetwork:
    torch.manual_seed(0)
    if kind == "tvae":
        return TvaeNetwork(LAYOUT, Decoder(4, widths, LAYOUT.width), torch.tensor([0.1]))
    generator = GeneratorNetwork(4 + 7, widths, LAYOUT.width)
    generator(torch.randn(64, 11) * 3 + 1)  # moves what the norms have seen
    return CtganNetwork(LAYOUT, generator.eval(), SHARES)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("widths", [(6,), (3, 4, 5)])
def test_a_network_comes_back_as_it_was_and_torchs_own_generator_is_left_alone(
    kind: str, widths: tuple[int, ...]
) -> None:
    before = small_network(kind, widths)
    arrays, state = to_arrays(before), torch.get_rng_state()
    after = from_arrays(arrays, LAYOUT)
    assert torch.equal(torch.get_rng_state(), state)
    assert type(after) is type(before)
    torch.manual_seed(1)
    expected = draw(before, 200)
    torch.manual_seed(1)
    drawn = draw(after, 200)
    np.testing.assert_array_equal(drawn.codes, expected.codes)
    np.testing.assert_array_equal(drawn.scalars, expected.scalars)


def put(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[Arrays], None]:
    return lambda arrays: arrays.update({name: np.asarray(change(arrays[name]))})


def spoilt(number: float) -> Callable[[np.ndarray], np.ndarray]:
    def spoil(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.flat[-1] = number
        return array

    return spoil


BELOW_ZERO = ("running_var", "deviations", "shares")


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_arrays_are_refused(kind: str) -> None:
    arrays = to_arrays(small_network(kind))
    damaged = [{}, {**arrays, "rows": np.zeros((5, LAYOUT.width))}, {**arrays, "shares.2": SHARES[1]}]
    needed = [name for name in arrays if not name.endswith("num_batches_tracked")]
    damaged += [{other: array for other, array in arrays.items() if other != name} for name in needed]
    for name, array in arrays.items():
        wrong = [array.ravel()[1:], spoilt(np.nan)(array)] if array.ndim else []
        wrong += [array[:-1], array[:0], np.concatenate([array, array])] if array.ndim else []
        wrong += [spoilt(-0.1)(array)] if any(part in name for part in BELOW_ZERO) else []
        damaged += [{**arrays, name: np.asarray(part)} for part in wrong]
    if kind == "ctgan":
        damaged.append({**arrays, "shares.1": 0 * arrays["shares.1"]})
        # No noise beside the condition.
        damaged.append({**arrays, "network.layers.0.weight": arrays["network.layers.0.weight"][:, 4:]})
    for content in damaged:
        with pytest.raises((ValueError, KeyError, RuntimeError)):
            from_arrays(content, LAYOUT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 4])
def test_the_arrays_of_another_layout_are_refused(kind: str, size: int) -> None:
    layout = Layout((Span("a", 4, True), Span("n", 3, False), Span("b", size, True)), ("n",))
    with pytest.raises((ValueError, RuntimeError)):
        from_arrays(to_arrays(small_network(kind)), layout)


MATCHED_LAYOUT = Layout((Span("a", 4, True), Span("b", 7, True), Span("c", 2, True), Span("d", 1, True)))
RNG = np.random.default_rng(0)
N_CHECKED = 40_000
TARGETS = {
    "skewed": [np.array([800.0, 150.0, 40.0, 10.0]), RNG.dirichlet(np.ones(7)), np.array([3.0, 997.0]), np.ones(1)],
    "zeros": [
        np.array([0.0, 500.0, 0.0, 500.0]), np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), np.array([10.0, -3.0]),
        np.full(1, -2.0),
    ],
}  # fmt: skip


def steep_network(kind: str, steepness: float) -> CtganNetwork | TvaeNetwork:
    torch.manual_seed(0)
    if kind == "tvae":
        decoder = Decoder(5, (24, 24), MATCHED_LAYOUT.width)
        with torch.no_grad():
            for parameter in decoder.parameters():
                parameter.mul_(steepness)
        return TvaeNetwork(MATCHED_LAYOUT, decoder, torch.zeros(0))
    generator = GeneratorNetwork(5 + MATCHED_LAYOUT.n_codes, (24, 24), MATCHED_LAYOUT.width)
    with torch.no_grad():
        generator.output.weight.mul_(steepness)
    even = [np.full(size, 1 / size) for size in MATCHED_LAYOUT.sizes]
    return CtganNetwork(MATCHED_LAYOUT, generator.eval(), even)


def drawn_shares(from_network: CtganNetwork | TvaeNetwork, n: int) -> np.ndarray:
    codes = draw(from_network, n).codes
    counts = [np.bincount(codes[:, index], minlength=size) for index, size in enumerate(MATCHED_LAYOUT.sizes)]
    return np.concatenate(counts) / n


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS)
def test_codes_are_as_frequent_as_was_released_and_the_bias_of_the_output_alone_is_moved(
    kind: str, target: str
) -> None:
    """Shifts are fitted on rows of their own, so that an error is of two draws; 14 shares of 4 cases within 5 errors.

    A false alarm of the file is below 1e-4, were all normal.
    """
    network, shares = steep_network(kind, 3.0), released_shares(TARGETS[target], MATCHED_LAYOUT)
    module = network.decoder if isinstance(network, TvaeNetwork) else network.generator
    before, odds = {name: tensor.clone() for name, tensor in module.state_dict().items()}, _odds(network)
    torch.manual_seed(1)
    match_one_way(network, shares)
    expected = shares.numpy()
    errors = np.sqrt(expected * (1 - expected) * (1 / N_CHECKED + 1 / N_MATCHED_ROWS))
    # A code that was released as empty is kept at the least share.
    assert (np.abs(drawn_shares(network, N_CHECKED) - expected) <= 5 * errors + 1e-4).all()
    assert {name for name, tensor in module.state_dict().items() if not torch.equal(tensor, before[name])} == {
        "output.bias"
    }
    if (kind, target) == ("tvae", "skewed"):  # what hangs together still does
        assert abs(odds) > 0.3
        assert np.sign(_odds(network)) == np.sign(odds)


def _odds(network: CtganNetwork | TvaeNetwork) -> float:
    """The log ratio of odds between two columns."""
    codes = draw(network, N_CHECKED).codes
    counts = np.ones((4, 2))
    np.add.at(counts, (codes[:, 0], codes[:, 2]), 1)
    ratios = counts[:, 0] / counts[:, 1]
    return float(np.log(ratios[0] / ratios[1]))
