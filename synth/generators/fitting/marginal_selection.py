"""Marginal selection: a workload, the candidates to measure next, and the distance of a model from each of them.

A workload is the marginals that a model should get right, each with its weight. A user weighs columns.

A Markov random field may grow by what its junction tree has room for. A latent class model has no tree: its candidates
are pairs by fine codes, and triples by coarse ones. Candidates are public; their distances are sensitive.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synth.domain.counts import MARK, CoarseCounts, CodedTable, Counts, fine
from synth.errors import JobError, nearest
from synth.generators.fitting.noisy_pairs import NoisyPairs, distance_of
from synth.marginals import Clique, Factor, MarkovRandomField, Measurement, estimate, sample
from synth.marginals.factor import shape_of
from synth.marginals.junction_tree import cells_with_one_more
from synth.marginals.latent_class_estimation import ClassEstimation
from synth.marginals.measurement import MEAN_ABSOLUTE
from synth.schema import Schema

Weight = Annotated[float, Field(strict=True, gt=0, le=1000)]
"""Weight of the marginals with a column; 1 for a column that nobody names."""


@dataclass(frozen=True)
class Workload:
    """All marginals of one degree, those of some attributes mattering more.

    DEVIATES: the paper weighs every marginal s of the workload by c_s and scores a clique r by w_r, the sum of c_s |r &
    s|. That is a sum over the attributes a of r of the total weight of the marginals that hold a. So the weights are
    given by attribute. With equal ones, w_r is the number of attributes, up to a factor, as in the paper.

    Source: McKenna et al. 2022 (2201.12677), section 4 (workload-aware scores, downward closure).

    >>> workload = Workload({"a": 1.0, "b": 1.0, "income": 2.0}, degree=2)
    >>> workload.weight(("a", "income")), len(list(workload.cliques({"a": 2, "b": 3, "income": 2}, max_cells=4)))
    (1.0, 4)
    """

    weights: Mapping[str, float]
    degree: int

    def __post_init__(self) -> None:
        if self.degree < 1 or not all(0 < weight < math.inf for weight in self.weights.values()):
            raise ValueError("a workload has a degree of at least 1 and finite weights above 0")

    @property
    def heaviest(self) -> float:
        """The largest sum of weights that a clique can have."""
        return math.fsum(sorted(self.weights.values(), reverse=True)[: self.degree])

    def weight(self, clique: Clique) -> float:
        """Weight of a clique, in (0, 1]: the sensitivity of a score that it multiplies does not grow."""
        # Exact sums: in another order, rounding could take the heaviest clique above 1.
        return math.fsum(self.weights[name] for name in clique) / self.heaviest

    def cliques(self, domain: Mapping[str, int], max_cells: float) -> Iterator[Clique]:
        """The downward closure: every clique of up to `degree` attributes, single attributes first."""
        for order in range(1, self.degree + 1):
            for clique in combinations(domain, order):
                if order == 1 or math.prod(shape_of(domain, clique)) <= max_cells:
                    yield clique


def check_workload(workload: Mapping[str, float], schema: Schema) -> None:
    """Refuse weights of columns that no model holds."""
    for name in workload:
        if name not in schema.modeled:
            raise JobError(
                "a workload weighs single columns that the generator models: "
                f"column={name!r} is {_not_modeled(name, schema)}"
            )


def column_weights(workload: Mapping[str, float], focus: float, schema: Schema) -> dict[str, float]:
    """The weight of each modeled column: that of the workload, times 1 + `focus` by its role; public."""
    roles = {schema.target, *schema.sensitive}
    return {name: workload.get(name, 1.0) * (1.0 + (focus if name in roles else 0.0)) for name in schema.modeled}


def _not_modeled(name: str, schema: Schema) -> str:
    """The reason why a name is no modeled column, and the remedy."""
    if name in schema.equivalents:
        return f"computed from {schema.equivalents[name].determinant!r}; weigh that one"
    if name in schema.columns:
        return "dropped, computed or made anew; take it out of the workload"
    return f"not in the schema; {nearest(name, schema.modeled)}"


MOST_CANDIDATES = 3_000
"""Cliques of the workload beyond which those of three are candidates only where two of their attributes are joined."""
MANY_ATTRIBUTES = 60
"""With more attributes, coarse ones included, cliques by fine codes are considered once their coarse ones are known."""
LEAST_DRAWS = 30_000
"""Rows that are drawn from a model to score candidates, also where the table has fewer."""
ITERATIONS, TOLERANCE, LAST_TOLERANCE = 30, 1e-4, 1e-5
"""Steps of an estimation that starts where the last one ended, and the relative gain under which it stops."""
PENALTY = 0.3
"""Share of a marginal's expected noise that is taken off its score: the estimation's price keeps out the rest."""
MOST_TRIPLES = 20_000
"""Beyond so many triples, only those with a column of the largest weight are considered, if few columns have it."""
MOST_FINE_CELLS = 4_000_000
"""Cells by fine codes of a candidate, which is counted by them before codes are merged."""


@dataclass(frozen=True, eq=False)
class Search:
    """A table, and what may be asked of it.
    `table`: *Sensitive*. Codes of the real rows.
    """

    table: Counts
    workload: Workload
    zeros: tuple[Factor, ...]
    max_cells: int
    max_model_cells: float
    n_draws: int
    given: frozenset[str] = frozenset()
    noisy: NoisyPairs | None = None
    _counted: dict[Clique, np.ndarray] = field(init=False, default_factory=dict, repr=False)

    def counts(self, clique: Clique) -> np.ndarray:
        """*Sensitive*. The exact counts of a clique, shaped by it; counted once."""
        if clique not in self._counted:
            self._count([clique])
        return self._counted[clique]

    def _count(self, cliques: Sequence[Clique]) -> None:
        """Count what was not counted before, all at once: in few passes over the rows."""
        wanted = [clique for clique in cliques if clique not in self._counted]
        self._counted.update(zip(wanted, self.table.each(wanted), strict=True))

    def candidates(self, model: MarkovRandomField, used: float) -> list[Clique]:
        """Cliques that may be measured next: public, since the model is made of released numbers."""
        cliques = [factor.attributes for factor in model.potentials]
        cells, limit = cells_with_one_more(model.domain, cliques), self.max_model_cells * used
        homes = [frozenset(clique) for clique in model.tree.cliques]
        return [
            clique
            for clique in self._closure(cliques)
            if not self.given.issuperset(map(fine, clique))
            and (any(home.issuperset(clique) for home in homes) or cells(clique) <= limit)
        ]

    def _closure(self, measured: Sequence[Clique]) -> list[Clique]:
        """The workload's downward closure, or the part of it that the measured cliques lead to."""
        found = [clique for clique in self._of_attributes(measured) if len(set(map(fine, clique))) == len(clique)]
        if len(self.table.domain) <= MANY_ATTRIBUTES:
            return found
        known = [frozenset(clique) for clique in measured]
        return [clique for clique in found if self._is_next(clique, known)]

    def _is_next(self, clique: Clique, measured: Sequence[frozenset[str]]) -> bool:
        """True if a clique is as coarse as it can be, or has been measured so: finer codes come after coarse ones."""
        coarse = {name + MARK if name + MARK in self.table.domain else name for name in clique}
        return len(clique) == 1 or coarse == set(clique) or any(coarse <= known for known in measured)

    def _of_attributes(self, measured: Sequence[Clique]) -> list[Clique]:
        """The closure over all attributes: some cliques hold a column both fine and coarse."""
        domain, degree = self.table.domain, self.workload.degree
        if math.comb(len(domain), degree) <= MOST_CANDIDATES:
            return list(self.workload.cliques(domain, self.max_cells))
        found = list(Workload(self.workload.weights, min(degree, 2)).cliques(domain, self.max_cells))
        if degree == 2:
            return found
        joined = {pair for clique in measured for pair in combinations(clique, 2)}
        position = {name: index for index, name in enumerate(domain)}
        triples = {
            tuple(sorted({*pair, name}, key=position.__getitem__))
            for pair in joined
            for name in domain
            if name not in pair
        }
        cells = {triple: math.prod(shape_of(domain, triple)) for triple in triples}
        return found + sorted(triple for triple in triples if cells[triple] <= self.max_cells)

    def scores(
        self, model: MarkovRandomField, candidates: Sequence[Clique], sigma: float, rng: np.random.Generator
    ) -> np.ndarray:
        """*Sensitive*. How much measuring each candidate would gain: one row moves a score by at most 1.

        The error of the model is an L1 distance of counts, which one row moves by at most 1. The expected errors of the
        measurement and of drawing are taken off, which are public. Weights are at most 1: no candidate holds a column
        twice. By noisy pairs, scores follow from what was released.

        DEVIATES: the paper computes every marginal of the model. Here rows drawn from it stand for those that no clique
        of its tree holds. They are as many as the table has where that is affordable; their expected error is taken
        off.

        Source: McKenna et al. 2022 (2201.12677), equation 1.
        """
        n_draws = round(min(max(model.total, LEAST_DRAWS), self.n_draws))
        rows = CodedTable(self.table.domain, sample(model, n_draws, rng, even=False))
        scale = model.total / n_draws
        if self.noisy is not None:
            return self._by_noisy_pairs(self.noisy.distances(rows, scale), candidates, sigma)
        scores = np.empty(len(candidates))
        self._count(candidates)
        for index, clique in enumerate(candidates):
            exact = self.counts(clique)
            if model.tree.home(clique) is not None:
                expected, drawing = np.asarray(model.marginal(clique)), 0.0
            else:
                drawn = rows.counts(clique)
                expected, drawing = np.asarray(scale * drawn), scale * float(np.sqrt(drawn).sum())
            error = np.abs(exact - expected).sum() - MEAN_ABSOLUTE * (drawing + sigma * exact.size)
            scores[index] = self.workload.weight(tuple(map(fine, clique))) * error
        return scores

    def _by_noisy_pairs(
        self, distances: Mapping[Clique, float], candidates: Sequence[Clique], sigma: float
    ) -> np.ndarray:
        scores = np.empty(len(candidates))
        for index, clique in enumerate(candidates):
            noise = MEAN_ABSOLUTE * sigma * math.prod(shape_of(self.table.domain, clique))
            error = distance_of(clique, distances) - noise
            scores[index] = self.workload.weight(tuple(map(fine, clique))) * error
        return scores

    def estimate(
        self, measurements: Sequence[Measurement], warm_start: MarkovRandomField | None, n_iterations: int | None = None
    ) -> MarkovRandomField:
        """The model of the measurements: a few steps from a warm start, or as many as it takes, up to a number."""
        return estimate(
            self.table.domain,
            measurements,
            warm_start=warm_start,
            zeros=self.zeros,
            n_iterations=ITERATIONS if n_iterations is None else n_iterations,
            tolerance=TOLERANCE if n_iterations is None else LAST_TOLERANCE,
        )


class ClassSearch:
    """A table, and what may be measured of it: candidates are public.
    `table`: *Sensitive*. Counts of the real rows, by fine and coarse codes.
    """

    def __init__(self, table: CoarseCounts, weights: Mapping[str, float], max_cells: int) -> None:
        self._table, self._workload = table, Workload(weights, 3)
        names = list(weights)
        pairs: list[Clique] = list(combinations(names, 2))
        triples = (tuple(map(table.coarsening.coarsest, triple)) for triple in _triples(weights))
        counted = {
            clique: math.prod(shape_of(table.domain, map(fine, clique)))
            for clique in (*pairs, *triples)
            if math.prod(shape_of(table.domain, clique)) <= max_cells
        }
        self.cliques = [clique for clique, size in counted.items() if size <= MOST_FINE_CELLS]
        if not self.cliques:  # pairs by coarse codes, once more
            self.cliques = [tuple(map(table.coarsening.coarsest, pair)) for pair in pairs]

    @cached_property
    def counts(self) -> list[NDArray[np.int32]]:
        """*Sensitive*. The exact counts of each candidate; counted once."""
        # Half the memory. Two billion rows in a cell are as many as any: no count wraps around.
        most = np.iinfo(np.int32).max
        return [np.minimum(held, most).astype(np.int32) for held in self._table.each(self.cliques)]

    def scores(self, estimation: ClassEstimation, sigma: float) -> NDArray[np.float64]:
        """*Sensitive*. How much measuring each candidate would gain: one row moves a score by at most 1.

        The error of the model is an L1 distance of counts, which one row moves by at most 1. The part taken off is
        public, and weights are at most 1.

        DEVIATES: AIM takes off all of the expected noise, which would be in its model.

        Source: McKenna et al. 2022 (2201.12677), equation 1.
        """
        scores = np.empty(len(self.cliques))
        of_model = zip(self.cliques, self.counts, estimation.expected(self.cliques), strict=True)
        for index, (clique, exact, expected) in enumerate(of_model):
            error = np.abs(exact - expected).sum(dtype=np.float64) - PENALTY * MEAN_ABSOLUTE * sigma * exact.size
            scores[index] = self._workload.weight(tuple(map(fine, clique))) * error
        return scores

    def apart(self, index: int) -> NDArray[np.bool_]:
        """Candidates that share no two columns with one of them: others would tell the same once more."""
        chosen = self._pairs_of[index]
        return np.array([chosen.isdisjoint(pairs) for pairs in self._pairs_of])

    @cached_property
    def _pairs_of(self) -> list[frozenset[Clique]]:
        return [frozenset(combinations(sorted(map(fine, clique)), 2)) for clique in self.cliques]


def _triples(weights: Mapping[str, float]) -> Iterator[Clique]:
    """All triples of columns, or where these are too many, those with a column of the largest weight."""
    heaviest = {name for name, weight in weights.items() if weight == max(weights.values())}
    is_many = math.comb(len(weights), 3) > MOST_TRIPLES
    held = math.comb(len(weights), 3) - math.comb(len(weights) - len(heaviest), 3)
    if is_many and held > MOST_TRIPLES:
        return iter(())
    return (triple for triple in combinations(weights, 3) if not is_many or not heaviest.isdisjoint(triple))
