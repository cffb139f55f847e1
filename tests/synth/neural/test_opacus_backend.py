"""The exact clipped sums against Opacus'."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from synth.errors import MissingExtra
from synth.neural.dp_sgd import ExactSums, OpacusSums, clipped_sums_by, write_gradients
from synth.neural.networks import Critic, Decoder, Encoder

Losses = Callable[[], Tensor]


def case(kind: str, n_rows: int, dtype: torch.dtype) -> tuple[list[nn.Module], Losses]:
    """Networks as they are used, and losses of which some gradients are above the bound of 1 and some below."""
    torch.manual_seed(2)
    rows, weights = torch.randn(n_rows, 9, dtype=dtype), torch.logspace(-2.5, 1.5, n_rows, dtype=dtype)
    weights[-1] = 0.0  # padding
    if kind == "ctgan":
        critic = Critic(9, (8, 8), pac=1, dropout=0.0).to(dtype)
        return [critic], lambda: -critic(rows) * weights
    encoder, decoder = Encoder(9, (8, 8), 3).to(dtype), Decoder(3, (8, 8), 9).to(dtype)
    noise = torch.randn(n_rows, 3, dtype=dtype)

    def losses() -> Tensor:
        mean, log_variance = encoder(rows)
        logits = decoder(mean + noise * (log_variance / 2).exp())
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1)
        return (divergence - (rows * logits.log_softmax(1)).sum(1)) * weights

    return [encoder, decoder], losses


@pytest.mark.parametrize("kind", ["ctgan", "tvae"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_opacus_and_the_exact_sums_agree(kind: str, k: int, dtype: torch.dtype, tolerance: float) -> None:
    networks, losses = case(kind, 24, dtype)
    exact = ExactSums(*networks)(losses, 24 // k, 1.0)
    by_opacus = OpacusSums(*networks)(losses, 24 // k, 1.0)
    assert exact.norm() > 0.1
    assert (by_opacus - exact).norm() <= tolerance * exact.norm()


@pytest.mark.parametrize("kind", ["ctgan", "tvae"])
def test_the_optimizer_of_opacus_takes_the_same_step_without_noise(kind: str) -> None:
    from opacus import GradSampleModule  # type: ignore[import-untyped]
    from opacus.optimizers import DPOptimizer  # type: ignore[import-untyped]

    networks, losses = case(kind, 24, torch.float32)
    exact = ExactSums(*networks)(losses, 24, 1.0)
    hooked = GradSampleModule(nn.ModuleList(networks), loss_reduction="sum")
    parameters = list(hooked.parameters())
    descent = torch.optim.SGD(parameters, 1.0)
    optimizer = DPOptimizer(
        descent, noise_multiplier=0.0, max_grad_norm=1.0, expected_batch_size=24, loss_reduction="sum"
    )
    with pytest.warns(UserWarning, match="Full backward hook"):
        losses().sum().backward()
    optimizer.pre_step()
    theirs = torch.cat([parameter.grad.flatten() for parameter in parameters if parameter.grad is not None]).double()
    assert (theirs - exact).norm() <= 1e-5 * exact.norm()


def test_a_unit_without_a_finite_gradient_counts_as_nothing() -> None:
    networks, losses = case("ctgan", 24, torch.float32)
    spoilt = torch.zeros(24)
    keeps = torch.ones(24)
    keeps[:3] = 0.0
    spoilt[0] = torch.inf
    found = OpacusSums(*networks)(lambda: losses() * (1 + spoilt), 8, 1.0)
    without = OpacusSums(*networks)(lambda: losses() * keeps, 8, 1.0)
    assert found.isfinite().all()
    torch.testing.assert_close(found, without, rtol=1e-5, atol=1e-6)


def test_hooks_are_gone_after_a_call_and_gradients_are_as_they_were() -> None:
    networks, losses = case("tvae", 24, torch.float32)
    parameters = [parameter for network in networks for parameter in network.parameters()]
    before = torch.arange(sum(parameter.numel() for parameter in parameters)).double()
    write_gradients(parameters, before)
    OpacusSums(*networks)(losses, 24, 1.0)
    after = torch.cat([parameter.grad.flatten() for parameter in parameters if parameter.grad is not None])
    assert (after == before.float()).all()
    losses().sum().backward()
    for network in networks:
        assert not any(module._forward_hooks or module._backward_hooks for module in network.modules())
    assert not any(hasattr(parameter, "grad_sample") for parameter in parameters)


def test_without_opacus_the_backend_is_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="backend='opacus' needs the extra 'neural'"):
        clipped_sums_by("opacus", nn.Linear(2, 2))


def test_opacus_serves_layers_that_the_exact_sums_refuse() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1, bias=False))
    rows = torch.randn(5, 3)
    found = clipped_sums_by("opacus", network)(lambda: network(rows).squeeze(1), 5, 1e-3)
    of_rows = [torch.autograd.grad(network(row).sum(), list(network.parameters())) for row in rows]
    flat = torch.stack([torch.cat([part.flatten() for part in parts]) for parts in of_rows])
    expected = (1e-3 * flat / flat.norm(dim=1, keepdim=True)).sum(0)
    torch.testing.assert_close(found, expected.double(), rtol=1e-4, atol=1e-8)
