"""Forests as plain arrays: decision trees whose leaves are added up, grown by scikit-learn and kept without pickle.

A tree's nodes stand side by side, the root first and children after their parents. A row goes left where its feature is
at most the threshold.

Trees are grown by gradient boosting for chances and means, and as one CART for leaves, on one thread. Sums, and with
them the trees, are so the same whatever else a machine does, and whatever other library is there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

LEAF = -1  # child of a leaf
MOST_DEPTH = 2**16

Features = NDArray[np.float32]
Array = NDArray[np.float64]
Objective = Literal["binary", "regression"]
FULL_ROWS = 20_000  # rows on which boosting takes the number of rounds that is asked for; on others it goes by the root
FEWEST_ROUNDS, MOST_ROUNDS = 10, 320
RATE, L2, N_BINS = 0.2, 1.0, 128  # learning rate of boosting, penalty on the values of leaves, and bins of a feature
FEWEST_LEAVES, MOST_LEAVES, ROWS_PER_LEAF = 4, 16, 500
"""Leaves of a boosted tree grow with the rows that it learns from: larger trees on few rows remember them. With 250
a leaf, numbers on 17,000 rows were a little nearer, and nine categories on 4,200 rows further off and more copied."""
SIGNIFICANT = 5.0
"""What a split of a CART saves at least, in variances of the response over the number of units; less is noise."""
JOINTLY = 2.0  # factor of what a split gains at least, on average in a tree no split of which gains that by itself
REFINED = 3  # factor of the smallest leaf of a CART, in which two numbers are estimated


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees one after another. `sizes`: nodes of each tree, shape (n_trees,).
    `nodes`: feature, threshold, left and right child in the tree (-1: a leaf) and value of each, shape (n_nodes, 5).
    """

    sizes: NDArray[np.int32]
    nodes: Array
    n_features: int

    def __post_init__(self) -> None:
        # C code follows what a file holds: without these it would leave its arrays, or run in circles.
        sizes = self.sizes.astype(np.int64)
        is_whole = sizes.ndim == 1 and len(sizes) > 0 and sizes.min() > 0 and self.nodes.shape == (sizes.sum(), 5)
        if not (is_whole and self.nodes.dtype == np.float64 and np.isfinite(self.nodes).all()):
            raise ValueError("nodes are not those of the trees")
        feature, _, *children, _ = self.nodes.T
        own, size = np.arange(len(feature)) - np.repeat(np.cumsum(sizes) - sizes, sizes), np.repeat(sizes, sizes)
        is_leaf = (children[0] == LEAF) & (children[1] == LEAF)
        follows = [(child > own) & (child < size) & (child == child.astype(np.int64)) for child in children]
        splits = (feature >= 0) & (feature < self.n_features) & (feature == feature.astype(np.int64))
        if not (is_leaf | (follows[0] & follows[1] & (children[0] != children[1]) & splits)).all():
            raise ValueError("nodes do not make trees")

    @classmethod
    def of(cls, trees: Sequence[tuple[Any, Any, Any, Any, Any]], n_features: int) -> "Forest":
        """A forest of trees, each given by features, thresholds, left and right children, and values of its nodes."""
        nodes = np.concatenate([np.column_stack(tree).astype(np.float64) for tree in trees])
        is_leaf = nodes[:, 2] < 0
        nodes[is_leaf, :4], nodes[~is_leaf, 4] = [0, 0, LEAF, LEAF], 0
        return cls(np.array([len(tree[0]) for tree in trees], dtype=np.int32), nodes, n_features)

    def total(self, rows: Features) -> Array:
        """The sum of the values of the leaves that each row comes to; shape (n,)."""
        total = np.zeros(len(rows))
        for tree, value in self._trees(rows):
            total += value[tree.apply(rows)]
        return total

    def leaves(self, rows: Features) -> NDArray[np.int64]:
        """The leaf that each row comes to in the only tree, numbered among its leaves; shape (n,)."""
        ((tree, _),) = self._trees(rows)
        return np.asarray((np.cumsum(self.nodes[:, 2] == LEAF) - 1)[tree.apply(rows)])

    @property
    def n_leaves(self) -> int:
        return int((self.nodes[:, 2] == LEAF).sum())

    def _trees(self, rows: Features) -> list[tuple[Any, Array]]:
        if rows.shape[1] != self.n_features:
            raise ValueError("rows have other features than the forest")
        return self._followed

    @cached_property
    def _followed(self) -> list[tuple[Any, Array]]:
        from sklearn.tree._tree import NODE_DTYPE, Tree

        trees = []
        for part in np.split(self.nodes, np.cumsum(self.sizes)[:-1]):
            nodes = np.zeros(len(part), dtype=NODE_DTYPE)
            for at, name in enumerate(("feature", "threshold", "left_child", "right_child")):
                nodes[name] = part[:, at]
            nodes["n_node_samples"], nodes["weighted_n_node_samples"] = 1, 1.0
            tree = Tree(self.n_features, np.ones(1, dtype=np.intp), 1)
            values = np.zeros((len(part), 1, 1))
            tree.__setstate__({"max_depth": MOST_DEPTH, "node_count": len(part), "nodes": nodes, "values": values})
            trees.append((tree, part[:, 4]))
        return trees


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
    `refits`: steps of every leaf after the last tree has grown.
    """

    rounds: int = 160
    smallest_leaf: int = 20
    rows_a_unit: float = 1.0
    caution: float = 4.0
    refits: int = 1

    @property
    def leaf_rows(self) -> int:
        return math.ceil(self.smallest_leaf * self.rows_a_unit)

    def boosted(self, rows: Features, response: Array, objective: Objective) -> Forest:
        """Trees whose sum is the log-odds of a response of 0 and 1, or the mean of a number; it is not constant."""
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
        forest = Forest.of([([0], [0.0], [-1], [-1], [start]), *trees], rows.shape[1])
        return self._refitted(forest, total, rows, response, is_binary)

    def _refitted(self, forest: Forest, total: Array, rows: Features, response: Array, is_binary: bool) -> Forest:
        """Each leaf steps on by what the others leave, tree after tree, `refits` times; `total`: of the rows.

        Boosting ends where no split stands out from noise. What its steps have left of the relations until then is a
        bias of all splits in one direction.

        Source: Friedman and Stuetzle 1981 (backfitting).
        """
        nodes, ends = forest.nodes.copy(), np.cumsum(forest.sizes)[:-1]
        for (tree, _), part in self.refits * list(zip(forest._followed, np.split(nodes, ends), strict=True)):
            leaf = tree.apply(rows)
            fitted = expit(total) if is_binary else total
            variances = fitted * (1 - fitted) if is_binary else None
            left, weight = (np.bincount(leaf, each, minlength=len(part)) for each in (response - fitted, variances))
            step = RATE * left / (weight + L2)
            part[:, 4] += step
            total += step[leaf]
        return Forest(forest.sizes, nodes, forest.n_features)

    def cart(self, rows: Features, response: Array, weights: Array, seed: int) -> Forest:
        """One regression tree (CART), whose leaves have no values; `weights`: at most one for all rows of a unit."""
        from sklearn.tree import DecisionTreeRegressor

        share = min(REFINED * self.smallest_leaf / weights.sum(), 0.5)
        variance = float(np.average((response - np.average(response, weights=weights)) ** 2, weights=weights))
        tree = DecisionTreeRegressor(
            min_weight_fraction_leaf=share,
            min_impurity_decrease=SIGNIFICANT * variance / weights.sum(),
            random_state=seed,
        )
        grown = tree.fit(rows, response, sample_weight=weights).tree_
        nodes = (grown.feature, grown.threshold, grown.children_left, grown.children_right, np.zeros(grown.node_count))
        return Forest.of([nodes], rows.shape[1])
