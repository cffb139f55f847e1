"""Forests as plain arrays: decision trees whose leaves are added up, grown by scikit-learn and kept without pickle.

A tree's nodes stand side by side, the root first and children after their parents. A row goes left where its feature is
at most the threshold.

Trees are grown by gradient boosting for chances and means, and as one CART for leaves, on one thread. Sums, and with
them the trees, are so the same whatever else a machine does, and whatever other library is there.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

LEAF = -1  # child of a leaf
MOST_DEPTH = 2**16

Features = NDArray[np.float32]
Array = NDArray[np.float64]
Objective = Literal["binary", "regression"]
FULL_ROWS = 20_000
"""Rows on which boosting takes the number of rounds that is asked for; on others it goes by the root."""
FEWEST_ROUNDS, MOST_ROUNDS = 10, 320
RATE, L2, N_BINS = 0.2, 1.0, 128
"""Learning rate of boosting, penalty on the values of leaves, and bins of a feature."""
FEWEST_LEAVES, MOST_LEAVES, ROWS_PER_LEAF = 4, 16, 500
"""Leaves of a boosted tree grow with the rows that it learns from: larger trees on few rows remember them. With 250
a leaf, numbers on 17,000 rows were a little nearer, and nine categories on 4,200 rows further off and more copied."""
SIGNIFICANT = 5.0
"""What a split of a CART saves at least, in variances of the response over the number of units; less is noise."""
JOINTLY = 2.0
"""Factor of what a split gains at least, on average in a tree no split of which gains that by itself."""
REFINED = 3  # factor of the smallest leaf of a CART, in which two numbers are estimated


class Nodes(NamedTuple):
    """Nodes of one tree or of several, one after another; shape (n_nodes,) each."""

    feature: NDArray[np.int32]
    threshold: Array
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Array

    def cut(self, first: int, end: int) -> "Nodes":
        part = slice(first, end)
        return Nodes(self.feature[part], self.threshold[part], self.left[part], self.right[part], self.value[part])


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees one after another. `sizes`: nodes of each tree, shape (n_trees,)."""

    sizes: NDArray[np.int32]
    nodes: Nodes
    n_features: int

    @classmethod
    def of(cls, trees: Sequence[tuple[Any, Any, Any, Any, Any]], n_features: int) -> "Forest":
        """A forest of trees, each given by features, thresholds, left and right children, and values of its nodes."""
        feature, threshold, left, right, value = (np.concatenate(parts) for parts in zip(*trees, strict=True))
        is_leaf = left < 0
        nodes = Nodes(
            np.where(is_leaf, 0, feature).astype(np.int32),
            np.where(is_leaf, 0.0, threshold).astype(np.float64),
            np.where(is_leaf, LEAF, left).astype(np.int32),
            np.where(is_leaf, LEAF, right).astype(np.int32),
            np.where(is_leaf, value, 0.0).astype(np.float64),
        )
        return cls(np.array([len(tree[0]) for tree in trees], dtype=np.int32), nodes, n_features)

    def total(self, rows: Features) -> Array:
        """The sum of the values of the leaves that each row comes to; shape (n,)."""
        total = np.zeros(len(rows))
        for tree, value in self._trees:
            total += value[tree.apply(rows)]
        return total

    def leaves(self, rows: Features) -> NDArray[np.int64]:
        """The leaf that each row comes to in the only tree, numbered among its leaves; shape (n,)."""
        ((tree, _),) = self._trees
        return np.asarray((np.cumsum(self.nodes.left == LEAF) - 1)[tree.apply(rows)])

    @property
    def n_leaves(self) -> int:
        return int((self.nodes.left == LEAF).sum())

    @cached_property
    def _trees(self) -> list[tuple[Any, Array]]:
        """Each tree as scikit-learn follows it, and the values of its nodes."""
        from sklearn.tree._tree import NODE_DTYPE, Tree

        made, start = [], 0
        for size in self.sizes.tolist():
            part = self.nodes.cut(start, start + size)
            nodes = np.zeros(size, dtype=NODE_DTYPE)
            nodes["left_child"], nodes["right_child"] = part.left, part.right
            nodes["feature"], nodes["threshold"] = part.feature, part.threshold
            nodes["n_node_samples"], nodes["weighted_n_node_samples"] = 1, 1.0
            tree = Tree(self.n_features, np.ones(1, dtype=np.intp), 1)
            values = np.zeros((size, 1, 1))
            tree.__setstate__({"max_depth": MOST_DEPTH, "node_count": size, "nodes": nodes, "values": values})
            made.append((tree, part.value))
            start += size
        return made


def forests_to_arrays(forests: Sequence[Forest]) -> dict[str, NDArray[Any]]:
    """All forests of a model in few arrays, for `forests_from_arrays`."""
    arrays: dict[str, NDArray[Any]] = {
        "forests.trees": np.array([len(forest.sizes) for forest in forests], dtype=np.int32),
        "forests.features": np.array([forest.n_features for forest in forests], dtype=np.int32),
        "forests.sizes": np.concatenate([np.zeros(0, np.int32), *(forest.sizes for forest in forests)]),
    }
    kinds = (np.int32, np.float64, np.int32, np.int32, np.float64)
    for name, kind in zip(Nodes._fields, kinds, strict=True):
        parts = (getattr(forest.nodes, name) for forest in forests)
        arrays[f"nodes.{name}"] = np.concatenate([np.zeros(0, kind), *parts])
    return arrays


def forests_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> list[Forest]:
    n_trees, n_features, sizes = (_whole(arrays[f"forests.{name}"]) for name in ("trees", "features", "sizes"))
    feature, left, right = (_whole(arrays[f"nodes.{name}"]) for name in ("feature", "left", "right"))
    threshold, value = (_real(arrays[f"nodes.{name}"]) for name in ("threshold", "value"))
    nodes = Nodes(feature, threshold, left, right, value)
    fit = len(n_trees) == len(n_features) and (n_trees > 0).all() and n_trees.sum() == len(sizes)
    if not fit or (sizes < 1).any() or any(len(part) != sizes.sum() for part in nodes):
        raise ValueError("nodes are not those of the forests")
    own = np.arange(len(feature)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    size, most = np.repeat(sizes, sizes), np.repeat(np.repeat(n_features, n_trees), sizes)
    is_leaf, inner = left == LEAF, left != LEAF
    follows = (left > own) & (left < size) & (right > own) & (right < size) & (left != right)
    splits = (feature >= 0) & (feature < most)
    if not ((right[is_leaf] == LEAF).all() and follows[inner].all() and splits[inner].all()):
        raise ValueError("nodes do not make trees")
    made, first_tree, first_node = [], 0, 0
    for count, features in zip(n_trees.tolist(), n_features.tolist(), strict=True):
        own_sizes = sizes[first_tree : first_tree + count]
        end = first_node + int(own_sizes.sum())
        made.append(Forest(own_sizes, nodes.cut(first_node, end), features))
        first_tree, first_node = first_tree + count, end
    return made


def _whole(array: NDArray[Any]) -> NDArray[np.int32]:
    if array.ndim != 1 or array.dtype != np.int32:
        raise ValueError("an array of nodes holds whole numbers of 32 bits")
    return array


def _real(array: NDArray[Any]) -> Array:
    if array.ndim != 1 or array.dtype != np.float64 or not np.isfinite(array).all():
        raise ValueError("an array of nodes holds finite numbers of 64 bits")
    return array


def _binned(rows: Features) -> tuple[NDArray[np.uint8], list[Array]]:
    """Features in bins of about as many rows, and the thresholds between the bins of each."""
    bins, cuts = np.empty(rows.shape, dtype=np.uint8, order="F"), []
    for at, feature in enumerate(rows.T):
        values, places, counts = np.unique(feature, return_inverse=True, return_counts=True)
        ends = np.arange(len(values) - 1)
        if len(values) > N_BINS:
            ends = np.unique(np.searchsorted(np.cumsum(counts)[:-2], np.arange(1, N_BINS) * len(feature) / N_BINS))
        bins[:, at] = np.searchsorted(ends, np.arange(len(values)))[places]
        cuts.append((values[ends] / 2 + values[ends + 1] / 2).astype(np.float64))
    return bins, cuts


@dataclass(frozen=True)
class Growth:
    """Parameters by which trees are grown.
    `caution`: what a split of a booster gains at least, in variances of the response by chance: less is noise.
    """

    rounds: int = 160
    smallest_leaf: int = 20
    rows_a_unit: float = 1.0
    caution: float = 3.0

    @property
    def leaf_rows(self) -> int:
        """Rows of the smallest leaf of a booster, by the average unit."""
        return math.ceil(self.smallest_leaf * self.rows_a_unit)

    def boosted(self, rows: Features, response: Array, objective: Objective) -> Forest:
        """Trees whose sum is the log-odds of a response of 0 and 1, or the mean of a number.
        `rows`: shape (n, n_features).
        `response`: shape (n,), not constant.
        """
        from sklearn.ensemble._hist_gradient_boosting.grower import TreeGrower

        bins, cuts = _binned(rows)
        is_binary = objective == "binary"
        mean = float(response.mean())
        start = math.log(mean / (1 - mean)) if is_binary else mean
        total, trees, n_bins = np.full(len(rows), start), [], [len(cut) + 1 for cut in cuts]
        rounds = min(max(round(self.rounds * math.sqrt(len(rows) / FULL_ROWS)), FEWEST_ROUNDS), MOST_ROUNDS)
        n_leaves = min(max(len(rows) // ROWS_PER_LEAF, FEWEST_LEAVES), MOST_LEAVES)
        for _ in range(rounds):
            fitted = expit(total) if is_binary else total
            gradients, variances = fitted - response, fitted * (1 - fitted) if is_binary else np.ones(1)
            noise = self.caution * self.rows_a_unit * (1.0 if is_binary else float(np.mean(gradients**2)))

            def grown(least_gain: float, gradients: Array = gradients, variances: Array = variances) -> Any:
                grower = TreeGrower(
                    bins, gradients.astype(np.float32), variances.astype(np.float32), max_leaf_nodes=n_leaves,
                    min_samples_leaf=self.leaf_rows, min_gain_to_split=least_gain, l2_regularization=L2,
                    n_bins=N_BINS + 1, n_bins_non_missing=n_bins, shrinkage=RATE, n_threads=1,
                )  # fmt: skip
                grower.grow()
                return grower

            grower = grown(noise)
            if grower.n_nodes == 1:
                # No split gains by itself. Two may together, as those of an exclusive or: all of a tree count as one.
                grower = grown(0.0)
                gain = sum(-leaf.sum_gradients * leaf.value / RATE for leaf in grower.finalized_leaves)
                if gain < JOINTLY * noise * (len(grower.finalized_leaves) - 1) or grower.n_nodes == 1:
                    break
            for leaf in grower.finalized_leaves:
                total[leaf.sample_indices] += leaf.value
            nodes = grower.make_predictor(cuts).nodes
            is_leaf = nodes["is_leaf"].astype(bool)
            children = [np.where(is_leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right")]
            trees.append((nodes["feature_idx"], nodes["num_threshold"], *children, nodes["value"]))
        return Forest.of([([0], [0.0], [-1], [-1], [start]), *trees], rows.shape[1])

    def cart(self, rows: Features, response: Array, weights: Array, seed: int) -> Forest:
        """One regression tree (CART); its leaves have no values.
        `rows`: shape (n, n_features).
        `response`: shape (n,).
        `weights`: of the rows, at most one for all rows of a unit together; shape (n,).
        """
        from sklearn.tree import DecisionTreeRegressor

        share = min(REFINED * self.smallest_leaf / weights.sum(), 0.5)
        variance = float(np.average((response - np.average(response, weights=weights)) ** 2, weights=weights))
        tree = DecisionTreeRegressor(
            min_weight_fraction_leaf=share,
            min_impurity_decrease=SIGNIFICANT * variance / weights.sum(),
            random_state=seed,
        )
        made = tree.fit(rows, response, sample_weight=weights).tree_
        nodes = (made.feature, made.threshold, made.children_left, made.children_right, np.zeros(made.node_count))
        return Forest.of([nodes], rows.shape[1])
