"""TVAE under DP-SGD: what reaches the budget, and what is learned."""

import numpy as np
import pytest
import torch

from synth.neural.batches import UnitIndex
from synth.neural.tvae import PrivateTvaeSpec, PrivateTvaeTraining
from synth.transforms.layout import Encoded, Layout, Span
from tests.synth.neural.toy import CPU, LAYOUT, ONE_WAY, Purse, draws_of, flat_state, sum_of, training, units, without

CASES = [(k, steep, most) for k in (1, 3) for steep in (1.0, 30.0) for most in (8192, 6)]


@pytest.mark.parametrize(("k", "steepness", "max_rows"), CASES)
def test_a_unit_moves_the_sum_by_no_more_than_the_bound(k: int, steepness: float, max_rows: int) -> None:
    table = units(k)
    everyone = list(range(len(table)))
    whole = sum_of("tvae", table, everyone, steepness, max_rows=max_rows)
    for gone in (0, 7, 29):
        others = sum_of("tvae", without(table, gone), everyone, steepness, max_rows=max_rows)
        assert 0 < np.linalg.norm(whole - others) <= 1.0 + 1e-5


@pytest.mark.parametrize("k", [1, 3])
def test_overflow_changes_the_passes_and_not_the_sum(k: int) -> None:
    everyone = range(30)
    one_pass = sum_of("tvae", units(k), everyone, still=True)
    for max_rows in (3, 12, 31):
        found = sum_of("tvae", units(k), everyone, still=True, max_rows=max_rows)
        np.testing.assert_allclose(found, one_pass, rtol=0, atol=1e-5)


def test_opacus_hands_over_the_same_sum() -> None:
    for k in (1, 3):
        exact, theirs = (sum_of("tvae", units(k), range(20), backend=backend) for backend in ("exact", "opacus"))
        assert np.linalg.norm(exact - theirs) <= 1e-5 * np.linalg.norm(exact)


def test_a_state_that_is_loaded_goes_on_as_the_first_would_have() -> None:
    first = training("tvae", units())
    purse = Purse([range(10)])
    for _ in range(3):
        first.step(purse)
    second = training("tvae", units())
    second.load(first.state())
    for trained in (first, second):
        torch.manual_seed(5)
        draws_of(trained).manual_seed(5)
        trained.step(purse)
    assert (flat_state(first) == flat_state(second)).all()


def test_the_decoder_starts_at_the_released_marginals() -> None:
    trained = training("tvae", units())
    assert isinstance(trained, PrivateTvaeTraining)
    shares = trained._spans.softmax(trained.decoder(torch.randn(4000, 3))).mean(0)
    released = np.concatenate([np.maximum(counts, 0) / np.maximum(counts, 0).sum() for counts in ONE_WAY])
    assert np.abs(shares.numpy() - released).max() < 0.02


def test_two_columns_that_agree_agree_in_what_is_drawn() -> None:
    # Without noise, as everything else here: whether the loss is the right one shows in what it teaches.
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, 400)
    table = UnitIndex.of(Encoded(np.stack([x, x], axis=1).astype(np.int32), np.zeros((400, 0), dtype=np.float32)))
    layout = Layout((Span("x", 2, True), Span("y", 2, True)))
    torch.manual_seed(0)
    spec = PrivateTvaeSpec(d_latent=4, encoder_widths=(32, 32), decoder_widths=(32, 32), ema=0.9)
    trained = PrivateTvaeTraining(spec, table, layout, [np.ones(2), np.ones(2)], 100.0, CPU)
    purse = Purse([np.flatnonzero(rng.random(400) < 0.25).tolist() for _ in range(200)])
    for _ in range(200):
        trained.step(purse)
    drawn = trained._spans.draw(trained.decoder(torch.randn(1000, 4)))
    assert (drawn[:, 0] == drawn[:, 1]).float().mean() > 0.9


def test_a_layout_with_scalars_or_other_codes_is_refused() -> None:
    with pytest.raises(ValueError, match="spans alone"):
        PrivateTvaeTraining(PrivateTvaeSpec(), units(), Layout(LAYOUT.spans, ("x",)), ONE_WAY, 8.0, CPU)
    with pytest.raises(ValueError, match="must be those of the layout"):
        PrivateTvaeTraining(PrivateTvaeSpec(), units(), LAYOUT, ONE_WAY[:2], 8.0, CPU)
