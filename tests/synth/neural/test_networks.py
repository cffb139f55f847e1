"""The networks against those of the library `ctgan` under the same weights, and the penalty against autograd."""

from collections.abc import Callable, Iterable

import pytest
import torch
from ctgan.synthesizers import ctgan, tvae
from torch import Tensor, nn

from synth.neural.networks import Critic, Decoder, Encoder, GeneratorNetwork

CLOSE = {"atol": 1e-6, "rtol": 1e-6}
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


def test_the_generator_is_the_librarys() -> None:
    ours, theirs = GeneratorNetwork(7, (6, 5), 9).double(), ctgan.Generator(7, (6, 5), 9).double()
    _assert_equal(ours, theirs, _rows(N, 7), lambda network, rows: network(rows))
    ours.eval()
    theirs.eval()
    # Running statistics have moved alike, too.
    _assert_equal(ours, theirs, _rows(N, 7), lambda network, rows: network(rows))


def test_norms_take_the_mean_statistics_of_batches_and_go_on_as_before() -> None:
    generator = GeneratorNetwork(7, (6, 5), 9).double().eval()
    batches = [_rows(N, 7, seed) for seed in (1, 2, 3)]
    generator.norms[0].running_mean.fill_(100.0)  # what was seen before is forgotten
    generator.fit_norms(iter(batches))
    before = [generator.layers[0](batch) for batch in batches]
    torch.testing.assert_close(generator.norms[0].running_mean, torch.stack([x.mean(0) for x in before]).mean(0))
    torch.testing.assert_close(generator.norms[0].running_var, torch.stack([x.var(0) for x in before]).mean(0))
    assert not generator.training
    assert not any(norm.training for norm in generator.norms)
    assert [norm.momentum for norm in generator.norms] == [nn.BatchNorm1d(1).momentum] * 2
    assert all(weight.requires_grad and weight.grad is None for weight in generator.parameters())


@pytest.mark.parametrize("pac", [1, PAC])
def test_the_critic_is_the_librarys(pac: int) -> None:
    ours, theirs = Critic(7, (6, 5), pac).double().eval(), ctgan.Discriminator(7, (6, 5), pac).double().eval()
    _assert_equal(ours, theirs, _rows(N, 7), lambda network, rows: network(rows).flatten())


def test_the_encoder_is_the_librarys() -> None:
    def both(network: nn.Module, rows: Tensor) -> Tensor:
        outputs = network(rows)
        return torch.cat([outputs[0], outputs[-1]], 1)

    _assert_equal(Encoder(7, (6, 5), 3).double(), tvae.Encoder(7, (6, 5), 3).double(), _rows(N, 7), both)


def test_the_decoder_is_the_librarys() -> None:
    def logits(network: nn.Module, latent: Tensor) -> Tensor:
        made = network(latent)
        return made[0] if isinstance(network, tvae.Decoder) else made  # theirs gives its deviations along

    _assert_equal(Decoder(3, (6, 5), 7).double(), tvae.Decoder(3, (6, 5), 7).double(), _rows(N, 3), logits)


@pytest.mark.parametrize("pac", [1, PAC])
def test_the_gradient_penalty_is_the_librarys(pac: int) -> None:
    ours, theirs = Critic(7, (6, 5), pac).double().eval(), ctgan.Discriminator(7, (6, 5), pac).double().eval()
    _same_weights(ours, theirs)
    fake, real = _rows(N, 7, 1), _rows(N, 7, 2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = theirs.calc_gradient_penalty(real, fake.clone().requires_grad_(), "cpu", pac, 10)
        torch.manual_seed(0)
        shares = torch.rand(N // pac, 1)
    norms = ours.contrast(torch.cat([fake, real]), shares.double())[1]
    penalty = 10 * (norms - 1).square().mean()
    torch.testing.assert_close(penalty, expected, **CLOSE)
    weights = [layer.weight for layer in ours.layers]
    others = [layer.weight for layer in theirs.seq if isinstance(layer, nn.Linear)]
    torch.testing.assert_close(torch.autograd.grad(penalty, weights), torch.autograd.grad(expected, others), **CLOSE)


@pytest.mark.parametrize("widths", [(6,), (6, 5), (6, 5, 4)])
def test_gradient_norms_are_those_of_autograd_with_dropout(widths: tuple[int, ...]) -> None:
    critic = Critic(7, widths, PAC).double()
    rows = _rows(N, 7).requires_grad_()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ours = critic.gradient_norms(rows)
        torch.manual_seed(0)  # the same values are dropped
        gradient = torch.autograd.grad(critic(rows).sum(), rows, create_graph=True)[0]
    theirs = gradient.reshape(N // PAC, -1).norm(dim=1)
    torch.testing.assert_close(ours, theirs, **CLOSE)
    weights = [layer.weight for layer in critic.layers]
    torch.testing.assert_close(_gradients(ours, weights), _gradients(theirs, weights), **CLOSE)


def test_a_contrast_is_the_scores_of_both_batches_and_the_norms_between_them() -> None:
    critic = Critic(7, (6, 5), PAC).double().eval()
    fake, real, shares = _rows(N, 7, 1), _rows(N, 7, 2), torch.rand(N // PAC, 1, dtype=torch.float64)
    scores, norms = critic.contrast(torch.cat([fake, real]), shares)
    torch.testing.assert_close(scores, torch.cat([critic(fake), critic(real)]), **CLOSE)
    between = torch.lerp(fake, real, shares.repeat_interleave(PAC, 0))
    torch.testing.assert_close(norms, critic.gradient_norms(between), **CLOSE)


def test_a_critic_in_training_drops_half_of_its_values_and_doubles_the_others() -> None:
    critic = Critic(3, (10_000,))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        critic.layers[0].weight.data.zero_()
        critic.layers[0].bias.data.fill_(1.0)
        critic.layers[1].weight.data.fill_(1.0)
        critic.layers[1].bias.data.zero_()
        kept = critic(torch.zeros(1, 3)).item() / 2
    # Five standard errors of 50.
    assert kept == pytest.approx(5_000, abs=250)
    assert critic.eval()(torch.zeros(1, 3)).item() == pytest.approx(10_000)
