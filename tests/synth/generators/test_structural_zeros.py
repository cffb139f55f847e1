"""Structural zeros against brute force: a cell is open exactly where some values of its codes keep the constraint."""

import datetime as dt
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.domain import Discretizer, numeric_scale
from synth.domain.constraint_checks import broken
from synth.domain.discretizer import MISSING, OTHER, Attribute, categories, regroup
from synth.errors import ModelError
from synth.generators.aim import Aim
from synth.generators.models import constraints as module
from synth.generators.models.constraints import structural_zeros
from synth.generators.mst import Mst
from synth.schema import Schema, build_schema

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
    made = []
    for attribute in discretizer.attributes:
        n = attribute.n_cells - 2
        share = rng.choice([0.0, 0.3, 1.0])
        groups = np.cumsum(rng.random(n) < share)
        if attribute.edges is None:
            groups = np.where(rng.random(n) < rng.choice([0.0, 0.4]), -1, np.arange(n))
        made.append(regroup(attribute, groups))
    return Discretizer(tuple(made))


def values_of(attribute: Attribute) -> pd.Series:
    """Every value that the column can hold, missing included where it may be."""
    column: Any = attribute.column
    if attribute.edges is None:
        known = list(categories(column))
        dtype = {bool: "boolean", int: "Int64", str: "object"}[type(known[0])]
        return pd.Series([*known, None] if column.missing else known, dtype=dtype)
    unit = numeric_scale.step(column)
    assert unit is not None
    low, high = numeric_scale.bounds(column)
    counts = np.arange(
        np.ceil(numeric_scale.ratio(np.array(low), unit)), np.floor(numeric_scale.ratio(np.array(high), unit)) + 1
    )
    counts = counts if len(counts) else np.array([np.rint(low / unit)])
    counts = np.append(counts, counts[-1]).astype(np.int64)
    missing = np.zeros(len(counts), dtype=bool)
    missing[-1] = column.missing
    return numeric_scale.values(counts, column, missing)


def open_by_force(schema: Schema, of: list[Attribute]) -> np.ndarray:
    """Tuples of codes of some row, among all rows there can be, that keeps the schema's one constraint."""
    columns = [values_of(attribute) for attribute in of]
    every = np.array(list(itertools.product(*(range(len(column)) for column in columns))))
    rows = pd.DataFrame(
        {
            a.name: column.take(every[:, i]).reset_index(drop=True)
            for i, (a, column) in enumerate(zip(of, columns, strict=True))
        }
    )
    constraint = schema.constraints[0]
    if len(of) < len(constraint.columns):
        kept = rows[[_in_part(row, rows.columns, constraint) for row in rows.astype(object).itertuples(index=False)]]
    else:
        kept = rows[~broken(rows, constraint, schema.columns)]
    made = np.zeros([attribute.size for attribute in of], dtype=bool)
    made[tuple(attribute.codes(kept[attribute.name]) for attribute in of)] = True
    return made


def _in_part(row: Sequence[Any], names: Iterable[str], constraint: Any) -> bool:
    """Whether a row of some of the columns is a part of a listed combination, or holds a missing value."""
    places = [constraint.columns.index(name) for name in names]
    parts = {tuple(combination[place] for place in places) for combination in constraint.combinations}
    return any(pd.isna(value) for value in row) or tuple(row) in parts


def found(schema: Schema, discretizer: Discretizer) -> np.ndarray | None:
    factors = structural_zeros(schema, discretizer)
    if not factors:
        return None
    (factor,) = factors
    assert factor.attributes == tuple(name for name in schema.constraints[0].columns if name in schema.modeled)
    assert set(np.unique(factor.log_values)) == {-np.inf, 0.0}
    return np.asarray(factor.log_values == 0.0)


def check(schema: Schema, seed: int) -> None:
    discretizer = merged(Discretizer.by_schema(schema), seed)
    attributes = {attribute.name: attribute for attribute in discretizer.attributes}
    of = [attributes[name] for name in schema.constraints[0].columns if name in attributes]
    expected, zeros = open_by_force(schema, of), found(schema, discretizer)
    # Rounding gives some grids a cell that no value falls into: what it says is of no account.
    reached = np.ix_(*(np.unique(attribute.codes(values_of(attribute))) for attribute in of))
    if zeros is None:
        assert expected[reached].all() or not expected.any()
    else:
        np.testing.assert_array_equal(zeros[reached], expected[reached])
        assert not any(zeros.take(attribute.impossible, axis).any() for axis, attribute in enumerate(of))


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


def test_no_lawful_row_of_continuous_columns_falls_on_a_zero_and_cells_apart_are_zero() -> None:
    bounds = {"kind": "real", "bounds": [0.0, 1.0]}
    constraint = {"kind": "inequality", "low": "a", "high": "b", "strict": True}
    schema = build_schema({"status": "declared", "columns": {"a": bounds, "b": bounds}, "constraints": [constraint]})
    discretizer = Discretizer.by_schema(schema)
    zeros = found(schema, discretizer)
    assert zeros is not None
    drawn = discretizer.decode(np.random.default_rng(0).integers(0, 256, (20_000, 2)), np.random.default_rng(1))
    lawful = drawn[(drawn["a"] < drawn["b"]).to_numpy()]
    assert zeros[tuple(discretizer.encode(lawful).T)].all()
    below = np.tril(np.ones((256, 256), dtype=bool), -1)
    assert not zeros[:256, :256][below].any()


def test_a_code_that_no_value_may_have_is_closed_and_a_missing_value_opens_everything_else() -> None:
    columns = {"a": {"kind": "integer", "bounds": [0, 3], "missing": True}, "b": {"kind": "integer", "bounds": [0, 3]}}
    constraint = {"kind": "inequality", "low": "a", "high": "b"}
    schema = build_schema({"status": "declared", "columns": columns, "constraints": [constraint]})
    zeros = found(schema, Discretizer.by_schema(schema))
    assert zeros is not None
    assert zeros[MISSING, :4].all()
    assert not zeros[:, [OTHER, MISSING]].any()
    assert not zeros[OTHER].any()


def test_formulas_and_constraints_on_their_columns_have_no_zeros() -> None:
    number = {"kind": "integer", "bounds": [0, 3]}
    constraints = [
        {"kind": "formula", "column": "c", "expression": "a + b"},
        {"kind": "inequality", "low": "b", "high": "c"},
    ]
    columns = {"a": number, "b": number, "c": number}
    schema = build_schema({"status": "declared", "columns": columns, "constraints": constraints})
    assert structural_zeros(schema, Discretizer.by_schema(schema)) == ()


def test_a_table_too_large_to_hold_and_a_constraint_that_leaves_nothing_have_no_zeros(monkeypatch: Any) -> None:
    columns = {"a": {"kind": "integer", "bounds": [5, 9]}, "b": {"kind": "integer", "bounds": [0, 6]}}
    constraint = {"kind": "inequality", "low": "a", "high": "b"}
    content = {"status": "declared", "columns": columns, "constraints": [constraint]}
    schema = build_schema(content)
    assert found(schema, Discretizer.by_schema(schema)) is not None
    monkeypatch.setattr(module, "MOST_CELLS", 7 * 9 - 1)
    assert found(schema, Discretizer.by_schema(schema)) is None
    monkeypatch.undo()
    never = build_schema({**content, "columns": {**columns, "b": {"kind": "integer", "bounds": [0, 4]}}})
    assert found(never, Discretizer.by_schema(never)) is None


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
    constraints = [{"kind": "fixed_combinations", "columns": of, "combinations": rows} for of, rows in listed]
    schema = build_schema({"status": "declared", "n_units": 10_000, "columns": columns, "constraints": constraints})
    # Both values are frequent, so that no noise merges them into one code, which would keep both constraints.
    train = pd.DataFrame({name: np.arange(10_000) % 2 == 0 for name in columns})
    for generator in (Mst(epsilon=10.0), Aim(epsilon=10.0)):
        with pytest.raises(ModelError, match="no row can keep all constraints"):
            generator.fit(train, schema)
