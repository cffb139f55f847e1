"""Estimation of a latent class model: the mixture of products that fits noisy marginals of any treewidth.

Every pair of attributes has its marginal in the model at once, as one product of matrices. What holds the mixture back
from the noise is a price on the information that classes carry. It starts from rows of a Chow-Liu tree, which is fitted
to noisy pairs.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csgraph

from synth.marginals.distributions import LatentClasses
from synth.marginals.factor import MEAN_ABSOLUTE, Clique, Measurement, estimate_total
from synth.marginals.sampling import sample_categorical

Floats = NDArray[np.float32]

STEP, LAST_STEP = 0.1, 0.005
"""Of Adam, in log probabilities: as a rule, and at the end of the last descent."""
MEAN_DECAY, SQUARE_DECAY, SMALLEST = 0.9, 0.99, 1e-12
"""Of Adam: decay of the mean gradient and of the mean square, and what is added to its root."""
SPREAD = 0.7
"""Standard deviation over the classes of the log probabilities that the descent begins with."""
NEARER = 4.0
"""Gain of the log probability of a code in a class that begins near a row with it."""
REACH, FARTHEST = 0.15, 8.0
"""Along neighboring codes that gain falls as the log of a normal density does: its standard deviation, as a share of
the number of codes, and the most by which it falls."""
ROUGHNESS = 0.1
"""Penalty on squared third differences of log probabilities along neighboring codes, in prices. A normal density, or a
slope, has none."""
ORDER = 3  # of the differences
FOLLOWED = "\0followed"
"""Mark, before a number, in names of attributes whose codes are merged for a marginal of many columns."""
EXCLUDED = 60.0
"""Loss of the log probability of a code that a class no longer has: so large that gradients vanish."""
LEAST_SHARE = 1e-4
"""Share that all codes of an attribute have together at least, evenly, when the descent begins."""


@dataclass(frozen=True, eq=False)
class CoarseCodes:
    """An attribute that merges the codes of another. `groups`: the merged code of each code, shape (size,)."""

    of: str
    groups: NDArray[np.int64]

    @property
    def size(self) -> int:
        return int(self.groups.max()) + 1


@dataclass(frozen=True, eq=False, repr=False)
class _Measured:
    clique: Clique
    shares: Floats
    precisions: Floats


class ClassEstimation:
    """A descent to the latent class model that fits measurements best; more of them may come on the way.

    The loss is half the sum of squared residuals in standard deviations, and a price for each nat of information that
    classes hold of an attribute. That information is the mean over the classes of the Kullback-Leibler divergence of
    the attribute within a class from the attribute in all. Along neighboring codes classes are held smooth: noise would
    make a comb of codes that were measured together.
    `stretches`: neighboring codes of attributes with an order.

    DEVIATES: RAP (2103.06641) and GEM (2106.07153) stop after a number of steps. With a price on information, more
    steps or classes do not fit more noise.

    Source: Tishby, Pereira & Bialek 1999 (the price); Eilers & Marx 1996 (penalties on differences); Kingma & Ba 2015
    (1412.6980, Adam).
    """

    def __init__(
        self,
        domain: Mapping[str, int],
        coarse: Mapping[str, CoarseCodes],
        one_way: Sequence[Measurement],
        n_classes: int,
        rng: np.random.Generator,
        stretches: Mapping[str, Sequence[slice]] | None = None,
    ) -> None:
        self.domain, self.total = dict(domain), estimate_total(one_way)
        self.sizes = {**domain, **{name: codes.size for name, codes in coarse.items()}}
        ends = np.cumsum(list(domain.values()))
        self._starts = np.concatenate([[0], ends[:-1]]).astype(np.intp)
        self._columns = np.repeat(np.arange(len(domain), dtype=np.intp), list(domain.values()))
        self._of = {**{name: name for name in domain}, **{name: codes.of for name, codes in coarse.items()}}
        self._slices = dict(zip(domain, map(slice, self._starts.tolist(), ends.tolist()), strict=True))
        # One where a code is merged into a coarse one, shape (n_coarse, n_codes).
        self._merging: dict[str, Floats] = {
            name: (codes.groups == np.arange(codes.size)[:, np.newaxis]).astype(np.float32)
            for name, codes in coarse.items()
        }
        self._lone = _lone([each.ordered(domain) for each in one_way], self.total)
        self._block = _Block([{origin: name for name, origin in self._of.items()}[name] for name in domain], self.sizes)
        self._others: list[_Measured] = []
        self._base = np.log(_first_shares(self._lone.shares, self._starts, self._columns))[:, np.newaxis]
        shape = len(self._base), n_classes
        self._parameters = rng.normal(scale=SPREAD, size=shape).astype(np.float32), np.zeros(n_classes, np.float32)
        self._stretches = {name: [*stretches.get(name, ())] for name in domain} if stretches else {}
        self._smooth = [
            slice(self._slices[name].start + each.start, self._slices[name].start + each.stop)
            for name, parts in self._stretches.items()
            for each in parts
            if each.stop - each.start > ORDER
        ]
        for rows in self._smooth:
            self._parameters[0][rows] = 0.0
        self._means, self._squares = (tuple(map(np.zeros_like, self._parameters)) for _ in range(2))
        self._n_steps = 0

    def add(self, measurements: Sequence[Measurement]) -> None:
        for each in measurements:
            columns = {self._of.get(name) for name in each.clique}
            if None in columns or not 1 <= len(columns) == len(each.clique):
                raise ValueError(f"a clique is of columns of the domain, each once: clique={each.clique}")
            whole = each.ordered({name: self.sizes[name] for name in each.clique})
            shares = (whole.values / self.total).astype(np.float32)
            precisions = np.asarray(np.square(self.total / np.asarray(whole.sigma)), dtype=np.float32)
            if not self._block.take(whole.clique, shares, precisions):
                self._others.append(_Measured(whole.clique, shares, precisions))

    def begin(self, rows: NDArray[np.intp]) -> None:
        """Let each class begin near one row of codes, shape (n_classes, n_attributes), which are likelier there."""
        classes = np.arange(len(rows))
        for codes, (name, size) in zip(rows.T, self.domain.items(), strict=True):
            gains = np.zeros((size, len(rows)), dtype=np.float32)
            gains[codes, classes] = NEARER
            for each in self._stretches.get(name, ()):
                inside = (each.start <= codes) & (codes < each.stop)
                steps = (np.arange(each.start, each.stop)[:, np.newaxis] - codes[inside]) / (each.stop - each.start)
                gains[each, inside] = NEARER - np.minimum(np.square(steps / REACH) / 2, FARTHEST)
            self._parameters[0][self._slices[name]] += gains

    def follow(
        self, codes: Mapping[str, NDArray[np.int64]], counts: NDArray[Any], sigma: float, rng: np.random.Generator
    ) -> None:
        """Add a marginal of many columns, by merged codes, and let each class have one cell of it from now on.

        A class keeps what it tells of other columns, and draws its cell by its own chances times what was measured over
        what the model has. Descent alone would not get there: a set of columns of which no part tells anything costs
        more information than each step of it gains.
        """
        names = {name: f"{name}{FOLLOWED}{len(self._merging)}" for name in codes}
        for name, merged in codes.items():
            self._of[names[name]], self.sizes[names[name]] = name, int(merged.max()) + 1
            self._merging[names[name]] = (merged == np.arange(merged.max() + 1)[:, np.newaxis]).astype(np.float32)
        self.add([Measurement(tuple(names.values()), counts, sigma)])
        tables, shares = self._probabilities()
        known = self._known(tables)
        chances = _rows([known[name] for name in names.values()], np.ones_like(shares))
        wanted = np.maximum(counts.ravel(), 0.0) / np.maximum(chances @ shares * self.total, 1.0)
        cells = sample_categorical(chances.T * wanted + 1e-12, rng)
        for name, drawn in zip(codes, np.unravel_index(cells, counts.shape), strict=True):
            self._parameters[0][self._slices[name]] -= np.float32(EXCLUDED) * (codes[name][:, np.newaxis] != drawn)
        # Between codes that a class has and has not, nothing is smooth.
        apart = [self._slices[name] for name in codes]
        self._smooth = [
            rows for rows in self._smooth if not any(each.start <= rows.start < each.stop for each in apart)
        ]

    @property
    def noise(self) -> float:
        """The price at which following noise gains as much as it costs, about.

        It is the root of the mean, over attributes, of the precisions of their pairs over their number of codes. The
        largest singular value of a matrix of noise is about the root of its number of lines.
        """
        return self._block.noise

    def run(self, n_steps: int, price: float, *, last: bool = False) -> None:
        for index in range(n_steps):
            size = STEP + (LAST_STEP - STEP) * index / max(n_steps - 1, 1) if last else STEP
            self._step(self._gradients(price), size)

    def model(self) -> LatentClasses:
        """The latent class model as it stands; its tables are in single precision, as they are saved."""
        tables, shares = self._probabilities()
        precise = shares.astype(np.float64)
        fine = [tables[rows].astype(np.float64) for rows in self._slices.values()]
        return LatentClasses(self.domain, precise / precise.sum(), fine, self.total)

    def expected(self, cliques: Iterable[Clique]) -> Iterator[Floats]:
        """Expected counts of the cells of cliques of any attributes, fine or coarse, one after the other."""
        tables, shares = self._probabilities()
        known = self._known(tables)
        for clique in cliques:
            joint = _rows([known[name] for name in clique[:-1]], shares) @ known[clique[-1]].T
            yield joint.reshape([self.sizes[name] for name in clique]) * np.float32(self.total)

    def _probabilities(self) -> tuple[Floats, Floats]:
        """Shares of codes within classes, shape (n_codes, n_classes), and of classes, shape (n_classes,)."""
        tables = self._base + self._parameters[0]
        tables -= np.maximum.reduceat(tables, self._starts, axis=0)[self._columns]
        np.exp(tables, out=tables)
        tables /= np.add.reduceat(tables, self._starts, axis=0)[self._columns]
        shares = np.exp(self._parameters[1] - self._parameters[1].max())
        return tables, shares / shares.sum()

    def _known(self, tables: Floats) -> dict[str, Floats]:
        fine = {name: tables[rows] for name, rows in self._slices.items()}
        return {**fine, **{name: merging @ fine[self._of[name]] for name, merging in self._merging.items()}}

    def _gradients(self, price: float) -> tuple[Floats, Floats]:
        tables, shares = self._probabilities()
        known = self._known(tables)
        by_table = {name: np.zeros_like(table) for name, table in known.items()}
        by_share = self._block.spread(known, shares, by_table)
        for measured in self._others:
            by_share += _spread(measured, known, shares, by_table)
        # Not by BLAS: OpenBLAS 0.3.31 with AVX-512 reads past a matrix of five columns, and NumPy may warn of NaN.
        columns = np.einsum("ck,k->c", tables, shares)
        residuals = (columns - self._lone.shares) * self._lone.precisions
        by_share += residuals @ tables
        by_code = np.outer(residuals, shares)
        for name, rows in self._slices.items():
            by_code[rows] += by_table[name]
        for name, merging in self._merging.items():
            by_code[self._slices[self._of[name]]] += merging.T @ by_table[name]
        if price > 0:
            divergence = np.log(np.maximum(tables, SMALLEST)) - np.log(np.maximum(columns, SMALLEST))[:, np.newaxis]
            by_code += np.float32(price) * shares * divergence
            by_share += np.float32(price) * np.einsum("ck,ck->k", tables, divergence)
        means = np.add.reduceat(by_code * tables, self._starts, axis=0)
        by_parameter = tables * (by_code - means[self._columns])
        for rows in self._smooth if price > 0 else ():
            by_parameter[rows] += np.float32(ROUGHNESS * price) * shares * _roughness(self._parameters[0][rows])
        return by_parameter, shares * (by_share - by_share @ shares)

    def _step(self, gradients: tuple[Floats, Floats], size: float) -> None:
        self._n_steps += 1
        of_mean, of_square = (1 - decay**self._n_steps for decay in (MEAN_DECAY, SQUARE_DECAY))
        for values, mean, square, gradient in zip(self._parameters, self._means, self._squares, gradients, strict=True):
            mean += (1 - MEAN_DECAY) * (gradient - mean)
            square += (1 - SQUARE_DECAY) * (np.square(gradient) - square)
            values -= np.float32(size / of_mean) * mean / (np.sqrt(square / np.float32(of_square)) + SMALLEST)


class _Block:
    """All pairs of one attribute for each column, as one symmetric matrix of cells: one product gives all of them."""

    def __init__(self, names: Sequence[str], sizes: Mapping[str, int]) -> None:
        self.names = list(names)
        ends = np.cumsum([sizes[name] for name in names]).tolist()
        self._rows = {name: slice(end - sizes[name], end) for name, end in zip(names, ends, strict=True)}
        self._shares = np.zeros((ends[-1], ends[-1]), dtype=np.float32)
        self._precisions = np.zeros_like(self._shares)

    def take(self, clique: Clique, shares: Floats, precisions: Floats) -> bool:
        """True where the measurement is of a pair that the block has and did not hold yet; then it holds it."""
        if len(clique) != 2 or not set(clique) <= self._rows.keys():
            return False
        first, second = (self._rows[name] for name in clique)
        if self._precisions[first, second].any():
            return False
        for rows, columns, turned in ((first, second, False), (second, first, True)):
            self._shares[rows, columns] = shares.T if turned else shares
            self._precisions[rows, columns] = precisions.T if turned else precisions
        return True

    @property
    def noise(self) -> float:
        """The root of the mean, over attributes, of the precisions with a code, an even share of the attribute's."""
        of_codes = [
            sum(float(self._precisions[rows, columns].mean()) for columns in self._rows.values())
            / (rows.stop - rows.start)
            for rows in self._rows.values()
        ]
        return math.sqrt(sum(of_codes) / len(of_codes))

    def spread(self, known: Mapping[str, Floats], shares: Floats, by_table: Mapping[str, Floats]) -> Floats:
        """The derivative of the loss by the shares of classes; those by the tables are added to `by_table`."""
        stacked = np.concatenate([known[name] for name in self.names])
        residuals = ((stacked * shares) @ stacked.T - self._shares) * self._precisions
        pulled = residuals @ stacked
        for name, rows in self._rows.items():
            by_table[name][...] += pulled[rows] * shares
        return np.asarray(np.einsum("gk,gk->k", pulled, stacked) / 2)


def _spread(measured: _Measured, known: Mapping[str, Floats], shares: Floats, by_table: Mapping[str, Floats]) -> Floats:
    """The derivative of one marginal's loss by the shares of classes; those by the tables are added to `by_table`."""
    if len(measured.clique) > 3:
        return _spread_many(measured, known, shares, by_table)
    *others, last = measured.clique
    tables = [known[name] for name in others]
    joint = _rows(tables, shares)
    shape = [len(table) for table in tables]
    residuals = (joint @ known[last].T).reshape(measured.shares.shape) - measured.shares
    residuals = (residuals * measured.precisions).reshape(len(joint), -1)
    by_table[last][...] += residuals.T @ joint
    pulled = (residuals @ known[last]).reshape(*shape, len(shares))
    if not others:
        return np.asarray(pulled)
    if len(others) == 1:
        by_table[others[0]][...] += pulled * shares
        return np.asarray(np.einsum("ak,ak->k", pulled, tables[0]))
    with_second: Floats = np.einsum("abk,bk->ak", pulled, tables[1])
    by_table[others[0]][...] += with_second * shares
    by_table[others[1]][...] += np.einsum("abk,ak->bk", pulled, tables[0]) * shares
    by_share: Floats = np.einsum("ak,ak->k", with_second, tables[0])
    return by_share


def _spread_many(
    measured: _Measured, known: Mapping[str, Floats], shares: Floats, by_table: Mapping[str, Floats]
) -> Floats:
    """The same of any number of attributes: each half of them is taken as one."""
    cut, even = len(measured.clique) // 2, np.ones_like(shares)
    sides = measured.clique[:cut], measured.clique[cut:]
    first, other = (_rows([known[name] for name in side], even) for side in sides)
    weighted = first * shares
    residuals = (weighted @ other.T).reshape(measured.shares.shape) - measured.shares
    residuals = (residuals * measured.precisions).reshape(len(first), -1)
    pulled = residuals @ other
    for side, by_row in zip(sides, (pulled * shares, residuals.T @ weighted), strict=True):
        for index, name in enumerate(side):
            before, after = (_rows([known[n] for n in part], even) for part in (side[:index], side[index + 1 :]))
            cells = by_row.reshape(len(before), len(known[name]), len(after), len(shares))
            by_table[name][...] += np.einsum("aibk,abk->ik", cells, before[:, np.newaxis] * after)
    return np.asarray(np.einsum("ak,ak->k", pulled, first))


def _rows(tables: Sequence[Floats], shares: Floats) -> Floats:
    """Shares of all combinations of codes and a class, shape (n_combinations, n_classes)."""
    joint: Floats = shares[np.newaxis]
    for table in tables:
        joint = (joint[:, np.newaxis] * table).reshape(-1, len(shares))
    return joint


def _roughness(values: Floats) -> Floats:
    """The derivative of half the sum of squared third differences along the first axis; the shape of the values."""
    differences = np.pad(np.diff(values, n=ORDER, axis=0), ((ORDER, ORDER), (0, 0)))
    return np.asarray(-np.diff(differences, n=ORDER, axis=0))


def _lone(one_way: Sequence[Measurement], total: float) -> _Measured:
    """The measurements of single attributes, one after the other."""
    sigmas = [np.broadcast_to(np.asarray(each.sigma), each.values.shape) / total for each in one_way]
    shares = np.concatenate([each.values for each in one_way]) / total
    precisions = 1 / np.square(np.concatenate(sigmas))
    return _Measured((), shares.astype(np.float32), precisions.astype(np.float32))


def _first_shares(shares: Floats, starts: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
    """Shares of codes, all positive, that sum to 1 for each attribute."""
    sizes = np.diff(np.append(starts, len(shares)))
    positive = np.maximum(shares, (LEAST_SHARE / sizes)[columns])
    return np.asarray(positive / np.add.reduceat(positive, starts)[columns], dtype=np.float32)


class ChowLiuTree:
    """A spanning tree of the pairs of columns that are furthest from independence; all of it is post-processing.

    DEVIATES: an edge weighs its L1 distance from independence less what noise makes of it, as MST has it (2108.04978).
    Chow and Liu take mutual information.

    Source: Chow & Liu 1968.
    """

    def __init__(
        self,
        domain: Mapping[str, int],
        coarse: Mapping[str, CoarseCodes],
        one_way: Sequence[Measurement],
        pairs: Sequence[Measurement],
    ) -> None:
        self._coarse, self._names = coarse, list(domain)
        self._shares = {each.clique[0]: _shares(each.values) for each in one_way}
        self._pairs = {frozenset(map(self._column, pair.clique)): pair for pair in pairs}
        distances = np.zeros((len(domain), len(domain)))
        for pair in pairs:
            places = sorted(self._names.index(self._column(name)) for name in pair.clique)
            distances[tuple(places)] = self._distance(pair)
        # To SciPy zero is no edge, and the tree is to span all columns: every weight is above zero.
        weights = np.triu(distances.max() - distances + 1, k=1)
        order, parents = csgraph.breadth_first_order(csgraph.minimum_spanning_tree(weights), 0, directed=False)
        self.edges = [(self._names[parents[index]], self._names[index]) for index in order[1:]]
        """Each column but the first with the one that it is drawn given, in the order of drawing."""

    def rows(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Rows of codes of the domain's attributes, each column drawn given one other; shape (n_rows, n_attributes)."""
        first = self._names[0]
        drawn = {first: sample_categorical(np.tile(self._shares[first], (n_rows, 1)), rng)}
        for parent, child in self.edges:
            chances, groups = self._conditional(parent, child)
            drawn[child] = sample_categorical(chances[groups[drawn[parent]]], rng)
        return np.stack([drawn[name] for name in self._names], axis=1)

    def _column(self, name: str) -> str:
        return self._coarse[name].of if name in self._coarse else name

    def _codes(self, name: str) -> NDArray[np.int64]:
        """For each code of a column, that of an attribute which may merge them."""
        size = len(self._shares[self._column(name)])
        return self._coarse[name].groups if name in self._coarse else np.arange(size)

    def _distance(self, pair: Measurement) -> float:
        """L1 distance of a pair from independence, in rows, less the expected noise."""
        first, other = (np.bincount(self._codes(name), self._shares[self._column(name)]) for name in pair.clique)
        counts = np.asarray(pair.values)
        apart = np.abs(counts - counts.sum() * np.outer(first, other)).sum()
        return float(apart - MEAN_ABSOLUTE * np.broadcast_to(pair.sigma, counts.shape).sum())

    def _conditional(self, parent: str, child: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Distributions of the child given the parent's codes in the pair, and that code of each of the parent's."""
        pair = self._pairs[frozenset((parent, child))]
        counts, (of_parent, of_child) = np.asarray(pair.values), pair.clique
        if self._column(of_parent) != parent:
            counts, of_parent, of_child = counts.T, of_child, of_parent
        groups, shares = self._codes(of_child), self._shares[child]
        within = shares / np.bincount(groups, shares)[groups]
        return _shares(counts)[:, groups] * within, self._codes(of_parent)


def _shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positive shares that sum to 1 along the last axis: a negative count is zero, and every cell gets a little."""
    positive = np.maximum(counts, 0.0) + 1e-9
    return np.asarray(positive / positive.sum(axis=-1, keepdims=True))
