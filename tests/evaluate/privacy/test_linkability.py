from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evaluate.privacy import attribute_inference, linkability
from evaluate.privacy.linkability import ColumnSplit, splits_of
from evaluate.tables import Tables
from synth.errors import SchemaError
from synth.schema import build_schema

WORST = "privacy.linkability"
RATIOS = [(800, 100, 100, 300), (400, 200, 200, 300), (200, 200, 200, 300)]
"""Rows of train, both halves of the holdout and synthetic: ratios of 4:1, 1:1, 1:2 between train and holdout."""


def schema_with(names, **roles):
    columns = {name: {"kind": "real", "bounds": [-1e9, 1e9]} for name in names}
    return build_schema({"status": "inferred", "columns": columns, **roles})


def fifty(n, rng):
    """Fifty numbers that hang together."""
    base = rng.standard_normal((n, 1)) + rng.standard_normal((n, 50))
    return pd.DataFrame(np.round(base, 2), columns=[f"x{i}" for i in range(50)])


def worst(tables: Tables):
    return linkability.measure(tables).estimates[0]


@pytest.mark.statistical
@pytest.mark.parametrize("sizes", RATIOS)
@pytest.mark.parametrize("kind", ["all categorical", "all numeric", "mixed", "fifty columns"])
def test_a_copy_alarms_and_an_independent_sample_does_not_at_any_ratio(kind, sizes, draw, make):
    population = fifty if kind == "fifty columns" else make[kind]
    assert worst(draw(population, (*sizes[:3], sizes[0]), seed=1, leak=1.0)).low > 0.1
    quiet = worst(draw(population, sizes, seed=2))
    assert quiet.low <= 0 <= quiet.high


def test_a_few_copied_rows_alarm(draw, make):
    found = worst(draw(make["mixed"], (1000, 1000, 1000, 1000), seed=1, leak=0.03))
    assert found.low > 0.005
    assert found.detectable < found.value


def test_changed_copies_alarm(draw, make, evaluate_frames):
    tables = draw(make["all numeric"], (400, 200, 200, 10), seed=1)
    changed = tables.train + 1e-2 * np.random.default_rng(0).standard_normal(tables.train.shape)
    assert worst(evaluate_frames(tables.train, tables.fresh, tables.control, changed)).low > 0.3


def test_a_table_with_one_column_or_none_is_not_attacked(draw, make):
    tables = draw(make["one column"], (60, 40, 40, 50), seed=1)
    none = build_schema({"status": "inferred", "columns": {"x": {"kind": "identifier", "bounds": [0, 9]}}})
    for one in (tables, replace(tables, schema=none, declared=none)):
        measurement = linkability.measure(one)
        assert not measurement.estimates
        assert {failure.measure for failure in measurement.failures} == {WORST}
        assert all(f.reason == "skipped" and "fewer than two columns" in f.message for f in measurement.failures)


def test_the_worst_split_allows_for_all_of_them(draw, make):
    measurement = linkability.measure(draw(make["mixed"], (400, 200, 200, 400), seed=1, leak=0.3))
    (found,) = measurement.estimates
    each = measurement.figures["linkability"]
    assert [found.low, found.high] == [max(one["advantage"][end] for one in each) for end in (1, 2)]
    assert found.value in [one["advantage"][0] for one in each]
    for drawn in each:
        assert drawn["attack"][0] - drawn["control"][0] == pytest.approx(drawn["advantage"][0])


def test_random_splits_are_halves_of_the_learned_columns_and_change_with_the_seed():
    schema = schema_with("abcdefg")
    drawn = [list(splits_of(schema, seed)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    for split in drawn[0]:
        assert (len(split.columns), len(split.others)) == (3, 4)
        assert sorted(split.columns + split.others) == list("abcdefg")
    assert len(list(splits_of(schema_with("ab"), 0))) == 1


def test_the_schema_names_splits():
    schema = schema_with("abcde", quasi_identifiers=["b", "a"], parties=[["a"], ["d", "c"], ["a", "e"]])
    named = {
        ColumnSplit(("a", "b"), ("c", "d", "e")),
        ColumnSplit(("a",), ("c", "d")),
        ColumnSplit(("a", "e"), ("c", "d")),
    }
    found = list(splits_of(schema, 0))
    assert named <= set(found)
    assert len(set(found)) == len(found) <= 6


def test_quasi_identifiers_that_are_all_columns_leave_nothing_to_link():
    schema = schema_with("ab", quasi_identifiers=["a", "b"])
    assert list(splits_of(schema, 0)) == [ColumnSplit(("a",), ("b",))]


@pytest.mark.parametrize(
    ("parties", "words"), [([["a"], []], "a set in parties is empty"), ([["a"], ["z"]], "parties='z' is not a column")]
)
def test_sets_of_columns_that_do_not_exist_are_refused(parties, words):
    with pytest.raises(SchemaError, match=words):
        schema_with("ab", parties=parties)


def test_a_large_synthetic_table_is_sampled_and_the_note_says_so(draw, make, monkeypatch):
    tables = draw(make["mixed"], (200, 100, 100, 300), seed=1)
    assert "sample of the synthetic rows" not in worst(tables).note
    monkeypatch.setattr(attribute_inference, "MAX_POOL", 200)
    assert "sample of the synthetic rows" in worst(tables).note


NULLS = [
    ("all numeric", (100, 200, 200, 200)), ("all categorical", (200, 200, 200, 200)), ("mixed", (400, 100, 100, 300)),
    ("many duplicates", (200, 200, 200, 200)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sizes"), NULLS)
def test_intervals_without_a_leak_lie_above_zero_in_no_more_than_a_fortieth(kind, sizes, draw, make):
    """Of 200 evaluations; two and a half standard errors of a share of 2.5% are allowed for."""
    low = [worst(draw(make[kind], sizes, seed=10_000 + seed)).low for seed in range(200)]
    assert np.mean([end > 0 for end in low]) <= 0.025 + 2.5 * (0.025 * 0.975 / 200) ** 0.5


@pytest.mark.slow
def test_intervals_under_a_leak_hold_the_mean_advantage(draw, make):
    """Of a split that the schema names, as others change with the seed: at least 93 of 100."""
    found = []
    for seed in range(200):
        tables = draw(make["mixed"], (300, 150, 150, 300), seed=seed, leak=0.3)
        schema = build_schema({**tables.schema.model_dump(), "quasi_identifiers": ["c0", "x0", "day"]})
        drawn = linkability.measure(replace(tables, schema=schema)).figures["linkability"]
        found += [one["advantage"] for one in drawn if len(one["columns"]) == 3]
    mean = np.mean([value for value, _, _ in found])
    assert len(found) == 200
    assert np.mean([low <= mean <= high for _, low, high in found]) >= 0.93
