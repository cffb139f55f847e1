"""Marginal selection: a workload, the candidates to measure next, and the distance of a model from each of them.

A workload is the marginals that a model should get right, each with its weight. A Markov random field may grow by what
its junction tree has room for. A latent class model has no tree: its candidates are pairs by fine codes, and triples by
coarse ones. Candidates are public; their distances are sensitive, unless they follow from noisy pairs: the marginals of
all pairs of columns by few coarse codes, sums of counts that several holders of rows can release together.

Source: McKenna et al. 2022 (2201.12677, AIM) for workloads and scores; McKenna, Miklau, Sheldon 2021 (2108.04978, MST)
for trees of pairs; Maddock, Cormode, Maple 2023 (2310.03447, FLAIM) for marginals of several holders.

# DEVIATES: in FLAIM each holder chooses a marginal by its own rows, with the exponential mechanism. Here noisy counts
# of all are summed once, and choices follow from the sums.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synth.domain import Discretizer
from synth.domain.counts import MARK, CoarseCounts, Coarsening, CodedTable, Counts, fine
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, NamedEvents, SelectionEvent, gaussian_of_rho
from synth.errors import JobError, nearest
from synth.marginals import Clique, Factor, MarkovRandomField, Measurement, estimate, sample
from synth.marginals.factor import MEAN_ABSOLUTE, shape_of
from synth.marginals.junction_tree import cells_with_one_more
from synth.marginals.latent_class_estimation import ClassEstimation
from synth.schema import Schema

Weight = Annotated[float, Field(strict=True, gt=0, le=1000)]
"""Weight of the marginals with a column; 1 for a column that nobody names."""
Choices = Literal["exponential", "noisy_pairs"]
EXPONENTIAL, NOISY_PAIRS = get_args(Choices)
CHOICES_FIELD: Any = Field(
    default=EXPONENTIAL,
    description="Choices of marginals: by the exponential mechanism, or from noisy pairs, which are sums of counts.",
)
"""The parameter of generators that choose marginals."""
ROWS_ALONE = 'choices="noisy_pairs" reads rows alone; set choices="exponential"'
"""The reason why the rows of an entity are drawn independently, and the remedy."""
FOCUSED_PAIRS, OTHER_PAIRS = "coarse pairs with the target or a sensitive column", "coarse pairs of columns"
"""Their names in a statement."""
N_GROUPS, N_CATEGORIES = 4, 5
"""Coarse codes of a column with an order, and of one without; with more, noise hides which columns go together."""
FOCUS_SHARE = 0.3  # share of the cost for pairs with the target or a sensitive column, where there are others, too
FOCUS, SEARCH_FOCUS = 1.5, 2.0
"""How much more the distances of such pairs count where a tree is chosen, and where AIM searches by noisy pairs.

# DEVIATES: MST weighs all pairs alike. Noise hides pairs with a target that is hard to predict; larger factors help it,
and harm other pairs.
"""
MOST_CANDIDATES = 3_000
"""Cliques of the workload beyond which those of three are candidates only where two of their attributes are joined."""
MANY_ATTRIBUTES = 60
"""With more attributes, coarse ones included, cliques by fine codes are considered once their coarse ones are known."""
LEAST_DRAWS = 30_000  # rows that are drawn from a model to score candidates, also where the table has fewer
ITERATIONS, TOLERANCE, LAST_TOLERANCE = 30, 1e-4, 1e-5
"""Steps of an estimation that starts where the last one ended, and the relative gain under which it stops."""
PENALTY = 0.3
"""Share of a marginal's expected noise that is taken off its score: the estimation's price keeps out the rest."""
MOST_TRIPLES = 20_000
"""Beyond so many triples, only those with a column of the largest weight are considered, if few columns have it."""
MOST_FINE_CELLS = 4_000_000  # cells by fine codes of a candidate, which is counted by them before codes are merged


@dataclass(frozen=True)
class Workload:
    """All marginals of one degree, those of some attributes mattering more.

    DEVIATES: the paper weighs every marginal s of the workload by c_s and scores a clique r by w_r, the sum of c_s |r &
    s|. That is a sum over the attributes a of r of the total weight of the marginals that hold a. So the weights are
    given by attribute. With equal ones, w_r is the number of attributes, up to a factor, as in the paper.

    >>> workload = Workload({"a": 1.0, "b": 1.0, "income": 2.0}, degree=2)
    >>> workload.weight(("a", "income")), len(list(workload.cliques({"a": 2, "b": 3, "income": 2}, max_cells=4)))
    (1.0, 4)
    """

    weights: Mapping[str, float]
    degree: int

    def __post_init__(self) -> None:
        if self.degree < 1 or not all(0 < weight < math.inf for weight in self.weights.values()):
            raise ValueError("a workload has a degree of at least 1 and finite weights above 0")

    def weight(self, clique: Clique) -> float:
        """Weight of a clique, in (0, 1]: the sensitivity of a score that it multiplies does not grow."""
        # Exact sums: in another order, rounding could take the heaviest clique above 1.
        heaviest = math.fsum(sorted(self.weights.values(), reverse=True)[: self.degree])
        return math.fsum(self.weights[fine(name)] for name in clique) / heaviest

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
            if name in schema.equivalents:
                why = f"computed from {schema.equivalents[name].determinant!r}; weigh that one"
            elif name in schema.columns:
                why = "dropped, computed or made anew; take it out of the workload"
            else:
                why = f"not in the schema; {nearest(name, schema.modeled)}"
            raise JobError(f"a workload weighs single columns that the generator models: column={name!r} is {why}")


def column_weights(workload: Mapping[str, float], focus: float, schema: Schema) -> dict[str, float]:
    """The weight of each modeled column: that of the workload, times 1 + `focus` by its role; public."""
    roles = {schema.target, *schema.sensitive}
    return {name: workload.get(name, 1.0) * (1.0 + (focus if name in roles else 0.0)) for name in schema.modeled}


def best_of(scores: np.ndarray, event: SelectionEvent | None, budget: Budget, sensitivity: int) -> int:
    """The index of a high score: of the highest where scores are released, else by the exponential mechanism."""
    return int(np.argmax(scores)) if event is None else budget.choose(scores, sensitivity, event)


@dataclass(frozen=True)
class NoisyPairEvents(NamedEvents):
    """The releases of pairs with a column that matters most, and of all others; `None` where there are no such."""

    focused: GaussianEvent | None
    others: GaussianEvent | None


def noisy_pair_events(rho: float, schema: Schema) -> NoisyPairEvents:
    numbers = [len(pairs) for pairs in focused_and_others(schema)]
    shares = (FOCUS_SHARE, 1 - FOCUS_SHARE) if all(numbers) else (1.0, 1.0)
    focused, others = (
        gaussian_of_rho(what, share * rho, count=count, sensitivity=schema.max_rows_per_unit) if count else None
        for what, share, count in zip((FOCUSED_PAIRS, OTHER_PAIRS), shares, numbers, strict=True)
    )
    return NoisyPairEvents(focused, others)


def focused_and_others(schema: Schema) -> tuple[list[Clique], list[Clique]]:
    """Pairs of modeled columns, those with the target or a sensitive column first; public."""
    roles = {schema.target, *schema.sensitive}
    pairs: list[Clique] = list(combinations(schema.modeled, 2))
    return [pair for pair in pairs if not roles.isdisjoint(pair)], [pair for pair in pairs if roles.isdisjoint(pair)]


@dataclass(frozen=True, eq=False)
class NoisyPairs:
    """Released counts of all pairs by coarse codes."""

    coarsening: Coarsening
    released: Mapping[Clique, np.ndarray]
    sigmas: Mapping[Clique, float]
    focused: frozenset[Clique]

    @classmethod
    def measure(
        cls,
        table: Counts,
        schema: Schema,
        discretizer: Discretizer,
        one_way: Sequence[Measurement],
        events: NoisyPairEvents,
        budget: Budget,
    ) -> "NoisyPairs":
        """All pairs, released. `table`: *Sensitive*. Counts of the real rows, by the discretizer's codes."""
        masses = {measurement.clique[0]: np.asarray(measurement.values) for measurement in one_way}
        groups = dict.fromkeys(discretizer.sizes, N_GROUPS)
        coarsening = Coarsening.of_all(discretizer, masses, groups, N_CATEGORIES)
        coarse, both = table.coarse(coarsening), focused_and_others(schema)
        released: dict[Clique, np.ndarray] = {}
        sigmas: dict[Clique, float] = {}
        for pairs, event in zip(both, (events.focused, events.others), strict=True):
            if event is not None:
                counted = list(coarse.each([tuple(map(coarsening.coarsest, pair)) for pair in pairs]))
                noisy = budget.release_each(counted, event)
                released |= {pair: counts.astype(np.float64) for pair, counts in zip(pairs, noisy, strict=True)}
                sigmas |= dict.fromkeys(pairs, event.sigma)
        return cls(coarsening, released, sigmas, frozenset(both[0]))

    def distance(self, pair: Clique, expected: np.ndarray, drawing: float = 0.0) -> float:
        """L1 distance of counts between a released pair and what a model expects of it, less what noise explains.

        Single columns are known better by their own histograms, so what belongs to one column alone is left out.

        DEVIATES: from the mean absolute value, which noise would make as large for a pair that says nothing. The gap is
        drawn toward zero as a whole, as far as noise explains its square (James & Stein 1961, positive part).
        """
        gap = self.released[pair] - expected
        inner = gap - gap.mean(axis=0, keepdims=True) - gap.mean(axis=1, keepdims=True) + gap.mean()
        freedom = (gap.shape[0] - 1) * (gap.shape[1] - 1)
        explained = freedom * (self.sigmas[pair] ** 2 + drawing)
        kept = max(1.0 - explained / max(float((inner**2).sum()), 1e-300), 0.0)
        return float(kept * np.abs(inner).sum())

    def coarse(self, pair: Clique, counts: np.ndarray) -> np.ndarray:
        return self.coarsening.merged(counts, tuple(map(self.coarsening.coarsest, pair)))

    def distances(self, table: Counts, scale: float) -> dict[Clique, float]:
        """The distance of every pair from the rows of a model, focused pairs times `SEARCH_FOCUS`."""
        names = [tuple(map(self.coarsening.coarsest, pair)) for pair in self.released]
        drawn = zip(self.released, table.coarse(self.coarsening).each(names), strict=True)
        return {
            pair: self.distance(pair, scale * counts, scale**2 * float(counts.mean()))
            * (SEARCH_FOCUS if pair in self.focused else 1.0)
            for pair, counts in drawn
        }


def distance_of(clique: Clique, distances: Mapping[Clique, float]) -> float:
    """The distance of a model from a marginal: the sum over its pairs of columns; 0 for a single column.

    >>> from synth.domain.counts import MARK
    >>> distance_of(("a", "b" + MARK, "c"), {("a", "b"): 1.0, ("a", "c"): 2.0, ("c", "b"): 4.0})
    7.0
    """
    pairs = combinations(map(fine, clique), 2)
    return math.fsum(distances[pair] if pair in distances else distances[pair[::-1]] for pair in pairs)


@dataclass(frozen=True, eq=False)
class Search:
    """A table, *Sensitive*, and what may be asked of it."""

    table: Counts
    workload: Workload
    zeros: tuple[Factor, ...]
    max_cells: int
    max_model_cells: float
    n_draws: int
    known: frozenset[str] = frozenset()
    noisy: NoisyPairs | None = None
    _counted: dict[Clique, np.ndarray] = field(init=False, default_factory=dict, repr=False)

    def counts(self, clique: Clique) -> np.ndarray:
        """*Sensitive*. The exact counts of a clique, shaped by it; counted once."""
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
            if not self.known.issuperset(map(fine, clique))
            and (any(home.issuperset(clique) for home in homes) or cells(clique) <= limit)
        ]

    def _closure(self, measured: Sequence[Clique]) -> list[Clique]:
        """The workload's downward closure, or the part of it that the measured cliques lead to."""
        cliques = [clique for clique in self._of_attributes(measured) if len(set(map(fine, clique))) == len(clique)]
        if len(self.table.domain) <= MANY_ATTRIBUTES:
            return cliques
        known = [frozenset(clique) for clique in measured]
        return [clique for clique in cliques if self._is_next(clique, known)]

    def _is_next(self, clique: Clique, measured: Sequence[frozenset[str]]) -> bool:
        """True if a clique is as coarse as it can be, or has been measured so: finer codes come after coarse ones."""
        coarse = {name + MARK if name + MARK in self.table.domain else name for name in clique}
        return len(clique) == 1 or coarse == set(clique) or any(coarse <= known for known in measured)

    def _of_attributes(self, measured: Sequence[Clique]) -> list[Clique]:
        """The closure over all attributes: some cliques hold a column both fine and coarse."""
        domain, degree = self.table.domain, self.workload.degree
        if math.comb(len(domain), degree) <= MOST_CANDIDATES:
            return list(self.workload.cliques(domain, self.max_cells))
        cliques = list(Workload(self.workload.weights, min(degree, 2)).cliques(domain, self.max_cells))
        if degree == 2:
            return cliques
        joined = {pair for clique in measured for pair in combinations(clique, 2)}
        position = {name: index for index, name in enumerate(domain)}
        triples = {
            tuple(sorted({*pair, name}, key=position.__getitem__))
            for pair in joined
            for name in domain
            if name not in pair
        }
        return cliques + sorted(triple for triple in triples if math.prod(shape_of(domain, triple)) <= self.max_cells)

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
        if self.noisy is None:
            self._count(candidates)
            errors = [self._error(clique, model, rows, scale) for clique in candidates]
        else:
            distances = self.noisy.distances(rows, scale)
            errors = [distance_of(clique, distances) for clique in candidates]
        noise = [MEAN_ABSOLUTE * sigma * math.prod(shape_of(self.table.domain, clique)) for clique in candidates]
        weights = np.array([self.workload.weight(clique) for clique in candidates])
        return np.asarray(weights * (np.array(errors) - noise))

    def _error(self, clique: Clique, model: MarkovRandomField, rows: CodedTable, scale: float) -> float:
        """*Sensitive*. The L1 distance of a clique's counts from the model's, less the expected error of drawing."""
        exact = self.counts(clique)
        if model.tree.home(clique) is not None:
            return float(np.abs(exact - np.asarray(model.marginal(clique))).sum())
        drawn = rows.counts(clique)
        return float(np.abs(exact - scale * drawn).sum() - MEAN_ABSOLUTE * scale * np.sqrt(drawn).sum())

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
    """A table, *Sensitive*, by fine and coarse codes, and what may be measured of it: candidates are public."""

    def __init__(self, table: CoarseCounts, weights: Mapping[str, float], max_cells: int) -> None:
        self._table, self._workload = table, Workload(weights, 3)
        coarsest = table.coarsening.coarsest
        pairs: list[Clique] = list(combinations(weights, 2))
        self.cliques = [
            clique
            for clique in (*pairs, *(tuple(map(coarsest, triple)) for triple in _triples(weights)))
            if math.prod(shape_of(table.domain, clique)) <= max_cells
            and math.prod(shape_of(table.domain, map(fine, clique))) <= MOST_FINE_CELLS
        ]
        if not self.cliques:  # pairs by coarse codes, once more
            self.cliques = [tuple(map(coarsest, pair)) for pair in pairs]

    @cached_property
    def counts(self) -> list[NDArray[np.int32]]:
        """*Sensitive*. The exact counts of each candidate; counted once."""
        # Half the memory. Two billion rows in a cell are as many as any: no count wraps around.
        most = np.iinfo(np.int32).max
        return [np.minimum(counts, most).astype(np.int32) for counts in self._table.each(self.cliques)]

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
            scores[index] = self._workload.weight(clique) * error
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
    if is_many and math.comb(len(weights), 3) - math.comb(len(weights) - len(heaviest), 3) > MOST_TRIPLES:
        return iter(())
    return (triple for triple in combinations(weights, 3) if not is_many or not heaviest.isdisjoint(triple))
