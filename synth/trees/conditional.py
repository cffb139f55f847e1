"""The distribution of one column given those before it: a balanced tree of binary boosters over its codes.

A column is seen by later ones as its codes and the places within them; a time also as hour, weekday and season. Each
booster gives the chance of the codes on its right. A number also has a *stack*, its boosted mean as one more feature.
Its *refinement* places values within a code, by a beta distribution in each leaf of a CART.

Source: McCarter 2024 (UnmaskingTrees, 2407.05593) for balanced trees of boosters; Nowok, Raab & Dibben 2016 (synthpop)
for CART; Wolpert 1992 for stacking.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from synth.domain.discretizer import MISSING, OTHER, Attribute
from synth.schema.kinds.dates import DAY
from synth.trees.forest import Array, Features, Forest, Growth

NEVER = -1.0  # a feature of what is missing
HOURS, DAYS, SEASONS = 1 / 12, 1.0, 31.0
"""Days that the middle cell of a time lasts at most, else its hour, weekday or season is not to be seen."""
YEAR = 365.25


Codes = NDArray[np.int32]


def is_unordered(attribute: Attribute) -> bool:
    """True if a column's codes are categories in no order, of which there are more than two."""
    column = attribute.column
    return attribute.size > 2 and column.is_categorical and not (column.is_boolean or column.is_ordered)


def n_features(attribute: Attribute) -> int:
    return 1 + int(_calendar(attribute).shape[1])


def compute_features(attribute: Attribute, codes: Codes, ranks: Array | None) -> Array:
    """Codes, of numbers with the middle rank of the cell, and the calendar of a time; shape (n, n_features)."""
    values = codes.astype(np.float64)
    if is_unordered(attribute):
        return values[:, np.newaxis]
    cells = attribute.ranked(codes, np.full(len(codes), 0.5) if ranks is None else ranks)
    if attribute.is_refined and ranks is not None:
        values += attribute.middle_ranks[cells]
    parts = np.column_stack([values, _calendar(attribute)[cells]])
    parts[codes == attribute.size + MISSING] = NEVER
    return parts


def _calendar(attribute: Attribute) -> Array:
    """Hour, weekday and day of the year of every cell, as far as cells are that short; shape (n_cells, 0 to 3)."""
    parts = np.full((attribute.n_cells, 3), NEVER)
    if attribute.edges is None or not attribute.column.is_time:
        return parts[:, :0]
    days = attribute.edges * (attribute.column.per_position / DAY)
    middles, mass = (days[:-1] + days[1:]) / 2, attribute.mass[:OTHER]
    order = np.argsort(np.diff(days))
    width = np.diff(days)[order][np.searchsorted(np.cumsum(mass[order]), mass.sum() / 2)]
    span = np.ptp(middles[mass > 0]) if mass.any() else 0.0
    weekdays = (np.floor(middles) + 3) % 7  # the first of January 1970 was a Thursday
    parts[:OTHER] = np.column_stack([middles % 1 * 24, weekdays, middles % YEAR])
    return parts[:, [width <= HOURS and span > 1, width <= DAYS and span > DAYS, width <= SEASONS and span > YEAR]]


LEAST_BOOSTED = 80  # rows from which on two sets of codes are told apart by features; fewer have their frequencies
STACKED_CODES = 12  # codes of a number beyond which its mean is a feature
MANY_CATEGORIES, MOST_DIRECTIONS = 8, 3
"""Categories, and codes of a column, from which on they are placed on more than one line; and lines at most."""
N_FOLDS = 3  # of the mean that is stacked
PRIOR_ROWS = 5.0  # rows by which the means of a category are drawn to those of all rows
SMALLEST_CHANCE, SMALLEST_VARIANCE = 1e-9, 1e-4  # of a side of a booster, and of a beta distribution


@dataclass(frozen=True, eq=False)
class Marginal:
    """Codes by their frequencies, whatever the features. `counts`: rows of each code, shape (size,)."""

    counts: Array

    def table(self, rows: Features) -> Array:
        return np.broadcast_to(self.counts / self.counts.sum(), (len(rows), len(self.counts)))

    def draw(self, rows: Features, rng: np.random.Generator) -> Codes:
        running = np.cumsum(self.counts)
        drawn = np.searchsorted(running, _below(rng, len(rows)) * running[-1], side="right")
        return np.asarray(drawn, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Boosters:
    """A balanced tree over codes; at each node a booster gives the chance of the codes on its right.
    `order`: codes in the order of the leaves, shape (n_codes,).
    `nodes`: for each node the first leaf, the first leaf on the right, and the end, shape (n_nodes, 3), root first.
    `log_odds`: of the right, at a node without a booster, shape (n_nodes,).
    """

    order: Codes
    nodes: NDArray[np.int32]
    log_odds: Array
    forests: tuple[Forest | None, ...]
    size: int

    def __post_init__(self) -> None:
        if not (np.diff(self.nodes) > 0).all():  # else drawing would not come to an end
            raise ValueError("nodes do not halve what is left")

    def table(self, rows: Features) -> Array:
        table = np.zeros((len(rows), self.size))
        table[:, self.order] = 1.0
        for node, (first, middle, end) in enumerate(self.nodes.tolist()):
            chance = self._right(node, rows)[:, np.newaxis]
            table[:, self.order[first:middle]] *= 1 - chance
            table[:, self.order[middle:end]] *= chance
        return table

    def draw(self, rows: Features, rng: np.random.Generator) -> Codes:
        """A code for each row, shape (n,); each row asks the boosters on its way alone."""
        codes = np.empty(len(rows), dtype=np.int32)
        level = rng.random(len(rows))
        numbers = {(first, end): node for node, (first, _, end) in enumerate(self.nodes.tolist())}
        waiting = [(0, len(self.order), np.arange(len(rows)))]
        while waiting:
            first, end, places = waiting.pop()
            if end - first == 1:
                codes[places] = self.order[first]
            elif len(places):
                node = numbers[first, end]
                chance = self._right(node, rows[places])
                right = level[places] < chance
                # What is left of the level is as uniform as it was.
                level[places] = np.where(right, level[places] / chance, (level[places] - chance) / (1 - chance))
                middle = int(self.nodes[node, 1])
                waiting += [(first, middle, places[~right]), (middle, end, places[right])]
        return codes

    def _right(self, node: int, rows: Features) -> Array:
        forest = self.forests[node]
        odds = np.full(len(rows), self.log_odds[node]) if forest is None else forest.total(rows)
        return np.asarray(np.clip(expit(odds), SMALLEST_CHANCE, 1 - SMALLEST_CHANCE))


@dataclass(frozen=True, eq=False)
class Refinement:
    """The place of a value within its code, as a share of the code's mass: a beta distribution in each leaf.
    `shapes`: parameters of the distribution in each leaf, shape (n_leaves, 2).
    """

    tree: Forest
    shapes: Array

    def draw(self, rows: Features, codes: Codes, rng: np.random.Generator) -> Array:
        shapes = self.of_rows(rows, codes)
        return rng.beta(shapes[:, 0], shapes[:, 1])

    def of_rows(self, rows: Features, codes: Codes) -> Array:
        return self.shapes[self.tree.leaves(_with_code(rows, codes))]


@dataclass(frozen=True, eq=False)
class Stack:
    """The mean of a number's normal score, boosted on all rows but one of some folds."""

    forests: tuple[Forest, ...]

    def added(self, rows: Features, rng: np.random.Generator) -> Features:
        """The features and, last, the mean by the forest of a random fold; shape (n, n_features + 1)."""
        folds = rng.integers(len(self.forests), size=len(rows))
        means = np.empty(len(rows), dtype=np.float32)
        for fold, forest in enumerate(self.forests):
            means[folds == fold] = forest.total(rows[folds == fold])
        return np.column_stack([rows, means])


@dataclass(frozen=True, eq=False)
class Conditional:
    """One column given those before it.
    `places`: for features that are categories, by number, the place of each on one to three lines, shape (size, k).
    Neighbors go with like values of the column.
    """

    distribution: Marginal | Boosters
    places: Mapping[int, Array] = field(default_factory=dict)
    stack: Stack | None = None
    refinement: Refinement | None = None

    def features(self, rows: Features, rng: np.random.Generator) -> Features:
        rows = _placed(rows, self.places)
        return rows if self.stack is None else self.stack.added(rows, rng)


@dataclass(frozen=True, eq=False)
class TrainingColumn:
    """*Sensitive*. A column, and the features `rows`, shape (n, n_features), that it is learned from; shape (n,) each.
    `scores`: by which values are ordered; `None`: they have no order.
    `ranks`, `widths`: the middle of each value's cell within its code and the cell's share of it; `None`: codes have
    one cell.
    `weights`: at most one for all rows of a unit together.
    """

    rows: Features = field(repr=False)
    categories: Mapping[int, int]
    codes: Codes = field(repr=False)
    size: int
    scores: Array | None = field(repr=False)
    ranks: Array | None = field(repr=False)
    widths: Array | None = field(repr=False)
    weights: Array = field(repr=False)

    def taken(self, rows: NDArray[np.bool_]) -> "TrainingColumn":
        scores, ranks, widths = (
            each if each is None else each[rows] for each in (self.scores, self.ranks, self.widths)
        )
        return replace(
            self, rows=self.rows[rows], codes=self.codes[rows], scores=scores, ranks=ranks, widths=widths,
            weights=self.weights[rows],
        )  # fmt: skip

    @property
    def counts(self) -> Array:
        return np.bincount(self.codes, minlength=self.size).astype(np.float64)


def fit_conditional(learned: TrainingColumn, growth: Growth, rng: np.random.Generator) -> Conditional:
    """The distribution of a column given features. `learned`: *Sensitive*. The column and the features."""
    counts, codes = learned.counts, learned.codes
    if learned.rows.shape[1] == 0 or len(codes) < 2 * growth.leaf_rows or np.count_nonzero(counts) < 2:
        return Conditional(Marginal(counts), refinement=_refinement(learned.rows, learned, growth, rng))
    places = _places(learned, counts)
    rows, stack = _placed(learned.rows, places), None
    if learned.scores is not None and np.count_nonzero(counts) > STACKED_CODES:
        stack, rows = _stack(rows, learned.scores, growth, rng)
    distribution = _boosters(rows, learned, growth, rng)
    return Conditional(distribution, places, stack, _refinement(rows, learned, growth, rng))


def draw_codes(
    distribution: Marginal | Boosters, rows: Features, is_open: NDArray[np.bool_] | None,
    rng: np.random.Generator,
) -> Codes:  # fmt: skip
    """A code for each row, among those that are open to it, as far as it has a chance of any; shape (n,).
    `is_open`: shape (n, size); `None`: all codes are.
    """
    codes = distribution.draw(rows, rng)
    if is_open is None:
        return codes
    # Those that are closed are drawn once more, among the open ones: the others keep their shares.
    again = np.flatnonzero(~is_open[np.arange(len(codes)), codes])
    table, is_open = distribution.table(rows[again]), is_open[again]
    left = table * is_open
    left = np.where(left.sum(axis=1, keepdims=True) > 0, left, table)
    running = np.cumsum(left, axis=1)
    marks = _below(rng, len(again))[:, np.newaxis] * running[:, -1:]
    codes[again] = (running <= marks).sum(axis=1)
    return codes


def _boosters(rows: Features, learned: TrainingColumn, growth: Growth, rng: np.random.Generator) -> Boosters:
    counts = learned.counts
    order = np.arange(len(counts))
    if learned.scores is None:  # like categories beside each other
        order = np.argsort(_axis(rows, learned), kind="stable")
    order = order[counts[order] > 0]
    leaf = np.full(len(counts), -1)
    leaf[order] = np.arange(len(order))
    of_rows = leaf[learned.codes]
    nodes, log_odds, forests = [], [], []
    for first, middle, end in _halves(np.concatenate([[0.0], np.cumsum(counts[order])])):
        places = np.flatnonzero((of_rows >= first) & (of_rows < end))
        right = (of_rows[places] >= middle).astype(np.float64)
        n_right, n_left = right.sum(), (1 - right).sum()
        is_boosted = len(places) >= LEAST_BOOSTED and min(n_right, n_left) >= growth.leaf_rows
        nodes.append((first, middle, end))
        log_odds.append(np.log(n_right / n_left))
        forests.append(growth.boosted(rows[places], right, "binary") if is_boosted else None)
    shaped = np.array(nodes, dtype=np.int32).reshape(-1, 3)
    return Boosters(order.astype(np.int32), shaped, np.array(log_odds), tuple(forests), learned.size)


def _halves(running: Array) -> Iterator[tuple[int, int, int]]:
    """First, middle and end of the nodes of a tree over leaves, each split where its mass is halved best; root first.
    `running`: mass before each leaf, and of all, shape (n_leaves + 1,).
    """
    waiting = [(0, len(running) - 1)]
    while waiting:
        first, end = waiting.pop()
        if end - first > 1:
            half = (running[first] + running[end]) / 2
            middle = first + 1 + int(np.argmin(np.abs(running[first + 1 : end] - half)))
            yield first, middle, end
            waiting += [(middle, end), (first, middle)]


def _axis(rows: Features, learned: TrainingColumn) -> Array:
    """A place for each category: the mean of the features in it, in the direction in which categories differ most."""
    counts = learned.counts
    ranks = np.argsort(np.argsort(rows, axis=0, kind="stable"), axis=0, kind="stable") / len(rows) - 0.5
    sums = np.stack([np.bincount(learned.codes, weights=column, minlength=len(counts)) for column in ranks.T], axis=1)
    means = sums / (counts[:, np.newaxis] + PRIOR_ROWS)
    _, _, axes = np.linalg.svd(means * np.sqrt(counts)[:, np.newaxis], full_matrices=False)
    return np.asarray(means @ axes[0])


def _places(learned: TrainingColumn, counts: Array) -> dict[int, Array]:
    """The places of each category of each feature that is one: on the first line by the mean of the column beside it,
    and of many categories on up to two more, in which they differ beyond noise.
    """
    places = {}
    for column, size in learned.categories.items():
        codes = learned.rows[:, column].astype(np.int64)
        table = np.bincount(codes * learned.size + learned.codes, minlength=size * learned.size)
        lines = _directions(table.reshape(size, learned.size).astype(np.float64))
        if learned.scores is not None:
            response = _shares_below(learned.scores)
            sums = np.bincount(codes, weights=response, minlength=size)
            means = (sums + PRIOR_ROWS * response.mean()) / (np.bincount(codes, minlength=size) + PRIOR_ROWS)
            lines = np.column_stack([means, lines[:, 1:]])
        if np.count_nonzero(counts) < MANY_CATEGORIES or size < MANY_CATEGORIES:
            lines = lines[:, :1]
        places[column] = np.argsort(np.argsort(lines, axis=0, kind="stable"), axis=0, kind="stable").astype(np.float64)
    return places


def _directions(table: Array) -> Array:
    """Scores of categories by the codes beside them, the directions in which they differ most; shape (size, 1 to 3).
    `table`: rows of each category and code, shape (size, n_codes).

    Source: Hirschfeld 1935; Benzecri 1973 (correspondence analysis).
    """
    counts, codes = table.sum(axis=1), table.sum(axis=0)
    seen = np.ix_(counts > 0, codes > 0)
    expected = np.outer(counts, codes)[seen] / table.sum()
    _, strengths, axes = np.linalg.svd((table[seen] - expected) / np.sqrt(expected), full_matrices=False)
    noise = np.sqrt(expected.shape).sum()  # the largest singular value of so many independent cells
    n_directions = int(np.clip((strengths > noise).sum(), 1, MOST_DIRECTIONS))
    means = table[:, codes > 0] / np.sqrt(codes[codes > 0]) / (counts[:, np.newaxis] + PRIOR_ROWS)
    return np.asarray(means @ axes[:n_directions].T)


def _placed(rows: Features, places: Mapping[int, Array]) -> Features:
    if not places:
        return rows
    rows, more = rows.copy(), []
    for column, table in places.items():
        codes = rows[:, column].astype(np.int64)
        rows[:, column] = table[codes, 0]
        more.append(table[codes, 1:].astype(np.float32))
    return np.column_stack([rows, *more])


def _stack(rows: Features, scores: Array, growth: Growth, rng: np.random.Generator) -> tuple[Stack, Features]:
    """The boosted mean of each fold, and the features with the mean that the other folds give each row."""
    normal = ndtri(_shares_below(scores))
    folds = rng.permutation(np.arange(len(rows)) % N_FOLDS)
    means = np.empty(len(rows), dtype=np.float32)
    forests = []
    for fold in range(N_FOLDS):
        out = folds == fold
        forests.append(growth.boosted(rows[~out], normal[~out], "regression"))
        means[out] = forests[-1].total(rows[out])
    return Stack(tuple(forests)), np.column_stack([rows, means])


def _refinement(rows: Features, learned: TrainingColumn, growth: Growth, rng: np.random.Generator) -> Refinement | None:
    """The ranks within codes given features and code; `None` where each code has one cell."""
    ranks, widths, weights = learned.ranks, learned.widths, learned.weights
    if ranks is None or widths is None:
        return None
    features = _with_code(rows, learned.codes)
    # A code of one cell has one rank: beside it in a leaf, the variance of other codes would come out too small.
    several = widths < 1
    if several.sum() >= 2 * growth.leaf_rows:
        features, weights = features[several], weights[several]
        # Values spread over their cells, or a few wide ones would come out as the peaks of a comb.
        ranks = ranks[several] + widths[several] * (rng.random(len(weights)) - 0.5)
    tree = growth.cart(features, ranks, weights, _seed(rng))
    leaves = tree.leaves(features)
    units = np.bincount(leaves, weights=weights, minlength=tree.n_leaves)
    means = np.clip(np.bincount(leaves, weights=weights * ranks, minlength=tree.n_leaves) / units, 0.01, 0.99)
    squares = np.bincount(leaves, weights=weights * (ranks - means[leaves]) ** 2, minlength=tree.n_leaves)
    variances = squares / units
    most = means * (1 - means)
    precision = most / np.clip(variances, SMALLEST_VARIANCE, 0.95 * most) - 1
    return Refinement(tree, np.column_stack([means, 1 - means]) * precision[:, np.newaxis])


def _with_code(rows: Features, codes: Codes) -> Features:
    return np.column_stack([rows, codes.astype(np.float32)])


def _shares_below(scores: Array) -> Array:
    """For each row the share of rows below it, and half of those at it; shape (n,)."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    return np.asarray(((np.cumsum(counts) - counts / 2) / len(scores))[places])


def _below(rng: np.random.Generator, n: int) -> Array:
    """Uniform numbers strictly below one, however they are scaled."""
    return rng.random(n) * (1 - np.finfo(np.float64).eps)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))
