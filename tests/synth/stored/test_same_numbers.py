"""The same rows give the same counts, sides and models in memory and where they are stored."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.columns import NumericColumn
from synth.domain import Discretizer
from synth.dp.budget import Budget
from synth.dp.mechanisms import NoNoise
from synth.generators.aim import Aim
from synth.generators.fitting.training_data import HeldTable
from synth.generators.latent_class import LatentClass
from synth.generators.marginal_generator import Independent
from synth.generators.mst import Mst
from synth.schema import Schema, build_schema
from synth.split import split_table
from synth.table import conform
from tests.synth.stored.conftest import COLUMNS, N_ROWS, every_kind


def test_every_cell_is_read_as_in_memory(put: Any, kinds: Schema) -> None:
    both = put(every_kind())
    held, stored = HeldTable(conform(both.held, kinds, outside="clamp"), kinds), both.stored.training(kinds)
    attributes = Discretizer.by_schema(kinds).attributes
    assert len(stored) == len(held)
    for attribute, here, there in zip(
        attributes, held.cell_counts(attributes), stored.cell_counts(attributes), strict=True
    ):
        np.testing.assert_array_equal(here, there, err_msg=attribute.name)


def test_every_exact_value_of_a_number_is_counted_as_in_memory(put: Any, kinds: Schema) -> None:
    both = put(every_kind())
    held, stored = HeldTable(conform(both.held, kinds, outside="clamp"), kinds), both.stored.training(kinds)
    numbers = [name for name in kinds.modeled if isinstance(kinds.columns[name], NumericColumn)]
    assert len(numbers) > 2
    for name in numbers:
        counts = held.value_counts(name)
        assert sum(counts.values()) > 0
        assert stored.value_counts(name) == counts, name


def test_cells_that_are_worked_out_there_are_the_same(put: Any, kinds: Schema, monkeypatch: Any) -> None:
    monkeypatch.setattr("synth.stored.table.MANY_VALUES", 0)
    both = put(every_kind())
    held, stored = HeldTable(conform(both.held, kinds, outside="clamp"), kinds), both.stored.training(kinds)
    attributes = Discretizer.by_schema(kinds).attributes
    for here, there in zip(held.cell_counts(attributes), stored.cell_counts(attributes), strict=True):
        np.testing.assert_array_equal(here, there)


def test_counts_of_codes_together_are_the_same(put: Any, kinds: Schema) -> None:
    both = put(every_kind())
    held, stored = HeldTable(conform(both.held, kinds, outside="clamp"), kinds), both.stored.training(kinds)
    codes = Discretizer.by_schema(kinds)
    cliques = [
        clique
        for k in (1, 2, 3)
        for clique in itertools.combinations(codes.columns, k)
        if math.prod(codes.sizes[name] for name in clique) < 20_000
    ][:70]
    cliques.append(("yes", "word")[::-1])
    for clique, here, there in zip(
        cliques, held.coded(codes).each(cliques), stored.coded(codes).each(cliques), strict=True
    ):
        np.testing.assert_array_equal(here, there, err_msg=str(clique))


def test_both_sides_of_a_split_are_the_same_rows(put: Any, kinds: Schema) -> None:
    both = put(every_kind())
    here = split_table(both.held, kinds, holdout_share=0.3, seed=5, private=True)
    train, holdout = both.stored.split(kinds, holdout_share=0.3, seed=5)
    assert (len(train), len(holdout)) == (len(here.train), len(here.holdout))
    codes = Discretizer.by_schema(kinds)
    for side, rows in ((train, here.train), (holdout, here.holdout)):
        np.testing.assert_array_equal(
            side.training(kinds).coded(codes).counts(("level", "code")),
            HeldTable(rows, kinds).coded(codes).counts(("level", "code")),
        )


@pytest.mark.parametrize(
    "generator",
    [Independent(epsilon=1.0), Mst(epsilon=1.0), Aim(epsilon=1.0, rounds=3), LatentClass(epsilon=1.0, n_classes=40)],
    ids=lambda generator: generator.name,
)
def test_a_model_is_the_same_where_noise_is_none(put: Any, generator: Any) -> None:
    names = ("whole", "word", "level", "seen")
    schema = build_schema({"status": "declared", "n_units": N_ROWS, "columns": {name: COLUMNS[name] for name in names}})
    both = put(every_kind()[list(names)])
    models = [
        generator.fit(rows, schema, budget=Budget(generator.schedule(schema), NoNoise()))
        for rows in (both.held, both.stored)
    ]
    (plain, arrays), (others, other_arrays) = (model.distribution.to_arrays() for model in models)
    assert plain == others and models[0].discretizer.to_plain() == models[1].discretizer.to_plain()
    for name, array in arrays.items():
        np.testing.assert_allclose(array, other_arrays[name], rtol=1e-9)


def test_a_measured_domain_is_the_same(put: Any) -> None:
    columns = {
        "whole": {"kind": "integer", "measure": True, "measure_spikes": True},
        "seen": {"kind": "datetime", "measure": True, "missing": True, "precision": "min"},
        "word": {"kind": "categorical", "measure": True, "missing": True},
        "level": {"kind": "categorical", "measure": True, "whole_numbers": True},
    }
    schema = build_schema({"status": "declared", "n_units": N_ROWS, "columns": columns})
    both, generator = put(every_kind()[list(columns)]), Independent(epsilon=8.0)
    found = [
        generator.fit(rows, schema, budget=Budget(generator.schedule(schema), NoNoise())).schema
        for rows in (both.held, both.stored)
    ]
    assert found[0] == found[1]


def test_an_entity_contributes_as_many_rows_as_in_memory(put: Any) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"who": rng.choice([*(f"P{i:04d}" for i in range(300)), "", None], 2_000), "x": rng.integers(0, 9, 2_000)}
    )
    schema = build_schema(
        {
            "status": "declared", "n_units": 300, "entity": "who", "max_rows_per_unit": 3,
            "columns": {"who": COLUMNS["who"], "x": {"kind": "integer", "bounds": [0, 9]}},
        }
    )  # fmt: skip
    both = put(frame)
    stored = both.stored.training(schema)
    sizes = frame[frame["who"].notna() & (frame["who"] != "")].groupby("who").size().clip(upper=3)
    np.testing.assert_array_equal(stored.rows_per_entity(), np.bincount(sizes, minlength=4)[1:])
    assert len(stored) == sizes.sum()
