"""The membership attacks of the ensemble: each gives every target a score, higher for "was in the training table".

The attacker knows the synthetic table, the complete record of every target, and a sample of the same population that
was not used for training (the fresh half of the holdout). They want to say of a target whether it was in the training
table, and win where they name members more often than non-members. Each score compares what the synthetic table says
of a record with what the attacker's own sample says, so that a record which is near to everything does not look like a
member: members and non-members are scored alike, and by nothing that the training table alone would know.

Source: Carlini et al. 2022, arXiv:2112.03570 (calibration); van Breugel et al. 2023, arXiv:2302.12580 (DOMIAS); Yao et
al. 2025, arXiv:2505.01524 (why distances need it); Fellegi & Sunter 1969, "A Theory for Record Linkage".
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evaluate.neighbors import Rows, share_of, space_of
from evaluate.privacy.exact import exact_of
from evaluate.privacy.membership.fragments import fragments
from evaluate.privacy.membership.targets import Targets, targets_of
from evaluate.sampling import drawn_order, learned_keys
from evaluate.tables import Tables

Attack = Callable[[Targets, Tables], np.ndarray]
"""Scores of the rows of some targets, shape (n,)."""

SOFTENED = 0.02
"""Added to distances before logarithms: a fiftieth of what one category makes, below which all are the same."""
DISAGREES = 1.0
"""What a category that differs takes from the evidence of a link, in nats."""
N_AROUND = 5
"""Neighbors that stand for how dense a table is around a target."""
MAX_LEARNED = 20_000
"""Synthetic rows that the classifier learns from at most."""
N_BINS = 255
"""Bins of a feature that the classifier learns from, at most."""
N_RARITIES = 9
"""Classes of how many others have a value."""


def nearest(targets: Targets, tables: Tables) -> np.ndarray:
    """How much nearer the synthetic rows are than the attacker's own, in [-1, 2].

    A target that stands in the synthetic table verbatim, and not in the attacker's sample, comes before all others,
    the most isolated one first.
    """
    return contrasts(targets.synthetic.distances[:, 0], targets.fresh.distances[:, 0])


def contrasts(synthetic: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """How much nearer a table is to each target than the attacker's own rows are, in [-1, 2]; verbatim is above 1.

    Args:
        synthetic: distances to the nearest row of the table, shape (n,).
        fresh: distances to the nearest of the attacker's rows, shape (n,).
    """
    both = synthetic + fresh
    contrast = (fresh - synthetic) / np.where(both > 0, both, 1.0)
    return np.where((synthetic == 0) & (fresh > 0), 1.0 + fresh / (1.0 + fresh), contrast)


def margin(targets: Targets, tables: Tables) -> np.ndarray:
    """How far the nearest synthetic row stands out among the next ones, and beside the attacker's nearest row.

    A row that was copied with a few changes is much nearer than any other; honest rows come at about equal distances.
    """
    logs = np.log(targets.synthetic.distances + SOFTENED)
    others = logs[:, 1 : 1 + N_AROUND].mean(axis=1) if logs.shape[1] > 1 else logs[:, 0]
    return np.asarray((others + np.log(targets.fresh.distances[:, 0] + SOFTENED)) / 2 - logs[:, 0])


def density(targets: Targets, tables: Tables) -> np.ndarray:
    """The logarithm of the synthetic rows' density at a target beside that of the attacker's sample (DOMIAS).

    DEVIATES: densities by distances to neighbors, not by a normalizing flow: no training, and mixed types.
    """
    n_synthetic, n_fresh = len(tables.synthetic), len(tables.fresh)
    k_fresh = min(max(round(N_AROUND * n_fresh / n_synthetic), 1), N_AROUND)
    k_synthetic = min(max(round(N_AROUND * n_synthetic / n_fresh), 1), N_AROUND)
    synthetic = np.log(targets.synthetic.distances[:, :k_synthetic] + SOFTENED).mean(axis=1)
    return np.asarray(np.log(targets.fresh.distances[:, :k_fresh] + SOFTENED).mean(axis=1) - synthetic)


def linkage(targets: Targets, tables: Tables) -> np.ndarray:
    """How strongly the best of the near synthetic rows agrees with a target, beside the attacker's best row.

    Agreement counts by how rare it is: in a category by its frequency, in a number by how many lie as near. Single
    columns that were changed cost little, so that a copy with noise in it is still linked.
    """
    space = space_of(tables)
    linked = _evidence(targets.rows, space.synthetic, targets.synthetic.positions, space.fresh)
    return np.asarray(linked - _evidence(targets.rows, space.fresh, targets.fresh.positions, space.fresh))


def classifier(targets: Targets, tables: Tables) -> np.ndarray:
    """The log-odds that a classifier gives a target of being synthetic, not one of the attacker's own rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    space = space_of(tables)
    synthetic = space.synthetic.take(tables.order("synthetic")[:MAX_LEARNED])
    order = drawn_order(learned_keys(tables.fresh, tables.schema), tables.seed)
    fresh = space.fresh.take(order[:MAX_LEARNED])
    rows = np.concatenate([_features(synthetic), _features(fresh)])
    # Binned before the model does so: its weighted quantiles of many values take seconds.
    edges = [_edges(column) for column in rows.T]
    is_synthetic = np.repeat([1, 0], [len(synthetic), len(fresh)])
    weights = np.repeat([0.5 / len(synthetic), 0.5 / len(fresh)], [len(synthetic), len(fresh)]) * len(rows)
    model = HistGradientBoostingClassifier(
        max_iter=60, learning_rate=0.1, max_leaf_nodes=31, min_samples_leaf=5, early_stopping=False,
        random_state=tables.seed % 2**32,
    )  # fmt: skip
    with threadpool_limits(1):  # many threads on few cores wait for each other most of the time
        learned = model.fit(_binned(rows, edges), is_synthetic, weights)
        return np.asarray(learned.decision_function(_binned(_features(targets.rows), edges)))


def values(targets: Targets, tables: Tables) -> np.ndarray:
    """Negative log-likelihood, by chance, of a target's exact values in the synthetic table, in whichever rows.

    A value that few others have, to the last digit, is seldom met by chance. How seldom, the attacker learns from their
    own sample: column by column, how often values as rare as it stand in the synthetic table. The logarithms add up.
    """
    exact, total = exact_of(tables), np.zeros(targets.exact.shape[1])
    for codes, known, synthetic in zip(targets.exact, exact.fresh, exact.synthetic, strict=True):
        n = int(max(part.max(initial=-1) for part in (codes, known, synthetic))) + 2  # a missing value is one, too
        in_table, times = np.bincount(synthetic + 1, minlength=n) > 0, np.bincount(known + 1, minlength=n)
        own = _rarity(times[known + 1] - 1)
        met = np.bincount(own, weights=in_table[known + 1], minlength=N_RARITIES)
        by_chance = (met + 0.5) / (np.bincount(own, minlength=N_RARITIES) + 1)
        total -= np.where(in_table[codes + 1], np.log(by_chance[_rarity(times[codes + 1])]), 0.0)
    return total


def _rarity(others: np.ndarray) -> np.ndarray:
    """Classes of a value's frequency: 0, 1 to 2, 3 to 6, and so on."""
    return np.asarray(np.minimum(np.log2(others + 1).astype(np.int64), N_RARITIES - 1))


ATTACKS: Mapping[str, Attack] = {
    "nearest": nearest, "margin": margin, "linkage": linkage, "fragments": fragments, "density": density,
    "classifier": classifier, "values": values,
}  # fmt: skip
"""Every attack of the ensemble by name; where none is clearly better, the first is chosen."""


def scored(tables: Tables) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    """Scores of members and of controls by every attack, made once for the same tables; one score for each target.

    Args:
        tables: *Sensitive*. As `Tables.prepare` gives them.
    """
    if "membership scores" not in tables.kept:
        members, controls = targets_of(tables)
        both, n = members.joined(controls), len(members)
        scores = {name: both.surest(attack(both, tables)) for name, attack in ATTACKS.items()}
        tables.kept["membership scores"] = {name: (found[:n], found[n:]) for name, found in scores.items()}
    kept: Mapping[str, tuple[np.ndarray, np.ndarray]] = tables.kept["membership scores"]
    return kept


def _features(rows: Rows) -> np.ndarray:
    return np.column_stack([values.astype(np.float32) for values in rows.columns.values()])


def _edges(column: np.ndarray) -> np.ndarray:
    """Edges of the bins of a feature, shape (n_bins - 1,): between all values where these are few, else quantiles.

    Up to `N_BINS` values have a bin each, as in scikit-learn: quantiles would merge rare ones, those of vulnerable
    people. Of more values they are the quantiles of all rows alike; scikit-learn's count rows by their weights.

    Args:
        column: without missing values, shape (n,).
    """
    values = np.unique(column).astype(np.float64)  # so that no midpoint of float32 is one of its two values
    if len(values) <= N_BINS:
        return np.asarray((values[:-1] + values[1:]) / 2)
    return np.unique(np.quantile(column, np.linspace(0, 1, N_BINS + 1)[1:-1]))


def _binned(features: np.ndarray, edges: Sequence[np.ndarray]) -> np.ndarray:
    """The bin of each number, counted from 0; shape (n, d)."""
    return np.column_stack([np.searchsorted(of, column) for of, column in zip(edges, features.T, strict=True)])


def _evidence(targets: Rows, pool: Rows, candidates: np.ndarray, known: Rows) -> np.ndarray:
    """The strongest evidence that one of some rows of the pool is the target, in nats; shape (len(targets),).

    Args:
        targets: shape (n,) rows.
        pool: rows.
        candidates: positions in the pool, shape (n, k).
        known: rows that frequencies are taken from.
    """
    total = np.zeros(candidates.shape)
    for name, values in targets.columns.items():
        other, share = pool.columns[name][candidates], share_of(values, known.columns[name])[:, None]
        if values.dtype.kind == "i":
            total += np.where(values[:, None] == other, -np.log(share), -DISAGREES)
        else:
            total -= np.log(np.minimum(2 * np.abs(values[:, None] - other) + share, 1.0))
    return np.asarray(total.max(axis=1))
