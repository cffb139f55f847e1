"""What every generator in the registry promises, and what every private one promises beside."""

import functools
import importlib.util
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth import extras
from synth.dp.accounting import epsilon_pld
from synth.dp.budget import Budget
from synth.dp.events import (
    MECHANISMS,
    Event,
    GaussianEvent,
    SelectionEvent,
    StabilityEvent,
    SubsampledGaussianEvent,
    gaussian_of_rho,
)
from synth.dp.mechanisms import InjectedNoise, Noise
from synth.dp.schedule import Schedule
from synth.dp.statement import RELATION
from synth.errors import BudgetError, JobError, ModelError, SchemaError
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.models.fitted import MarginalModel, NeuralModel
from synth.generators.models.model import Model
from synth.generators.models.postprocess import write_rows
from synth.schema import Schema, build_schema
from synth.table import conform, present, violations
from tests.synth.conftest import CONTENT, make_frame
from tests.synth.dp.test_mutants import Recorder

QUICK = {
    "sdv.ctgan": {"epochs": 1, "batch_size": 100},
    "sdv.tvae": {"epochs": 1, "batch_size": 100},
    "mst": {"n_iterations": 100},
    "aim": {"rounds": 3, "n_draws": 1000, "n_iterations": 100},
    "latent_class": {"rounds": 4, "n_classes": 50},
    "ctgan": {"epochs": 1, "batch_size": 100},
    "tvae": {"epochs": 1, "batch_size": 100},
    "pategan": {"rounds": 3, "labels_per_round": 16, "generator_steps": 2},
    "arn": {"epochs": 2},
    "trees": {"rounds": 20},
}
QUICK_PRIVATE = {**QUICK, "ctgan": {"steps": 12}, "tvae": {"steps": 12}}
UNLEARNED = [name for name in QUICK if name not in ("aim", "latent_class", "trees", "pategan")]
"""One epoch teaches a network nothing about shares."""
NEURAL = ("ctgan", "tvae")
NAMES = [name for name in registry.names() if name != "auto"]
"""All but that which stands for one of the others."""
FITTED = [pytest.param(name, marks=pytest.mark.slow) if name in ("sdv.ctgan", "sdv.tvae") else name for name in NAMES]
"""`sdv.gaussian_copula` stands for what SDV's three share."""
PRIVATE = [name for name in NAMES if registry.generator_class(name).private]
CURATED = [name for name in PRIVATE if name not in extras.entries("audit")]
"""Private generators whose noise a curator adds to counts; extras with an audit of their own ask the same of others."""


def fitted(name: str, frame: pd.DataFrame, schema: Schema, **more: object) -> Model:
    quick = QUICK_PRIVATE if "epsilon" in more else QUICK
    return registry.generator(name, **quick.get(name, {}), **more).fit(frame, schema, seed=0)


@functools.cache
def scheduled(generator: PrivateGenerator, schema: str) -> Schedule:
    """A generator's schedule, calibrated once for all tests."""
    result = generator.schedule(build_schema(json.loads(schema)))
    assert result is not None
    return result


@functools.cache
def private_model(name: str) -> Model:
    """A private fit on the table that every test has, shared by the tests that only look at it."""
    return fitted(name, make_frame(400, seed=0), build_schema(CONTENT), epsilon=1.0)


def injected(
    name: str, frame: pd.DataFrame, schema: Schema, noise: Noise, epsilon: float = 1.0
) -> MarginalModel | NeuralModel:
    """A private fit on noise that the test holds."""
    generator = registry.generator(name, epsilon=epsilon, **QUICK_PRIVATE.get(name, {}))
    assert isinstance(generator, PrivateGenerator)
    schedule = scheduled(generator, schema.model_dump_json())
    model = generator.fit(frame, schema, budget=Budget(schedule, noise))
    assert isinstance(model, MarginalModel | NeuralModel)
    return model


@pytest.fixture(autouse=True, scope="module")
def quickly_matched() -> Iterator[None]:
    """Networks are matched to released marginals on few rows: no real one is read for that."""
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("torch") is not None:
            patch.setattr("synth.neural.sampling.N_MATCHED_ROWS", 500)
        yield


@pytest.fixture(scope="module", params=FITTED)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(name: str, frame: pd.DataFrame, schema: Schema) -> Model:
    """A fit without epsilon, shared by the tests that only look at it."""
    return fitted(name, frame, schema)


def test_a_synthetic_table_has_the_real_ones_columns_order_dtypes_precision_and_bounds(
    model: Model, frame: pd.DataFrame, schema: Schema
) -> None:
    synthetic = model.sample(300, seed=1)
    real = present(frame, schema)
    assert list(synthetic.columns) == list(real.columns)
    assert synthetic.dtypes.astype(str).to_dict() == real.dtypes.astype(str).to_dict()
    assert len(synthetic) == 300
    assert violations(synthetic, schema) == []


def test_missing_values_appear_where_they_may_and_nowhere_else(
    name: str, model: Model, frame: pd.DataFrame, schema: Schema
) -> None:
    synthetic = model.sample(600, seed=1)
    for column in schema.learned:
        real_share, share = frame[column].isna().mean(), synthetic[column].isna().mean()
        if not schema.columns[column].missing:
            assert share == 0
        elif name not in UNLEARNED:
            assert abs(share - real_share) < 0.1


def test_a_seed_gives_one_table_whatever_the_identifiers_and_leaves_all_else_alone(
    name: str, model: Model, frame: pd.DataFrame, schema: Schema
) -> None:
    marked = frame.assign(id=[f"P-{9000 + i}" for i in range(len(frame))])
    before, state = marked.copy(deep=True), np.random.get_state()[1].copy()  # noqa: NPY002
    again = fitted(name, marked, schema)
    drawn = model.sample(100, seed=7)
    pd.testing.assert_frame_equal(drawn, model.sample(100, seed=7))
    pd.testing.assert_frame_equal(drawn, again.sample(100, seed=7))
    assert not drawn.equals(model.sample(100, seed=8))
    assert drawn["id"].is_unique
    assert drawn["id"].str.fullmatch(r"P-\d{4}").all()
    pd.testing.assert_frame_equal(marked, before)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_a_generator_without_epsilon_gives_no_formal_guarantee(model: Model, frame: pd.DataFrame) -> None:
    assert model.statement is None
    assert model.default_rows == len(frame)


def test_a_saved_model_samples_the_same_or_says_why_it_cannot_be_saved(name: str, model: Model, tmp_path: Path) -> None:
    if name.startswith("sdv."):
        with pytest.raises(ModelError, match="pickle"):
            model.save(tmp_path / "model")
        assert list(tmp_path.iterdir()) == []
        return
    model.save(str(tmp_path / "model"))
    again = registry.load_model(tmp_path / "model")
    pd.testing.assert_frame_equal(again.sample(50, seed=3), model.sample(50, seed=3))
    assert again.statement == model.statement
    assert {p.suffix for p in (tmp_path / "model").iterdir()} == {".json", ".safetensors"}


def test_files_of_rows_are_one_table_and_the_same_by_a_seed(model: Model, schema: Schema, tmp_path: Path) -> None:
    def written(folder: str, seed: int | None) -> tuple[dict[str, bytes], int]:
        result = write_rows(model, tmp_path / folder, 250, seed=seed, rows_a_file=90)
        assert (result.n_rows, result.n_files, result.n_rejected) == (250, 3, None)
        return {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}, result.seed

    (first, _), (same, _), (other, drawn) = (written(*call) for call in (("one", 2), ("two", 2), ("three", None)))
    assert first == same != other == written("four", drawn)[0]
    files = [pd.read_parquet(tmp_path / "one" / name) for name in sorted(first)]
    together = conform(pd.concat(files, ignore_index=True), schema)
    assert violations(together, schema) == []
    assert together["id"].is_unique
    assert not together.drop(columns="id").duplicated().any()


def test_free_text_is_refused_before_a_fit(name: str) -> None:
    columns = {"age": {"kind": "integer", "bounds": [17, 90]}, "note": {"kind": "text"}}
    with pytest.raises(SchemaError, match="drop = true"):
        registry.generator(name).check(build_schema({"status": "declared", "columns": columns}))


def test_constant_and_all_missing_columns_are_fitted_and_dropped_ones_left_out(name: str) -> None:
    columns = {
        "one": {"kind": "integer", "bounds": [5, 5]},
        "same": {"kind": "categorical", "categories": ["x"]},
        "note": {"kind": "text", "drop": True},
        "none": {"kind": "categorical", "categories": [], "missing": True},
    }
    frame = pd.DataFrame(
        {"one": [5] * 60, "same": ["x"] * 60, "note": "free", "none": pd.Series([None] * 60, dtype=object)}
    )
    schema = build_schema({"status": "declared", "columns": columns})
    synthetic = fitted(name, frame, schema).sample(10, seed=0)
    assert synthetic.astype(object).equals(present(frame.drop(columns="note").head(10), schema).astype(object))


def test_synthetic_entities_have_several_rows_each(name: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"who": np.repeat(np.arange(100), 4) + 1000, "x": rng.integers(0, 9, 400)})
    columns = {"who": {"kind": "identifier", "bounds": [0, 10**6]}, "x": {"kind": "integer", "bounds": [0, 8]}}
    content = {"status": "declared", "n_units": 100, "entity": "who", "max_rows_per_unit": 6, "columns": columns}
    synthetic = fitted(name, frame, build_schema(content)).sample(400, seed=0)
    assert synthetic.groupby("who").size().mean() == pytest.approx(4, abs=0.5)


@pytest.mark.parametrize("private", CURATED)
def test_a_private_fit_states_its_epsilon_delta_unit_and_events(private: str, schema: Schema) -> None:
    statement = private_model(private).statement
    assert statement is not None
    assert 0.99 < statement.epsilon <= 1.0
    assert statement.epsilon <= statement.epsilon_rdp * 1.001
    assert (statement.unit, statement.n_units, statement.relation) == ("row", 400, RELATION)
    assert statement.delta == 1e-6
    assert statement.private
    assert sum(event.count for event in statement.events) >= len(schema.learned)
    assert ("torch" in statement.versions) == ("floating point" in " ".join(statement.caveats)) == (private in NEURAL)
    assert statement.ledger is None


@pytest.mark.parametrize("private", PRIVATE)
def test_a_private_fit_needs_a_declared_schema_with_its_number_of_units(
    private: str, frame: pd.DataFrame, schema: Schema
) -> None:
    for change, message in (({"status": "inferred"}, "declare"), ({"n_units": None}, "n_units")):
        with pytest.raises(BudgetError, match=message):
            fitted(private, frame, schema.model_copy(update=change), epsilon=1.0)


@pytest.mark.parametrize("private", PRIVATE)
@pytest.mark.parametrize("epsilon", [0, float("nan"), "much"])
def test_an_epsilon_that_is_none_is_refused(private: str, epsilon: object) -> None:
    with pytest.raises(JobError, match="epsilon"):
        registry.generator(private, epsilon=epsilon)


@pytest.mark.statistical
@pytest.mark.parametrize("private", PRIVATE)
def test_the_users_seed_never_reaches_the_noise(private: str, frame: pd.DataFrame, schema: Schema) -> None:
    first, two = (fitted(private, frame, schema, epsilon=1.0).sample(200, seed=5) for _ in range(2))
    assert not first.equals(two)


def test_injected_noise_marks_the_model_as_not_private(frame: pd.DataFrame, schema: Schema, tmp_path: Path) -> None:
    model = injected("independent", frame, schema, InjectedNoise(np.random.default_rng(0)))
    assert model.statement is not None
    assert not model.statement.private
    with pytest.raises(ModelError, match="injected"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def undeclared(schema: Schema) -> Schema:
    """The schema with a column of every measurable kind left for the fit to find out."""
    content, public = schema.model_dump(mode="json"), ("bounds", "categories", "bins", "ordered")
    for name in ("age", "gain", "weight", "job", "level", "visited", "seen", "income"):
        column = content["columns"][name]
        content["columns"][name] = {key: value for key, value in column.items() if key not in public}
        content["columns"][name]["measure"] = True
    for name in ("age", "gain", "weight"):
        content["columns"][name]["measure_spikes"] = True
    content["columns"]["level"]["whole_numbers"] = True
    return build_schema(content)


def test_columns_whose_domain_is_not_declared_are_fitted(name: str, frame: pd.DataFrame, schema: Schema) -> None:
    loose = undeclared(schema)
    model = fitted(name, frame, loose)
    assert model.schema.measured == model.schema.spikes_measured == ()
    synthetic = model.sample(200, seed=0)
    assert violations(synthetic, model.schema) == []
    assert violations(synthetic, loose) == []
    assert set(synthetic["job"].dropna()) <= set(frame["job"].dropna())
    assert set(synthetic["level"]) <= {1, 2, 7}
    assert synthetic["age"].between(17, 90).all()


def test_a_private_fit_pays_for_a_domain_that_is_not_declared_and_says_so(frame: pd.DataFrame, schema: Schema) -> None:
    many = pd.concat([frame] * 10, ignore_index=True)
    loose = undeclared(schema).model_copy(update={"n_units": len(many)})
    model = fitted("independent", many, loose, epsilon=3.0)
    assert model.statement is not None
    read = {event.what: event for event in model.statement.events}
    assert {f"categories of column {c!r}" for c in ("job", "level", "income")} <= set(read)
    assert {f"bounds of column {c!r}" for c in ("age", "gain", "weight", "visited", "seen")} <= set(read)
    assert 0 < sum(event.delta for event in model.statement.events) <= 0.1 * model.statement.delta
    assert 2.99 < model.statement.epsilon <= 3.0
    result = model.schema.columns
    assert result["income"].categories == ("<=50K", ">50K")  # type: ignore[union-attr]
    assert set(result["job"].categories) == {"007", "NA", "clerk", "None"}  # type: ignore[union-attr]
    assert result["level"].categories == (1, 2, 7)  # type: ignore[union-attr]
    low, high = result["age"].bounds  # type: ignore[union-attr]
    assert low <= 20
    assert 85 <= high <= 600  # one cell of the grid more, by chance
    assert violations(model.sample(300, seed=0), loose) == []


@pytest.mark.parametrize("private", ["independent", "mst"])
def test_a_budget_on_another_schedule_is_refused_before_anything_is_drawn(
    private: str, frame: pd.DataFrame, schema: Schema
) -> None:
    chosen = registry.generator(private, epsilon=1.0, **QUICK_PRIVATE.get(private, {}))
    assert isinstance(chosen, PrivateGenerator)
    for other, other_schema in (
        (chosen.model_copy(update={"epsilon": 2.0}), schema),
        (chosen.model_copy(update={"delta": 1e-7}), schema),
        (chosen, schema.model_copy(update={"columns": {k: v for k, v in schema.columns.items() if k != "age"}})),
        (registry.generator("mst" if private == "independent" else "independent", epsilon=1.0), schema),
    ):
        assert isinstance(other, PrivateGenerator)
        schedule = other.schedule(other_schema)
        assert schedule is not None
        noise = Recorder()
        with pytest.raises(BudgetError, match="not on the schedule"):
            chosen.fit(frame, schema, budget=Budget(schedule, noise))
        assert noise.seen == []


def test_a_budget_that_names_categories_from_another_threshold_on_is_refused(frame: pd.DataFrame) -> None:
    columns = {"job": {"kind": "categorical", "measure": True}, "age": {"kind": "integer", "bounds": [17, 90]}}
    schema = build_schema({"status": "declared", "n_units": 400, "columns": columns})
    chosen = registry.generator("independent", epsilon=1.0)
    assert isinstance(chosen, PrivateGenerator)
    schedule = chosen.schedule(schema)
    assert schedule is not None and isinstance(schedule.events[0], StabilityEvent)
    first, noise = schedule.events[0], Recorder()
    other = replace(schedule, events=(replace(first, threshold=first.threshold + 1), *schedule.events[1:]))
    with pytest.raises(BudgetError, match="not on the schedule"):
        chosen.fit(frame, schema, budget=Budget(other, noise))
    assert noise.seen == []


def test_a_schedule_is_refused_where_the_counted_form_of_its_schema_is() -> None:
    modeled = {"expression": "day", "unit": "day", "parts": True}
    day = {"kind": "date", "bounds": ["2020-01-01", "2022-12-31"]}
    columns = {"day": day, **{f"d{at}": {**day, "modeled": modeled} for at in range(160)}}
    schema = build_schema({"status": "declared", "n_units": 5000, "columns": columns})
    chosen = registry.generator("ctgan", epsilon=1.0, steps=5)
    assert isinstance(chosen, PrivateGenerator)
    chosen.check(schema)  # a week and a weekday of each are more codes than a date
    with pytest.raises(BudgetError, match="every pair of codes"):
        chosen.schedule(schema)


def visits(k: int) -> tuple[pd.DataFrame, Schema]:
    """A table of 59 entities with one row and one with 500, of which k count."""
    columns = {
        "who": {"kind": "identifier", "bounds": [0, 10**6]},
        "x": {"kind": "integer", "bounds": [0, 8]},
        "y": {"kind": "boolean"},
    }
    content = {"status": "declared", "n_units": 60, "entity": "who", "max_rows_per_unit": k, "columns": columns}
    frame = pd.DataFrame({
        "who": np.r_[np.arange(59), np.full(500, 999)],
        "x": np.r_[np.arange(59) % 8, np.full(500, 8)],
        "y": np.r_[np.arange(59) % 2 == 0, np.full(500, True)],
    })  # fmt: skip
    return frame, build_schema(content)


@pytest.mark.statistical
@pytest.mark.parametrize("private", CURATED)
@pytest.mark.parametrize("k", [1, 3])
def test_the_noise_that_is_drawn_costs_what_the_statement_claims(private: str, k: int) -> None:
    # The books are kept anew from what reached the sampler: less noise, a lost root of d, a sensitivity of k forgotten
    # or an exponential mechanism at twice its epsilon would all show here.
    frame, schema = visits(k)
    recorder = Recorder()
    statement = injected(private, frame, schema, recorder, epsilon=2.0).statement
    assert statement is not None
    sizes, *rest = recorder.sigmas  # rows per entity: one entity is in one cell
    # A unit has one teacher, and moves each vote of a round by 1, whatever k is: together by the root of their number.
    votes = recorder.seen[-QUICK["pategan"]["rounds"] :] if private == "pategan" else []
    moved = [*[k] * (len(rest) - len(votes)), *(math.isqrt(len(counts)) for counts in votes)]
    events: list[Event] = [GaussianEvent("sizes", sizes, 1)]
    events += [GaussianEvent("counts", sigma, by) for sigma, by in zip(rest, moved, strict=True)]
    events += [SelectionEvent("pairs", 2 * k / scale) for scale in recorder.scales]
    # Clipped to the default norm of 1, so that sigma is the noise multiplier.
    events += [SubsampledGaussianEvent("steps", sigma, rate) for rate, sigma in recorder.steps]
    planned = dict.fromkeys(MECHANISMS, 0)
    for record in statement.events:
        planned[record.mechanism] += record.count
    assert len(rest) == planned["Gaussian"] - 1 >= 2
    assert len(recorder.scales) == planned["exponential"]
    assert len(recorder.steps) == planned["Poisson-subsampled Gaussian"]
    assert epsilon_pld(events, statement.delta) == pytest.approx(statement.epsilon, rel=2e-3)
    assert statement.epsilon <= 2.0


def test_a_network_whose_histograms_forget_that_k_rows_count_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_one_row(what: str, rho: float, *, count: int, sensitivity: int) -> GaussianEvent:
        return gaussian_of_rho(what, rho, count=count, sensitivity=1)

    monkeypatch.setattr("synth.generators.neural_generator.gaussian_of_rho", of_one_row)
    scheduled.cache_clear()
    with pytest.raises(AssertionError) as caught:
        test_the_noise_that_is_drawn_costs_what_the_statement_claims("tvae", 3)
    assert caught.traceback[-1].name == test_the_noise_that_is_drawn_costs_what_the_statement_claims.__name__
    scheduled.cache_clear()


@pytest.mark.parametrize(
    ("name", "parameters", "clause"),
    [
        ("mts", {}, "did you mean 'mst'"), ("mst", {"epsilom": 1.0}, "did you mean 'epsilon'"),
        ("sdv.tvae", {"epsilon": 1.0}, "no formal guarantee"), ("trees", {"epsilon": 1.0}, "takes no epsilon"),
    ],
)  # fmt: skip
def test_what_is_no_specification_is_refused(name: str, parameters: dict[str, Any], clause: str) -> None:
    with pytest.raises(JobError, match=clause):
        registry.generator(name, **parameters)


def test_a_schema_of_identifiers_alone_is_refused() -> None:
    schema = build_schema({"status": "declared", "columns": {"id": {"kind": "identifier", "template": "####"}}})
    for name in registry.names():
        with pytest.raises(SchemaError, match="needs a column to learn"):
            registry.generator(name).check(schema)
