"""Rows of a synthetic entity agree in what the schema calls constant, and nothing else of the rows changes for it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.declare import assertions
from synth.errors import SchemaError
from synth.generators import registry
from synth.generators.base import Model
from synth.generators.models.postprocess import group_rows
from synth.schema import Schema, build_schema
from synth.schema_file import to_toml

SHARES = np.array([0.4, 0.3, 0.0, 0.2, 0.1])
COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier", "bounds": [0, 10**6]},
    "sex": {"kind": "boolean", "missing": True},
    "region": {"kind": "categorical", "categories": ["north", "south a", "south b"], "missing": True},
    "born": {"kind": "date", "bounds": ["1950-01-01", "1950-01-10"]},
    "visit": {"kind": "integer", "bounds": [0, 999]},
}


def content(**more: Any) -> dict[str, Any]:
    head = {"status": "declared", "n_units": 900, "entity": "who", "max_rows_per_unit": 5, "columns": COLUMNS}
    return {**head, **more}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(900), rng.choice(5, 900, p=SHARES) + 1)
    born = np.datetime64("1950-01-01") + rng.integers(0, 10, 900) * np.timedelta64(1, "D")
    return pd.DataFrame(
        {
            "who": who,
            "sex": pd.array(rng.choice([True, False, None], 900), dtype="boolean")[who],
            "region": rng.choice(np.array([*COLUMNS["region"]["categories"], None], dtype=object), 900)[who],
            "born": born[who].astype("datetime64[us]"),
            "visit": rng.integers(0, 1000, len(who)),
        }
    )


FITS: list[tuple[str, dict[str, Any]]] = [
    ("mst", {}), ("mst", {"epsilon": 1.0}), ("latent_class", {"epsilon": 1.0, "n_classes": 50}),
    ("sdv.gaussian_copula", {}),
]  # fmt: skip


@pytest.fixture(scope="module", params=FITS, ids=str)
def firm(request: pytest.FixtureRequest, table: pd.DataFrame) -> Model:
    """A fit under a schema that holds columns constant."""
    name, parameters = request.param
    if name.startswith("sdv"):
        pytest.importorskip("sdv")
    generator = registry.generator(name, **parameters)
    return generator.fit(table, build_schema(content(constant_in_entity=["region", "born", "sex"])), seed=0)


def test_rows_of_an_entity_hold_the_same_values_in_what_is_constant(firm: Model) -> None:
    synthetic = firm.sample(3000, seed=1)
    entities = synthetic.groupby("who")[["region", "born", "sex"]]
    assert (entities.agg(lambda values: len(set(values.map(repr)))) == 1).all(axis=None)
    assert entities.size().max() <= 5
    assert synthetic.groupby("who")["visit"].nunique().max() > 1


def test_the_rows_are_those_that_were_drawn(table: pd.DataFrame) -> None:
    """Of the same generator, seed and draw, in another order: the distribution of rows cannot differ."""
    fits = [
        registry.generator("mst").fit(table, build_schema(content(constant_in_entity=constant)), seed=0)
        for constant in ([], ["region", "sex"])
    ]
    one, other = (fit.sample(2000, seed=4).drop(columns="who") for fit in fits)
    assert one.dtypes.equals(other.dtypes)
    # As texts, so that missing values have a place in the order.
    assert sorted(map(repr, one.to_numpy().tolist())) == sorted(map(repr, other.to_numpy().tolist()))


def sizes(owner: np.ndarray) -> np.ndarray:
    """Share of entities with 1, 2, ..., 5 rows."""
    of_each = np.bincount(np.bincount(owner), minlength=6)[1:]
    return of_each / of_each.sum()


@pytest.mark.parametrize("n_groups", [1, 30, 600])
def test_sizes_of_entities_keep_their_shares(n_groups: int) -> None:
    """Within 5 standard errors and 2 points of the shares, down to groups of about ten rows."""
    rng = np.random.default_rng(1)
    constant = pd.DataFrame({"a": rng.integers(0, n_groups, 6000)})
    order, owner = group_rows(constant, SHARES, rng)
    assert sorted(order) == list(range(6000))
    values = constant["a"].take(order).reset_index(drop=True)
    assert (values == values.groupby(owner).transform("first")).all()
    n_entities = owner.max() + 1
    assert (np.abs(sizes(owner) - SHARES) < 5 * np.sqrt(SHARES * (1 - SHARES) / n_entities) + 0.02).all()


def test_where_nothing_is_shared_every_entity_has_one_row() -> None:
    order, owner = group_rows(pd.DataFrame({"a": np.arange(500)}), SHARES, np.random.default_rng(0))
    assert sorted(owner) == sorted(order) == list(range(500))


def test_the_order_of_entities_tells_nothing() -> None:
    """Runs test on which half of the groups an entity is of: within 5 standard errors of half the neighbors."""
    rng = np.random.default_rng(2)
    values = rng.integers(0, 40, 8000)
    order, owner = group_rows(pd.DataFrame({"a": values}), SHARES, rng)
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    large = values[order][starts] >= 20
    changes = (large[1:] != large[:-1]).mean()
    expected = 2 * large.mean() * (1 - large.mean())
    assert abs(changes - expected) < 5 * 0.5 / np.sqrt(len(large))
    assert (np.diff(owner) >= 0).all()


def test_entities_are_the_same_under_the_same_seed(firm: Model) -> None:
    pd.testing.assert_frame_equal(firm.sample(300, seed=5), firm.sample(300, seed=5))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"constant_in_entity": ["regoin"]}, "constant_in_entity='regoin' is not a column; did you mean 'region'"),
        ({"constant_in_entity": ["who"]}, "constant_in_entity='who' is an identifier or text"),
        ({"constant_in_entity": ["sex"], "entity": None, "max_rows_per_unit": 1}, "constant_in_entity needs an entity"),
    ],
)
def test_what_cannot_be_constant_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        build_schema(content(**more))


def test_what_is_constant_is_asserted_and_written() -> None:
    schema: Schema = build_schema(content(constant_in_entity=["sex"]))
    assert any("same value in constant_in_entity=['sex']" in text for name, text in assertions(schema))
    assert 'constant_in_entity = ["sex"]' in to_toml(schema)
    assert "constant_in_entity" not in to_toml(build_schema(content()))
