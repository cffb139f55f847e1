"""The coded length of a column: held-out bits a row of its code, given a small tree on other columns, and within it."""

from collections.abc import Collection
from typing import Any

import numpy as np

from synth.infer.relations.lines import DAY, MONDAY, WEEK, Lines

BINS, SPIKE, LEAVES = 16, 0.02, 40  # codes of a number, share of a value with a code of its own, leaves of the tree
LEAST_LEAF, LEAST_ROWS = 15, 40
PRIOR = 3.0  # rows that the shares of all rows count for in a leaf
ROUND = (2, 5, 10, 50, 100)  # multiples of the lattice that round values are on
MISSING, LARGEST = -1e12, 1e37


class Features:
    """What a tree sees of the other columns: positions, weekdays and times of day, categories; sampled rows."""

    def __init__(self, lines: Lines) -> None:
        self.at: dict[str, range] = {}
        blocks: list[np.ndarray] = []
        for name in dict.fromkeys([*lines.sample, *lines.codes]):
            values = lines.codes[name] if name in lines.codes else lines.sample[name]
            # In days, as float32 holds no more.
            new = (
                [values / DAY, np.floor((values - MONDAY) / DAY) % 7, values % DAY] if lines.is_time(name) else [values]
            )
            self.at[name] = range(len(blocks), len(blocks) + len(new))
            blocks += map(self.fill, new)
        self.matrix = np.stack(blocks, axis=1) if blocks else np.zeros((len(lines.rows), 0), np.float32)

    @staticmethod
    def fill(values: np.ndarray) -> np.ndarray:
        filled = np.where(np.isfinite(values), values, MISSING)
        return np.clip(filled, -LARGEST, LARGEST).astype(np.float32)

    def without(self, names: Collection[str]) -> np.ndarray:
        return self.matrix[:, [i for name, at in self.at.items() if name not in names for i in at]]


def count_bits(
    values: np.ndarray, step: float, features: np.ndarray | None = None, scale: Any = 1.0, *, spiky: bool = True
) -> float:
    """Held-out bits a row: of the code, given a tree where that helps, and of the place in the code.

    `step` is the lattice of the column itself, `scale` what one unit of the representation is on it, for each row.
    Without `spiky`, frequent values have no code of their own, as times have none in a generator.
    """
    known = np.isfinite(values)
    v, scales = np.round(values[known] / step, 9), np.broadcast_to(scale, values.shape)[known]
    half = len(v) // 2
    if half < LEAST_ROWS:
        return 0.0
    code, widths = _codes(v[:half], v, spiky)
    n = len(widths)
    share = (np.bincount(code[:half], minlength=n) + 0.1) / (half + 0.1 * n)
    own = float(np.mean(np.log2(share[code[half:]])))
    if features is not None and features.shape[1] and len(np.unique(code[:half])) > 1:
        own = max(own, _with_tree(features[known], code, share))
    return float(np.mean(np.log2(np.maximum(widths[code[half:]] * scales[half:], 1.0)))) - own


def _with_tree(x: np.ndarray, code: np.ndarray, share: np.ndarray) -> float:
    from sklearn.tree import DecisionTreeClassifier

    half = len(code) // 2
    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES, min_samples_leaf=LEAST_LEAF, random_state=0)
    leaf = tree.fit(x[:half], code[:half]).apply(x)
    counts = np.zeros((tree.tree_.node_count, len(share)))
    np.add.at(counts, (leaf[:half], code[:half]), 1.0)
    chance = (counts + PRIOR * share) / (counts.sum(axis=1, keepdims=True) + PRIOR)
    return float(np.mean(np.log2(chance[leaf[half:], code[half:]])))


def _codes(train: np.ndarray, values: np.ndarray, spiky: bool) -> tuple[np.ndarray, np.ndarray]:
    """Codes of values and their widths: frequent ones have their own, the others share quantile bins."""
    distinct, counts = np.unique(train, return_counts=True)
    spikes = distinct[counts >= max(SPIKE * len(train), 5)] if spiky else distinct[:0]
    rest = train[~np.isin(train, spikes)]
    edges = np.unique(np.quantile(rest, np.linspace(0, 1, BINS + 1))) if len(rest) > 1 else np.array([0.0, 1.0])
    edges = np.append(edges, edges[-1] + 1) if len(edges) < 2 else edges
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    at = np.clip(np.searchsorted(spikes, values), 0, max(len(spikes) - 1, 0))
    is_spike = spikes[at] == values if len(spikes) else np.zeros(len(values), dtype=bool)
    return np.where(is_spike, len(edges) - 1 + at, bins), np.append(np.diff(edges), np.zeros(len(spikes)))


def round_bits(values: np.ndarray, lattice: float) -> float:
    """Bits a row that round values save: they are lost where a ratio or a sum gives the column."""
    known, best = values[np.isfinite(values)], 0.0
    times = known[known != 0] / lattice  # zero is on every lattice, and stays zero
    if not len(times):
        return 0.0
    for k in ROUND:
        share = float((np.abs(times / k - np.round(times / k)) < 0.01 / k).mean())
        share = min(max(share, 1e-9), 1 - 1e-9)
        if share > 1 / k:
            best = max(best, share * np.log2(share * k) + (1 - share) * np.log2((1 - share) / (1 - 1 / k)))
    return best * len(times) / len(known)


def split(times: np.ndarray, origin: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weeks since the week of an origin, weekday from Monday on, and time of day in seconds."""
    week = np.floor((times - MONDAY) / WEEK) - np.floor((np.asarray(origin) - MONDAY) / WEEK)
    return week, np.floor((times - MONDAY) / DAY) % 7, times % DAY


def count_bits_of_parts(
    times: np.ndarray, step: float, features: np.ndarray, origin: np.ndarray | float = MONDAY
) -> float:
    """The bits of week, weekday and time of day, each given those before."""
    week, weekday, clock = split(times, origin)
    z = np.nan_to_num(np.stack([week, weekday], axis=1), nan=MISSING).astype(np.float32)
    total = count_bits(week, 1.0, features) + count_bits(weekday, 1.0, np.hstack([features, z[:, :1]]))
    return total + (count_bits(clock, step, np.hstack([features, z])) if step < DAY else 0.0)
