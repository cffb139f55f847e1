"""Noisy pairs: the marginals of all pairs of columns by few coarse codes, from which further choices are free.

The exponential mechanism needs the exact distances of all candidates in one place. Noisy pairs are sums of counts,
which several holders of rows can release together without showing their own. They cost more of the budget than choices
do, and one release serves every choice. Pairs with the target or a sensitive column get less noise than others.

Source: Maddock, Cormode, Maple 2023 (2310.03447, FLAIM) for marginals of several holders; McKenna, Miklau, Sheldon 2021
(2108.04978, MST) for trees of pairs; James & Stein 1961 for the shrinkage, positive part.

# DEVIATES: in FLAIM each holder chooses a marginal by its own rows, with the exponential mechanism. Here noisy counts
# of all are summed once, and choices follow from the sums.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
from pydantic import Field

from synth.domain import Discretizer
from synth.domain.counts import Coarsening, Counts, fine
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, PlannedEvents, SelectionEvent, gaussian_of_rho
from synth.marginals import Clique, Measurement
from synth.schema import Schema

Choices = Literal["exponential", "noisy_pairs"]
EXPONENTIAL, NOISY_PAIRS = get_args(Choices)
CHOICES_FIELD: Any = Field(
    default=EXPONENTIAL,
    description="Choices of marginals: by the exponential mechanism, or from noisy pairs, which are sums of counts.",
)
"""The parameter of generators that choose marginals."""
N_GROUPS, N_CATEGORIES = 4, 5
"""Coarse codes of a column with an order, and of one without; with more, noise hides which columns go together."""
FOCUS_SHARE = 0.3
"""Share of the cost for pairs with the target or a sensitive column, where there are others, too."""
FOCUS, SEARCH_FOCUS = 1.5, 2.0
"""Factors of the distances of such pairs where a tree is chosen, and where AIM searches.

# DEVIATES: MST weighs all pairs alike. Noise hides pairs with a target that is hard to predict; larger factors help it,
and harm other pairs.
"""
ROWS_ALONE = 'choices="noisy_pairs" reads rows alone; set choices="exponential"'
"""The reason why the rows of an entity are drawn independently, and the remedy."""
FOCUSED_PAIRS, OTHER_PAIRS = "coarse pairs with the target or a sensitive column", "coarse pairs of columns"
"""Their names in a statement."""


@dataclass(frozen=True)
class NoisyPairEvents(PlannedEvents):
    """The releases of pairs with a column that matters most, and of all others; `None` where there are no such."""

    focused: GaussianEvent | None
    others: GaussianEvent | None


def noisy_pair_events(rho: float, schema: Schema) -> NoisyPairEvents:
    """The events of all pairs at their share of the cost."""
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
    focused = [pair for pair in pairs if not roles.isdisjoint(pair)]
    return focused, [pair for pair in pairs if roles.isdisjoint(pair)]


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
        """All pairs, released.
        `table`: *Sensitive*. Counts of the real rows, by the discretizer's codes.
        """
        masses = {measurement.clique[0]: np.asarray(measurement.values) for measurement in one_way}
        groups = dict.fromkeys(discretizer.sizes, N_GROUPS)
        coarsening = Coarsening.of_all(discretizer, masses, groups, N_CATEGORIES)
        coarse = table.coarse(coarsening)
        released: dict[Clique, np.ndarray] = {}
        sigmas: dict[Clique, float] = {}
        for pairs, event in zip(focused_and_others(schema), (events.focused, events.others), strict=True):
            if event is not None:
                counted = list(coarse.each([tuple(map(coarsening.coarsest, pair)) for pair in pairs]))
                noisy = budget.release_each(counted, event)
                released |= {pair: counts.astype(np.float64) for pair, counts in zip(pairs, noisy, strict=True)}
                sigmas |= dict.fromkeys(pairs, event.sigma)
        return cls(coarsening, released, sigmas, frozenset(focused_and_others(schema)[0]))

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
        """Counts of a pair by the model's codes, merged into coarse ones."""
        return self.coarsening.merged(counts, tuple(map(self.coarsening.coarsest, pair)))

    def distances(self, table: Counts, scale: float) -> dict[Clique, float]:
        """The distance of every pair from the rows of a model, focused pairs times `SEARCH_FOCUS`."""
        coarse = table.coarse(self.coarsening)
        names = [tuple(map(self.coarsening.coarsest, pair)) for pair in self.released]
        found = {}
        for pair, drawn in zip(self.released, coarse.each(names), strict=True):
            distance = self.distance(pair, scale * drawn, scale**2 * float(drawn.mean()))
            found[pair] = distance * (SEARCH_FOCUS if pair in self.focused else 1.0)
        return found


def best_of(scores: np.ndarray, event: SelectionEvent | None, budget: Budget, sensitivity: int) -> int:
    """The index of a high score: of the highest where scores are released, else by the exponential mechanism.
    `scores`: shape (n,); *Sensitive* unless they are released.
    """
    return int(np.argmax(scores)) if event is None else budget.choose(scores, sensitivity, event)


def distance_of(clique: Clique, distances: Mapping[Clique, float]) -> float:
    """The distance of a model from a marginal: the sum over its pairs of columns; 0 for a single column.

    >>> from synth.domain.counts import MARK
    >>> distance_of(("a", "b" + MARK, "c"), {("a", "b"): 1.0, ("a", "c"): 2.0, ("c", "b"): 4.0})
    7.0
    """
    pairs = combinations(map(fine, clique), 2)
    return math.fsum(distances[pair] if pair in distances else distances[pair[::-1]] for pair in pairs)
