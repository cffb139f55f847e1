"""What `ctgan` and `tvae` promise beyond what every generator does."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file, save_file

from synth.domain import Discretizer
from synth.domain.constraint_checks import broken
from synth.dp.budget import Budget
from synth.dp.mechanisms import InjectedNoise
from synth.errors import BadInput, BudgetError, JobError, MissingExtra, ModelError
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.models.neural_model import NeuralModel
from synth.generators.neural_generator import PLAIN_ONLY, PRIVATE_ONLY, NeuralGenerator
from synth.neural.sampling import CtganNetwork
from synth.neural.training import CHECKPOINT
from synth.schema import Schema, build_schema
from synth.table import conform, present, violations
from synth.transforms.layout import Encoded

NAMES = ("ctgan", "tvae")
SMALL: dict[str, dict[str, Any]] = {
    "ctgan": {"d_latent": 8, "generator_widths": (24, 24), "critic_widths": (24, 24)},
    "tvae": {"d_latent": 4, "encoder_widths": (24, 24), "decoder_widths": (24, 24)},
}
PLAIN, PRIVATE = {"epochs": 2, "batch_size": 100}, {"epsilon": 2.0, "steps": 8}
FITS = [(name, private) for name in NAMES for private in (False, True)]


def generator(name: str, private: bool, **more: Any) -> NeuralGenerator:
    pairs = name == "ctgan" and private and more.get("critic") != "network"
    shape = {part: width for part, width in SMALL[name].items() if not (pairs and part == "critic_widths")}
    made = registry.generator(name, **shape, **{**(PRIVATE if private else PLAIN), **more})
    assert isinstance(made, NeuralGenerator)
    return made


def fitted(name: str, private: bool, table: pd.DataFrame, schema: Schema, **more: Any) -> NeuralModel:
    return generator(name, private, **more).fit(table, schema, seed=0)


@pytest.fixture(scope="module", params=FITS, ids=str)
def kind(request: pytest.FixtureRequest) -> tuple[str, bool]:
    name, private = request.param
    return name, private


@pytest.fixture(scope="module")
def model(kind: tuple[str, bool], frame: pd.DataFrame, schema: Schema) -> NeuralModel:
    return fitted(*kind, frame, schema)


def one_sentence(error: pytest.ExceptionInfo[Any]) -> str:
    message = str(error.value)
    assert "\n" not in message
    assert not message.endswith(".")
    return message


def faults(table: pd.DataFrame, schema: Schema) -> list[str]:
    """What the schema has against a table, but that a column does not vary: few rows, or all on condition, need not."""
    found = [str(violation) for violation in violations(table, schema)]
    return [fault for fault in found if "values only" not in fault and "one value only" not in fault]


# Parameters

VALUES: dict[str, Any] = {
    "epochs": 3, "batch_size": 100, "pac": 2, "steps": 5, "sampling_rate": 0.1, "max_grad_norm": 2.0, "n_bins": 9,
    "columns_share": 0.2, "dp_backend": "opacus", "precision": "bfloat16",
    "critic": "network",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("private", [False, True])
def test_a_parameter_without_effect_is_refused_and_says_why(name: str, private: bool) -> None:
    known = registry.generator_class(name).model_fields
    idle = [parameter for parameter in (PLAIN_ONLY if private else PRIVATE_ONLY) if parameter in known]
    assert len(idle) > 2
    for parameter in idle:
        epsilon = {"epsilon": 1.0} if private else {}
        with pytest.raises(JobError) as error:
            registry.generator(name, **epsilon, **{parameter: VALUES[parameter]})
        message = one_sentence(error)
        assert parameter in message
        assert "epsilon" in message


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rate", [0, -0.1, 1.5])
def test_a_sampling_rate_is_a_probability(name: str, rate: float) -> None:
    with pytest.raises(JobError, match="probability"):
        registry.generator(name, epsilon=1.0, sampling_rate=rate)


@pytest.mark.parametrize(
    "wrong",
    [
        {"generator_widths": ()}, {"generator_widths": (0,)}, {"critic_widths": (-4,)}, {"critic_widths": (10**9,)},
        {"generator_widths": (8,) * 99}, {"learning_rate": 0.0}, {"learning_rate": 2.0}, {"d_latent": 0},
        {"epochs": 0}, {"batch_size": 100, "pac": 3}, {"pac": 0}, {"device": "tpu"},
    ],
    ids=str,
)  # fmt: skip
def test_a_parameter_out_of_range_is_refused_before_anything_is_fitted(wrong: dict[str, Any]) -> None:
    with pytest.raises(JobError) as error:
        registry.generator("ctgan", **wrong)
    one_sentence(error)


def test_parameters_come_back_as_the_same_generator(kind: tuple[str, bool], model: NeuralModel) -> None:
    made = generator(*kind)
    again = registry.generator(kind[0], **made.parameters())
    assert again == made.model_validate(made.parameters())
    assert again.parameters() == made.parameters() == model.parameters
    json.dumps(made.parameters())


@pytest.mark.parametrize("critic", ["pairs", "network"])
def test_parameters_of_either_critic_come_back(critic: str) -> None:
    made = generator("ctgan", True, critic=critic)
    assert registry.generator("ctgan", **made.parameters()).parameters() == made.parameters()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_that_is_not_there_is_refused_before_anything_is_drawn(
    name: str, frame: pd.DataFrame, schema: Schema
) -> None:
    chosen = generator(name, True, device="cuda")
    with pytest.raises(JobError, match="needs a GPU"):
        chosen.check(schema)
    schedule = generator(name, True).schedule(schema)
    assert schedule is not None
    budget = Budget(schedule, Untouched())
    with pytest.raises(JobError, match="needs a GPU"):
        chosen.fit(frame, schema, budget=budget)


class Untouched(InjectedNoise):
    """Noise that nobody asks for."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))

    def gaussian(self, counts: np.ndarray, sigma: float) -> np.ndarray:
        raise AssertionError


# Tables at the edge


@pytest.mark.parametrize("name", NAMES)
def test_a_table_without_rows_is_fitted_with_a_guarantee_and_refused_without(
    name: str, frame: pd.DataFrame, schema: Schema
) -> None:
    made = fitted(name, True, frame[:0], schema).sample(300, seed=0)
    assert faults(made, schema) == []
    with pytest.raises(BadInput, match="needs rows"):
        fitted(name, False, frame[:0], schema)


def visits(n_entities: int = 150) -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(n_entities), rng.integers(1, 6, n_entities))
    columns = {
        "who": {"kind": "identifier", "bounds": [0, 10**6]},
        "x": {"kind": "integer", "bounds": [0, 50]},
        "y": {"kind": "boolean"},
    }
    x = rng.integers(0, 51, len(who))
    frame = pd.DataFrame({"who": who, "x": x, "y": x + rng.normal(0, 5, len(who)) > 25})
    head = {"status": "declared", "n_units": 150, "entity": "who", "max_rows_per_unit": 3}
    return frame, build_schema({**head, "columns": columns})


@pytest.mark.parametrize("kind", FITS, ids=str)
def test_an_entity_with_several_rows_is_the_unit(kind: tuple[str, bool]) -> None:
    table, schema = visits()
    made = fitted(*kind, table, schema)
    synthetic = made.sample(300, seed=0)
    assert faults(synthetic, schema) == []
    assert made.entity_shares is not None
    if kind[1]:
        assert synthetic["who"].value_counts().max() <= 3
        assert made.statement is not None
        assert (made.statement.unit, made.statement.max_rows_per_unit) == ("who", 3)


@pytest.mark.parametrize("kind", FITS, ids=str)
def test_heavy_tails_constants_and_numbers_beyond_float32_stay_within_their_bounds(kind: tuple[str, bool]) -> None:
    rng = np.random.default_rng(0)
    n = 300
    schema = build_schema({
        "status": "declared", "n_units": n,
        "columns": {
            "tail": {"kind": "real", "bounds": [-1e15, 1e15], "missing": True},
            "grid": {"kind": "integer", "bounds": [-3, 10**12]},
            "same": {"kind": "real", "bounds": [0, 1], "decimals": 3},
            "gone": {"kind": "date", "bounds": ["2000-01-01", "2001-01-01"], "missing": True},
            "late": {"kind": "datetime", "bounds": ["1990-01-01T00:00:00", "2090-01-01T00:00:00"], "precision": "s"},
            "one": {"kind": "categorical", "categories": ["only"]},
        },
    })  # fmt: skip
    table = conform(
        pd.DataFrame({
            "tail": np.where(rng.random(n) < 0.1, np.nan, np.clip(rng.standard_cauchy(n) ** 5, -1e15, 1e15)),
            "grid": np.where(rng.random(n) < 0.9, rng.integers(-3, 5, n), 10**12),
            "same": np.full(n, 0.125),
            "gone": pd.Series([None] * (n - 1) + [np.datetime64("2000-02-29", "us")], dtype="datetime64[us]"),
            "late": pd.Series(
                np.datetime64("2089-12-31T23:59:00", "us") - rng.integers(0, 10**6, n) * np.timedelta64(1, "s")
            ),
            "one": ["only"] * n,
        }),
        schema,
    )  # fmt: skip
    made = fitted(*kind, table, schema)
    synthetic = made.sample(n, seed=0)
    assert faults(synthetic, schema) == []
    assert synthetic.dtypes.astype(str).to_dict() == present(table, schema).dtypes.astype(str).to_dict()
    if not kind[1]:
        assert (synthetic["same"] == 0.125).all()
        assert set(synthetic["gone"].dropna().unique()) <= {np.datetime64("2000-02-29")}


LAWFUL: dict[str, Any] = {
    "status": "declared",
    "n_units": 1000,
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
}


@pytest.mark.parametrize("kind", FITS, ids=str)
def test_constraints_hold_in_every_row_also_of_rows_on_condition(kind: tuple[str, bool]) -> None:
    rng, n, schema = np.random.default_rng(0), 400, build_schema(LAWFUL)
    start = np.datetime64("2020-01-01", "us") + rng.integers(0, 366, n) * np.timedelta64(1, "D")
    gain = pd.Series(rng.integers(50, 101, n)).astype("Int64").mask(rng.random(n) < 0.1)
    loss = rng.integers(0, 51, n)
    table = conform(
        pd.DataFrame({
            "gain": gain, "loss": loss, "net": (gain - loss / 4).astype("Float64").round(1), "start": start,
            "end": start + rng.integers(0, 150, n) * np.timedelta64(1, "D"),
        }),
        schema,
    )  # fmt: skip
    made = fitted(*kind, table, schema)
    for given in ({}, {"gain": 70}, {"gain": None}):
        synthetic = made.sample(100, seed=0, given=given)
        assert len(synthetic) == 100
        assert faults(synthetic, schema) == []
        canonical = conform(pd.concat([synthetic, table], ignore_index=True), schema)  # of columns that vary
        for constraint in schema.constraints:
            assert not broken(canonical, constraint, schema.columns).any()
    with pytest.raises(JobError, match="formula"):
        made.sample(5, given={"net": 3.0})


# Rows on condition

GIVEN: list[dict[str, Any]] = [
    {"income": ">50K"},
    {"job": None},
    {"job": "007"},
    {"level": 7},
    {"married": True},
    {"married": None},
    {"visited": None},
    {"visited": "2015-06-01"},
    {"seen": "2020-07-01T12:30:00"},
    {"age": 44},
    {"gain": 0},
    {"gain": 1234.5},
    {"weight": 2.25},
    {"income": "<=50K", "age": 30, "married": False, "job": "clerk"},
]


@pytest.mark.statistical
@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_every_row_holds_what_is_given(given: dict[str, Any], model: NeuralModel, schema: Schema) -> None:
    synthetic = model.sample(25, seed=3, given=given)
    assert len(synthetic) == 25
    assert faults(synthetic, schema) == []
    for name, value in given.items():
        column = synthetic[name]
        if value is None:
            assert column.isna().all()
        elif name in ("visited", "seen"):
            assert (column == column.iloc[0]).all()
            assert str(column.iloc[0]).startswith(str(value)[:10])
        else:
            assert (column == value).all()
    pd.testing.assert_frame_equal(synthetic, model.sample(25, seed=3, given=given))


@pytest.mark.parametrize(
    "given",
    [{"income": "rich"}, {"age": 200}, {"age": None}, {"id": "P-0001"}, {"unknown": 1}, {"visited": "soon"}],
    ids=str,
)
def test_what_the_schema_does_not_allow_is_refused_in_a_sentence(given: dict[str, Any], model: NeuralModel) -> None:
    with pytest.raises(JobError) as error:
        model.sample(5, given=given)
    one_sentence(error)


def test_a_value_that_the_table_never_held_is_refused_without_epsilon() -> None:
    schema = build_schema({
        "status": "declared",
        "columns": {
            "a": {"kind": "categorical", "categories": ["x", "y", "z"], "missing": True}, "b": {"kind": "boolean"},
        },
    })  # fmt: skip
    table = conform(pd.DataFrame({"a": ["x", "y"] * 50, "b": [True, False, False, True] * 25}), schema)
    for name in NAMES:
        made = fitted(name, False, table, schema)
        for value in ("z", None):
            with pytest.raises(JobError, match="holds what is given"):
                made.sample(5, given={"a": value})


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
    """Rows that keep what the schema says, and a frequent value and a step that it does not say."""
    rng, n = np.random.default_rng(seed), 1200
    coarse = rng.choice([1000, 100, 7], n, p=[0.45, 0.45, 0.1])
    raw = rng.gamma(2.0, 100_000, n).astype(int).clip(0, 999_999) // coarse * coarse
    frequent = np.where(rng.random(n) < 0.3, rng.choice([*SPIKES, 31_415 + seed], n), raw)
    income = np.where(raw > 200_000, "high", "low")
    return conform(pd.DataFrame({"amount": pd.array(frequent, dtype="Int64"), "income": income}), AMOUNTS)


@pytest.mark.parametrize("kind", FITS, ids=str)
def test_synthetic_values_have_steps_and_spikes_however_little_the_network_learned(kind: tuple[str, bool]) -> None:
    made = fitted(*kind, amounts(0), AMOUNTS).sample(1200, seed=1)
    values = made["amount"].dropna().to_numpy(dtype=np.int64)
    assert np.isin(SPIKES, values).all()
    others = values[~np.isin(values, SPIKES)]
    assert len(others) > 300
    # A grid of a private fit has cells that hold no multiple of a thousand.
    for step, share in ((1000, 0.5), (100, 0.9)):
        assert np.mean(others % step == 0) == pytest.approx(share, abs=0.12 if kind[1] else 0.08)
    assert violations(made, AMOUNTS) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_spike_is_a_code_of_its_own(name: str) -> None:
    for private in (False, True):
        encoding = fitted(name, private, amounts(0), AMOUNTS).encoding
        rows = conform(pd.DataFrame({"amount": SPIKES, "income": "low"}), AMOUNTS)
        codes = encoding.apply(rows, np.random.default_rng(0)).codes[:, 0]
        assert len(set(codes.tolist())) == len(SPIKES)
        again = np.repeat(encoding.apply(rows, np.random.default_rng(0)).codes, 50, axis=0)
        scalars = np.random.default_rng(1).uniform(-1, 1, (len(again), len(encoding.layout.scalars)))
        back = encoding.invert(Encoded(again, scalars.astype(np.float32)), np.random.default_rng(2))["amount"]
        assert back.tolist() == np.repeat(SPIKES, 50).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_a_private_fit_takes_steps_and_spikes_from_the_schema_alone(name: str) -> None:
    """Of two tables with frequent values of their own, which no schema names, the cells are the same."""
    (public, _) = Discretizer.by_schema(AMOUNTS).attributes
    for seed in (0, 1):
        (attribute, _) = fitted(name, True, amounts(seed), AMOUNTS).encoding.discretizer.attributes
        assert attribute.column == AMOUNTS.columns["amount"]
        np.testing.assert_array_equal(attribute.edges, public.edges)
        cell = attribute.cells_at(np.array([31_415.0 + seed]))
        assert np.diff(attribute.edges)[cell] > 100


# What is saved

KNOWN = {"format", "generator", "default_rows", "encoding", "entity_shares", "parameters", "schema", "statement"}


@pytest.mark.parametrize("name", NAMES)
def test_a_private_model_holds_weights_and_released_numbers_alone(
    name: str, frame: pd.DataFrame, schema: Schema, tmp_path: Path
) -> None:
    made = fitted(name, True, frame, schema)
    made.save(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"model.json", "arrays.safetensors"}
    arrays = load_file(tmp_path / "model" / "arrays.safetensors")
    n_codes = made.encoding.layout.n_codes
    d_latent, widths = SMALL[name]["d_latent"], (24, 24)
    d_in = d_latent + (n_codes if name == "ctgan" else 0)
    carried = [d_in, d_in + 24, d_in + 48] if name == "ctgan" else [d_in, 24, 24]
    shapes: dict[str, tuple[int, ...]] = {
        "network.output.weight": (n_codes, carried[2]),
        "network.output.bias": (n_codes,),
    }
    for place, width in enumerate(widths):
        shapes[f"network.layers.{place}.weight"] = (width, carried[place])
        shapes[f"network.layers.{place}.bias"] = (width,)
        if name == "ctgan":
            parts = ("weight", "bias", "running_mean", "running_var")
            shapes |= {f"network.norms.{place}.{part}": (width,) for part in parts}
            shapes[f"network.norms.{place}.num_batches_tracked"] = (1,)
    if name == "ctgan":
        shapes |= {f"shares.{place}": (size,) for place, size in enumerate(made.encoding.layout.sizes)}
    else:
        shapes["deviations"] = (0,)
    assert {key: array.shape for key, array in arrays.items()} == shapes
    content = json.loads((tmp_path / "model" / "model.json").read_text())
    assert set(content) == KNOWN
    assert set(content["encoding"]) == {"kind", "columns"}
    assert content["encoding"]["kind"] == "binned"
    for column in content["encoding"]["columns"].values():
        assert set(column) <= {"edges", "group", "mass"}
    assert content["default_rows"] == schema.n_units


def test_rows_that_are_gone_change_no_number_that_a_private_model_knows_exactly(
    kind: tuple[str, bool], model: NeuralModel, frame: pd.DataFrame, schema: Schema
) -> None:
    """`default_rows` and what the statement says are public, never the table's own."""
    if not kind[1]:
        return
    fewer = fitted(*kind, frame[:300].reset_index(drop=True), schema)
    assert fewer.default_rows == model.default_rows == 400
    assert fewer.statement is not None
    assert model.statement is not None
    assert fewer.statement.events == model.statement.events


def test_a_saved_model_draws_the_same_rows(model: NeuralModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = registry.load_model(tmp_path / "model")
    for given in ({}, {"income": ">50K", "age": 44}):
        pd.testing.assert_frame_equal(loaded.sample(60, seed=2, given=given), model.sample(60, seed=2, given=given))
    assert loaded.statement == model.statement


JSON_DAMAGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no encoding": lambda c: c.pop("encoding"),
    "encoding of another kind": lambda c: c["encoding"].update(kind="none"),
    "no columns": lambda c: c["encoding"].update(columns={}),
    "columns that are a list": lambda c: c["encoding"].update(columns=[]),
    "a column less": lambda c: c["encoding"]["columns"].pop("age"),
    "another's columns": lambda c: c["encoding"]["columns"].update(age=c["encoding"]["columns"]["income"]),
    "no default_rows": lambda c: c.pop("default_rows"),
    "default_rows that are no number": lambda c: c.update(default_rows="many"),
    "default_rows below one": lambda c: c.update(default_rows=-3),
    "no parameters": lambda c: c.pop("parameters"),
    "parameters that are a list": lambda c: c.update(parameters=[]),
    "no entity_shares": lambda c: c.pop("entity_shares"),
    "entity_shares without an entity": lambda c: c.update(entity_shares=[0.5, 0.5]),
    "entity_shares that are text": lambda c: c.update(entity_shares="abc"),
    "no schema": lambda c: c.pop("schema"),
    "no statement": lambda c: c.pop("statement"),
    "another generator": lambda c: c.update(generator="mst"),
    "an unknown generator": lambda c: c.update(generator="gan"),
    "a generator that is a number": lambda c: c.update(generator=3),
    "a generator that is a list": lambda c: c.update(generator=["ctgan"]),
}
ARRAY_DAMAGE: dict[str, Callable[[dict[str, np.ndarray]], Any]] = {
    "no arrays": lambda a: a.clear(),
    "no output": lambda a: a.pop("network.output.bias"),
    "NaN": lambda a: a["network.output.bias"].fill(np.nan),
    "an array too many": lambda a: a.update(rows=np.zeros((4, 4))),
    "another shape": lambda a: a.update({"network.output.bias": np.zeros(3, dtype=np.float32)}),
}


@pytest.mark.parametrize("damage", [*JSON_DAMAGE, *ARRAY_DAMAGE])
def test_a_damaged_model_is_refused_in_one_sentence(damage: str, model: NeuralModel, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    model.save(folder)
    if damage in JSON_DAMAGE:
        content = json.loads((folder / "model.json").read_text())
        JSON_DAMAGE[damage](content)
        (folder / "model.json").write_text(json.dumps(content))
    else:
        arrays = {name: array.copy() for name, array in load_file(folder / "arrays.safetensors").items()}
        ARRAY_DAMAGE[damage](arrays)
        save_file(arrays, folder / "arrays.safetensors")
    with pytest.raises(ModelError) as error:
        registry.load_model(folder)
    one_sentence(error)


# Seeds and backends


OPACUS: dict[str, dict[str, Any]] = {
    "ctgan": {"dp_backend": "opacus", "critic": "network"}, "tvae": {"dp_backend": "opacus"},
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_opacus_gives_a_working_fit(name: str, frame: pd.DataFrame, schema: Schema) -> None:
    pytest.importorskip("opacus")
    made = fitted(name, True, frame, schema, **OPACUS[name], steps=4)
    assert faults(made.sample(50, seed=0), schema) == []
    assert made.parameters["dp_backend"] == "opacus"


@pytest.mark.parametrize("name", NAMES)
def test_opacus_that_is_not_installed_is_refused_before_anything_is_drawn(
    name: str, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = generator(name, True, **OPACUS[name])
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(MissingExtra, match="opacus"):
        chosen.check(schema)


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_of_another_table_is_not_taken_up(
    name: str, frame: pd.DataFrame, schema: Schema, tmp_path: Path
) -> None:
    generator(name, False).fit(frame, schema, seed=0, place=tmp_path)
    shuffled = frame.assign(income=frame["income"].to_numpy()[::-1])
    with pytest.raises(ModelError, match="of another fit"):
        generator(name, False).fit(shuffled, schema, seed=0, place=tmp_path)


def test_a_ctgan_without_epsilon_samples_from_the_average_of_its_generators(
    frame: pd.DataFrame, schema: Schema, tmp_path: Path
) -> None:
    made = generator("ctgan", False).fit(frame, schema, seed=0, place=tmp_path).network
    assert isinstance(made, CtganNetwork)
    state = torch.load(tmp_path / CHECKPOINT, weights_only=True)["state"]
    for name, weight in made.generator.named_parameters():
        assert torch.equal(weight, state["average"][name])
        assert not torch.equal(weight, state["generator"][name])


def test_neither_the_registry_nor_the_help_imports_torch() -> None:
    heavy = "{'torch', 'opacus', 'ctgan'}"
    for code in (
        "import synth.generators.registry as r; [r.generator_class(n) for n in r.names() if not n.startswith('sdv')]; "
        "r.generator('ctgan', epsilon=1.0); import synth.generators.models.neural_model",
        "import sys; sys.argv = ['understudy', '--help']\n"
        "from understudy.cli import main\n"
        "try: main()\nexcept SystemExit: pass",
    ):
        told = f"{code}\nimport sys; print('loaded:', *({heavy} & set(sys.modules)))"
        ran = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
        assert ran.stdout.splitlines()[-1].strip() == "loaded:"


def test_what_cannot_be_sampled_or_held_is_refused_before_anything_is_drawn(schema: Schema) -> None:
    for wrong, message in (
        (registry.generator("tvae", epsilon=1.0, sampling_rate=1e-12), "less than one unit"),
        (registry.generator("ctgan", epsilon=1.0, n_bins=1000), "lower n_bins"),
    ):
        assert isinstance(wrong, PrivateGenerator)
        with pytest.raises(BudgetError, match=message):
            wrong.schedule(schema)
