"""Rows drawn from a network: by its softmax, within their ranges, and on condition as the network itself has them.

Where draws are compared with a distribution, or two sets of draws with each other, a test of independence or fit must
give p > 1e-6: about twenty such comparisons are made, seeded, so that a false alarm of the file is below 2e-5.
"""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency, chisquare

from synth.errors import JobError
from synth.neural import sampling
from synth.neural.networks import Decoder, GeneratorNetwork, Spans
from synth.neural.sampling import BATCH, CtganNetwork, Network, TvaeNetwork, draw
from synth.transforms.encoding import Match
from synth.transforms.layout import Encoded, Layout, Span
from synth.transforms.mode_normalization import Modes

LEAST_P = 1e-6
LAYOUT = Layout((Span("a", 4, True), Span("n", 3, False), Span("b", 3, True), Span("c", 2, True)), ("n",))
SHARES = (np.array([0.7, 0.2, 0.09, 0.01]), np.array([0.5, 0.3, 0.2]), np.array([0.9, 0.1]))
N_NOISE = 5
KINDS = ("ctgan", "tvae")
WIDE = 0.3
"""A deviation of the scalar that a window of draws can resolve."""


def network(kind: str, steepness: float = 2.0, seed: int = 0) -> CtganNetwork | TvaeNetwork:
    """A network of which columns hang together: its weights are so many times as large as at the start."""
    torch.manual_seed(seed)
    if kind == "tvae":
        decoder = Decoder(N_NOISE, (16, 16), LAYOUT.width)
        with torch.no_grad():
            for parameter in decoder.parameters():
                parameter.mul_(steepness)
        return TvaeNetwork(LAYOUT, decoder.requires_grad_(False), torch.tensor([WIDE]))
    generator = GeneratorNetwork(N_NOISE + sum(map(len, SHARES)), (16, 16), LAYOUT.width)
    with torch.no_grad():
        generator.output.weight.mul_(steepness)
    return CtganNetwork(LAYOUT, generator.eval().requires_grad_(False), SHARES)


def constant(logits: np.ndarray, deviation: float = 0.0) -> TvaeNetwork:
    """A network that says the same of every row."""
    decoder = Decoder(N_NOISE, (4,), LAYOUT.width).requires_grad_(False)
    decoder.output.weight.zero_()
    decoder.output.bias.copy_(torch.from_numpy(logits))
    return TvaeNetwork(LAYOUT, decoder, torch.tensor([deviation]))


def asks(*codes: int, size: int) -> Match:
    weights = np.zeros(size)
    weights[list(codes)] = 1.0
    return Match(weights, None)


def drawn(from_network: Network, n: int, match: Mapping[int, Match] | None = None, seed: int = 1) -> Encoded:
    torch.manual_seed(seed)
    return draw(from_network, n, match or {})


def unmatched(from_network: Network, n: int, match: Mapping[int, Match], seed: int = 2) -> Encoded:
    """Rows that a network makes when it is told what is asked for, none of them turned down."""
    torch.manual_seed(seed)
    spans = Spans(from_network.layout)
    with torch.inference_mode():
        raws = (from_network.raw(BATCH, match) for _ in range(-(-n // BATCH)))
        return sampling._joined([sampling._settled(raw, from_network, spans) for raw in raws])


def cells(codes: np.ndarray, spans: list[int]) -> np.ndarray:
    """One number for what a row holds in some columns."""
    return np.asarray(np.ravel_multi_index(tuple(codes[:, spans].T), tuple(LAYOUT.sizes[span] for span in spans)))


def assert_alike(one: np.ndarray, other: np.ndarray) -> None:
    """Two sets of draws come from one distribution; rare cells are put together."""
    size = int(max(one.max(), other.max())) + 1
    counts = np.stack([np.bincount(one, minlength=size), np.bincount(other, minlength=size)])
    rare = counts.sum(axis=0) < 40
    pooled = np.column_stack([counts[:, ~rare], counts[:, rare].sum(axis=1)])
    pooled = pooled[:, pooled.sum(axis=0) > 0]
    assert pooled.shape[1] > 1
    assert chi2_contingency(pooled).pvalue > LEAST_P


def test_codes_are_drawn_by_the_softmax_of_their_spans() -> None:
    logits = np.random.default_rng(0).normal(0, 1.5, LAYOUT.width)
    codes, n = drawn(constant(logits), 40_000).codes, 40_000
    for place, (start, size) in enumerate(zip(LAYOUT.offsets, LAYOUT.sizes, strict=True)):
        raised = np.exp(logits[start : start + size])
        counts = np.bincount(codes[:, place], minlength=size)
        assert chisquare(counts, n * raised / raised.sum()).pvalue > LEAST_P
    pairs = np.zeros((4, 3))
    np.add.at(pairs, (codes[:, 0], codes[:, 2]), 1)
    assert chi2_contingency(pairs).pvalue > LEAST_P  # columns are independent given the logits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, BATCH, BATCH + 1])
def test_as_many_rows_as_wanted_come_with_their_codes_and_scalars_in_range(kind: str, n: int) -> None:
    made = drawn(network(kind), n)
    assert len(made) == n
    assert made.codes.shape == (n, 4)
    assert made.scalars.shape == (n, 1)
    assert np.issubdtype(made.codes.dtype, np.integer)
    assert made.scalars.dtype == np.float32
    assert (made.codes >= 0).all()
    assert (made.codes < np.array(LAYOUT.sizes)).all()


def test_scalars_lie_about_what_the_network_says_and_never_beyond_one() -> None:
    logits = np.zeros(LAYOUT.width)
    logits[-1] = 0.5
    exact = drawn(constant(logits), 50).scalars
    np.testing.assert_allclose(exact, np.tanh(0.5), rtol=1e-6)
    n = 20_000
    near = drawn(constant(logits, 0.1), n).scalars
    assert abs(near.mean() - np.tanh(0.5)) < 5 * 0.1 / np.sqrt(n)
    assert abs(near.std() - 0.1) < 5 * 0.1 / np.sqrt(2 * n)
    far = drawn(constant(logits, 5.0), n).scalars
    assert far.min() == -1
    assert far.max() == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "asked",
    [
        {0: asks(1, size=4)},
        {0: asks(3, size=4)},  # rare
        {1: asks(0, size=3)},  # a number that is a mode of its own
        {0: asks(1, size=4), 2: asks(2, size=3)},
        {0: asks(0, 2, size=4), 1: asks(1, 2, size=3), 3: asks(1, size=2)},
    ],
    ids=["one", "rare", "atom", "two", "three"],
)
def test_rows_on_condition_are_those_of_the_network_that_hold_what_is_asked_for(
    kind: str, asked: dict[int, Match]
) -> None:
    made = network(kind)
    given = drawn(made, 6_000, asked)
    every = unmatched(made, 300_000, asked)
    held = np.all([asked[place].weights[every.codes[:, place]] > 0 for place in asked], axis=0)
    assert 300 < held.sum() < len(held)
    others = [place for place in range(4) if place not in asked]
    assert len(given) == 6_000
    assert_alike(cells(given.codes, others), cells(every.codes[held], others))
    thirds = np.quantile(every.scalars[held], [1 / 3, 2 / 3])
    assert_alike(np.digitize(given.scalars[:, 0], thirds), np.digitize(every.scalars[held, 0], thirds))


def test_rows_are_not_those_of_the_network_without_a_condition() -> None:
    """The comparison above sees a condition that is not kept."""
    made, asked = network("tvae"), {0: asks(1, size=4)}
    every = unmatched(made, 100_000, {})
    with pytest.raises(AssertionError):
        assert_alike(cells(drawn(made, 6_000, asked).codes, [1, 2, 3]), cells(every.codes, [1, 2, 3]))


@pytest.mark.parametrize("others", [{}, {2: asks(0, size=3)}], ids=["alone", "beside"])
def test_a_number_in_a_bell_is_asked_for_by_code_and_scalar(others: dict[int, Match]) -> None:
    """Both bells reach the number, each at a scalar of its own; a narrow window stands for exactly that number."""
    made = network("tvae", 2.5)
    scalars, window = np.array([np.nan, -0.4, 0.5]), 0.02
    asked = {1: Match(np.array([0.0, 1.0, 1.0]), scalars), **others}
    given = drawn(made, 6_000, asked)
    every = unmatched(made, 1_500_000, asked)
    held = np.abs(every.scalars[:, 0] - scalars[every.codes[:, 1]]) < window
    for place, other in others.items():
        held &= other.weights[every.codes[:, place]] > 0
    assert held.sum() > 2_000
    rest = [place for place in (0, 2, 3) if place not in others]
    assert_alike(cells(given.codes, rest), cells(every.codes[held], rest))


class TwoBells:
    """Rows from a narrow bell or a wide one about the same place, and a column that says which."""

    modes = Modes(np.empty(0), np.zeros(2), np.array([1.0, 20.0]), np.array([0.5, 0.5]), missing=False)
    layout = Layout((Span("n", 2, False), Span("from", 2, True)), ("n",))
    deviations = torch.tensor([0.25])

    def raw(self, n: int, match: Mapping[int, Match]) -> torch.Tensor:
        narrow = torch.where(torch.rand(n) < 0.5, 6.0, -6.0)[:, None]
        return torch.cat([narrow, -narrow, narrow, -narrow, torch.zeros(n, 1)], dim=1)


def test_a_number_that_two_bells_reach_is_of_the_denser_one_more_often() -> None:
    bells, number, window = TwoBells(), 0.5, 0.1
    given = drawn(bells, 5_000, {0: bells.modes.match(number)}).codes[:, 1]
    every = drawn(bells, 600_000)
    held = np.abs(bells.modes.invert(every.codes[:, 0], every.scalars[:, 0]) - number) < window
    share, expected, n = given.mean(), every.codes[held, 1].mean(), held.sum()
    assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) * (1 / 5_000 + 1 / n))


def test_a_number_that_no_scalar_goes_with_weighs_by_its_code_alone() -> None:
    made = network("tvae")
    one = drawn(made, 500, {1: Match(np.array([1.0, 0.0, 0.0]), np.full(3, np.nan))})
    other = drawn(made, 500, {1: asks(0, size=3)})
    np.testing.assert_array_equal(one.codes, other.codes)


@pytest.mark.parametrize("kind", KINDS)
def test_what_no_row_can_hold_is_refused_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(network(kind)), "raw", None)
    with pytest.raises(JobError, match="holds what is given; give values that go together"):
        drawn(network(kind), 10, {0: Match(np.zeros(4), None), 2: asks(0, size=3)})


def test_what_no_row_of_the_network_holds_is_refused_quickly() -> None:
    logits = np.zeros(LAYOUT.width)
    logits[3] = -1_000.0
    started = time.monotonic()
    for asked in ({0: asks(3, size=4)}, {1: Match(np.array([0.0, 1.0, 0.0]), np.array([np.nan, 0.99, np.nan]))}):
        with pytest.raises(JobError, match="next to no row"):
            drawn(constant(logits), 1_000, asked)
    assert time.monotonic() - started < 20


def test_conditions_of_ctgan_follow_the_original_frequencies() -> None:
    made, n = network("ctgan"), 60_000
    assert isinstance(made, CtganNetwork)
    torch.manual_seed(3)
    hot = made._conditions(n, {}).numpy()
    assert (hot.sum(axis=1) == 1).all()
    expected = n / len(SHARES) * np.concatenate(SHARES)
    assert chisquare(hot.sum(axis=0), expected).pvalue > LEAST_P


def test_conditions_of_ctgan_are_on_what_is_asked_for() -> None:
    made, n = network("ctgan"), 9_000
    assert isinstance(made, CtganNetwork)
    torch.manual_seed(4)
    hot = made._conditions(n, {2: asks(1, size=3), 3: asks(0, size=2), 1: asks(0, size=3)}).numpy().sum(axis=0)
    assert set(np.flatnonzero(hot)) == {4 + 1, 4 + 3 + 0}
    assert chisquare(hot[[5, 7]]).pvalue > LEAST_P


def test_a_generator_without_conditions_draws_from_noise_alone() -> None:
    torch.manual_seed(0)
    layout = Layout((Span("n", 3, False),), ("n",))
    made = CtganNetwork(layout, GeneratorNetwork(N_NOISE, (8,), layout.width).eval(), ())
    assert drawn(made, 20).codes.shape == (20, 1)
    assert len(drawn(made, 20, {0: asks(1, size=3)})) == 20


def test_the_same_state_of_torchs_generator_gives_the_same_rows() -> None:
    made = network("tvae")
    one, again, other = drawn(made, 100), drawn(made, 100), drawn(made, 100, seed=9)
    np.testing.assert_array_equal(one.codes, again.codes)
    np.testing.assert_array_equal(one.scalars, again.scalars)
    assert not np.array_equal(one.codes, other.codes)
    assert not np.array_equal(one.scalars, drawn(replace(made, deviations=torch.zeros(1)), 100).scalars)
