"""Clipped sums against autograd one unit at a time, and a step's books."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from synth.neural.dp_sgd import Clipping, ExactSums, Recorder, clipped_sums, noisy_mean, write_gradients
from synth.neural.networks import Critic, Decoder, Encoder

C = 1.0


class Case:
    """Some networks, rows, and the loss of each."""

    def __init__(self, kind: str, n_rows: int, dtype: torch.dtype) -> None:
        torch.manual_seed(1)
        self.rows = torch.randn(n_rows, 7, dtype=dtype)
        if kind == "critic":
            self.networks: list[nn.Module] = [Critic(7, (6, 5), pac=1, dropout=0.0).to(dtype)]
        else:
            self.networks = [Encoder(7, (6, 5), 3).to(dtype), Decoder(3, (5,), 7).to(dtype)]
        # Some gradients are below the bound and some are above it.
        self.scale = torch.logspace(-2.5, 1.5, n_rows, dtype=dtype)

    def losses(self, index: slice = slice(None)) -> Tensor:
        rows = self.rows[index]
        if len(self.networks) == 1:
            scores: Tensor = self.networks[0](rows)
            return -scores * self.scale[index]
        mean, log_variance = self.networks[0](rows)
        return (self.networks[1](mean + log_variance.exp()) - rows).square().sum(1) * self.scale[index]

    def parameters(self) -> list[nn.Parameter]:
        return [parameter for network in self.networks for parameter in network.parameters()]

    def gradient(self, index: slice) -> Tensor:
        gradients = torch.autograd.grad(self.losses(index).sum(), self.parameters())
        return torch.cat([gradient.flatten() for gradient in gradients]).double()


CASES = [(kind, k, dtype) for kind in ("critic", "tvae") for k in (1, 3) for dtype in (torch.float32, torch.float64)]


@pytest.mark.parametrize(("kind", "k", "dtype"), CASES)
def test_norms_and_sums_equal_autograds_one_unit_at_a_time(kind: str, k: int, dtype: torch.dtype) -> None:
    case, n = Case(kind, 12, dtype), 12 // k
    with Recorder(*case.networks) as recorder:
        losses = case.losses()
    _, norms = clipped_sums(losses, recorder.records, n, C)
    of_units = torch.stack([case.gradient(slice(unit * k, (unit + 1) * k)) for unit in range(n)])
    exact = of_units.norm(dim=1)
    assert (exact < C).any()
    assert (exact > C).any()
    tolerance = 1e-5 if dtype is torch.float32 else 1e-12
    torch.testing.assert_close(norms, exact, rtol=tolerance, atol=0)
    expected = (of_units * (C / exact).clamp_max(1.0)[:, None]).sum(0)
    found = ExactSums(*case.networks)(case.losses, n, C)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize("k", [1, 3])
def test_a_unit_without_a_finite_gradient_counts_as_nothing(value: float, k: int) -> None:
    case = Case("critic", 12, torch.float32)
    exact, n = ExactSums(*case.networks), 12 // k
    case.scale[3:6] = 0.0
    without = exact(case.losses, n, C)
    case.scale[3:6] = 1.0
    case.rows[3:6] = value
    found = exact(case.losses, n, C)
    assert found.isfinite().all()
    torch.testing.assert_close(found, without, rtol=1e-5, atol=1e-6)


def test_rows_of_a_unit_that_nearly_cancel_are_measured_all_the_same() -> None:
    # In single precision the norm of what is left would be lost in the rows' own norms, a million times as large.
    torch.manual_seed(0)
    layer = nn.Linear(3, 1)
    row = torch.tensor([[1.0, 2.0, 3.0]])
    rows = torch.cat([row, row, row])
    scale = torch.tensor([1e6, -1e6 + 0.5, 0.25])
    found = ExactSums(layer)(lambda: layer(rows).squeeze(1) * scale, 1, C)
    assert 0.8 * C < found.norm() <= C * (1 + 1e-6)  # a little is given away, so that rounding never goes past C


def test_rows_of_a_unit_that_cancel_but_for_what_rounding_loses_stay_within_the_bound() -> None:
    # Their inner products say 0 where what is left is far above C.
    torch.manual_seed(0)
    layer = nn.Linear(3, 1)
    rows = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0 + 1e-6]])
    for size in (1e6, 1e9, 1e12):
        scale = torch.tensor([size, -size])
        found = ExactSums(layer)(lambda scale=scale: layer(rows).squeeze(1) * scale, 1, C)
        assert found.norm() <= C * (1 + 1e-6)


def test_padding_adds_exactly_nothing() -> None:
    case = Case("tvae", 12, torch.float32)
    assert not ExactSums(*case.networks)(lambda: case.losses() * 0.0, 4, C).any()


def test_parameters_out_of_reach_of_the_norms_are_refused() -> None:
    networks: list[nn.Module] = [nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), nn.Linear(2, 2, bias=False)]
    for network in networks:
        with pytest.raises(ValueError, match="linear layers with biases only"):
            ExactSums(network)


def test_a_layer_passed_twice_or_never_is_refused() -> None:
    layer, rows = nn.Linear(2, 2), torch.ones(1, 2)
    calls: list[Callable[[], Tensor]] = [lambda: layer(layer(rows)).sum(1), lambda: rows.sum(1)]
    for losses in calls:
        with pytest.raises(ValueError, match="n_layers=1 must be passed once"):
            ExactSums(layer)(losses, 1, C)


class Purse:
    """Gives a fixed sample, and a sum without noise; keeps what it was asked."""

    def __init__(self, sampled: int) -> None:
        self.sampled = sampled
        self.totals: list[np.ndarray] = []

    def sample(self, n_units: int) -> np.ndarray:
        return np.arange(self.sampled)

    def release(self, total: np.ndarray, max_grad_norm: float) -> np.ndarray:
        assert total.dtype == np.float64
        self.totals.append(total)
        return total + 1.0


@pytest.mark.parametrize(("sampled", "passes"), [(0, [0]), (3, [3]), (4, [4]), (5, [4, 1]), (13, [4, 4, 4, 1])])
def test_every_sampled_unit_is_in_one_pass_and_the_sum_is_released_once(sampled: int, passes: list[int]) -> None:
    seen: list[np.ndarray] = []

    def clipped_sum(units: np.ndarray) -> Tensor:
        seen.append(units)
        return torch.full((2,), float(units.sum()), dtype=torch.float64)

    purse = Purse(sampled)
    mean = noisy_mean(purse, 20, Clipping(C, 5.0, pass_units=4), clipped_sum)
    assert [len(units) for units in seen] == passes
    assert np.concatenate(seen).tolist() == list(range(sampled))
    assert [total.tolist() for total in purse.totals] == [[sampled * (sampled - 1) / 2] * 2]
    assert mean.tolist() == ((purse.totals[0] + 1) / 5.0).tolist()


def test_a_flat_gradient_is_written_in_the_order_and_type_of_the_parameters() -> None:
    layer = nn.Linear(2, 3)
    write_gradients(list(layer.parameters()), torch.arange(9, dtype=torch.float64))
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert layer.bias.grad is not None
    assert layer.bias.grad.tolist() == [6.0, 7.0, 8.0]
    assert layer.bias.grad.dtype == torch.float32


def test_a_pass_holds_six_standard_deviations_unless_memory_forbids() -> None:
    assert Clipping.planned(C, 400.0, rows_per_unit=1, max_rows=10_000).pass_units == 520
    assert Clipping.planned(C, 400.0, rows_per_unit=4, max_rows=100).pass_units == 25
    assert Clipping.planned(C, 0.5, rows_per_unit=4, max_rows=2).pass_units == 1
