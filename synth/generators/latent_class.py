"""Latent classes: all pairs measured at once, then what the model is furthest from, and a mixture of products fitted.

A junction tree holds a target in few cliques, so that most columns reach it through others. A mixture has no tree: each
pair of columns is in it, and only the number of classes and the noise limit what they carry.

Source: Si & Reiter 2013 (latent classes for synthetic tables); the choices are those of AIM, McKenna et al. 2022
(2201.12677).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import ClassVar

import numpy as np
from pydantic import Field
from threadpoolctl import threadpool_limits

from synth.domain import Discretizer
from synth.domain.counts import MARK, CoarseCounts, Coarsening
from synth.domain.discretizer import OTHER
from synth.dp.events import GaussianEvent, NamedEvents, SelectionEvent, gaussian_of_rho
from synth.dp.schedule import approximate_rho, resolve_delta
from synth.generators.fitting.parity import ParitySearch, is_searched
from synth.generators.fitting.private_fit import COLUMNS, Known, OneWay, PrivateFit
from synth.generators.fitting.selection import ClassSearch, Weight, check_workload, column_weights
from synth.generators.marginal_generator import MarginalEvents, MarginalGenerator
from synth.generators.models.constraints import structural_zeros
from synth.marginals import Clique, LatentClasses, Measurement
from synth.marginals.latent_class_estimation import ChowLiuTree, ClassEstimation, CoarseCodes
from synth.schema import Schema
from synth.schema.kinds import Column

CHOICES, CHOSEN = "choices of marginals", "marginals that were chosen"
MANY_COLUMNS = "choices of many columns that tell the target"
MANY_SHARE = 0.2  # their share of what all choices cost
EXACT_SIGNAL = 10_000.0  # rows in standard deviations of a pair's noise, as a fit without noise takes them
BINS, BINS_POWER, FEWEST_BINS, MOST_BINS = 4.0, 0.25, 12, 32
"""Codes of a number are so many times this power of the signal, between these limits."""
GROUPS, GROUPS_POWER, FEWEST_GROUPS, MOST_GROUPS = 0.57, 0.4, 4, 24
"""Coarse codes of a number are so many times this power of the signal, between these limits."""
FINER = 3  # factor of the coarse codes of a number whose weight is above 1
MOST_CATEGORIES = 100  # categories of a column that pairs tell apart; the rarest are one code there
MOST_CODES = 2000
"""Codes that all pairs are counted by together: categories are fewer where these are more, down to `FEWEST_GROUPS`."""
BEYOND_CODES = 2  # codes of a column beside those of its values: `other` and `missing`
ROUNDS_SIGNAL, ROUNDS_POWER, LEAST_ROUNDS_A_COLUMN, MOST_ROUNDS_A_COLUMN = 25.0, 0.3, 1, 4
"""Marginals that are chosen, for each column: one at this signal, and more by this power of it, between the limits."""
MOST_POWERS = 24
"""Powers of two by which the weights of two pairs differ at most: accountants hold no noise of any size."""
N_BATCHES = 3  # marginals are chosen in so many batches; after each the model is fitted anew
FREQUENT = 2.5  # a code with so many times the mean mass of its column's codes is unlike its neighbors
DEAR = 8.0  # signal at which the price of information is twice as high as without noise
FIRST_STEPS, BATCH_STEPS, LAST_STEPS = 100, 30, 150
"""Steps of the estimation before the first choice, after each batch, and after the last one."""
ZERO_SIGMA, OPEN_SIGMA = 0.05, 1e9
"""Certainty of a structural zero, in units of the noise of its pair, and of any other cell, in rows."""


@dataclass(frozen=True)
class ChosenEvents(NamedEvents):
    choices: SelectionEvent
    marginals: GaussianEvent
    many: SelectionEvent | None = None


@dataclass(frozen=True)
class LatentClassEvents(MarginalEvents):
    """One-way histograms, all pairs by their weight, and what is chosen, if anything is."""

    pairs: Mapping[float, GaussianEvent] = field(default_factory=dict)
    chosen: ChosenEvents | None = None


class LatentClass(MarginalGenerator):
    """A mixture of products fitted to all pairs of columns, and to the pairs and triples that it fits worst.

    Every pair is released at once, by coarse codes, at noise that public weights set. Then pairs by fine codes and
    triples by coarse ones are chosen by the exponential mechanism, where the model is furthest from the table.
    """

    name: ClassVar[str] = "latent_class"
    n_bins: int | None = Field(
        default=None, ge=2, le=1000, description="Codes of a number or time, about; `None`: by the budget."
    )
    coarse_codes: int | None = Field(
        default=None, ge=2, le=100, description="Codes of a number in pairs; `None`: by the budget."
    )
    n_classes: int = Field(default=3000, ge=1, le=20_000, description="Classes of the mixture.")
    rounds: int | None = Field(default=None, ge=0, le=1000, description="Marginals to choose; `None`: by the budget.")
    max_cells: int = Field(default=4000, ge=100, description="Cells of one chosen marginal at most.")
    focus: float = Field(default=2.0, ge=0, le=100, description="How much more the target and sensitive columns weigh.")
    workload: dict[str, Weight] = Field(default={}, description="Weights of columns, beside `focus`; 1 unless named.")
    columns_share: float = Field(default=0.2, gt=0, lt=1, description="Share for columns.")
    pairs_share: float = Field(default=0.3, gt=0, lt=1, description="Share of the rest for all pairs.")
    choices_share: float = Field(default=0.1, gt=0, lt=1, description="Share of what is then left for choices.")
    price: float = Field(
        default=0.8, ge=0, le=100, description="Penalty on information of classes on columns, in units of noise."
    )

    def check(self, schema: Schema) -> None:
        super().check(schema)
        check_workload(self.workload, schema)

    def row_events(self, schema: Schema, n_known: int = 0) -> Callable[[float], LatentClassEvents]:
        n_columns, k = len(schema.modeled), schema.max_rows_per_unit
        if n_columns == 1:
            return lambda rho: LatentClassEvents(gaussian_of_rho(COLUMNS, rho, count=1, sensitivity=k))
        counts: dict[float, int] = {}
        for weight in self._pair_weights(schema).values():
            counts[weight] = counts.get(weight, 0) + 1
        n_rounds = self.n_rounds(schema)
        weighted = math.fsum(weight * count for weight, count in counts.items())
        many = MANY_SHARE if is_searched(schema) else 0.0

        def whole(rho: float) -> LatentClassEvents:
            rest = (1 - self.columns_share) * rho
            pairs = (self.pairs_share if n_rounds else 1.0) * rest
            chosen = rest - pairs
            return LatentClassEvents(
                gaussian_of_rho(COLUMNS, self.columns_share * rho, count=n_columns, sensitivity=k),
                {
                    weight: gaussian_of_rho(
                        pairs_of(weight), pairs * weight * count / weighted, count=count, sensitivity=k
                    )
                    for weight, count in sorted(counts.items())
                },
                ChosenEvents(
                    SelectionEvent.of_rho(CHOICES, (1 - many) * self.choices_share * chosen, n_rounds),
                    gaussian_of_rho(CHOSEN, (1 - self.choices_share) * chosen, count=n_rounds, sensitivity=k),
                    SelectionEvent.of_rho(
                        MANY_COLUMNS, many * self.choices_share * chosen, 2 * min(N_BATCHES, n_rounds)
                    )
                    if many
                    else None,
                )
                if n_rounds
                else None,
            )

        return whole

    def bins(self, schema: Schema) -> int:
        """Number of codes of a number or time, about: more where noise leaves more to see; public."""
        wanted = round(BINS * math.pow(self.signal(schema), BINS_POWER))
        return self.n_bins or min(max(wanted, FEWEST_BINS), MOST_BINS)

    def n_rounds(self, schema: Schema) -> int:
        """Number of marginals that are chosen: more where noise leaves more to see; public."""
        n_columns = len(schema.modeled)
        if self.rounds is not None or n_columns < 2:
            return self.rounds or 0
        wanted = n_columns * math.pow(self.signal(schema) / ROUNDS_SIGNAL, ROUNDS_POWER)
        return min(max(round(wanted), LEAST_ROUNDS_A_COLUMN * n_columns), MOST_ROUNDS_A_COLUMN * n_columns)

    def n_groups(self, schema: Schema) -> dict[str, int]:
        """Number of coarse codes of each ordered column in pairs: more where noise leaves more to see; public."""
        wanted = round(GROUPS * math.pow(self.signal(schema), GROUPS_POWER))
        few = self.coarse_codes or min(max(wanted, FEWEST_GROUPS), MOST_GROUPS)
        weights = self._weights(schema)
        return {name: FINER * few if weights[name] > 1 else few for name in schema.modeled}

    def n_categories(self, schema: Schema, sizes: Mapping[str, int]) -> int:
        """Number of categories of a column that pairs tell apart: fewer where all columns have too many codes."""
        groups = self.n_groups(schema)
        of_ordered = sum(
            min(size, groups[name] + BEYOND_CODES) for name, size in sizes.items() if has_order(schema.columns[name])
        )
        others = [size for name, size in sizes.items() if not has_order(schema.columns[name])]
        kept = MOST_CATEGORIES
        while kept > FEWEST_GROUPS and of_ordered + sum(min(size, kept + BEYOND_CODES) for size in others) > MOST_CODES:
            kept = max(kept // 2, FEWEST_GROUPS)
        return kept

    def signal(self, schema: Schema) -> float:
        """The table's units in standard deviations of the noise of a pair, had all pairs the whole budget; public."""
        if self.epsilon is None or schema.n_units is None:
            return EXACT_SIGNAL
        rho = approximate_rho(self.epsilon, resolve_delta(self.delta, schema))
        n_pairs = max(math.comb(len(schema.modeled), 2), 1)
        return schema.n_units / schema.max_rows_per_unit * math.sqrt(2 * rho / n_pairs)

    def _weights(self, schema: Schema) -> dict[str, float]:
        return column_weights(self.workload, self.focus, schema)

    def _pair_weights(self, schema: Schema) -> dict[Clique, float]:
        """Shares of the budget of pairs, in proportion: products of weights, as powers of two from 1 on."""
        logs = {name: math.log2(weight) for name, weight in self._weights(schema).items()}
        powers = {pair: round(logs[pair[0]] + logs[pair[1]]) for pair in combinations(schema.modeled, 2)}
        least = max(min(powers.values(), default=0), max(powers.values(), default=0) - MOST_POWERS)
        return {pair: 2.0 ** max(power - least, 0) for pair, power in powers.items()}

    @threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator] # by more threads, sums would differ
    def _estimated(
        self, fit: PrivateFit, events: LatentClassEvents, discretizer: Discretizer, one_way: OneWay, known: Known = ()
    ) -> LatentClasses:
        masses = {measurement.clique[0]: np.asarray(measurement.values) for measurement in one_way}
        n_categories = self.n_categories(fit.schema, discretizer.sizes)
        coarsening = Coarsening.of_all(discretizer, masses, self.n_groups(fit.schema), n_categories)
        table = CoarseCounts(fit.train.coded(discretizer), coarsening)
        coarse = {name + MARK: CoarseCodes(name, groups) for name, groups in table.coarsening.groups.items()}
        stretches = dict(_stretches(discretizer, masses))
        estimation = ClassEstimation(discretizer.sizes, coarse, one_way, self.n_classes, fit.rng, stretches)
        if len(discretizer.sizes) == 1:
            estimation.run(LAST_STEPS, 0.0, last=True)
            return estimation.model()
        fit.progress("measuring pairs", None)
        pairs = list(self._pairs(fit, events.pairs, table))
        estimation.add(pairs)
        tree = ChowLiuTree(discretizer.sizes, coarse, one_way, pairs)
        estimation.begin(tree.rows(self.n_classes, fit.rng))
        certainty = ZERO_SIGMA * float(np.min([pair.sigma for pair in pairs]))
        for zero in structural_zeros(fit.schema, discretizer):
            if zero.log_values.size <= self.max_cells and zero.log_values.ndim <= 3:  # others are left to rejection
                is_zero = np.isneginf(zero.log_values)
                sigmas = np.where(is_zero, certainty, OPEN_SIGMA)
                estimation.add([Measurement(zero.attributes, np.zeros(is_zero.shape), sigmas)])
        price = self.price * (1 + DEAR / self.signal(fit.schema)) * estimation.noise
        estimation.run(FIRST_STEPS, price)
        if events.chosen is not None:
            parity = None
            if events.chosen.many is not None:
                parity = ParitySearch(fit.train, str(fit.schema.target), discretizer, masses, self.n_classes)
            self._choose(fit, events.chosen, table, estimation, price, parity)
        fit.progress("estimating the distribution", None)
        estimation.run(LAST_STEPS, price, last=True)
        return estimation.model()

    def _pairs(
        self, fit: PrivateFit, events: Mapping[float, GaussianEvent], table: CoarseCounts
    ) -> Iterator[Measurement]:
        weights, coarsest = self._pair_weights(fit.schema), table.coarsening.coarsest
        cliques = [(coarsest(first), coarsest(second)) for first, second in weights]
        for clique, weight, counts in zip(cliques, weights.values(), table.each(cliques), strict=True):
            event = events[weight]
            noisy = fit.budget.release(counts, event).astype(np.float64)
            yield Measurement(clique, noisy, _sigma(fit, event))

    def _choose(
        self,
        fit: PrivateFit,
        events: ChosenEvents,
        table: CoarseCounts,
        estimation: ClassEstimation,
        price: float,
        parity: ParitySearch | None,
    ) -> None:
        """Measure what the model is furthest from, in batches, and fit it anew after each."""
        n_rounds, done, event = events.choices.count, 0, events.marginals
        sigma, k = _sigma(fit, event), fit.schema.max_rows_per_unit
        search = ClassSearch(table, self._weights(fit.schema), self.max_cells)
        for batch in np.array_split(np.arange(n_rounds), min(N_BATCHES, n_rounds)):
            if parity is not None and events.many is not None:
                n_followed = self._follow(fit, events.many, event, parity, estimation)
                batch, done = batch[n_followed:], done + n_followed
            scores = search.scores(estimation, sigma)
            is_apart, is_new = np.ones((2, len(scores)), dtype=bool)
            chosen = []
            for _ in batch:
                left = next(np.flatnonzero(flags) for flags in (is_apart, is_new, ~is_new) if flags.any())
                index = int(left[fit.budget.choose(scores[left], k, events.choices)])
                is_new[index] = False
                is_apart &= search.apart(index)
                noisy = fit.budget.release(search.counts[index], event).astype(np.float64)
                chosen.append(Measurement(search.cliques[index], noisy, sigma))
                done += 1
                fit.progress("measuring marginals", done / n_rounds)
            estimation.add(chosen)
            estimation.run(BATCH_STEPS, price)

    def _follow(
        self,
        fit: PrivateFit,
        choice: SelectionEvent,
        event: GaussianEvent,
        parity: ParitySearch,
        estimation: ClassEstimation,
    ) -> int:
        """Measure the set of columns that tells the target best, if any does; returns the number measured, 0 or 1."""
        k = fit.schema.max_rows_per_unit
        sigma = _sigma(fit, event)
        model = estimation.model()
        scores = parity.scores(model, sigma, 2 * k / choice.epsilon if fit.promises else 0.0)
        index = fit.budget.choose(np.append(0.0, scores), k, choice)
        if index == 0:  # no set of columns
            return 0
        splits, distances = parity.splits(parity.clique(index - 1), model)
        codes = splits[fit.budget.choose(distances, k, choice)]
        (counts,) = parity.counts([tuple(codes)], codes)
        noisy = fit.budget.release(counts, event).astype(np.float64)
        estimation.follow(codes, noisy, sigma, fit.rng)
        return 1


def _stretches(discretizer: Discretizer, masses: Mapping[str, np.ndarray]) -> Iterator[tuple[str, list[slice]]]:
    """Stretches of codes between the frequent values of each column with an order; a frequent value is in none.
    `masses`: released counts of the codes of each column, shape (size,).
    """
    for attribute in discretizer.attributes:
        if has_order(attribute.column):
            counts = np.maximum(masses[attribute.name][:OTHER], 0.0)
            frequent = np.flatnonzero(counts > FREQUENT * counts.mean())
            ends = np.concatenate([[-1], frequent, [len(counts)]]).tolist()
            yield attribute.name, [slice(a + 1, b) for a, b in pairwise(ends)]


def has_order(column: Column) -> bool:
    """True of numbers, times and ordered categories, whose neighboring codes may be merged."""
    return column.is_line or column.is_ordered


def pairs_of(weight: float) -> str:
    """Name of the event of all pairs of one weight in a statement.

    >>> pairs_of(4.0)
    'pairs of columns of weight 4'
    """
    return f"pairs of columns of weight {weight:g}"


def _sigma(fit: PrivateFit, event: GaussianEvent) -> float:
    """Standard deviation of a count: that of the noise, or without noise about that of another sample of rows."""
    return event.sigma if fit.promises else max(math.sqrt(len(fit.train)) / MOST_GROUPS, 1.0)
