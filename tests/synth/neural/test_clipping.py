"""The tally of clipped units counts what clipping scales down, and reaches nothing that is handed on."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from synth.generators.base import PrivateGenerator
from synth.generators.registry import generator
from synth.neural.dp_sgd import ClipTally, ExactSums, OpacusSums
from synth.neural.training import CLIPPING, LOG, CheckpointFolder
from synth.schema import build_schema

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
