"""Membership attacks: each gives every target a score, higher for "was in the training table".

Each score compares what the synthetic table says of a record with what the attacker's own sample says: members and
non-members are scored alike. Where rows have an entity, a target is an entity, and its score that of the row that the
attack is surest of. Of an entity `ROWS_EACH` rows are looked at, and on neither side more than any entity of the other
has: a table that was cut to a few rows of each is not told by that.

Nearest rows miss a generator that repeats a few cells of a record and draws the others anew (`fragments` looks a target
up by each of its telling values), and one that counts rows by a few columns, whose cells hold the noise of its training
rows (`focal` adds up many of them). Extras bring further attacks by the registry kind "membership": functions of the
tables and both sides' targets, with the scores of either; `None` where they say nothing of this table.

Source: Carlini et al. 2022, arXiv:2112.03570 (calibration); van Breugel et al. 2023, arXiv:2302.12580 (DOMIAS); Yao et
al. 2025, arXiv:2505.01524 (why distances need it); Golob et al. 2025, arXiv:2402.06699 (MAMA-MIA, focal points);
Fellegi & Sunter 1969, "A Theory for Record Linkage".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from evaluate.neighbors import MISSING, Neighbors, SpaceRows, kept_search, search, share_of, space_of
from evaluate.privacy.coincidence import exact_of
from evaluate.sampling import Side, entity_codes
from evaluate.tables import Tables
from evaluate.utility.models import in_one_thread
from synth import extras
from synth.schema import Schema

N_SYNTHETIC, N_FRESH = 16, 8
"""Neighbors of a target that are looked for among the synthetic rows and in the attacker's own sample."""
MANY_PAIRS = 6e9  # Of targets and synthetic rows: beyond so many, fewer targets are attacked
LEAST_TARGETS = 2_000
ROWS_EACH = 4  # Rows of one entity that are looked at, at most
MOST_ROWS = 2  # Rows of all targets at most, as a multiple of how many targets are attacked


@dataclass(frozen=True)
class TargetNeighborhoods:
    """Rows of the targets of one side, and what lies around them. *Sensitive*."""

    # in the table, shape (n,), in seeded random order of the targets, rows of one target side by side.
    positions: np.ndarray
    rows: SpaceRows
    exact: np.ndarray  # codes that are equal for equal values, shape (d, n), as `Exact` has them
    synthetic: Neighbors
    fresh: Neighbors
    first: np.ndarray  # where the rows of each target begin, ascending, shape (n_targets,)

    def __len__(self) -> int:
        return len(self.first)

    def surest(self, scores: np.ndarray) -> np.ndarray:
        """Of each target the highest score of its rows; shape (n_targets,). `scores`: of all rows, shape (n,)."""
        return np.maximum.reduceat(scores, self.first) if len(self.first) else scores

    def joined(self, other: "TargetNeighborhoods") -> "TargetNeighborhoods":
        """These targets and then the other ones; positions are then those of two tables."""
        synthetic, fresh = self.synthetic.joined(other.synthetic), self.fresh.joined(other.fresh)
        exact, first = np.hstack([self.exact, other.exact]), np.r_[self.first, other.first + len(self.positions)]
        return TargetNeighborhoods(
            np.r_[self.positions, other.positions], self.rows.joined(other.rows), exact, synthetic, fresh, first
        )  # fmt: skip


def targets_of(tables: Tables) -> tuple[TargetNeighborhoods, TargetNeighborhoods]:
    """Members and controls, with their neighbors. `tables`: *Sensitive*. As `Tables.prepare` gives them."""
    return tables.kept.once("targets", lambda: _targets(tables))


def _targets(tables: Tables) -> tuple[TargetNeighborhoods, TargetNeighborhoods]:
    space, exact, schema = space_of(tables), exact_of(tables), tables.schema
    sides: dict[Side, pd.DataFrame] = {"train": tables.train, "control": tables.control}
    n = max(map(len, sides.values()))
    if tables.n_targets is not None:
        n = affordable_targets(tables.n_targets, len(tables.synthetic))
    each = ROWS_EACH
    if schema.entity is not None:
        each = min(each, *(np.bincount(entity_codes(frame, schema)).max(initial=1) for frame in sides.values()))
    nearest = []
    for name, frame in sides.items():
        positions, first = _of_entities(tables.drawn(frame), frame, schema, n, each)
        rows = getattr(space, name).take(positions)
        synthetic = search(rows, space.synthetic, min(N_SYNTHETIC, len(space.synthetic)))
        near = partial(search, rows, space.fresh, min(N_FRESH, len(space.fresh)))
        fresh = kept_search(tables, (name, "fresh", n), near)
        codes = getattr(exact, name)[:, positions]
        nearest.append(TargetNeighborhoods(positions, rows, codes, synthetic, fresh, first))
    return nearest[0], nearest[1]


def affordable_targets(n_targets: int, n_synthetic: int) -> int:
    """Targets of a side that are attacked beside so many synthetic rows, of those that were asked for.

    >>> affordable_targets(8_000, 500_000)
    6000
    """
    return min(n_targets, max(int(MANY_PAIRS / (2 * n_synthetic)), LEAST_TARGETS))


def _of_entities(
    order: np.ndarray, frame: pd.DataFrame, schema: Schema, n: int, each: int
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Rows of the first targets of an order, side by side, and where those of each begin. *Sensitive*."""
    if schema.entity is None:
        return order[:n], np.arange(min(n, len(order)))
    targets = pd.factorize(entity_codes(frame, schema)[order])[0]  # numbered as they come
    rows = np.argsort(targets, kind="stable")
    starts = np.searchsorted(targets[rows], np.arange(targets.max(initial=-1) + 1))
    sizes = np.minimum(np.diff(np.r_[starts, len(rows)]), each)
    sizes = sizes[: max(1, min(n, int(np.searchsorted(np.cumsum(sizes), MOST_ROWS * n, "right"))))]
    first = np.cumsum(sizes) - sizes
    of_target = np.arange(sizes.sum()) - np.repeat(first, sizes)
    return order[rows[np.repeat(starts[: len(sizes)], sizes) + of_target]], first


MAX_KEYS = 12  # Columns that rows are looked up by at most: those of most different values, which tell rows apart best
N_EACH = 2  # Rows that are looked up by one value at most
OWN = 0.5
"""How much of what the attacker's own rows share with a target counts against it: all of it would, where few values
coincide, add more noise than it takes away."""


def fragments(targets: TargetNeighborhoods, tables: Tables) -> np.ndarray:
    """Evidence in the values that one synthetic row shares with a target, beside one of the attacker's own rows."""
    space = space_of(tables)
    # In a seeded random order: of many rows that share a value, chance says which are looked at.
    synthetic = space.synthetic.take(tables.order("synthetic"))
    fresh = space.fresh.take(tables.drawn(tables.fresh))
    keys = sorted(fresh.columns, key=lambda name: (-len(np.unique(fresh.columns[name])), name))[:MAX_KEYS]
    shared, own = (_most_shared(targets.rows, pool, fresh, keys) for pool in (synthetic, fresh))
    return np.asarray(shared - OWN * own)


def _most_shared(targets: SpaceRows, pool: SpaceRows, known: SpaceRows, keys: list[str]) -> np.ndarray:
    """The most a row of the pool shares with each target, in nats: values that few known rows have count more; (n,)."""
    shared = np.hstack([_looked_up(targets.columns[name], pool.columns[name]) for name in keys])
    total = np.zeros(shared.shape)
    for name, values in sorted(targets.columns.items()):
        telling = -np.log(share_of(values, known.columns[name]))
        total += np.where(values[:, None] == pool.columns[name][shared], telling[:, None], 0.0)
    return np.asarray(total.max(axis=1))


def _looked_up(values: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Positions of a few rows of the pool that hold each value, or else of one close by; shape (n, N_EACH)."""
    order = np.argsort(pool, kind="stable")
    ranked = pool[order]
    first, after = (np.searchsorted(ranked, values, side)[:, None] for side in ("left", "right"))
    places = np.minimum(first + np.arange(N_EACH), np.maximum(after - 1, first))
    return np.asarray(order[np.minimum(places, len(pool) - 1)])


Attack = Callable[[TargetNeighborhoods, Tables], np.ndarray]  # Scores of the rows of some targets, shape (n,)

SOFTENED = 0.02
"""Added to distances before logarithms: a fiftieth of what one category makes, below which all are the same."""
DISAGREES = 1.0  # Evidence that a differing category takes from a link, in nats
N_AROUND = 5  # Neighbors that stand for how dense a table is around a target
MAX_LEARNED = 20_000  # Synthetic rows that the classifier learns from at most
N_BINS = 255  # Bins of a feature that the classifier learns from, at most
N_RARITIES = 9  # Classes of how many others have a value
N_SETS, SET_SIZES = 150, (2, 3, 4)  # Sets of columns whose cells are counted, and how many columns they have
N_PARTS, MAX_CELLS = 32, 64  # Cells of a column of numbers, and of one of categories at most
MAX_COUNTED = 50_000  # Synthetic rows that are counted at most


def nearest(targets: TargetNeighborhoods, tables: Tables) -> np.ndarray:
    """Relative nearness of the synthetic rows over the attacker's own."""
    return contrasts(targets.synthetic.distances[:, 0], targets.fresh.distances[:, 0])


def contrasts(synthetic: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """Relative nearness (n,) of a table to targets over the attacker's own rows, in [-1, 2]. Who stands in the table
    verbatim, and not in the attacker's sample, is above 1, the most isolated one first.
    """
    both = synthetic + fresh
    contrast = (fresh - synthetic) / np.where(both > 0, both, 1.0)
    return np.where((synthetic == 0) & (fresh > 0), 1.0 + fresh / (1.0 + fresh), contrast)


def margin(targets: TargetNeighborhoods, tables: Tables) -> np.ndarray:
    """Margin of the nearest synthetic row over the next ones, and over the attacker's nearest row. A row that was
    copied with a few changes is much nearer than any other; honest rows come at about equal distances.
    """
    logs = np.log(targets.synthetic.distances + SOFTENED)
    others = logs[:, 1 : 1 + N_AROUND].mean(axis=1) if logs.shape[1] > 1 else logs[:, 0]
    return np.asarray((others + np.log(targets.fresh.distances[:, 0] + SOFTENED)) / 2 - logs[:, 0])


def density(targets: TargetNeighborhoods, tables: Tables) -> np.ndarray:
    """The logarithm of the synthetic rows' density at a target beside that of the attacker's sample (DOMIAS). DEVIATES:
    densities by distances to neighbors, not by a normalizing flow: no training, and mixed types.
    """
    n_synthetic, n_fresh = len(tables.synthetic), len(tables.fresh)
    k_fresh = min(max(round(N_AROUND * n_fresh / n_synthetic), 1), N_AROUND)
    k_synthetic = min(max(round(N_AROUND * n_synthetic / n_fresh), 1), N_AROUND)
    synthetic = np.log(targets.synthetic.distances[:, :k_synthetic] + SOFTENED).mean(axis=1)
    return np.asarray(np.log(targets.fresh.distances[:, :k_fresh] + SOFTENED).mean(axis=1) - synthetic)


def linkage(targets: TargetNeighborhoods, tables: Tables) -> np.ndarray:
    """Agreement of the best near synthetic row with a target, beside the attacker's best row. Agreement counts by how
    rare it is: in a category by its frequency, in a number by how many lie as near. Single columns that were changed
    cost little, so that a copy with noise in it is still linked.
    """
    space = space_of(tables)
    linked = _evidence(targets.rows, space.synthetic, targets.synthetic.positions, space.fresh)
    return np.asarray(linked - _evidence(targets.rows, space.fresh, targets.fresh.positions, space.fresh))


def classifier(targets: TargetNeighborhoods, tables: Tables) -> np.ndarray:
    """The log-odds that a classifier gives a target of being synthetic, not one of the attacker's own rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    space = space_of(tables)
    synthetic = space.synthetic.take(tables.order("synthetic")[:MAX_LEARNED])
    order = tables.drawn(tables.fresh)
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
    in_one_thread(model.fit, _binned(rows, edges), is_synthetic, weights)
    return np.asarray(in_one_thread(model.decision_function, _binned(_features(targets.rows), edges)))


def values(targets: TargetNeighborhoods, tables: Tables) -> np.ndarray:
    """Negative log-likelihood, by chance, of a target's exact values in the synthetic table, in whichever rows. A value
    that few others have, to the last digit, is seldom met by chance. How seldom, the attacker learns from their own
    sample: column by column, how often values as rare as it stand in the synthetic table. The logarithms add up.
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


def focal(targets: TargetNeighborhoods, tables: Tables) -> np.ndarray:
    """Log-ratios of a target's cells of two to four columns in both tables, summed over random sets of columns."""
    # DEVIATES: any sets of columns, not those that a known generator counts.
    space = space_of(tables)
    pools = [space.synthetic.take(tables.order("synthetic")[:MAX_COUNTED]), space.fresh, targets.rows]
    parts = [cells_of([pool.columns[name] for pool in pools]) for name in sorted(space.fresh.columns)]
    rng, total = np.random.default_rng([tables.seed, 17]), np.zeros(len(targets.rows))
    for _ in range(N_SETS):
        chosen = rng.choice(len(parts), size=min(int(rng.choice(SET_SIZES)), len(parts)), replace=False)
        keys = [np.zeros(len(pool), dtype=np.int64) for pool in pools]
        for i in chosen:
            keys = [key * MAX_CELLS + cells for key, cells in zip(keys, parts[i], strict=True)]
        codes, distinct = pd.factorize(np.concatenate(keys))
        synthetic, fresh, own = np.split(codes, np.cumsum([len(key) for key in keys])[:-1])
        counts = [
            np.bincount(cells_in, minlength=len(distinct)) / len(cells_in) * len(fresh) + 0.5
            for cells_in in (synthetic, fresh)
        ]
        total += np.log(counts[0] / counts[1])[own]
    return total


def cells_of(pools: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Cells of one column in each pool: equal parts of ranks, or the commonest categories of the first, others one."""
    if pools[0].dtype.kind != "i":
        return [
            np.where(values == MISSING, N_PARTS, np.minimum(values * N_PARTS, N_PARTS - 1)).astype(np.int64)
            for values in pools
        ]
    n = max(int(values.max(initial=-1)) for values in pools) + 2
    ranks = np.empty(n, dtype=np.int64)
    ranks[np.argsort(-np.bincount(pools[0] + 1, minlength=n), kind="stable")] = np.arange(n)
    return [np.minimum(ranks[values + 1], MAX_CELLS - 1) for values in pools]


def _rarity(others: np.ndarray) -> np.ndarray:
    """Classes of a value's frequency: 0, 1 to 2, 3 to 6, and so on."""
    return np.asarray(np.minimum(np.log2(others + 1).astype(np.int64), N_RARITIES - 1))


ATTACKS: Mapping[str, Attack] = {
    "nearest": nearest, "margin": margin, "linkage": linkage, "fragments": fragments, "density": density,
    "classifier": classifier, "values": values, "focal": focal,
}  # fmt: skip
"""Every attack on rows by name; where none is clearly better, the first is chosen, or `FOCAL` for an AUC."""
FOCAL = "focal"


def scored(tables: Tables) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    """Scores of members and of controls by every attack, one for each target, made once for the same tables."""
    return tables.kept.once("membership scores", lambda: _scored(tables))


def _scored(tables: Tables) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    members, controls = targets_of(tables)
    both, n = members.joined(controls), len(members)
    scores = {name: both.surest(attack(both, tables)) for name, attack in ATTACKS.items()}
    brought = {name: attack(tables, members, controls) for name, attack in extras.load("membership").items()}
    halves = {name: (score[:n], score[n:]) for name, score in scores.items()}
    return halves | {name: both for name, both in brought.items() if both is not None}


def _features(rows: SpaceRows) -> np.ndarray:
    return np.column_stack([values.astype(np.float32) for values in rows.columns.values()])


def _edges(column: np.ndarray) -> np.ndarray:
    """Edges of the bins of a feature, shape (n_bins - 1,): between all values where these are few, else quantiles."""
    # Up to `N_BINS` values have a bin each, as in scikit-learn: quantiles would merge rare ones, those of vulnerable
    # people. Of more values they are the quantiles of all rows alike; scikit-learn's count rows by their weights.
    values = np.unique(column).astype(np.float64)  # so that no midpoint of float32 is one of its two values
    if len(values) <= N_BINS:
        return np.asarray((values[:-1] + values[1:]) / 2)
    return np.unique(np.quantile(column, np.linspace(0, 1, N_BINS + 1)[1:-1]))


def _binned(features: np.ndarray, edges: Sequence[np.ndarray]) -> np.ndarray:
    """The bin of each number, counted from 0; shape (n, d)."""
    return np.column_stack([np.searchsorted(cuts, column) for cuts, column in zip(edges, features.T, strict=True)])


def _evidence(targets: SpaceRows, pool: SpaceRows, candidates: np.ndarray, known: SpaceRows) -> np.ndarray:
    """The strongest evidence that one of some rows (n, k) of the pool is the target, in nats; shape (n,)."""
    total = np.zeros(candidates.shape)
    for name, values in targets.columns.items():
        other, share = pool.columns[name][candidates], share_of(values, known.columns[name])[:, None]
        if values.dtype.kind == "i":
            total += np.where(values[:, None] == other, -np.log(share), -DISAGREES)
        else:
            total -= np.log(np.minimum(2 * np.abs(values[:, None] - other) + share, 1.0))
    return np.asarray(total.max(axis=1))
