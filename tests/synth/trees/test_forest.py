"""Forests as arrays: what scikit-learn predicts, and no damage that gets as far as its C code."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from synth.trees.forest import L2, N_BINS, RATE, REFINED, SIGNIFICANT, Forest, Growth, Objective

ROUNDS, LEAF = 15, 20


def rows(n: int = 1500, seed: int = 0) -> NDArray[np.float32]:
    """Numbers of some forty values, of five, and of a hundred: each value has a bin."""
    rng = np.random.default_rng(seed)
    normal = np.round(rng.normal(size=n).clip(-2, 2), 1)
    return np.column_stack([normal, rng.integers(0, 5, n), rng.integers(0, 100, n) / 100]).astype(np.float32)


def response(features: NDArray[np.float32], seed: int = 1) -> NDArray[np.float64]:
    noise = np.random.default_rng(seed).normal(size=len(features))
    return features[:, 0] * (features[:, 1] > 2) + 0.3 * features[:, 2].astype(np.float64) + 0.2 * noise


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of OpenMP wait for each other on a busy machine."""
    with threadpool_limits(1):
        yield


@pytest.mark.parametrize("is_binary", [True, False])
def test_totals_are_those_of_scikit_learn(is_binary: bool) -> None:
    features, new = rows(), rows(4000, seed=5)
    target = response(features) > 0 if is_binary else response(features)
    model = (HistGradientBoostingClassifier if is_binary else HistGradientBoostingRegressor)(
        max_iter=ROUNDS, learning_rate=RATE, max_leaf_nodes=4, max_bins=N_BINS, l2_regularization=L2,
        min_samples_leaf=LEAF, early_stopping=False, random_state=3,
    ).fit(features, target)  # fmt: skip
    objective: Any = "binary" if is_binary else "regression"
    # Rounds go by the root of the rows.
    growth = Growth(round(ROUNDS * np.sqrt(20_000 / len(features))), LEAF, caution=0.0, refits=0)
    forest = growth.boosted(features, target.astype(np.float64), objective)
    expected = model.decision_function(new) if is_binary else model.predict(new)
    np.testing.assert_allclose(forest.total(new), expected, rtol=0, atol=1e-9)


@pytest.fixture(scope="module")
def cart() -> Forest:
    features = rows()
    return Growth(ROUNDS, LEAF).cart(features, response(features), np.ones(len(features)), 3)


def test_leaves_are_numbered_and_hold_enough_units(cart: Forest) -> None:
    features, fitted_model = rows(), response(rows())
    model = DecisionTreeRegressor(
        min_samples_leaf=REFINED * LEAF,
        min_impurity_decrease=SIGNIFICANT * fitted_model.var() / len(fitted_model),
        random_state=3,
    ).fit(features, fitted_model)
    leaves = cart.leaves(features)
    assert np.array_equal(np.unique(leaves), np.arange(cart.n_leaves))
    assert np.bincount(leaves).min() >= REFINED * LEAF
    assert len(np.unique(np.column_stack([leaves, model.apply(features)]), axis=0)) == cart.n_leaves


def test_rows_of_a_unit_count_as_one_in_a_leaf() -> None:
    features = np.repeat(rows(300), 10, axis=0)
    tree = Growth(ROUNDS, LEAF, 10.0).cart(features, response(features), np.full(3000, 0.1), 0)
    assert tree.n_leaves > 1
    assert np.bincount(tree.leaves(features)).min() >= 10 * LEAF
    assert Growth(ROUNDS, LEAF, 10.0).leaf_rows == 10 * LEAF


@pytest.mark.parametrize(("n_rows", "n_leaves"), [(900, 4), (4000, 8), (20_000, 16)])
def test_boosted_trees_grow_with_the_rows(n_rows: int, n_leaves: int) -> None:
    features = rows(n_rows)
    forest = Growth(1, 1).boosted(features, response(features), "regression")
    assert {(size + 1) // 2 for size in forest.sizes[1:].tolist()} == {n_leaves}


def test_a_cart_hardly_splits_noise() -> None:
    noise = np.random.default_rng(2).random(5000)
    assert (
        Growth(ROUNDS, LEAF).cart(rows(5000), noise, np.ones(5000), 0).n_leaves <= 6
    )  # some 60 by the size of leaves alone


def test_boosting_ends_where_what_is_left_is_noise() -> None:
    features, noise = rows(5000), np.random.default_rng(2).random(5000)
    sizes = [Growth(80, LEAF, caution=caution).boosted(features, noise, "regression").sizes for caution in (0.0, 20.0)]
    assert (len(sizes[0]), len(sizes[1])) == (41, 1)
    rising = Growth(80, LEAF, caution=10.0).boosted(features, features[:, 0] + noise, "regression").total(features)
    assert np.corrcoef(rising, features[:, 0])[0, 1] > 0.99


@pytest.mark.parametrize("objective", ["binary", "regression"])
def test_a_relation_that_boosting_leaves_too_weak_is_followed_to_its_end(objective: Objective) -> None:
    rng = np.random.default_rng(3)
    features, fresh = rng.random((2, 20_000, 4)).astype(np.float32)
    signals = [2 * each[:, 0] + np.sin(5 * each[:, 1]) for each in (features, fresh)]
    noisy = signals[0] + rng.logistic(size=20_000)
    response = (noisy > 1.2 if objective == "binary" else noisy).astype(np.float64)
    slopes = []
    for refits in (0, 1):
        total = Growth(40, LEAF, caution=30.0, refits=refits).boosted(features, response, objective).total(fresh)
        slopes.append(np.cov(signals[1], total)[0, 1] / total.var())
    assert slopes[0] > 1.07 and abs(slopes[1] - 1) < 0.05  # 1 neither says too little nor too much


# The first tree of a booster is its start, one leaf; the root of the second is node 1.


FEATURE, THRESHOLD, LEFT, RIGHT = range(4)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (LEFT, 0), (LEFT, 10_000), (LEFT, -2), (LEFT, -1), (LEFT, 1.5), (RIGHT, 1), (RIGHT, -1), (FEATURE, 3),
        (FEATURE, -1), (FEATURE, 0.5), (THRESHOLD, np.nan),
    ],
)  # fmt: skip
def test_nodes_that_would_lead_out_of_the_arrays_are_refused(cart: Forest, column: int, value: float) -> None:
    """C code follows them: a file that was changed must not get as far."""
    nodes = cart.nodes.copy()
    assert nodes[0, LEFT] == 1
    nodes[0, column] = value
    with pytest.raises(ValueError, match="nodes"):
        Forest(cart.sizes, nodes, cart.n_features)


def test_nodes_of_other_trees_and_rows_of_other_features_are_refused(cart: Forest) -> None:
    for sizes in ([0, len(cart.nodes)], [len(cart.nodes) + 1], [-1, len(cart.nodes) + 1], []):
        with pytest.raises(ValueError, match="nodes"):
            Forest(np.array(sizes, dtype=np.int32), cart.nodes, cart.n_features)
    with pytest.raises(ValueError, match="other features"):
        cart.leaves(rows()[:, :2])
