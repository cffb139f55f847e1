from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.privacy import copied_parts, copies
from evaluate.privacy.exact import exact_of
from synth.schema import build_schema

PEOPLE, VALUES, PARTS, NEAR = (f"privacy.copies.{name}" for name in ("people", "values", "parts", "near"))
SIZES = (2000, 1000, 1000, 2000)


def by_name(tables):
    found = (copies.measure(tables), copied_parts.measure(tables))
    return {one.measure: one for part in found for one in (*part.estimates, *part.failures)}


def with_synthetic(tables, rows):
    return replace(tables, synthetic=rows.reset_index(drop=True).reset_index(drop=True))


@pytest.mark.statistical
def test_an_independent_sample_copies_nobody(population, draw):
    for seed, sizes in enumerate([(1200, 300, 300, 800), (600, 600, 600, 600), (400, 800, 800, 1200)]):
        found = by_name(draw(population, sizes, seed=seed + 30))
        for name in (PEOPLE, VALUES, PARTS, NEAR):
            assert found[name].low == 0.0, name


def test_ten_people_of_a_thousand_are_certain_also_where_they_are_the_most_outlying(draw, make):
    tables = draw(make["mixed"], (1000, 500, 500, 1000), seed=1)
    far = tables.train["x0"].abs().sort_values(ascending=False).index
    for copied in (tables.train.head(10), tables.train.loc[far].head(10)):
        found = by_name(with_synthetic(tables, pd.concat([tables.synthetic.iloc[10:], copied])))[PEOPLE]
        assert found.low > 0.0
        assert found.value == pytest.approx(0.01)
        assert "about 10 people" in found.note


def test_values_of_one_column_that_are_shuffled_among_rows_are_found(draw, make):
    tables = draw(make["all numeric"], SIZES, seed=2)
    shuffled = tables.train["x2"].sample(frac=1.0, random_state=0).to_numpy()
    found = by_name(with_synthetic(tables, tables.synthetic.assign(x2=shuffled)))
    assert found[VALUES].low > 0.02
    assert "'x2'" in found[VALUES].note
    assert found[PEOPLE].low == 0.0


def test_neither_bounds_nor_categories_are_anybodys_own_values(draw, make):
    tables = draw(make["all numeric"], SIZES, seed=3)
    schema = build_schema({
        **tables.schema.model_dump(),
        "columns": {n: {"kind": "real", "bounds": [-0.25, 0.25], "missing": True} for n in tables.schema.columns},
    })  # fmt: skip
    frames = {name: getattr(tables, name).clip(-0.25, 0.25) for name in ("train", "fresh", "control", "synthetic")}
    found = by_name(replace(tables, **frames, schema=schema, declared=schema))
    assert found[VALUES].low == 0.0
    categories = by_name(draw(make["all categorical"], SIZES, seed=3, leak=1.0))
    assert categories[VALUES].high == 0.0 and "nobody" in categories[VALUES].note


def test_parts_of_rows_that_are_joined_to_other_rows_are_found(draw, make):
    tables = draw(make["all numeric"], SIZES, seed=4)
    n, half = 40, [f"x{i}" for i in range(4)]
    rows = tables.synthetic.copy()
    rows.loc[: n - 1, half] = tables.train.loc[: n - 1, half].to_numpy()
    found = by_name(with_synthetic(tables, rows))
    assert found[PARTS].low > 0.0
    assert found[PEOPLE].low == 0.0


def test_rows_with_their_last_digits_moved_are_found(draw, make):
    tables = draw(make["all numeric"], SIZES, seed=8)
    moved = tables.train.head(40) + np.random.default_rng(0).normal(scale=0.01, size=(40, tables.train.shape[1]))
    found = by_name(with_synthetic(tables, pd.concat([tables.synthetic.iloc[40:], moved])))
    assert found[NEAR].low > 0.005
    assert found[NEAR].value == pytest.approx(0.02, abs=0.005)
    assert found[PEOPLE].low == found[VALUES].low == found[PARTS].low == 0.0


def test_a_small_table_of_near_copies_is_one(draw, make):
    tables = draw(make["all numeric"], SIZES, seed=8)
    found = by_name(with_synthetic(tables, tables.train.head(50) + 1e-4))[NEAR]
    assert (found.n, found.value) == (50, pytest.approx(1.0, abs=0.05))


def test_a_table_of_few_columns_has_no_parts(draw, make):
    found = by_name(draw(make["one column"], (200, 100, 100, 200), seed=1))
    assert found[PARTS].high == 0.0 and "nobody" in found[PARTS].note


def test_people_are_counted_and_not_their_rows(draw, make):
    tables = draw(make["mixed"], (1000, 500, 500, 1000), seed=5)
    ends = np.cumsum([0, 1000, 500, 500])
    frames = {
        name: getattr(tables, name).assign(who=pd.array((np.arange(n) + start) // 10, dtype="Int64"))
        for name, start, n in zip(("train", "fresh", "control"), ends, (1000, 500, 500), strict=False)
    }
    frames["shuffled"] = tables.shuffled.assign(who=frames["train"]["who"])
    schema = build_schema({
        **tables.schema.model_dump(), "entity": "who",
        "columns": {**tables.schema.model_dump()["columns"], "who": {"kind": "identifier", "bounds": [0, 10**9]}},
    })  # fmt: skip
    rows = pd.concat([tables.synthetic.iloc[50:], tables.train.head(50)], ignore_index=True).assign(
        who=pd.array(np.arange(1000), dtype="Int64")
    )
    found = by_name(replace(tables, **frames, synthetic=rows, schema=schema, declared=schema))[PEOPLE]
    assert found.n == 100
    assert found.value == pytest.approx(0.05)


def test_of_many_rows_whole_units_are_compared_and_the_same_share_of_either_side(draw, make):
    tables = draw(make["mixed"], (1000, 300, 300, 400), seed=6)
    ends = np.cumsum([0, 1000, 300])
    frames = {
        name: getattr(tables, name).assign(who=pd.array((np.arange(n) + start) // 10, dtype="Int64"))
        for name, start, n in zip(("train", "fresh", "control"), ends, (1000, 300, 300), strict=True)
    }
    schema = build_schema({
        **tables.schema.model_dump(), "entity": "who",
        "columns": {**tables.schema.model_dump()["columns"], "who": {"kind": "identifier", "bounds": [0, 10**9]}},
    })  # fmt: skip
    rows = tables.synthetic.assign(who=pd.array(np.arange(400), dtype="Int64"))
    real = exact_of(replace(tables, **frames, synthetic=rows, schema=schema, declared=schema)).real(500)
    _, sizes = np.unique(real.units, return_counts=True)
    assert set(sizes) == {10}
    assert (real.in_train.sum(), (~real.in_train).sum()) == (500, 300)


def test_of_a_sample_of_people_the_upper_end_allows_for_all_others(draw, make):
    covered, n_most = [], 4000
    for seed in range(6):
        tables = replace(draw(make["all numeric"], (n_most, 500, 500, n_most), seed=40 + seed), n_targets=100)
        moved = tables.train.sample(120, random_state=seed) + 1e-3
        found = by_name(with_synthetic(tables, pd.concat([tables.synthetic.iloc[120:], moved])))[NEAR]
        assert found.n == 100
        assert found.high > 0.02
        covered.append(found.low <= 0.03 <= found.high)
    assert sum(covered) >= 5


def test_parts_of_a_sample_of_rows_are_shares_of_those_who_could_be_copied(draw, make, monkeypatch):
    monkeypatch.setattr(copied_parts, "MAX_ROWS", 1000)
    tables = draw(make["all numeric"], SIZES, seed=9)
    found = by_name(with_synthetic(tables, tables.train.head(400)))[PARTS]
    assert found.n == 200  # of 2,000 rows 1,000 are looked at, so that half of the 400 are expected among them
    assert found.value == pytest.approx(1.0, abs=0.2)


def test_the_note_tells_the_nearness_that_was_found(draw, make):
    tables = draw(make["all numeric"], SIZES, seed=8)
    found = by_name(with_synthetic(tables, tables.train.head(50) + 1e-9))[NEAR]
    assert "10 times nearer" in found.note or "5 times nearer" in found.note
    assert "2,000 people were looked at" in found.note
