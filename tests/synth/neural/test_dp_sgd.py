"""DP-SGD: clipping, sums, steps, and the same by Opacus."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from synth.errors import MissingExtra
from synth.generators.base import PrivateGenerator
from synth.generators.registry import generator
from synth.neural.dp_sgd import (
    Clipping,
    ClipTally,
    ExactSums,
    OpacusSums,
    Recorder,
    clipped_sums,
    clipped_sums_by,
    noisy_mean,
    write_gradients,
)
from synth.neural.networks import Critic, Decoder, Encoder
from synth.neural.training import CLIPPING, LOG, CheckpointFolder
from synth.schema import build_schema
from tests.synth.neural.toy import Purse, draws_of, flat_state, sum_of, training, units, without

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


@pytest.mark.parametrize(("sampled", "passes"), [(0, [0]), (3, [3]), (4, [4]), (5, [4, 1]), (13, [4, 4, 4, 1])])
def test_every_sampled_unit_is_in_one_pass_and_the_sum_is_released_once(sampled: int, passes: list[int]) -> None:
    seen: list[np.ndarray] = []

    def clipped_sum(units: np.ndarray) -> Tensor:
        seen.append(units)
        return torch.full((2,), float(units.sum()), dtype=torch.float64)

    purse = Purse([range(sampled)], lambda total, _: total + 1.0)
    mean = noisy_mean(purse, 20, Clipping(C, 5.0, pass_units=4), clipped_sum)
    assert [len(units) for units in seen] == passes
    assert np.concatenate(seen).tolist() == list(range(sampled))
    assert purse.totals[0].dtype == np.float64
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


SCHEMA = build_schema({
    "format": 1, "status": "declared", "n_units": 200,
    "columns": {
        "age": {"kind": "integer", "bounds": [18, 90]}, "town": {"kind": "categorical", "categories": ["N", "S"]},
        "ill": {"kind": "boolean"},
    },
})  # fmt: skip
SMALL: dict[str, Any] = {"epsilon": 2.0, "steps": 3, "n_bins": 4, "d_latent": 2}
TVAE = {**SMALL, "encoder_widths": [4], "decoder_widths": [4]}


def table(n_rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    town = rng.choice(["N", "S"], n_rows)
    return pd.DataFrame({"age": rng.integers(18, 91, n_rows), "town": town, "ill": rng.random(n_rows) < 0.3})


def noted(folder: Path) -> list[dict[str, int]]:
    return [json.loads(line) for line in (folder / CLIPPING).read_text().splitlines()]


def fitted(name: str, folder: Path, **parameters: Any) -> Any:
    chosen = generator(name, **parameters)
    assert isinstance(chosen, PrivateGenerator)
    return chosen.fit(table(), SCHEMA, place=folder)  # type: ignore[call-arg]


@pytest.mark.parametrize("k", [1, 3])
def test_both_backends_count_the_units_whose_norm_is_above_the_bound(k: int) -> None:
    torch.manual_seed(0)
    layer, rows = nn.Linear(3, 1), torch.randn(12 * k, 3)
    weights = torch.linspace(0.1, 3, 12).repeat_interleave(k)

    def losses() -> torch.Tensor:
        return layer(rows).squeeze(1) * weights

    def gradient(unit: int) -> torch.Tensor:
        of_unit = losses()[unit * k : (unit + 1) * k].sum()
        return torch.cat([part.flatten() for part in torch.autograd.grad(of_unit, [*layer.parameters()])])

    gradients = torch.stack([gradient(unit) for unit in range(12)])
    expected = int((gradients.norm(dim=1) > 2.0).sum())
    assert 0 < expected < 12
    for sums in (ExactSums, OpacusSums):
        tally = ClipTally()
        tally.sampled(12)
        sums(layer, tally=tally)(losses, 12, 2.0)
        assert tally.taken() == (expected, 12)
        assert tally.taken() == (0, 0)


def test_a_norm_on_the_bound_is_not_clipped_and_one_that_is_no_number_is() -> None:
    tally = ClipTally()
    tally.see(torch.tensor([1.0, 1.0 + 1e-7, 0.0, 1.1, float("nan"), float("inf")]), 1.0)
    assert tally.taken() == (3, 0)


@pytest.mark.parametrize(
    ("name", "parameters", "share"),
    [
        pytest.param("tvae", {**TVAE, "max_grad_norm": 1e-6}, 1.0, marks=pytest.mark.slow),
        pytest.param("tvae", {**TVAE, "max_grad_norm": 1e6}, 0.0, marks=pytest.mark.slow),
        pytest.param("ctgan", SMALL, 0.0, marks=pytest.mark.slow),
        ("ctgan", {**SMALL, "critic": "network", "critic_widths": [4]}, 1.0),
    ],
)
def test_a_fit_notes_what_it_clipped_where_that_is_wanted(
    name: str, parameters: dict[str, Any], share: float, tmp_path: Path
) -> None:
    (tmp_path / CLIPPING).touch()
    model = fitted(name, tmp_path, **parameters)
    lines = noted(tmp_path)
    assert [line["step"] for line in lines] == [1, 2, 3]
    n_units = sum(line["units"] for line in lines)
    assert n_units > 0, "padding is no unit"
    assert all(line["units"] <= 200 for line in lines)
    assert sum(line["clipped"] for line in lines) / n_units == pytest.approx(share)
    model.save(tmp_path / "model")
    handed_on = [json.dumps(model.statement.to_dict()), (tmp_path / LOG).read_text()]
    handed_on += [path.read_text() for path in (tmp_path / "model").glob("*.json")]
    assert not [content for content in handed_on if '"clipped"' in content or '"units"' in content]


def test_what_comes_after_the_last_checkpoint_is_counted_once(tmp_path: Path) -> None:
    place = CheckpointFolder(tmp_path)
    assert not place.tallies
    (tmp_path / CLIPPING).touch()
    assert place.tallies
    for step in (3, 6, 9):
        place.note({"step": step})
        place.note({"step": step, "clipped": 1, "units": 2}, CLIPPING)
    place.rewind(6)
    assert [line["step"] for line in noted(tmp_path)] == [3, 6]
    assert len((tmp_path / LOG).read_text().splitlines()) == 2


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


def test_opacus_counts_a_unit_without_a_finite_gradient_as_nothing() -> None:
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
    with pytest.raises(MissingExtra, match="backend='opacus' needs the extra `neural`"):
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


SUMS = [(k, steep, most) for k in (1, 3) for steep in (1.0, 30.0) for most in (8192, 6)]


@pytest.mark.parametrize("name", ["ctgan", "tvae"])
@pytest.mark.parametrize(("k", "steepness", "max_rows"), SUMS)
def test_a_unit_moves_the_sum_by_no_more_than_the_bound(name: str, k: int, steepness: float, max_rows: int) -> None:
    table = units(k)
    everyone = list(range(len(table)))
    whole = sum_of(name, table, everyone, steepness, max_rows=max_rows)
    for gone in (0, 7, 29):
        others = sum_of(name, without(table, gone), everyone, steepness, max_rows=max_rows)
        assert 0 < np.linalg.norm(whole - others) <= 1.0 + 1e-5


@pytest.mark.parametrize("name", ["ctgan", "tvae"])
def test_opacus_hands_over_the_same_sum(name: str) -> None:
    for k in (1, 3):
        exact, theirs = (sum_of(name, units(k), range(20), backend=backend) for backend in ("exact", "opacus"))
        assert np.linalg.norm(exact - theirs) <= 1e-5 * np.linalg.norm(exact)


@pytest.mark.parametrize("name", ["ctgan", "tvae"])
def test_a_state_that_is_loaded_goes_on_as_the_first_would_have(name: str) -> None:
    first = training(name, units())
    purse = Purse([range(10)])
    for _ in range(3):
        first.step(purse)
    second = training(name, units())
    second.load(first.state())
    for trained in (first, second):
        torch.manual_seed(5)
        draws_of(trained).manual_seed(5)
        trained.step(purse)
    assert (flat_state(first) == flat_state(second)).all()
