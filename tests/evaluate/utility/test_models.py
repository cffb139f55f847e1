"""Models learned from rows of any make, and their scores against scikit-learn's."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score, roc_auc_score

from evaluate.utility.models import N_REPLICATES, Features, fit_classes, macro_roc_auc, r2, roc_auc, weightings
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


def test_weighted_areas_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    scores, positive = np.round(rng.random(200), 1), rng.random(200) < 0.3
    weights = rng.integers(0, 4, (5, 200)).astype(float)
    expected = [roc_auc_score(positive, scores, sample_weight=w) for w in weights]
    assert roc_auc(scores, positive, weights) == pytest.approx(expected)


def test_the_macro_area_is_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    classes, scores = rng.integers(0, 4, 300), rng.dirichlet(np.ones(4), 300)
    expected = roc_auc_score(classes, scores, multi_class="ovr", average="macro")
    assert macro_roc_auc(scores, classes, np.ones((1, 300)))[0] == pytest.approx(expected)


def test_weighted_r2_is_that_of_scikit_learn_and_is_cut_off():
    rng = np.random.default_rng(2)
    truth = rng.normal(1e6, 1.0, 100)
    near, far, weights = truth + rng.normal(0, 0.5, 100), truth + 50, rng.integers(0, 4, (3, 100)).astype(float)
    expected = [r2_score(truth, near, sample_weight=w) for w in weights]
    assert r2(near, truth, weights) == pytest.approx(expected)
    assert (r2(far, truth, weights) == -1.0).all()


def test_the_rows_of_an_entity_are_drawn_together():
    entities = np.array([0, 0, 1, 2, 2, 2])
    blocks = np.vstack(list(weightings(entities, seed=0)))
    assert blocks.shape == (N_REPLICATES + 1, 6) and (blocks[0] == 1).all()
    assert (blocks[:, 0] == blocks[:, 1]).all() and (blocks[:, 3] == blocks[:, 5]).all()
    assert (blocks[1:, [0, 2, 3]].sum(axis=1) == 3).all()
