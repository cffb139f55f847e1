"""Growing trees: gradient boosting for chances and means, one CART for leaves; scikit-learn's, on one thread.

Sums, and with them the trees, are so the same whatever else a machine does, and whatever other library is there.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from synth.trees.forest import Array, Features, Forest

Objective = Literal["binary", "regression"]
FULL_ROWS = 20_000
"""Rows on which boosting takes the number of rounds that is asked for; on others it goes by the root."""
FEWEST_ROUNDS, MOST_ROUNDS = 10, 320
RATE, L2, N_LEAVES = 0.1, 10.0, 4
"""Learning rate of boosting, penalty on the values of leaves, and leaves of a tree. Larger trees remember rows."""
REFINED = 3
"""Factor of the smallest leaf of a CART, in which two numbers are estimated."""


@dataclass(frozen=True)
class Growth:
    """How trees are grown.

    Attributes:
        rounds: trees of a booster on `FULL_ROWS` rows.
        smallest_leaf: units that a leaf holds at least.
        rows_a_unit: rows that a unit holds on average.
    """

    rounds: int = 160
    smallest_leaf: int = 20
    rows_a_unit: float = 1.0

    @property
    def leaf_rows(self) -> int:
        """Rows of the smallest leaf of a booster, by the average unit."""
        return math.ceil(self.smallest_leaf * self.rows_a_unit)

    def boosted(self, rows: Features, response: Array, objective: Objective, seed: int) -> Forest:
        """Trees whose sum is the log-odds of a response of 0 and 1, or the mean of a number.

        Args:
            rows: shape (n, n_features).
            response: shape (n,), not constant.
            objective: tells the loss.
            seed: of the library.
        """
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind = HistGradientBoostingClassifier if objective == "binary" else HistGradientBoostingRegressor
        rounds = round(self.rounds * math.sqrt(len(rows) / FULL_ROWS))
        booster = kind(
            max_iter=min(max(rounds, FEWEST_ROUNDS), MOST_ROUNDS),
            learning_rate=RATE, max_leaf_nodes=N_LEAVES, l2_regularization=L2, min_samples_leaf=self.leaf_rows,
            early_stopping=False, random_state=seed,
        ).fit(rows, response)  # fmt: skip
        trees = []
        for (tree,) in booster._predictors:
            nodes = tree.nodes
            is_leaf = nodes["is_leaf"].astype(bool)
            children = [np.where(is_leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right")]
            threshold = np.where(is_leaf, 0.0, nodes["num_threshold"])
            trees.append((nodes["feature_idx"], threshold, *children, nodes["value"]))
        start = float(np.ravel(booster._baseline_prediction)[0])
        return Forest.of([([0], [0.0], [-1], [-1], [start]), *trees], rows.shape[1])

    def cart(self, rows: Features, response: Array, weights: Array, seed: int) -> Forest:
        """One regression tree (CART); its leaves have no values.

        Args:
            rows: shape (n, n_features).
            response: shape (n,) or (n, n_responses).
            weights: of the rows, at most one for all rows of a unit together; shape (n,).
            seed: of the library.
        """
        from sklearn.tree import DecisionTreeRegressor

        share = min(REFINED * self.smallest_leaf / weights.sum(), 0.5)
        tree = DecisionTreeRegressor(min_weight_fraction_leaf=share, random_state=seed)
        made = tree.fit(rows, response, sample_weight=weights).tree_
        nodes = (made.feature, made.threshold, made.children_left, made.children_right, np.zeros(made.node_count))
        return Forest.of([nodes], rows.shape[1])
