from dataclasses import replace

import pandas as pd
import pytest

from evaluate.privacy import copied_parts, copies
from synth.schema import build_schema

PEOPLE, VALUES, PARTS, NEAR = (f"privacy.copies.{name}" for name in ("people", "values", "parts", "near"))
SIZES = (2000, 1000, 1000, 2000)


def by_name(tables):
    result = (copies.measure(tables), copied_parts.measure(tables))
    return {each.measure: each for part in result for each in (*part.estimates, *part.failures)}


def with_synthetic(tables, rows):
    return replace(tables, synthetic=rows.reset_index(drop=True).reset_index(drop=True))


@pytest.mark.statistical
def test_an_independent_sample_copies_nobody(population, draw):
    for seed, sizes in enumerate([(1200, 300, 300, 800), (600, 600, 600, 600), (400, 800, 800, 1200)]):
        result = by_name(draw(population, sizes, seed=seed + 30))
        for name in (PEOPLE, VALUES, PARTS, NEAR):
            assert result[name].low == 0.0, name


def test_ten_people_of_a_thousand_are_certain_also_where_they_are_the_most_outlying(draw, make):
    tables = draw(make["mixed"], (1000, 500, 500, 1000), seed=1)
    far = tables.train["x0"].abs().sort_values(ascending=False).index
    for copied in (tables.train.head(10), tables.train.loc[far].head(10)):
        result = by_name(with_synthetic(tables, pd.concat([tables.synthetic.iloc[10:], copied])))[PEOPLE]
        assert result.low > 0.0
        assert result.value == pytest.approx(0.01)
        assert "about 10 people" in result.note


def test_neither_bounds_nor_categories_are_anybodys_own_values(draw, make):
    tables = draw(make["all numeric"], SIZES, seed=3)
    schema = build_schema({
        **tables.schema.model_dump(),
        "columns": {n: {"kind": "real", "bounds": [-0.25, 0.25], "missing": True} for n in tables.schema.columns},
    })  # fmt: skip
    frames = {name: getattr(tables, name).clip(-0.25, 0.25) for name in ("train", "fresh", "control", "synthetic")}
    result = by_name(replace(tables, **frames, schema=schema, declared=schema))
    assert result[VALUES].low == 0.0
    categories = by_name(draw(make["all categorical"], SIZES, seed=3, leak=1.0))
    assert categories[VALUES].high == 0.0 and "nobody" in categories[VALUES].note


def test_of_a_sample_of_people_the_upper_end_allows_for_all_others(draw, make):
    covered, n_most = [], 4000
    for seed in range(6):
        tables = replace(draw(make["all numeric"], (n_most, 500, 500, n_most), seed=40 + seed), n_targets=100)
        moved = tables.train.sample(120, random_state=seed) + 1e-3
        result = by_name(with_synthetic(tables, pd.concat([tables.synthetic.iloc[120:], moved])))[NEAR]
        assert result.n == 100
        assert result.high > 0.02
        covered.append(result.low <= 0.03 <= result.high)
    assert sum(covered) >= 5
