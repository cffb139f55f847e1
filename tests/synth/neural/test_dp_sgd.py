"""DP-SGD: clipped sums beside autograd and Opacus, passes, and the tally of what is clipped."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from synth.generators.registry import generator
from synth.neural.dp_sgd import Clipping, ClipTally, ExactSums, OpacusSums, clipped_sums_by, noisy_mean
from synth.neural.networks import Decoder, Encoder
from synth.neural.training import CLIPPING, LOG
from synth.schema import build_schema
from tests.synth.neural.toy import Purse, weights_of

C = 1.0


class Case:
    """Networks as they are used, rows, and losses of which some gradients are above the bound and some below."""

    def __init__(self, kind: str, n_rows: int, dtype: torch.dtype) -> None:
        torch.manual_seed(1)
        self.rows, self.scale = torch.randn(n_rows, 7, dtype=dtype), torch.logspace(-2.5, 1.5, n_rows, dtype=dtype)
        self.networks: list[nn.Module] = [Encoder(7, (6, 5), 3).to(dtype), Decoder(3, (5,), 7).to(dtype)]
        if kind == "layers":
            self.networks = [nn.Sequential(nn.Linear(7, 6), nn.LeakyReLU(), nn.Linear(6, 1)).to(dtype)]

    def losses(self, index: slice = slice(None)) -> Tensor:
        rows, scale = self.rows[index], self.scale[index]
        if len(self.networks) == 1:
            scores: Tensor = self.networks[0](rows)
            return -scores.squeeze(1) * scale
        mean, log_variance = self.networks[0](rows)
        return (self.networks[1](mean + log_variance.exp()) - rows).square().sum(1) * scale

    def gradient(self, index: slice) -> Tensor:
        gradients = torch.autograd.grad(self.losses(index).sum(), weights_of(*self.networks))
        return torch.cat([gradient.flatten() for gradient in gradients]).double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("kind", ["layers", "tvae"])
def test_both_backends_give_the_sum_and_the_count_of_clipped_units_that_autograd_gives_one_by_one(
    kind: str, k: int, dtype: torch.dtype
) -> None:
    case, n = Case(kind, 12, dtype), 12 // k
    of_units = torch.stack([case.gradient(slice(unit * k, (unit + 1) * k)) for unit in range(n)])
    norms = of_units.norm(dim=1)
    assert 0 < (norms > C).sum() < n
    expected = (of_units * (C / norms).clamp_max(1.0)[:, None]).sum(0)
    tolerance = 1e-5 if dtype is torch.float32 else 1e-12
    for sums in (ExactSums, OpacusSums):
        tally = ClipTally()
        tally.sampled(n)
        torch.testing.assert_close(
            sums(*case.networks, tally=tally)(case.losses, n, C), expected, rtol=tolerance, atol=tolerance
        )
        assert tally.taken() == (int((norms > C).sum()), n)
        assert tally.taken() == (0, 0)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize("k", [1, 3])
def test_a_unit_without_a_finite_gradient_counts_as_nothing(value: float, k: int) -> None:
    case, n = Case("layers", 12, torch.float32), 12 // k
    for sums in (ExactSums(*case.networks), OpacusSums(*case.networks)):
        rows, scale = case.rows.clone(), case.scale.clone()
        case.scale[3:6] = 0.0
        without = sums(case.losses, n, C)
        case.scale[3:6], case.rows[3:6] = 1.0, value
        total = sums(case.losses, n, C)
        assert total.isfinite().all()
        torch.testing.assert_close(total, without, rtol=1e-5, atol=1e-6)
        case.rows, case.scale = rows, scale


def test_rows_of_a_unit_that_cancel_but_for_a_little_stay_within_the_bound_and_are_measured() -> None:
    # In single precision the norm of what is left would be lost in the rows' own norms, a million times as large.
    torch.manual_seed(0)
    layer, row = nn.Linear(3, 1), torch.tensor([[1.0, 2.0, 3.0]])
    rows, scale = torch.cat([row, row, row]), torch.tensor([1e6, -1e6 + 0.5, 0.25])
    norm = ExactSums(layer)(lambda: layer(rows).squeeze(1) * scale, 1, C).norm()
    assert 0.8 * C < norm <= C * (1 + 1e-6)  # a little is given away, so that rounding never goes past C
    rows = torch.cat([row, row + torch.tensor([0.0, 0.0, 1e-6])])  # inner products say 0, what is left is far above C
    for size in (1e6, 1e9, 1e12):
        scale = torch.tensor([size, -size])
        assert ExactSums(layer)(lambda scale=scale: layer(rows).squeeze(1) * scale, 1, C).norm() <= C * (1 + 1e-6)


def test_what_the_norms_cannot_reach_is_refused() -> None:
    networks: list[nn.Module] = [nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), nn.Linear(2, 2, bias=False)]
    for network in networks:
        with pytest.raises(ValueError, match="linear layers with biases only"):
            ExactSums(network)
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
    assert [total.tolist() for total in purse.totals] == [[sampled * (sampled - 1) / 2] * 2]
    assert mean.tolist() == ((purse.totals[0] + 1) / 5.0).tolist()


def test_a_pass_holds_six_standard_deviations_unless_memory_forbids() -> None:
    assert Clipping.planned(C, 400.0, rows_per_unit=1, max_rows=10_000).pass_units == 520
    assert Clipping.planned(C, 400.0, rows_per_unit=4, max_rows=100).pass_units == 25
    assert Clipping.planned(C, 0.5, rows_per_unit=4, max_rows=2).pass_units == 1


# The tally

SCHEMA = build_schema({
    "format": 1, "status": "declared", "n_units": 200,
    "columns": {
        "age": {"kind": "integer", "bounds": [18, 90]}, "town": {"kind": "categorical", "categories": ["N", "S"]},
        "ill": {"kind": "boolean"},
    },
})  # fmt: skip
TVAE: dict[str, Any] = {"d_latent": 2, "encoder_widths": [4], "decoder_widths": [4]}


def test_a_norm_on_the_bound_is_not_clipped_and_one_that_is_no_number_is() -> None:
    tally = ClipTally()
    tally.see(torch.tensor([1.0, 1.0 + 1e-7, 0.0, 1.1, float("nan"), float("inf")]), 1.0)
    assert tally.taken() == (3, 0)


@pytest.mark.parametrize(
    ("name", "parameters", "share"), [("tvae", {**TVAE, "max_grad_norm": 1e-6}, 1.0), ("ctgan", {}, 0.0)]
)
def test_a_fit_notes_what_it_clipped_where_that_is_wanted_and_hands_it_to_nobody(
    name: str, parameters: dict[str, Any], share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synth.neural.sampling.N_MATCHED_ROWS", 200)
    rng = np.random.default_rng(0)
    town = rng.choice(["N", "S"], 200)
    table = pd.DataFrame({"age": rng.integers(18, 91, 200), "town": town, "ill": rng.random(200) < 0.3})
    (tmp_path / CLIPPING).touch()
    chosen: Any = generator(name, epsilon=2.0, steps=3, n_bins=4, **parameters)
    model = chosen.fit(table, SCHEMA, place=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / CLIPPING).read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]
    n_units = sum(line["units"] for line in lines)
    assert 0 < n_units <= 600, "padding is no unit"
    assert sum(line["clipped"] for line in lines) / n_units == pytest.approx(share)
    model.save(tmp_path / "model")
    handed_on = [json.dumps(model.statement.to_dict()), (tmp_path / LOG).read_text()]
    handed_on += [path.read_text() for path in (tmp_path / "model").glob("*.json")]
    assert not [content for content in handed_on if '"clipped"' in content or '"units"' in content]


# Opacus


def test_the_optimizer_of_opacus_takes_the_same_step_without_noise() -> None:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    case = Case("tvae", 24, torch.float32)
    exact = ExactSums(*case.networks)(case.losses, 24, C)
    hooked = GradSampleModule(nn.ModuleList(case.networks), loss_reduction="sum")
    parameters = list(hooked.parameters())
    descent = torch.optim.SGD(parameters, 1.0)
    optimizer = DPOptimizer(
        descent, noise_multiplier=0.0, max_grad_norm=C, expected_batch_size=24, loss_reduction="sum"
    )
    with pytest.warns(UserWarning, match="Full backward hook"):
        case.losses().sum().backward()
    optimizer.pre_step()
    theirs = torch.cat([parameter.grad.flatten() for parameter in parameters if parameter.grad is not None]).double()
    assert (theirs - exact).norm() <= 1e-5 * exact.norm()


def test_opacus_serves_layers_that_the_exact_sums_refuse() -> None:
    torch.manual_seed(0)
    network, rows = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1, bias=False)), torch.randn(5, 3)
    total = clipped_sums_by("opacus", network)(lambda: network(rows).squeeze(1), 5, 1e-3)
    of_rows = [torch.autograd.grad(network(row).sum(), list(network.parameters())) for row in rows]
    flat = torch.stack([torch.cat([part.flatten() for part in parts]) for parts in of_rows])
    expected = (1e-3 * flat / flat.norm(dim=1, keepdim=True)).sum(0)
    torch.testing.assert_close(total, expected.double(), rtol=1e-4, atol=1e-8)
