"""Rare classes of the target: they have too few rows for a leaf, and are drawn by a blurred profile.

With at least `SHARE` of the rows of a leaf a class is drawn first, and then its columns. Where it differs from all
rows, a column has the mean and the spread of the class on the normal scale of all rows, or its frequent categories;
the rest follow the columns before them as in any row. A mean has noise of twice its own standard error, and no cell is
one member's own. That is no guarantee: over d columns that differ, who knows the class tells its n members from others
of it with an AUC of Phi(sqrt(d / 10n)), .65 for 24 columns and 16 members.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from synth.domain.discretizer import MISSING, OTHER, Attribute, CodedRows
from synth.trees.forest import Array

SHARE = 0.75  # of the rows of a leaf, which a class has at least
RARE = 0.05  # of all rows, which a class has at most
DIFFERENT = 4.0  # standard errors by which a column of the class is off
BLUR = 2.0  # standard errors of the noise on a mean
FEWEST = 5  # members of a category of a class, else it is as in all rows
LEAST_SPREAD = 0.25
"""Of a class on the normal scale: members that all lie in one cell are spread over its neighbors, too."""


@dataclass(frozen=True, eq=False)
class RareClass:
    """A class of the target. `share`: of all rows. `masses`: of the cells of columns in which it differs, by place."""

    code: int
    share: float
    masses: Mapping[int, Array]

    def draw(self, attribute: Attribute, index: int, n: int, rng: np.random.Generator) -> tuple[NDArray[Any], Array]:
        mass = self.masses[index]
        cells = rng.choice(len(mass), n, p=mass / mass.sum())
        return attribute.group[cells], attribute.middle_ranks[cells]

    def log_chances(self, attribute: Attribute, index: int) -> Array:
        """The log of the chance of each code in a column in which it differs; shape (size,)."""
        mass = self.masses[index]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.bincount(attribute.group, mass, attribute.size) / mass.sum()))


def rare_codes(attribute: Attribute, codes: NDArray[Any], leaf: float) -> list[int]:
    if attribute.edges is not None:
        return []
    counts = np.bincount(codes, minlength=attribute.size)[:OTHER]
    return np.flatnonzero((counts >= SHARE * leaf) & (counts < min(leaf, RARE * len(codes)))).tolist()


def fit_rare_class(
    rows: CodedRows, attributes: Sequence[Attribute], target: int, code: int, rng: np.random.Generator
) -> RareClass:
    """The profile of a class. `rows`: *Sensitive*."""
    members = rows.codes[:, target] == code
    masses = {}
    for index, attribute in enumerate(attributes):
        if index == target:
            continue
        codes, ranks = rows.codes[members, index], rows.ranks.get(index)
        cells = attribute.ranked(codes, np.full(len(codes), 0.5) if ranks is None else ranks[members])
        mass = _profile(attribute, cells, rng)
        if mass is not None:
            masses[index] = mass
    return RareClass(code, float(members.mean()), masses)


def _profile(attribute: Attribute, cells: NDArray[Any], rng: np.random.Generator) -> Array | None:
    """The masses of cells in a class, shape (n_cells,); `None` where it does not differ from all rows."""
    mass, n = attribute.mass / attribute.mass.sum(), len(cells)
    if attribute.edges is None and not attribute.column.is_ordered:
        counts = np.bincount(cells, minlength=len(mass)).astype(np.float64)
        off = (counts - n * mass) / np.sqrt(np.maximum(n * mass * (1 - mass), 1 / n))
        counts[counts < FEWEST] = 0.0
        return counts + (n - counts.sum() + 1) * mass if (off[counts > 0] > DIFFERENT).any() else None
    line, present = mass[:OTHER], cells < len(mass) + OTHER
    if present.sum() < n / 2 or line.sum() == 0:
        return None
    running = np.cumsum(line) / line.sum()
    scores = ndtri(np.clip(running - line / line.sum() / 2, 1e-9, 1 - 1e-9))
    middle = np.average(scores, weights=line)
    spread = np.sqrt(np.average((scores - middle) ** 2, weights=line))
    own = scores[cells[present]]
    own_spread = LEAST_SPREAD * 2 ** max(round(np.log2(own.std() / LEAST_SPREAD)), 0) if own.std() > 0 else LEAST_SPREAD
    error = own_spread / np.sqrt(len(own))
    if abs(own.mean() - middle) * np.sqrt(len(own)) < DIFFERENT * max(spread, LEAST_SPREAD):
        return None
    mean = own.mean() + BLUR * error * rng.normal()
    below = ndtr((ndtri(np.concatenate([[0.0], running.clip(0, 1)])) - mean) / own_spread)
    absent = (n - present.sum() + mass[MISSING]) / (n + 1)
    return np.concatenate([np.diff(below) * (1 - absent), [0.0, absent]])
