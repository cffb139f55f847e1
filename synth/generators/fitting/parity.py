"""Parity search: sets of three columns or more that tell the target together, though fewer of them may tell nothing.

No pair or triple leads to such a set, so that all sets are looked at, up to a public limit. Each column has two halves,
and the target a few codes. A set tells the target where the product of its columns' signs goes with it otherwise than
in the model. These are Walsh coefficients of one table of counts, and a product of two matrices gives them all.

Source: Barak et al. 2007 (Fourier coefficients of contingency tables, and their sensitivity).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.domain import Discretizer
from synth.domain.discretizer import OTHER, Attribute
from synth.generators.fitting.selection import PENALTY
from synth.marginals import Clique, LatentClasses
from synth.marginals.factor import MEAN_ABSOLUTE
from synth.schema import Schema

Codes = NDArray[np.int64]
Array = NDArray[np.float64]
LEAST_COLUMNS = 3  # beside the target: marginals of fewer are chosen as they are
MOST_TOGETHER, GROUP = 15, 4
"""Columns beside the target that are counted together; of more columns each three groups of so many are."""
MOST_COLUMNS = 52  # beside the target, up to which sets are looked for
MOST_SETS = 1 << 16  # sets that are looked at, about: where there are more, those of fewer columns, three at least
MOST_CODES, FREQUENT = 16, 0.01
"""Codes of a column that are told apart, and the share of the rows that a category has among them."""
CELLS_A_CLASS = 1 / 6  # cells of a set and the target at most, for each class: a class has one of them
LEAST_GAIN = 0.15
"""Least share of the rows by which a set goes with the target otherwise than in the model. A class that follows the set
has one code of each column, which blurs what else it tells: less is not worth that."""


def halves_of(attribute: Attribute, mass: np.ndarray) -> Codes:
    """Each code's half of the mass, that of `missing` being 1. `mass`: released counts of the codes."""
    mass, halves = np.maximum(mass, 0.0), np.zeros(len(mass), dtype=np.int64)
    n_inner = len(mass) + OTHER if _has_order(attribute) else 0
    halves[:n_inner] = _middles(mass[:n_inner]) > 0.5
    filled = np.bincount(halves[:n_inner], mass[:n_inner], minlength=2)
    for code in n_inner + np.argsort(-mass[n_inner:], kind="stable"):
        halves[code] = np.argmin(filled)
        filled[halves[code]] += mass[code]
    return halves if halves[-1] else 1 - halves


def merged_codes(attribute: Attribute, mass: np.ndarray, n_codes: int) -> Codes:
    """About so many codes of even mass, or of frequent categories and the rest, `missing` in the last; or halves."""
    mass = np.maximum(mass, 0.0)
    is_frequent = mass >= FREQUENT * mass.sum()
    if min(n_codes, math.inf if _has_order(attribute) else is_frequent.sum()) <= 2:
        return halves_of(attribute, mass)
    if _has_order(attribute):
        inner = np.minimum((_middles(mass[:OTHER]) * n_codes).astype(np.int64), n_codes - 1)
        return np.unique([*inner, n_codes - 1, n_codes - 1 + is_frequent[-1]], return_inverse=True)[1]
    n_codes, codes = min(n_codes, int(is_frequent.sum())), np.empty(len(mass), dtype=np.int64)
    codes[np.argsort(-mass, kind="stable")] = np.minimum(np.arange(len(mass)), n_codes - 1)
    return np.where(codes == codes[-1], n_codes - 1, np.where(codes == n_codes - 1, codes[-1], codes))


def contrasts(size: int) -> Array:
    """Functions of a code with values of 1 and -1: products of the signs of its digits, the constant one first.

    >>> contrasts(3).tolist()
    [[1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [1.0, 1.0, -1.0], [1.0, -1.0, -1.0]]
    """
    masks = np.arange(1 << max(size - 1, 1).bit_length())
    return np.asarray(1.0 - 2.0 * (np.bitwise_count(masks[:, np.newaxis] & np.arange(size)) % 2))


def blocks_of(names: Sequence[str]) -> list[Clique]:
    """Columns that are counted together with the target; any three of them are, in some block. Public."""
    if len(names) <= MOST_TOGETHER:
        return [tuple(names)]
    groups = [tuple(names[start : start + GROUP]) for start in range(0, len(names), GROUP)]
    return [sum(chosen, ()) for chosen in combinations(groups, LEAST_COLUMNS)]


def is_searched(schema: Schema) -> bool:
    """True of tables with a target and some other columns, but not too many; public."""
    return schema.target in schema.modeled and LEAST_COLUMNS < len(schema.modeled) <= MOST_COLUMNS + 1


@dataclass(frozen=True, eq=False)
class ParitySearch:
    """Sets of columns of a table by how far they go with its target otherwise than in a model.
    `train`: *Sensitive*. Rows. `masses`: released counts of the codes of each column.
    """

    train: Any = field(repr=False)
    target: str
    discretizer: Discretizer
    masses: Mapping[str, np.ndarray]
    n_classes: int

    @cached_property
    def codes(self) -> dict[str, Codes]:
        """For each code of a column its half, of the target one of a few codes."""
        named = {each.name: each for each in self.discretizer.attributes}
        halves = {name: halves_of(each, self.masses[name]) for name, each in named.items()}
        target = named[self.target]
        if not _has_order(target):
            halves[self.target] = merged_codes(target, self.masses[self.target], MOST_CODES)
        return halves

    @cached_property
    def blocks(self) -> list[Clique]:
        return [(self.target, *block) for block in blocks_of([name for name in self.codes if name != self.target])]

    def counts(self, cliques: Sequence[Clique], codes: Mapping[str, Codes]) -> list[NDArray[np.int64]]:
        """*Sensitive*. Exact counts of cliques by merged codes."""
        attributes = [each for each in self.discretizer.attributes if each.name in codes]
        merged = Discretizer(tuple(replace(each, group=codes[each.name][each.group]) for each in attributes))
        return list(self.train.coded(merged).each(cliques))

    @cached_property
    def _exact(self) -> list[NDArray[np.int64]]:
        """*Sensitive*. Exact counts of each block."""
        return self.counts(self.blocks, self.codes)

    @cached_property
    def sets(self) -> list[NDArray[np.intp]]:
        """By block, the coefficients that are candidates: public."""
        n_columns = [self._n_columns(block) for block in self.blocks]
        most = int(math.log2(max(self.n_classes * CELLS_A_CLASS / self._size(self.target), 1)))
        while True:
            sets = [np.flatnonzero((n >= LEAST_COLUMNS) & (n <= most)) for n in n_columns]
            if most <= LEAST_COLUMNS or sum(map(len, sets)) <= MOST_SETS:
                return sets
            most -= 1

    def scores(self, model: LatentClasses, sigma: float, scale: float) -> Array:
        """*Sensitive*. How much the target goes with each set otherwise than in the model: one row moves it by 1.

        What chance makes of the largest of all coefficients is taken off, of the rows and of the choice, whose noise
        has that scale, and a part of the noise of measuring. All of that is public.
        """
        n_sets = max(sum(map(len, self.sets)), 2)
        by_chance = math.sqrt(2 * model.total * math.log(n_sets)) + 2 * scale * math.log(n_sets)
        least = max(by_chance, LEAST_GAIN * model.total)
        functions = {name: contrasts(self._size(name)) for name in self.codes}
        parts = []
        for block, exact, kept in zip(self.blocks, self._exact, self.sets, strict=True):
            distances = self._distances(exact, self.codes, {name: functions[name] for name in block}, model)
            n_cells = self._size(self.target) * np.exp2(self._n_columns(block)[kept])
            parts.append(distances[kept] - least - PENALTY * MEAN_ABSOLUTE * sigma * n_cells)
        return np.concatenate(parts)

    def clique(self, index: int) -> dict[str, int]:
        """The target and the columns of a candidate, each with the number of its contrast."""
        ends = np.cumsum([len(kept) for kept in self.sets])
        at = int(np.searchsorted(ends, index, side="right"))
        shape = [len(contrasts(self._size(name))) for name in self.blocks[at]]
        signs = np.unravel_index(self.sets[at][index - ends[at]], shape)
        return {name: int(sign) for name, sign in zip(self.blocks[at], signs, strict=True) if sign}

    def splits(self, clique: Mapping[str, int], model: LatentClasses) -> tuple[list[dict[str, Codes]], Array]:
        """Halves of the columns of a set that may tell the target more sharply, and scores, which are *Sensitive*.

        A column is cut anywhere in its order, or one category parted from all others. One row moves a score by 1.
        """
        named = {each.name: each for each in self.discretizer.attributes}
        for n_codes in range(MOST_CODES, 1, -1):
            codes = {name: merged_codes(named[name], self.masses[name], n_codes) for name in clique}
            codes[self.target] = self.codes[self.target]
            if math.prod(int(each.max()) + 1 for each in codes.values()) <= MOST_SETS:
                break
        functions = {}
        for name, each in codes.items():
            numbers = np.arange(each.max() + 1)
            apart = np.less_equal if _has_order(named[name]) else np.equal
            # The halves by which the set was found come first, as far as these codes have them.
            balance = np.bincount(each, np.maximum(self.masses[name], 1e-9) * (0.5 - self.codes[name]))
            below = np.vstack([balance > 0, apart(numbers[np.newaxis], numbers[:-1, np.newaxis])])
            functions[name] = 1.0 - 2.0 * (below ^ below[:, -1:])  # `missing` is in the last half
        functions[self.target] = contrasts(self._size(self.target))[[clique[self.target]]]
        (exact,) = self.counts([tuple(clique)], codes)
        shape = [len(each) for each in functions.values()]
        candidates = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1).tolist()
        halves = {name: [(f[each] > 0).astype(np.int64) for f in functions[name]] for name, each in codes.items()}
        halves[self.target] = [self.codes[self.target]]
        chosen = [{name: halves[name][at] for name, at in zip(clique, each, strict=True)} for each in candidates]
        return chosen, self._distances(exact, codes, functions, model)

    def _distances(
        self, exact: NDArray[np.int64], codes: Mapping[str, Codes], functions: Mapping[str, Array], model: LatentClasses
    ) -> Array:
        """*Sensitive*. Products of functions, one of each column, summed over rows: distances from the model's sums.
        `exact`: counts by merged codes. `functions`: by column, values of 1 and -1 of each code, shape (n, size).
        """
        tables = dict(zip(model.domain, model.tables, strict=True))
        names = tuple(functions)
        sides = names[: len(names) // 2], names[len(names) // 2 :]
        first, other = (_kron([functions[name] for name in side]) for side in sides)
        sums = first @ exact.reshape(first.shape[1], -1) @ other.T
        # The mean of each function, and of their products, within each class; half the time in single precision.
        means = {name: (each[:, codes[name]] @ tables[name]).astype(np.float32) for name, each in functions.items()}
        within, others = (reduce(_each_pair, (means[name] for name in side)) for side in sides)
        expected = (within * model.shares.astype(np.float32)) @ others.T
        return np.asarray(np.abs(sums - model.total * expected.astype(np.float64)).ravel())

    def _size(self, name: str) -> int:
        return int(self.codes[name].max()) + 1

    def _n_columns(self, block: Clique) -> NDArray[np.intp]:
        """The number of columns beside the target in each coefficient of a block, 0 where it leaves out the target."""
        n_columns = np.arange(len(contrasts(self._size(self.target)))) > 0
        counted = np.bitwise_count(np.arange(1 << (len(block) - 1))).astype(np.intp)  # each column has two contrasts
        return np.asarray(np.multiply.outer(n_columns, counted).ravel())


def _has_order(attribute: Attribute) -> bool:
    return attribute.edges is not None or bool(getattr(attribute.column, "ordered", False))


def _middles(mass: np.ndarray) -> Array:
    """The share of the mass below the middle of each code."""
    return np.asarray((np.cumsum(mass) - mass / 2) / max(float(mass.sum()), 1e-300))


def _kron(matrices: Sequence[Array]) -> Array:
    product = np.ones((1, 1))
    for matrix in matrices:
        product = np.asarray(np.kron(product, matrix))
    return product


def _each_pair(first: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """Products of each line of one matrix with each of another, cell by cell."""
    return (first[:, np.newaxis] * other).reshape(-1, first.shape[1])
