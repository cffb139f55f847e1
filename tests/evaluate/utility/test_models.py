"""Models of utility and of inference, learned from rows of any make; pytest turns a warning into a failure."""

import numpy as np
import pandas as pd
import pytest

from evaluate.utility.models import Features, fit_classes
from synth.schema import build_schema


@pytest.mark.parametrize("form", ["linear", "boosting"])
def test_a_target_of_nearly_as_many_classes_as_rows_is_learned_without_a_warning(form) -> None:
    rng, n = np.random.default_rng(0), 40
    rows = pd.DataFrame({"x": rng.normal(size=n), "who": [f"k{i % 30}" for i in range(n)]})
    columns = {
        "x": {"kind": "real", "bounds": [-9, 9]},
        "who": {"kind": "categorical", "categories": sorted(set(rows.who))},
    }
    schema = build_schema({"status": "inferred", "columns": columns, "target": "who"})
    model = fit_classes(form, rows, np.arange(n) % 30, schema, 30)
    assert model.predict(rows).shape == (n, 30)


@pytest.mark.parametrize("categories", [["low", "mid", "high"], [7, 30, 900]])
def test_boosting_learns_from_the_order_of_ordered_categories(categories: list) -> None:
    columns = {"x": {"kind": "categorical", "categories": categories, "ordered": True}, "y": {"kind": "boolean"}}
    schema = build_schema({"status": "inferred", "target": "y", "columns": columns})
    rows = pd.DataFrame({"x": pd.Series([categories[2], categories[0], None, categories[1]], dtype=object)})
    features = Features.fit(rows, schema, "boosting")
    assert features.categories.tolist() == [False]
    np.testing.assert_array_equal(features.apply(rows)[:, 0], [2.0, 0.0, np.nan, 1.0])
    unordered = {**columns, "x": {**columns["x"], "ordered": False}}
    schema = build_schema({"status": "inferred", "target": "y", "columns": unordered})
    assert Features.fit(rows, schema, "boosting").categories.tolist() == [True]
    assert Features.fit(rows, schema, "linear").apply(rows).shape == (4, 5)
