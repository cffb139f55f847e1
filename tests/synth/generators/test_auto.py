"""`auto`: public facts choose, and whatever is made of the choice is of the generator that was chosen."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from evaluate.privacy.audit.white_box import audit
from synth.generators.aim import Aim
from synth.generators.auto import FEW_COLUMNS, Auto
from synth.generators.latent_class import LatentClass
from synth.generators.marginal_generator import Independent
from synth.generators.models.marginal_model import MarginalModel
from synth.generators.trees import Trees
from synth.schema import Schema, build_schema


def schema_of(n_numbers: int, n_categories: int, n_units: int) -> Schema:
    columns: dict[str, Any] = {f"n{i}": {"kind": "integer", "bounds": [0, 99]} for i in range(n_numbers)}
    columns |= {f"c{i}": {"kind": "categorical", "categories": ["a", "b"]} for i in range(n_categories)}
    return build_schema({"status": "declared", "n_units": n_units, "columns": columns})


@pytest.mark.parametrize(
    ("numbers", "categories", "n_units", "epsilon", "kind"),
    [
        (FEW_COLUMNS - 1, 0, 50_000, 1.0, Aim),
        (FEW_COLUMNS, 0, 50_000, 1.0, LatentClass),
        (FEW_COLUMNS, 0, 50_000, None, Trees),
        (4, 20, 6_000, 1.0, Aim),  # most columns are categories, and pairs are noisy
        (8, 16, 6_000, 1.0, LatentClass),
        (4, 20, 60_000, 1.0, LatentClass),
        (4, 20, 600, 1.0, LatentClass),
        (4, 20, 200, 1.0, Independent),
        (20, 4, 600, 0.1, Independent),
        (1, 0, 50_000, 1.0, Independent),
        (7, 14, 6_000, 1.0, LatentClass),  # two thirds are categories, and no more
        (6, 15, 6_000, 1.0, Aim),
    ],
)
def test_the_generator_is_that_which_public_facts_speak_for(
    numbers: int, categories: int, n_units: int, epsilon: float | None, kind: type
) -> None:
    chosen = Auto(epsilon=epsilon).chosen(schema_of(numbers, categories, n_units))
    assert isinstance(chosen, kind)
    assert getattr(chosen, "epsilon", None) == epsilon


@pytest.mark.parametrize("k", [1, 4])
def test_limits_are_of_the_signal_which_several_rows_of_an_entity_divide(k: int) -> None:
    """The generator changes where units in standard deviations of noise do."""
    columns = schema_of(4, 20, 100).model_dump(mode="json")["columns"]
    content = {"status": "declared", "columns": {"who": {"kind": "identifier", "bounds": [0, 10**9]}, **columns}}
    one = {**content, "entity": "who", "max_rows_per_unit": k}
    per_unit = Auto(epsilon=1.0, delta=1e-8).signal(build_schema({**one, "n_units": 10**6})) / 10**6
    names = []
    for signal in (4.9, 5.1, 49, 51, 149, 151):
        schema = build_schema({**one, "n_units": round(signal / per_unit)})
        names.append(Auto(epsilon=1.0, delta=1e-8).chosen(schema).name)
    assert names == ["independent", "latent_class", "latent_class", "aim", "aim", "latent_class"]
    single = build_schema({**content, "entity": "who", "max_rows_per_unit": 1, "n_units": 10**6})
    assert Auto(epsilon=1.0, delta=1e-8).signal(single) == pytest.approx(k * per_unit * 10**6)


def test_the_schedule_is_that_of_the_generator_chosen() -> None:
    for schema in (schema_of(3, 0, 9_000), schema_of(12, 0, 9_000)):
        auto = Auto(epsilon=2.0, delta=1e-6)
        assert auto.schedule(schema) == auto.chosen(schema).schedule(schema)


def test_a_model_and_its_parameters_are_those_of_the_generator_chosen() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"n{i}": rng.integers(0, 100, 400) for i in range(3)})
    model = synth.fit(frame, schema_of(3, 0, 400), epsilon=1.0)
    assert isinstance(model, MarginalModel)
    assert model.name == "aim"
    assert model.parameters == Aim(epsilon=1.0).parameters()
    assert model.statement is not None
    assert model.statement.epsilon == pytest.approx(1.0, rel=1e-3)


def test_an_audit_is_of_the_generator_that_the_schema_chooses_not_of_that_of_its_stand_in() -> None:
    schema = schema_of(12, 0, 50_000)
    found = audit(Auto(epsilon=3.0, delta=1e-6), schema, n_fits=2)
    assert {"choices of marginals", "marginals that were chosen"} <= {*found.covered, *found.not_covered}


def test_one_column_of_many_values_is_fitted() -> None:
    frame = pd.DataFrame({"n0": np.random.default_rng(0).integers(0, 100, 2000)})
    for name in ("auto", "aim", "latent_class"):
        synthetic = synth.fit(frame, schema_of(1, 0, 2000), name, epsilon=1.0).sample(50, seed=0)
        assert synthetic["n0"].between(0, 99).all(), name
