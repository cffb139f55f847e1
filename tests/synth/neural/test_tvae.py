"""TVAE: its training beside the library's, and its training with differential privacy."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
import torch
from ctgan import TVAE
from ctgan.data_transformer import SpanInfo
from ctgan.synthesizers import tvae

from synth.neural.encoding import Encoded, Layout, Span
from synth.neural.training import UnitIndex
from synth.neural.tvae import (
    PrivateTvaeSpec,
    PrivateTvaeTraining,
    TvaeSpec,
    TvaeTraining,
    divergences,
    reconstruction_losses,
)
from tests.synth.neural import toy
from tests.synth.neural.toy import CLOSE, CPU, MIXED, ONE_WAY, Purse, training, units

SMALL = TvaeSpec(d_latent=8, encoder_widths=(16, 16), decoder_widths=(16, 16), batch_size=20)
THEIRS = [0, 1, 2, 9, 3, 4, 5, 6, 7, 8]
"""Indices of MIXED in the library's order: a column's scalar comes before its modes."""
INFOS = [[SpanInfo(3, "softmax")], [SpanInfo(1, "tanh"), SpanInfo(4, "softmax")], [SpanInfo(2, "softmax")]]


def _training(layout: Layout = MIXED, n: int = 105, spec: TvaeSpec = SMALL, seed: int = 0) -> TvaeTraining:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return TvaeTraining(spec, toy.rows_of(layout, n), layout, CPU)


def test_the_settings_are_the_librarys() -> None:
    theirs = {name: item.default for name, item in inspect.signature(TVAE).parameters.items()}
    spec = TvaeSpec()
    assert (spec.d_latent, spec.batch_size) == (theirs["embedding_dim"], theirs["batch_size"])
    assert (spec.encoder_widths, spec.decoder_widths) == (theirs["compress_dims"], theirs["decompress_dims"])
    assert (spec.decay, spec.reconstruction_weight) == (theirs["l2scale"], theirs["loss_factor"])
    assert spec.rate == torch.optim.Adam([torch.zeros(1)]).defaults["lr"]


def test_both_losses_and_their_gradients_are_the_librarys() -> None:
    training, generator = _training(n=20), torch.Generator().manual_seed(3)
    codes, scalars = training.rows.take(torch.arange(20))
    rows = training.rows.encoded(codes, scalars)
    leaves = [torch.randn(shape, generator=generator).requires_grad_() for shape in ((20, 10), (20, 8), (20, 8))]
    logits, mean, log_variance = leaves
    deviations = torch.tensor([0.37]).requires_grad_()
    sigmas = torch.full((10,), 0.1).index_put((torch.tensor([3]),), deviations)
    expected = tvae._loss_function(logits[:, THEIRS], rows[:, THEIRS], sigmas, mean, log_variance, INFOS, 2)
    ours = (
        2 * reconstruction_losses(logits, codes, scalars, deviations, training.rows.spans).mean(),
        divergences(mean, log_variance).mean(),
    )
    torch.testing.assert_close(ours, expected, atol=1e-6, rtol=1e-5)
    weights = [*leaves, deviations]
    torch.testing.assert_close(
        torch.autograd.grad(sum(ours), weights), torch.autograd.grad(sum(expected), weights), atol=1e-6, rtol=1e-5
    )


@pytest.mark.parametrize("n", [20, 13])
def test_a_whole_step_is_the_librarys(n: int) -> None:
    training = _training(n=n)
    encoder, decoder = tvae.Encoder(10, (16, 16), 8), tvae.Decoder(8, (16, 16), 10)
    pairs = [(training.encoder.layers[0], encoder.seq[0]), (training.encoder.layers[1], encoder.seq[2])]
    pairs += [(training.encoder.mean, encoder.fc1), (training.encoder.log_variance, encoder.fc2)]
    pairs += [(training.decoder.layers[0], decoder.seq[0]), (training.decoder.layers[1], decoder.seq[2])]
    pairs += [(training.decoder.output, decoder.seq[4])]
    for mine, yours in pairs:
        yours.load_state_dict(mine.state_dict())
    adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], weight_decay=1e-5)
    with torch.random.fork_rng():
        torch.manual_seed(4)
        losses = training.step()
        torch.manual_seed(4)
        rows = training.rows.encoded(*training.rows.take(torch.randperm(n)))
        mean, deviation, log_variance = encoder(rows)
        latent = mean + torch.randn_like(mean) * deviation
    raw = decoder(latent)[0]
    expected = tvae._loss_function(raw[:, THEIRS], rows[:, THEIRS], decoder.sigma, mean, log_variance, INFOS, 2)
    sum(expected).backward()
    adam.step()
    torch.testing.assert_close(tuple(losses.values()), expected, atol=1e-5, rtol=1e-5)
    # A step of Adam is the rate times the sign of a gradient at first: near-zero gradients may differ in theirs.
    for mine, yours in pairs:
        apart = (mine.weight - yours.weight).abs()
        assert (apart > 1e-5).float().mean() < 0.01
    torch.testing.assert_close(training.deviations[0], decoder.sigma[3], **CLOSE)


def test_deviations_stay_where_the_library_keeps_them() -> None:
    training = _training(spec=TvaeSpec(8, (16,), (16,), rate=1.0, batch_size=20))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(8):
            training.step()
            assert ((training.deviations >= 0.01) & (training.deviations <= 1)).all()


def test_training_goes_on_bit_for_bit_from_a_state_in_the_middle_of_an_epoch() -> None:
    training, other = _training(), _training(seed=5)
    toy.seeded_steps(training, 3)
    state = training.state()
    expected = toy.seeded_steps(training, 10, seed=3)
    # The state is a copy: neither training on nor another training that loads it changes it.
    for _ in range(2):
        other.load(state)
        assert toy.seeded_steps(other, 10, seed=3) == expected
    assert torch.equal(training.deviations, other.deviations)
    assert all(map(torch.equal, training.decoder.parameters(), other.decoder.parameters()))


def test_every_step_of_an_epoch_runs_the_same_operations_and_waits_for_none() -> None:
    training = _training()
    assert training.n_steps_per_epoch == 6  # the last has five rows of 105
    toy.seeded_steps(training, 6)
    runs = []
    for _ in range(6):
        with toy.Recorded() as recorded:
            training.step()
        runs.append(recorded.ran)
    order, rest = runs[0][: -len(runs[1])], runs[0][-len(runs[1]) :]
    assert "randperm" in {name for name, _ in order}
    assert all(run == rest for run in runs[1:])
    assert not toy.WAITS & {name for run in runs for name, _ in run}


def test_products_in_bfloat16_change_losses_by_their_rounding_alone_and_weights_stay_float32() -> None:
    half = _training(spec=replace(SMALL, precision="bfloat16"))
    (exact,), (rounded,) = toy.seeded_steps(_training(), 1), toy.seeded_steps(half, 1)
    for name in exact:
        # Eight bits of a factor.
        assert rounded[name].item() == pytest.approx(exact[name].item(), rel=0.02, abs=0.005)
    assert rounded != exact
    assert all(weight.dtype == torch.float32 for weight in toy.weights_of(half.encoder, half.decoder))


@pytest.mark.statistical
def test_a_dependence_between_two_columns_is_learned() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat(rng.choice(3, (2000, 1), p=[0.5, 0.3, 0.2]), 2, axis=1).astype(np.int32)
    scalars = (codes[:, :1] / 2 - 0.5).astype(np.float32)
    layout = Layout((Span("a", 3, whole=True), Span("same", 3, whole=False)), ("same",))
    spec = TvaeSpec(4, (32,), (32,), rate=5e-3, batch_size=200)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        training = TvaeTraining(spec, Encoded(codes, scalars), layout, CPU)
        for _ in range(300):
            training.step()
        with torch.no_grad():
            logits = training.decoder(torch.randn(2000, 4))
        drawn = training.rows.spans.draw(logits[:, :6])
    # About a third agree before training; a normal latent space is in part between the three values.
    assert (drawn[:, 0] == drawn[:, 1]).float().mean() > 0.75
    assert len(drawn.unique()) == 3
    assert (torch.tanh(logits[:, 6]) - (drawn[:, 0] / 2 - 0.5)).abs().median() < 0.25


# With differential privacy


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
    layout = Layout((Span("x", 2, True), Span("y", 2, True)))
    torch.manual_seed(0)
    spec = PrivateTvaeSpec(d_latent=4, encoder_widths=(32, 32), decoder_widths=(32, 32), ema=0.9)
    table = UnitIndex.of(toy.encoded(np.stack([x, x], axis=1)))
    trained = PrivateTvaeTraining(spec, table, layout, [np.ones(2), np.ones(2)], 100.0, CPU)
    purse = Purse([np.flatnonzero(rng.random(400) < 0.25).tolist() for _ in range(200)])
    for _ in range(200):
        trained.step(purse)
    drawn = toy.drawn_codes(trained.network(), 1000)
    assert (drawn[:, 0] == drawn[:, 1]).mean() > 0.9
