import numpy as np
import pytest
from sklearn.metrics import r2_score, roc_auc_score

from evaluate.utility.scores import N_REPLICATES, macro_roc_auc, r2, roc_auc, weightings


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
