"""What `ctgan` and `tvae` promise beyond what every generator does."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file

from synth.domain import Discretizer
from synth.domain.relations import broken
from synth.dp.budget import Budget
from synth.dp.mechanisms import InjectedNoise
from synth.errors import BadInput, BudgetError, JobError, MissingExtra, ModelError
from synth.generators import registry
from synth.generators.models.fitted import NeuralModel
from synth.neural.encoding import Encoded
from synth.neural.sampling import draw
from synth.schema import Schema, build_schema
from synth.table import conform, present, violations
from tests.synth.conftest import CONTENT, make_frame

NAMES = ("ctgan", "tvae")
SHAPE: dict[str, dict[str, Any]] = {
    "ctgan": {"d_latent": 8, "generator_widths": (24, 24)},
    "tvae": {"d_latent": 4, "encoder_widths": (24, 24), "decoder_widths": (24, 24)},
}
PLAIN, PRIVATE = {"epochs": 2, "batch_size": 100}, {"epsilon": 2.0, "steps": 8}
FITS = [(name, private) for name in NAMES for private in (False, True)]
PAIRED = [("ctgan", True), ("tvae", False)]
"""Of what is the same wherever it is: each network and each mode once."""


@pytest.fixture(autouse=True)
def _quickly_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synth.neural.sampling.N_MATCHED_ROWS", 500)


def generator(name: str, private: bool, **more: Any) -> Any:
    return registry.generator(name, **SHAPE[name], **{**(PRIVATE if private else PLAIN), **more})


def fitted(name: str, private: bool, table: pd.DataFrame, schema: Schema, **more: Any) -> NeuralModel:
    model: NeuralModel = generator(name, private, **more).fit(table, schema, seed=0)
    return model


@cache
def model_of(name: str, private: bool) -> NeuralModel:
    return fitted(name, private, make_frame(400, seed=0), build_schema(CONTENT))


def faults(table: pd.DataFrame, schema: Schema) -> list[str]:
    """What the schema has against a table, but that a column does not vary: few rows, or all on condition, need not."""
    listed = [str(violation) for violation in violations(table, schema)]
    return [fault for fault in listed if "values only" not in fault and "one value only" not in fault]


# Parameters

REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    *((name, {"steps": 5}, "steps is of a fit with epsilon, and this is one without it") for name in NAMES),
    *((name, {"epsilon": 1.0, "epochs": 5}, "epochs is of a fit without epsilon, and") for name in NAMES),
    ("tvae", {"dp_backend": "opacus"}, "dp_backend is of a fit with epsilon"),
    ("ctgan", {"epsilon": 1.0, "pac": 2}, "pac is of a fit without epsilon"),
    ("ctgan", {"epsilon": 1.0, "critic_widths": (8,)}, "critic_widths is of a fit without epsilon"),
    ("ctgan", {"epsilon": 1.0, "dp_backend": "opacus"}, "unknown key 'dp_backend'"),
    ("tvae", {"epsilon": 1.0, "sampling_rate": 1.5}, "probability"),
    ("tvae", {"epsilon": 1.0, "sampling_rate": 0}, "probability"),
    ("ctgan", {"generator_widths": ()}, "generator_widths"),
    ("ctgan", {"generator_widths": (10**9,)}, "generator_widths"),
    ("ctgan", {"learning_rate": 2.0}, "learning_rate"),
    ("ctgan", {"batch_size": 100, "pac": 3}, "no multiple of pac=3"),
    ("ctgan", {"device": "tpu"}, "device"),
]


@pytest.mark.parametrize(("name", "parameters", "clause"), REFUSALS, ids=str)
def test_a_parameter_without_effect_or_out_of_range_is_refused(
    name: str, parameters: dict[str, Any], clause: str
) -> None:
    with pytest.raises(JobError) as error:
        registry.generator(name, **parameters)
    assert clause in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "private"), FITS)
def test_parameters_come_back_as_the_same_generator(name: str, private: bool) -> None:
    chosen = generator(name, private)
    parameters = json.loads(json.dumps(chosen.parameters()))
    assert registry.generator(name, **parameters) == chosen
    assert chosen.promises is private
    assert registry.generator(name, epsilon=None, delta="auto") == registry.generator(name)


class Untouched(InjectedNoise):
    """Noise that nobody asks for."""

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        raise AssertionError


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_fitted_is_refused_before_anything_is_drawn(
    name: str, frame: pd.DataFrame, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = Budget(generator(name, True).schedule(schema), Untouched(np.random.default_rng(0)))
    with pytest.raises(JobError, match="needs a GPU"):
        generator(name, True, device="cuda").fit(frame, schema, budget=budget)
    for error, parameters, clause in (
        (BudgetError, {"sampling_rate": 1e-12}, "less than one unit"),
        (BudgetError, {"n_bins": 1000}, "lower n_bins"),
        (MissingExtra, {"dp_backend": "opacus"}, "opacus"),
    ):
        if ("n_bins" in parameters) == (name == "ctgan"):
            monkeypatch.setitem(sys.modules, "opacus", None)
            with pytest.raises(error, match=clause):
                generator(name, True, **parameters).schedule(schema)


# Tables at the edge


def test_a_table_without_rows_is_fitted_with_a_guarantee_and_refused_without(
    frame: pd.DataFrame, schema: Schema
) -> None:
    assert faults(fitted("ctgan", True, frame[:0], schema).sample(300, seed=0), schema) == []
    for name in NAMES:
        with pytest.raises(BadInput, match="needs rows"):
            fitted(name, False, frame[:0], schema)


EDGES: dict[str, Any] = {
    "tail": {"kind": "real", "bounds": [-1e15, 1e15], "missing": True},
    "grid": {"kind": "integer", "bounds": [-3, 10**12]},
    "same": {"kind": "real", "bounds": [0, 1], "decimals": 3},
    "gone": {"kind": "date", "bounds": ["2000-01-01", "2001-01-01"], "missing": True},
    "late": {"kind": "datetime", "bounds": ["1990-01-01T00:00:00", "2090-01-01T00:00:00"], "precision": "s"},
    "one": {"kind": "categorical", "categories": ["only"]},
}


@pytest.mark.parametrize(("name", "private"), PAIRED)
def test_heavy_tails_constants_and_numbers_beyond_float32_stay_within_their_bounds(name: str, private: bool) -> None:
    rng, n = np.random.default_rng(0), 300
    schema = build_schema({"status": "declared", "n_units": n, "columns": EDGES})
    late = np.datetime64("2089-12-31T23:59:00", "us") - rng.integers(0, 10**6, n) * np.timedelta64(1, "s")
    content = {
        "tail": np.where(rng.random(n) < 0.1, np.nan, np.clip(rng.standard_cauchy(n) ** 5, -1e15, 1e15)),
        "grid": np.where(rng.random(n) < 0.9, rng.integers(-3, 5, n), 10**12),
        "same": np.full(n, 0.125),
        "gone": pd.Series([None] * (n - 1) + [np.datetime64("2000-02-29", "us")], dtype="datetime64[us]"),
        "late": pd.Series(late),
        "one": ["only"] * n,
    }
    table = conform(pd.DataFrame(content), schema)
    synthetic = fitted(name, private, table, schema).sample(n, seed=0)
    assert faults(synthetic, schema) == []
    assert synthetic.dtypes.astype(str).to_dict() == present(table, schema).dtypes.astype(str).to_dict()
    if not private:
        assert (synthetic["same"] == 0.125).all()
        assert set(synthetic["gone"].dropna().unique()) <= {np.datetime64("2000-02-29")}


LAWFUL = build_schema({
    "status": "declared", "n_units": 1000,
    "columns": {
        "gain": {"kind": "integer", "bounds": [0, 100], "missing": True},
        "loss": {"kind": "integer", "bounds": [0, 50]},
        "net": {"kind": "real", "bounds": [-50, 100], "decimals": 1, "missing": True},
        "start": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
        "end": {"kind": "date", "bounds": ["2020-01-01", "2021-06-30"]},
    },
    "constraints": [
        {"kind": "formula", "column": "net", "expression": "gain - loss / 4"},
        {"kind": "inequality", "low": "start", "high": "end"},
    ],
})  # fmt: skip


@pytest.mark.parametrize(("name", "private"), PAIRED)
def test_constraints_hold_in_every_row_also_of_rows_on_condition(name: str, private: bool) -> None:
    rng, n = np.random.default_rng(0), 400
    start = np.datetime64("2020-01-01", "us") + rng.integers(0, 366, n) * np.timedelta64(1, "D")
    end = start + rng.integers(0, 150, n) * np.timedelta64(1, "D")
    gain, loss = pd.Series(rng.integers(50, 101, n)).astype("Int64").mask(rng.random(n) < 0.1), rng.integers(0, 51, n)
    net = (gain - loss / 4).astype("Float64").round(1)
    table = conform(pd.DataFrame({"gain": gain, "loss": loss, "net": net, "start": start, "end": end}), LAWFUL)
    model = fitted(name, private, table, LAWFUL)
    for known in ({}, {"gain": 70}, {"gain": None}):
        synthetic = model.sample(100, seed=0, given=known)
        assert len(synthetic) == 100
        assert faults(synthetic, LAWFUL) == []
        canonical = conform(pd.concat([synthetic, table], ignore_index=True), LAWFUL)  # of columns that vary
        for constraint in LAWFUL.constraints:
            assert not broken(canonical, constraint, LAWFUL.columns).any()
    with pytest.raises(JobError, match="formula"):
        model.sample(5, given={"net": 3.0})


# Rows on condition

KNOWN: list[dict[str, Any]] = [
    {"job": None}, {"job": "007"}, {"level": 7}, {"married": None}, {"visited": None}, {"visited": "2015-06-01"},
    {"seen": "2020-07-01T12:30:00"}, {"age": 44}, {"gain": 0}, {"gain": 1234.5}, {"weight": 2.25},
    {"income": "<=50K", "age": 30, "married": False, "job": "clerk"},
]  # fmt: skip


@pytest.mark.parametrize(("name", "private"), PAIRED)
def test_every_row_holds_what_is_known(name: str, private: bool, schema: Schema) -> None:
    model = model_of(name, private)
    for known in KNOWN:
        synthetic = model.sample(25, seed=3, given=known)
        assert len(synthetic) == 25
        assert faults(synthetic, schema) == []
        for column, value in known.items():
            series = synthetic[column]
            if value is None:
                assert series.isna().all()
            elif column in ("visited", "seen"):
                assert series.astype(str).str.startswith(str(value)[:10]).all()
            else:
                assert (series == value).all()


def test_a_value_that_the_table_never_held_is_refused_without_epsilon() -> None:
    columns = {"a": {"kind": "categorical", "categories": ["x", "y", "z"], "missing": True}, "b": {"kind": "boolean"}}
    schema = build_schema({"status": "declared", "columns": columns})
    table = conform(pd.DataFrame({"a": ["x", "y"] * 50, "b": [True, False, False, True] * 25}), schema)
    for name in NAMES:
        for value in ("z", None):
            with pytest.raises(JobError, match="holds what is given"):
                fitted(name, False, table, schema).sample(5, given={"a": value})


# Steps and spikes

SPIKES = [0, 5_000, 12_345, 777_700]
AMOUNTS = build_schema({
    "status": "declared", "n_units": 1200,
    "columns": {
        "amount": {
            "kind": "integer", "bounds": [0, 1_000_000], "steps": [1000, 100], "step_shares": [0.5, 0.9],
            "spikes": SPIKES, "missing": True,
        },
        "income": {"kind": "categorical", "categories": ["high", "low"]},
    },
})  # fmt: skip


def amounts(seed: int) -> pd.DataFrame:
    """Rows that keep what the schema says, and a frequent value that it does not say."""
    rng, n = np.random.default_rng(seed), 1200
    coarse = rng.choice([1000, 100, 7], n, p=[0.45, 0.45, 0.1])
    raw = rng.gamma(2.0, 100_000, n).astype(int).clip(0, 999_999) // coarse * coarse
    frequent = np.where(rng.random(n) < 0.3, rng.choice([*SPIKES, 31_415 + seed], n), raw)
    income = np.where(raw > 200_000, "high", "low")
    return conform(pd.DataFrame({"amount": pd.array(frequent, dtype="Int64"), "income": income}), AMOUNTS)


@pytest.mark.parametrize(("name", "private"), FITS)
def test_synthetic_values_have_steps_and_spikes_however_little_the_network_learned(name: str, private: bool) -> None:
    model = fitted(name, private, amounts(0), AMOUNTS)
    synthetic = model.sample(1200, seed=1)
    values = synthetic["amount"].dropna().to_numpy(dtype=np.int64)
    assert np.isin(SPIKES, values).all()
    others = values[~np.isin(values, SPIKES)]
    assert len(others) > 300
    # A grid of a private fit has cells that hold no multiple of a thousand.
    for step, share in ((1000, 0.5), (100, 0.9)):
        assert np.mean(others % step == 0) == pytest.approx(share, abs=0.12 if private else 0.08)
    assert violations(synthetic, AMOUNTS) == []
    # Every spike is a code of its own.
    encoding, rows = model.encoding, conform(pd.DataFrame({"amount": SPIKES, "income": "low"}), AMOUNTS)
    codes = np.repeat(encoding.apply(rows).codes, 50, axis=0)
    assert len(np.unique(codes[:, 0])) == len(SPIKES)
    scalars = np.random.default_rng(1).uniform(-1, 1, (len(codes), len(encoding.layout.scalars)))
    back = encoding.invert(Encoded(codes, scalars.astype(np.float32)), np.random.default_rng(2))["amount"]
    assert back.tolist() == np.repeat(SPIKES, 50).tolist()
    if private:  # which are those of the schema alone, whatever else rows repeat
        attribute, public = encoding.discretizer.attributes[0], Discretizer.by_schema(AMOUNTS).attributes[0]
        assert attribute.column == AMOUNTS.columns["amount"]
        np.testing.assert_array_equal(attribute.edges, public.edges)
        assert np.diff(attribute.edges)[attribute.cells_at(np.array([31_415.0]))] > 100


@pytest.mark.parametrize("name", NAMES)
def test_single_columns_come_out_as_counted_however_little_the_network_learned(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synth.neural.sampling.N_MATCHED_ROWS", 5_000)
    model = fitted(name, False, amounts(0), AMOUNTS)
    rng = np.random.default_rng(2) if generator(name, False).draws_components else None
    with torch.random.fork_rng():
        torch.manual_seed(1)
        tables = model.encoding.apply(amounts(0), rng), draw(model.network, 5_000)
    for column, size in enumerate(model.encoding.layout.sizes):
        shares = [np.bincount(rows.codes[:, column], minlength=size) / len(rows) for rows in tables]
        assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.06


# What is saved


@pytest.mark.parametrize("name", NAMES)
def test_a_private_model_holds_weights_and_released_numbers_alone(name: str, tmp_path: Path) -> None:
    model = model_of(name, True)
    model.save(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"model.json", "arrays.safetensors"}
    sizes = model.encoding.layout.sizes
    network = model.network.generator if name == "ctgan" else model.network.decoder
    shapes = {f"network.{key}": tuple(value.shape) or (1,) for key, value in network.state_dict().items()}
    more = {f"shares.{i}": (n,) for i, n in enumerate(sizes)} if name == "ctgan" else {"deviations": (0,)}
    arrays = load_file(tmp_path / "model" / "arrays.safetensors")
    assert {key: array.shape for key, array in arrays.items()} == {**shapes, **more}
    # No array is as long as the table, but for widths and codes that are public.
    assert max(max(array.shape) for array in arrays.values()) <= sum(sizes) + SHAPE[name]["d_latent"] + 48
    content = json.loads((tmp_path / "model" / "model.json").read_text())
    assert set(content) == {
        "format", "generator", "default_rows", "encoding", "entity_shares", "parameters", "schema", "statement",
    }  # fmt: skip
    assert content["encoding"]["kind"] == "binned"
    assert all(set(column) <= {"edges", "group", "mass"} for column in content["encoding"]["columns"].values())
    assert content["default_rows"] == 400


def test_a_checkpoint_of_another_table_is_not_taken_up(frame: pd.DataFrame, schema: Schema, tmp_path: Path) -> None:
    generator("tvae", False).fit(frame, schema, seed=0, place=tmp_path)
    shuffled = frame.assign(income=frame["income"].to_numpy()[::-1])
    with pytest.raises(ModelError, match="of another fit"):
        generator("tvae", False).fit(shuffled, schema, seed=0, place=tmp_path)


def test_opacus_gives_a_working_fit(frame: pd.DataFrame, schema: Schema) -> None:
    pytest.importorskip("opacus")
    model = fitted("tvae", True, frame, schema, dp_backend="opacus", steps=4)
    assert faults(model.sample(50, seed=0), schema) == []
    assert model.parameters["dp_backend"] == "opacus"


def test_neither_the_registry_nor_the_help_imports_torch() -> None:
    code = """import sys, synth.generators.registry as r
[r.generator_class(n).with_epsilon() for n in r.names() if not n.startswith('sdv')]
r.generator('ctgan', epsilon=1.0); import synth.generators.models.fitted
sys.argv = ['understudy', '--help']
from understudy.cli import main
try: main()
except SystemExit: pass
print('loaded:', *({'torch', 'opacus', 'ctgan'} & set(sys.modules)))"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1].strip() == "loaded:"
