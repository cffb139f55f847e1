"""Declared constraints hold in every synthetic table, whoever made it, and what that costs in rejected rows."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.domain import Discretizer
from synth.domain.constraint_checks import broken
from synth.errors import ModelError
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.models.constraints import ENOUGH, LARGEST_BATCH, REJECTED, draw_lawful, structural_zeros
from synth.marginals import Factor, Measurement, estimate, sample
from synth.schema import Schema, build_schema
from synth.table import conform, present, violations

LEVELS = [["primary", 1], ["school", 2], ["college", 3], ["master", 4]]
CONSTRAINTS: list[dict[str, Any]] = [
    {"kind": "fixed_combinations", "columns": ["education", "education-num"], "combinations": LEVELS},
    {"kind": "inequality", "low": "start", "high": "end"},
    {"kind": "formula", "column": "net", "expression": "gain - loss / 4"},
    {"kind": "formula", "column": "double", "expression": "2 * net"},
]
CONTENT: dict[str, Any] = {
    "status": "declared",
    "n_units": 1000,
    "columns": {
        "id": {"kind": "identifier", "template": "P-####"},
        "double": {"kind": "integer", "bounds": [-100, 2000], "missing": True},
        "education": {"kind": "categorical", "categories": [level for level, _ in LEVELS], "missing": True},
        "education-num": {"kind": "integer", "bounds": [1, 4]},
        "start": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
        "end": {"kind": "date", "bounds": ["2020-01-01", "2021-06-30"], "missing": True},
        "gain": {"kind": "integer", "bounds": [0, 1000], "missing": True},
        "loss": {"kind": "integer", "bounds": [0, 500]},
        "net": {"kind": "real", "bounds": [-50, 1000], "decimals": 1, "missing": True},
    },
    "constraints": CONSTRAINTS,
}
FITS = [
    ("independent", None), ("independent", 1.0), ("mst", None), ("mst", 1.0), ("latent_class", None),
    ("latent_class", 1.0), ("sdv.gaussian_copula", None),
]  # fmt: skip
QUICK: dict[str, dict[str, Any]] = {"latent_class": {"n_classes": 50, "rounds": 4}}


@pytest.fixture(scope="module")
def schema() -> Schema:
    return build_schema(CONTENT)


@pytest.fixture(scope="module")
def table(schema: Schema) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1000
    level = rng.integers(0, 4, n)
    start = np.datetime64("2020-01-01", "us") + rng.integers(0, 366, n) * np.timedelta64(1, "D")
    end = pd.Series(start + rng.integers(0, 150, n) * np.timedelta64(1, "D")).mask(rng.random(n) < 0.1)
    gain = pd.Series(rng.integers(200, 1001, n)).astype("Int64").mask(rng.random(n) < 0.05)
    loss = rng.integers(0, 501, n)
    net = (gain - loss / 4).astype("Float64").round(1)
    names = np.array([name for name, _ in LEVELS], dtype=object)[level]
    frame = pd.DataFrame(
        {
            "id": [f"P-{i:04d}" for i in range(n)],
            "double": (2 * net).round().astype("Int64"),
            "education": pd.Series(names).mask(rng.random(n) < 0.05, None),
            "education-num": level + 1,
            "start": start,
            "end": end,
            "gain": gain,
            "loss": loss,
            "net": net,
        }
    )
    real = conform(frame, schema)
    assert not any(broken(real, constraint, schema.columns).any() for constraint in schema.constraints)
    return real


@pytest.fixture(scope="module", params=FITS, ids=lambda fit: f"{fit[0]}-{fit[1]}")
def model(request: pytest.FixtureRequest, table: pd.DataFrame, schema: Schema) -> Any:
    name, epsilon = request.param
    if name.startswith("sdv") and importlib.util.find_spec("sdv") is None:
        pytest.skip("the extra sdv is not installed")
    return registry.generator(name, **QUICK.get(name, {}), **({} if epsilon is None else {"epsilon": epsilon})).fit(
        table, schema, seed=0
    )


def test_every_constraint_holds_in_every_row_and_nothing_else_is_lost(
    model: Any, table: pd.DataFrame, schema: Schema
) -> None:
    synthetic = model.sample(400, seed=1)
    assert len(synthetic) == 400
    assert not violations(synthetic, schema)
    rows = conform(synthetic, schema)
    assert [int(broken(rows, constraint, schema.columns).sum()) for constraint in schema.constraints] == [0, 0, 0, 0]
    real = present(table, schema)
    assert list(synthetic.columns) == list(real.columns)
    assert synthetic.dtypes.astype(str).to_dict() == real.dtypes.astype(str).to_dict()
    assert rows["education"].isna().any()
    assert rows["end"].isna().any()
    assert (rows["net"].isna() == rows["gain"].isna()).all()


def test_the_rejected_rows_are_counted_and_a_seed_still_gives_one_table(model: Any) -> None:
    first, again, other = (model.sample(150, seed=seed) for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(first, again)
    assert first.attrs == again.attrs
    assert first.attrs[REJECTED] > 0
    assert not first.equals(other)


def test_a_saved_model_keeps_the_constraints(table: pd.DataFrame, schema: Schema, tmp_path: Path) -> None:
    fitted = registry.generator("mst", epsilon=1.0).fit(table, schema)
    fitted.save(tmp_path / "model")
    loaded = registry.load_model(tmp_path / "model")
    assert loaded.schema.constraints == schema.constraints
    pd.testing.assert_frame_equal(loaded.sample(100, seed=1), fitted.sample(100, seed=1))


@pytest.mark.parametrize("name", [n for n in registry.names() if registry.generator_class(n).private])
def test_a_computed_column_costs_nothing_and_is_never_measured(name: str, schema: Schema) -> None:
    """The events are those of the same schema without the computed columns, so that its noise is no larger."""
    bare = build_schema(
        {
            **CONTENT,
            "columns": {key: column for key, column in CONTENT["columns"].items() if key not in ("net", "double")},
            "constraints": CONSTRAINTS[:2],
        }
    )
    generator = registry.generator(name, epsilon=1.0)
    assert isinstance(generator, PrivateGenerator)
    assert generator.schedule(schema) == generator.schedule(bare)


def test_a_real_table_need_not_keep_the_constraints(table: pd.DataFrame, schema: Schema) -> None:
    """No row is refused or left out for what it holds: that would be a look at the table nobody paid for."""
    unlawful = table.assign(start=table["start"].max(), net=0.0)
    synthetic = registry.generator("mst", epsilon=1.0).fit(unlawful, schema).sample(50, seed=0)
    rows = conform(synthetic, schema)
    assert not any(broken(rows, constraint, schema.columns).any() for constraint in schema.constraints)


NUMBERS: dict[str, Any] = {
    "status": "declared",
    "columns": {"a": {"kind": "integer", "bounds": [0, 999]}, "b": {"kind": "integer", "bounds": [0, 999]}},
}


def below(low: str = "a", high: str = "b") -> Schema:
    return build_schema({**NUMBERS, "constraints": [{"kind": "inequality", "low": low, "high": high}]})


class Source:
    """Draws that remember how many rows were asked for; `b` is below `a` in all but some rows."""

    def __init__(self, lawful_share: float) -> None:
        self.share, self.asked = lawful_share, list[int]()
        self.rng = np.random.default_rng(0)

    def __call__(self, n: int) -> pd.DataFrame:
        self.asked.append(n)
        b = np.where(self.rng.random(n) < self.share, 999, 0)
        return pd.DataFrame({"a": pd.array([500] * n, dtype="Int64"), "b": pd.array(b, dtype="Int64")})


def test_without_constraints_rows_are_drawn_once_and_handed_on_as_they_are() -> None:
    source = Source(0.5)
    made: list[pd.DataFrame] = []

    def draw(n: int) -> pd.DataFrame:
        made.append(source(n))
        return made[-1]

    assert draw_lawful(draw, 40, build_schema(NUMBERS)) is made[0]
    assert source.asked == [40]
    assert made[0].attrs == {}


def test_rows_that_all_keep_the_constraints_are_drawn_once() -> None:
    source = Source(1.0)
    table = draw_lawful(source, 40, below())
    assert source.asked == [40]
    assert table.attrs == {REJECTED: 0}


@pytest.mark.parametrize("share", [0.9, 0.2, 0.01])
def test_rejected_rows_are_those_before_the_last_one_accepted(share: float) -> None:
    source = Source(share)
    table = draw_lawful(source, 500, below())
    assert (table["b"] == 999).all()
    assert list(table.index) == list(range(500))
    again = Source(share)
    drawn = np.concatenate([again(n)["b"].to_numpy() for n in source.asked])
    last = np.flatnonzero(drawn == 999)[499]
    assert table.attrs[REJECTED] == last + 1 - 500
    assert len(source.asked) <= 8


def test_however_many_rows_are_rejected_no_batch_is_larger_than_memory_allows() -> None:
    source = Source(0.05)
    assert len(draw_lawful(source, 300_000, below())) == 300_000
    assert max(source.asked) <= LARGEST_BATCH


@pytest.mark.parametrize("n_rows", [1, 100, 5000])
def test_when_next_to_nothing_is_accepted_drawing_ends_with_a_clear_sentence(n_rows: int) -> None:
    source = Source(0.0)
    with pytest.raises(
        ModelError, match=r"next to no row .* that 'a' is at most 'b'; correct the constraints"
    ) as given:
        draw_lawful(source, n_rows, below())
    assert not str(given.value).endswith(".")
    assert sum(source.asked) <= ENOUGH + max(10 * n_rows, ENOUGH)


def test_the_sentence_names_the_constraint_that_is_hardest() -> None:
    constraints = [
        {"kind": "inequality", "low": "b", "high": "a"},
        {"kind": "formula", "column": "c", "expression": "a * 1000"},
    ]
    columns = {**NUMBERS["columns"], "c": {"kind": "integer", "bounds": [0, 10]}}
    schema = build_schema({**NUMBERS, "columns": columns, "constraints": constraints})
    with pytest.raises(ModelError, match=r"that 'c' is a \* 1000 within its bounds"):
        draw_lawful(Source(0.5), 10, schema)


def test_structural_zeros_spare_most_of_the_rejected_rows(table: pd.DataFrame, schema: Schema) -> None:
    discretizer = Discretizer.by_schema(schema)
    codes = discretizer.encode(table)
    measurements = [
        Measurement((name,), np.bincount(codes[:, i], minlength=size).astype(np.float64), 1.0)
        for i, (name, size) in enumerate(discretizer.sizes.items())
    ]

    def rejected(zeros: tuple[Factor, ...]) -> int:
        model = estimate(discretizer.sizes, measurements, zeros=zeros, n_iterations=50)
        rng = np.random.default_rng(0)

        def draw(n: int) -> pd.DataFrame:
            return discretizer.decode(sample(model, n, rng), rng)

        return int(draw_lawful(draw, 1000, schema).attrs[REJECTED])

    zeros = structural_zeros(schema, discretizer)
    assert [factor.attributes for factor in zeros] == [("education", "education-num"), ("start", "end")]
    assert rejected(zeros) < 0.2 * rejected(())
