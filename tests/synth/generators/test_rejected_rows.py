"""Rows that constraints refuse: rejection sampling and structural zeros."""

import datetime as dt
import importlib.util
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.domain import Discretizer, grid
from synth.domain.discretizer import Attribute, regroup
from synth.domain.relations import broken
from synth.errors import ModelError
from synth.generators import registry
from synth.generators.aim import Aim
from synth.generators.base import PrivateGenerator
from synth.generators.marginal_generator import Mst
from synth.generators.models.constraints import ENOUGH, REJECTED, draw_lawful, structural_zeros
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
FITS = [("independent", None), ("mst", 1.0), ("latent_class", 1.0), ("sdv.gaussian_copula", None)]
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
            "id": [f"P-{i:04d}" for i in range(n)], "double": (2 * net).round().astype("Int64"),
            "education": pd.Series(names).mask(rng.random(n) < 0.05, None), "education-num": level + 1,
            "start": start, "end": end, "gain": gain, "loss": loss, "net": net,
        }
    )  # fmt: skip
    real = conform(frame, schema)
    assert not any(broken(real, constraint, schema.columns).any() for constraint in schema.constraints)
    return real


@pytest.fixture(scope="module", params=FITS, ids=lambda fit: f"{fit[0]}-{fit[1]}")
def model(request: pytest.FixtureRequest, table: pd.DataFrame, schema: Schema) -> Any:
    name, epsilon = request.param
    if name.startswith("sdv") and importlib.util.find_spec("sdv") is None:
        pytest.skip("the extra sdv is not installed")
    generator = registry.generator(name, **QUICK.get(name, {}), **({} if epsilon is None else {"epsilon": epsilon}))
    return generator.fit_rows(table, schema, seed=0)  # by these laws alone: no relations are looked for


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
    assert synthetic.attrs[REJECTED] > 0


@pytest.mark.parametrize("name", ["mst", "latent_class"])
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
    table = draw_lawful(source, 40, build_schema(NUMBERS))
    assert (source.asked, table.attrs, len(table)) == ([40], {}, 40)


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


@pytest.mark.parametrize("n_rows", [1, 100, 5000])
def test_when_next_to_nothing_is_accepted_drawing_ends_with_a_clear_sentence(n_rows: int) -> None:
    source = Source(0.0)
    with pytest.raises(ModelError, match=r"next to no row .* that 'a' is at most 'b'; correct the constraints"):
        draw_lawful(source, n_rows, below())
    assert sum(source.asked) <= ENOUGH + max(10 * n_rows, ENOUGH)


NOON = dt.datetime(2020, 3, 1, 12)


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    low, width = draw(st.integers(-5, 5)), draw(st.integers(0, 12))
    kinds: list[dict[str, Any]] = [
        {"kind": "integer", "bounds": [low, low + width]},
        {"kind": "integer", "bounds": [low, low + 50 * width]},
        {"kind": "real", "bounds": [low, low + width / 2], "decimals": 1},
        {"kind": "real", "bounds": [low - 0.4, low + width + 0.2], "decimals": 1, "scale": "log"},
    ]
    return {**draw(st.sampled_from(kinds)), "missing": draw(st.booleans())}


@st.composite
def times(draw: st.DrawFn) -> dict[str, Any]:
    start, width = NOON + dt.timedelta(hours=draw(st.integers(-40, 40))), draw(st.integers(0, 30))
    end = start + dt.timedelta(hours=width)
    kinds: list[dict[str, Any]] = [
        {"kind": "date", "bounds": [start.date(), end.date()]},
        {"kind": "datetime", "bounds": [start, end], "precision": "h"},
        {"kind": "datetime", "bounds": [start, start + dt.timedelta(hours=width / 10)], "precision": "min"},
    ]
    return {**draw(st.sampled_from(kinds)), "missing": draw(st.booleans())}


@st.composite
def listable(draw: st.DrawFn) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [
        {"kind": "categorical", "categories": ["a", "b", "c", "d"]},
        {"kind": "categorical", "categories": [7, 3, 5]},
        {"kind": "boolean"},
        {"kind": "integer", "bounds": [0, 8]},
    ]
    return {**draw(st.sampled_from(kinds)), "missing": draw(st.booleans())}


def merged(discretizer: Discretizer, seed: int) -> Discretizer:
    """Codes of random stretches of cells; some categories, or all, in `other`."""
    rng = np.random.default_rng(seed)
    attributes = []
    for attribute in discretizer.attributes:
        n = attribute.n_cells - 2
        share = rng.choice([0.0, 0.3, 1.0])
        groups = np.cumsum(rng.random(n) < share)
        if attribute.edges is None:
            groups = np.where(rng.random(n) < rng.choice([0.0, 0.4]), -1, np.arange(n))
        attributes.append(regroup(attribute, groups))
    return Discretizer(tuple(attributes))


def values_of(attribute: Attribute) -> pd.Series:
    """Every value that the column can hold, missing included where it may be."""
    column: Any = attribute.column
    if attribute.edges is None:
        known = list(column.levels)
        dtype = {bool: "boolean", int: "Int64", str: "object"}[type(known[0])]
        return pd.Series([*known, None] if column.missing else known, dtype=dtype)
    unit = column.unit
    assert unit is not None
    low, high = column.ends
    counts = np.arange(np.ceil(grid.ratio(np.array(low), unit)), np.floor(grid.ratio(np.array(high), unit)) + 1)
    counts = counts if len(counts) else np.array([np.rint(low / unit)])
    counts = np.append(counts, counts[-1]).astype(np.int64)
    missing = np.zeros(len(counts), dtype=bool)
    missing[-1] = column.missing
    return column.values(counts, missing)


def open_by_force(schema: Schema, attributes: list[Attribute]) -> np.ndarray:
    """Tuples of codes of some row, among all rows there can be, that keeps the schema's one constraint."""
    columns = [values_of(attribute) for attribute in attributes]
    every = np.array(list(itertools.product(*(range(len(column)) for column in columns))))
    rows = pd.DataFrame(
        {
            a.name: column.take(every[:, i]).reset_index(drop=True)
            for i, (a, column) in enumerate(zip(attributes, columns, strict=True))
        }
    )
    constraint = schema.constraints[0]
    if len(attributes) < len(constraint.columns):
        kept = rows[[_in_part(row, rows.columns, constraint) for row in rows.astype(object).itertuples(index=False)]]
    else:
        kept = rows[~broken(rows, constraint, schema.columns)]
    is_open = np.zeros([attribute.size for attribute in attributes], dtype=bool)
    is_open[tuple(attribute.codes(kept[attribute.name]) for attribute in attributes)] = True
    return is_open


def _in_part(row: Sequence[Any], names: Iterable[str], constraint: Any) -> bool:
    """Whether a row of some of the columns is a part of a listed combination, or holds a missing value."""
    indices = [constraint.columns.index(name) for name in names]
    parts = {tuple(combination[index] for index in indices) for combination in constraint.combinations}
    return any(pd.isna(value) for value in row) or tuple(row) in parts


def found(schema: Schema, discretizer: Discretizer) -> np.ndarray | None:
    factors = structural_zeros(schema, discretizer)
    if not factors:
        return None
    (factor,) = factors
    names = tuple(name for name in schema.constraints[0].columns if name in schema.modeled)
    # A computed column gives its place to the one that it equals, so that the order may be another.
    assert sorted(factor.attributes) == sorted(names)
    assert set(np.unique(factor.log_values)) == {-np.inf, 0.0}
    return np.asarray(factor.aligned(names) == 0.0)


def check(schema: Schema, seed: int) -> None:
    discretizer = merged(Discretizer.by_schema(schema), seed)
    attributes = {attribute.name: attribute for attribute in discretizer.attributes}
    own = [attributes[name] for name in schema.constraints[0].columns if name in attributes]
    expected, zeros = open_by_force(schema, own), found(schema, discretizer)
    # Rounding gives some grids a cell that no value falls into: what it says is of no account.
    reached = np.ix_(*(np.unique(attribute.codes(values_of(attribute))) for attribute in own))
    if zeros is None:
        assert expected[reached].all() or not expected.any()
    else:
        np.testing.assert_array_equal(zeros[reached], expected[reached])
        assert not any(zeros.take(attribute.impossible, axis).any() for axis, attribute in enumerate(own))


@given(
    st.one_of(st.tuples(numbers(), numbers(), st.just(value=False)), st.tuples(times(), times(), st.booleans())),
    st.booleans(),
    st.integers(0, 99),
)
def test_codes_of_an_inequality_are_open_exactly_where_some_values_keep_it(
    about: tuple[dict[str, Any], dict[str, Any], bool], strict: bool, seed: int
) -> None:
    *two, by_day = about
    constraint = {"kind": "inequality", "low": "a", "high": "b", "strict": strict, "by_day": by_day}
    columns = dict(zip(("a", "b"), two, strict=True))
    check(build_schema({"status": "declared", "columns": columns, "constraints": [constraint]}), seed)


@given(st.lists(listable(), min_size=2, max_size=3), st.data(), st.integers(0, 99))
def test_codes_of_combinations_are_open_exactly_where_a_listed_one_or_a_missing_value_is(
    parts: list[dict[str, Any]], data: st.DataObject, seed: int
) -> None:
    columns = {f"c{index}": part for index, part in enumerate(parts)}
    domain: list[Any] = [
        {"boolean": [False, True], "integer": list(range(9))}.get(p["kind"], p.get("categories")) for p in parts
    ]
    every = list(itertools.product(*domain))
    listed = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=6, unique=True))
    constraint = {"kind": "fixed_combinations", "columns": list(columns), "combinations": listed}
    check(build_schema({"status": "declared", "columns": columns, "constraints": [constraint]}), seed)


def chained(n_columns: int) -> Schema:
    """Numbers of which each is at most the next."""
    names = [f"c{index}" for index in range(n_columns)]
    columns = {name: {"kind": "integer", "bounds": [0, 29]} for name in names}
    ordered = [{"kind": "inequality", "low": low, "high": high} for low, high in itertools.pairwise(names)]
    return build_schema({"status": "declared", "n_units": 1000, "columns": columns, "constraints": ordered})


def test_pairs_that_would_close_too_large_a_loop_with_the_zeros_are_not_measured() -> None:
    schema = chained(6)
    values = np.sort(np.random.default_rng(0).integers(0, 30, (1000, 6)), axis=1)
    # The last column follows the first: the pair that matters most closes the longest loop.
    values[:, 5] = np.clip(values[:, 0] + 20, values[:, 4], 29)
    train = pd.DataFrame(values, columns=list(schema.columns))
    limit_mb = 0.1
    model = Mst(epsilon=20.0, max_model_mb=limit_mb).fit(train, schema)
    assert len(model.distribution.potentials) > 6
    assert 8e-6 * model.distribution.tree.n_cells <= limit_mb
    sampled = model.sample(500, seed=0)
    assert (sampled.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)


def test_constraints_that_no_row_can_keep_are_refused_before_anything_is_chosen() -> None:
    columns = {name: {"kind": "boolean"} for name in ("a", "b", "c")}
    listed = [(["a", "b"], [[True, True]]), (["a", "c"], [[False, True]])]
    constraints = [{"kind": "fixed_combinations", "columns": names, "combinations": rows} for names, rows in listed]
    schema = build_schema({"status": "declared", "n_units": 10_000, "columns": columns, "constraints": constraints})
    # Both values are frequent, so that no noise merges them into one code, which would keep both constraints.
    train = pd.DataFrame({name: np.arange(10_000) % 2 == 0 for name in columns})
    for generator in (Mst(epsilon=10.0), Aim(epsilon=10.0)):
        with pytest.raises(ModelError, match="no row can keep all constraints"):
            generator.fit(train, schema)
