"""Scores of predictions on many weightings of the same test rows at once, and rows in halves: what intervals need."""

from collections.abc import Callable, Iterator

import numpy as np

N_REPLICATES = 300
LEAST_R2 = -1.0  # R2 is cut off here: below it a model is merely useless, and a heavy tail could make it anything
_CELLS = 4_000_000
Score = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Of predictions, the truth and weightings of shape (b, n): a score for each weighting, shape (b,)."""


def weightings(entities: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """Bootstrap weights of the test rows, whole entities together, in blocks (b, n); the first row is all ones."""
    rng = np.random.default_rng([seed, 5])
    n_entities = int(entities.max()) + 1
    yield np.ones((1, len(entities)))
    size = max(1, _CELLS // len(entities))
    for start in range(0, N_REPLICATES, size):
        draws = rng.multinomial(n_entities, np.full(n_entities, 1.0 / n_entities), min(size, N_REPLICATES - start))
        yield draws[:, entities].astype(np.float64)


def halves(units: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the rows in two, whole units together; of one unit alone, all rows twice."""
    n_units = int(units.max()) + 1
    if n_units == 1:
        return np.ones(len(units), dtype=bool), np.ones(len(units), dtype=bool)
    first = np.zeros(n_units, dtype=bool)
    first[rng.permutation(n_units)[: n_units // 2]] = True
    return first[units], ~first[units]


def roc_auc(scores: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The area under the ROC curve for each weighting (b, n), ties split; (b,), NaN where a class has no weight."""
    ups, downs = weights[:, positive], weights[:, ~positive]
    negatives = scores[~positive]
    order = np.argsort(negatives)
    below = np.zeros((len(weights), len(negatives) + 1))
    np.cumsum(downs[:, order], axis=1, out=below[:, 1:])
    ends = (np.searchsorted(negatives[order], scores[positive], side) for side in ("left", "right"))
    # A negative of the same score counts by half.
    wins = sum(np.einsum("ij,ij->i", ups, below[:, end]) for end in ends) / 2
    pairs = ups.sum(axis=1) * below[:, -1]
    return np.where(pairs > 0, wins / np.where(pairs > 0, pairs, 1.0), np.nan)


def macro_roc_auc(scores: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The mean over classes of one class against the rest, over the classes that have weight; shape (b,)."""
    columns = [1] if scores.shape[1] == 2 else range(scores.shape[1])
    areas = np.array([roc_auc(scores[:, c], classes == c, weights) for c in columns])
    known = ~np.isnan(areas)
    total = np.where(known, areas, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)


def r2(predictions: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """R2 for each weighting, not below `LEAST_R2`; shape (b,), NaN where the truth does not vary. `predictions`: shape
    (n,). `truth`: shape (n,). `weights`: shape (b, n).
    """
    scale = float(truth.std()) or 1.0
    truth, predictions = (truth - truth.mean()) / scale, (predictions - truth.mean()) / scale
    total = weights.sum(axis=1)
    spread = weights @ truth**2 - (weights @ truth) ** 2 / total
    errors = weights @ (truth - predictions) ** 2
    varies = spread > 1e-9 * total
    return np.where(varies, np.maximum(LEAST_R2, 1 - errors / np.where(varies, spread, 1.0)), np.nan)
