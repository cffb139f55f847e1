"""Forests as arrays: what scikit-learn predicts, and no damage that gets as far as its C code."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from synth.trees.forest import (
    L2,
    N_BINS,
    RATE,
    REFINED,
    SIGNIFICANT,
    Forest,
    Growth,
    _binned,
    forests_from_arrays,
    forests_to_arrays,
)
from tests.damaging import damaged

ROUNDS, LEAF = 15, 20


def rows(n: int = 1500, seed: int = 0) -> NDArray[np.float32]:
    """Numbers of some forty values, of five, and of a hundred: each value has a bin."""
    rng = np.random.default_rng(seed)
    normal = np.round(rng.normal(size=n).clip(-2, 2), 1)
    return np.column_stack([normal, rng.integers(0, 5, n), rng.integers(0, 100, n) / 100]).astype(np.float32)


def response(features: NDArray[np.float32], seed: int = 1) -> NDArray[np.float64]:
    noise = np.random.default_rng(seed).normal(size=len(features))
    return features[:, 0] * (features[:, 1] > 2) + 0.3 * features[:, 2].astype(np.float64) + 0.2 * noise


def theirs(kind: Any, n_rows: int) -> Any:
    """The same booster as scikit-learn's own."""
    return kind(
        max_iter=max(round(ROUNDS * np.sqrt(n_rows / 20_000)), 10), learning_rate=RATE, max_leaf_nodes=4,
        max_bins=N_BINS, l2_regularization=L2, min_samples_leaf=LEAF, early_stopping=False, random_state=3,
    )  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of OpenMP wait for each other on a busy machine."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def forests() -> list[Forest]:
    features, growth = rows(), Growth(ROUNDS, LEAF, caution=0.0)
    made = response(features)
    return [
        growth.boosted(features, (made > 0).astype(np.float64), "binary"),
        growth.boosted(features, made, "regression"),
        growth.cart(features, made, np.ones(len(features)), 3),
    ]


def test_totals_are_the_log_odds_of_a_classifier(forests: list[Forest]) -> None:
    features, new = rows(), rows(4000, seed=5)
    model = theirs(HistGradientBoostingClassifier, len(features)).fit(features, response(features) > 0)
    np.testing.assert_allclose(forests[0].total(new), model.decision_function(new), rtol=0, atol=1e-9)


def test_totals_are_the_means_of_a_regressor(forests: list[Forest]) -> None:
    features, new = rows(), rows(4000, seed=5)
    model = theirs(HistGradientBoostingRegressor, len(features)).fit(features, response(features))
    np.testing.assert_allclose(forests[1].total(new), model.predict(new), rtol=0, atol=1e-9)


def test_leaves_are_numbered_and_hold_enough_units(forests: list[Forest]) -> None:
    features, made = rows(), response(rows())
    model = DecisionTreeRegressor(
        min_samples_leaf=REFINED * LEAF, min_impurity_decrease=SIGNIFICANT * made.var() / len(made), random_state=3
    ).fit(features, made)
    leaves = forests[2].leaves(features)
    assert np.array_equal(np.unique(leaves), np.arange(forests[2].n_leaves))
    assert np.bincount(leaves).min() >= REFINED * LEAF
    assert len(np.unique(np.column_stack([leaves, model.apply(features)]), axis=0)) == forests[2].n_leaves


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


def test_numbers_of_many_values_are_in_bins_of_even_mass() -> None:
    numbers = np.random.default_rng(0).normal(size=(5000, 1)).astype(np.float32)
    bins, (cuts,) = _binned(numbers)
    assert np.bincount(bins[:, 0], minlength=N_BINS).min() >= 5000 / N_BINS - 2
    np.testing.assert_array_equal(bins[:, 0], np.searchsorted(cuts, numbers[:, 0]))


def test_forests_come_back_from_arrays(forests: list[Forest]) -> None:
    new = rows(500, seed=6)
    again = forests_from_arrays(forests_to_arrays(forests))
    for one, other in zip(forests, again, strict=True):
        assert one.n_features == other.n_features
        np.testing.assert_array_equal(one.total(new), other.total(new))
    np.testing.assert_array_equal(forests[2].leaves(new), again[2].leaves(new))
    assert forests_from_arrays(forests_to_arrays([])) == []


def changed(name: str, place: int, value: Any) -> Callable[[dict[str, NDArray[Any]]], None]:
    def change(arrays: dict[str, NDArray[Any]]) -> None:
        arrays[name][place] = value

    return change


def cast(name: str, kind: Any) -> Callable[[dict[str, NDArray[Any]]], None]:
    def change(arrays: dict[str, NDArray[Any]]) -> None:
        arrays[name] = arrays[name].astype(kind)

    return change


def reshaped(name: str, how: Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[dict[str, NDArray[Any]]], None]:
    def change(arrays: dict[str, NDArray[Any]]) -> None:
        arrays[name] = how(arrays[name])

    return change


# The first tree of a booster is its start, one leaf; the root of the second is node 1.
DAMAGE: dict[str, Callable[[dict[str, NDArray[Any]]], None]] = {
    "a child that is its parent": changed("nodes.left", 1, 0),
    "a child that is both": lambda arrays: changed("nodes.left", 1, int(arrays["nodes.right"][1]))(arrays),
    "a child beyond its tree": changed("nodes.right", 1, 10_000),
    "a child below the leaf": changed("nodes.left", 1, -2),
    "one child": changed("nodes.right", 1, -1),
    "the other child": changed("nodes.left", 1, -1),
    "a leaf with a child": changed("nodes.right", 0, 0),
    "a feature beyond the rows": changed("nodes.feature", 1, 3),
    "a feature below zero": changed("nodes.feature", 1, -1),
    "a threshold that is no number": changed("nodes.threshold", 1, np.nan),
    "an infinite threshold": changed("nodes.threshold", 1, np.inf),
    "a value that is no number": changed("nodes.value", 0, np.nan),
    "no features": changed("forests.features", 0, 0),
    "features below zero": changed("forests.features", 0, -3),
    "a forest without trees": changed("forests.trees", 0, 0),
    "fewer trees": changed("forests.trees", 0, 1),
    "a tree without nodes": changed("forests.sizes", 0, 0),
    "a tree of fewer than no nodes": changed("forests.sizes", 0, -1),
    "a larger tree": changed("forests.sizes", 0, 2),
    "nodes of 64 bits": cast("nodes.left", np.int64),
    "thresholds of 32 bits": cast("nodes.threshold", np.float32),
    "sizes that are no whole numbers": cast("forests.sizes", np.float64),
    "a node too few": reshaped("nodes.feature", lambda array: array[:-1]),
    "a node too many": reshaped("nodes.value", lambda array: np.append(array, 0.0)),
    "nodes in a table": reshaped("nodes.left", lambda array: array.reshape(1, -1)),
    "a number for sizes": reshaped("forests.sizes", lambda array: np.array(3, dtype=np.int32)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_arrays_are_refused(damage: str, forests: list[Forest]) -> None:
    arrays = {name: array.copy() for name, array in forests_to_arrays(forests).items()}
    DAMAGE[damage](arrays)
    with pytest.raises(ValueError, match=r"nodes"):
        forests_from_arrays(arrays)


@pytest.mark.parametrize("name", ["forests.trees", "nodes.left", "nodes.value"])
def test_a_missing_array_is_refused(name: str, forests: list[Forest]) -> None:
    arrays = forests_to_arrays(forests)
    del arrays[name]
    with pytest.raises(KeyError):
        forests_from_arrays(arrays)


def test_sizes_that_overflow_are_refused(forests: list[Forest]) -> None:
    arrays = forests_to_arrays(forests[:1])
    arrays["forests.sizes"] = np.full(4, 2**30, dtype=np.int32)
    arrays["forests.trees"] = np.array([4], dtype=np.int32)
    with pytest.raises(ValueError, match="nodes"):
        forests_from_arrays(arrays)


def test_whatever_is_damaged_is_refused_or_followed_to_leaves() -> None:
    """Children come after their parents in whatever passes, so that no row runs in a circle or out of the arrays."""
    features, growth = rows(), Growth(10, 300)
    small = growth.cart(features, response(features), np.ones(len(features)), 0)
    arrays = forests_to_arrays([growth.boosted(features, response(features), "regression"), small])
    plain, kinds = ({name: how(array) for name, array in arrays.items()} for how in (np.ndarray.tolist, np.result_type))
    new, n_refused, n_followed = rows(200, seed=7), 0, 0
    for seed in range(300):
        content = damaged(plain, seed)
        try:
            arrays = {name: np.array(content[name], dtype=kinds[name]) for name in kinds}
        except (KeyError, ValueError, TypeError, OverflowError):
            continue
        try:
            made = forests_from_arrays(arrays)
        except ValueError:
            n_refused += 1
            continue
        for forest in made:
            if forest.n_features == new.shape[1]:
                assert np.isfinite(forest.total(new)).all(), json.dumps(content)
                n_followed += 1
    assert n_refused > 20
    assert n_followed > 20
