"""The ranking of several synthetic tables of one real table: comparisons, the overall order, and the Pareto frontier.

All comparisons of pairs are one family (Holm), and groups are shown by letters (Piepho 2004). A table that breaks a
rule on fidelity stands behind those that keep them all. Else a table is ahead of another where it is told better by
some figure and worse by none; its place is one more than the number of tables ahead of it, directly or through others.
On the frontier are tables that no other beats in both utility and privacy.

Fidelity is how much of the dependence between columns is lost or made up: most of a mean distance of pairs is margins,
so that shuffled columns would stand ahead of a private table. Utility is the score of models on control rows. Every
table is measured beside the same real rows and draws, whose effect cancels in the difference. No table is better for
being closer to train than a fresh real sample, nor worse for being farther off than shuffled columns.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from evaluate.comparison import Order, PairResult, Rank, RankedFigure
from evaluate.engine import attempted
from evaluate.fidelity.dependence import SHARE, Squares, pair_squares
from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.samples import FRESH, SHUFFLED, SYNTHETIC, Samples
from evaluate.intervals import LEVEL, N_GROUPS, holm, letters
from evaluate.result import Direction, Failure
from evaluate.tables import Tables
from evaluate.utility.models import FORMS
from evaluate.utility.study import interval, study_of, variance

FIGURES: Mapping[str, Direction] = {SHARE: "lower", **{f"utility.tstr.{form}": "higher" for form in FORMS}}
"""By name of the number in the catalog, which way is better."""


@dataclass(frozen=True)
class Difference:
    value: float
    error: float
    freedom: float

    @property
    def p(self) -> float:
        """The p-value of a difference by Student's t; 1 for no difference at all.

        >>> round(Difference(2.131, 1.0, 15).p, 3)
        0.05
        """
        if self.value == 0.0:
            return 1.0
        if self.error == 0.0:
            return 0.0
        return float(2 * special.stdtr(self.freedom, -abs(self.value) / self.error))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of this difference alone, whatever others are looked at."""
        half = float(special.stdtrit(self.freedom, 1 - (1 - LEVEL) / 2)) * self.error
        return self.value - half, self.value + half


@dataclass(frozen=True)
class DependenceLost:
    squares: Squares  # Over all pairs of columns

    @property
    def value(self) -> float:
        return self.squares.share(SYNTHETIC)

    @property
    def landmarks(self) -> tuple[float, float]:
        """The same of fresh real rows (of training rows, for models), and of shuffled columns."""
        return self.squares.share(FRESH), self.squares.share(SHUFFLED)

    def less(self, other: Any) -> Difference:
        """This figure less that of another table, measured beside the same real rows."""
        # Halves of the training rows are the same for both; each table has its own.
        first, second = self.squares, other.squares
        room, apart = float(first.beyond_noise[-1]), self.value - other.value
        # To first order, as in `Squares.interval`: what half-samples of all three tables change in the difference.
        moved = 2 * (first.slope[SYNTHETIC] - second.slope[SYNTHETIC] - apart * first.slope[-1]) / room
        noise = float(first.noise_variance[SYNTHETIC] + second.noise_variance[SYNTHETIC]) / room**2
        error = np.sqrt(max(np.mean(moved**2) - noise / 2, noise))
        ends = np.clip([self.value, other.value], 0.0, 1.0)
        return Difference(float(ends[0] - ends[1]), float(error), len(moved))


@dataclass(frozen=True)
class Score:
    drawn: np.ndarray  # on the control rows, then on draws of them; shape (1 + n_draws,)
    halves: np.ndarray  # of models of halves, shape (n_splits, 2, 1 + n_fewer)
    floor: np.ndarray  # of a model of shuffled columns, as `drawn`
    trained_on_real: float

    @property
    def value(self) -> float:
        return float(self.drawn[0])

    @property
    def landmarks(self) -> tuple[float, float]:
        return self.trained_on_real, float(self.floor[0])

    def less(self, other: Any) -> Difference:
        drawn = self._above(self.drawn) - other._above(other.drawn)  # both are scored on the same draws
        total, freedom = variance(drawn, self._above(self.halves) - other._above(other.halves))
        return Difference(float(drawn[0]), float(np.sqrt(total)), freedom)

    def _above(self, scores: np.ndarray) -> np.ndarray:
        return np.asarray(np.maximum(scores, self.floor[: scores.shape[-1]]))


@dataclass(frozen=True)
class ReplicatedFigures:
    measured: Mapping[str, DependenceLost | Score]
    absent: Mapping[str, Failure] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Tables, time_limit_s: float | None = None) -> "ReplicatedFigures":
        """The figures of a table beside the same `Real` as all others; what fails is absent, with the reason."""
        measured: dict[str, DependenceLost | Score] = {}
        absent: dict[str, Failure] = {}
        for name in FIGURES:
            measure = _dependence if name == SHARE else _score
            result, _ = attempted(name, partial(measure, name, tables), time_limit_s)
            if isinstance(result, Failure):
                absent[name] = result
            else:
                measured[name] = result
        return cls(measured, absent)


def _dependence(name: str, tables: Tables) -> DependenceLost | Score | Failure:
    if len(tables.schema.learned) < 2:
        return Failure(name, "not applicable", "the schema has fewer than two columns that are learned")
    samples = Samples.draw(tables).whole()
    if samples.n_groups != N_GROUPS:
        # Of a table whose rows are all of a few units, that is its own doing.
        is_real = min(samples.train.n_units, samples.others[FRESH].n_units) < N_GROUPS
        return Failure(name, "not applicable" if is_real else "skipped", "there are too few rows for an interval")
    squares = Squares.total(pair_squares(EncodedSamples.of(tables, samples)).values())
    if not squares.tells(samples.train.n_rows / samples.n):
        return Failure(name, "not applicable", "shuffled columns are not told from a fresh real sample")
    return DependenceLost(squares)


def _score(name: str, tables: Tables) -> DependenceLost | Score | Failure:
    study, form = study_of(tables), next(form for form in FORMS if name.endswith(form))
    floor, real = (study.drawn(form, side) for side in ("floor", "trtr"))
    halves = study.split(form, "trtr")
    if interval(real - floor, halves - floor[: halves.shape[-1]])[0] <= 0.0:
        why = (
            "models of shuffled columns are not told from models of real rows: few rows, or nothing predicts the target"
        )
        return Failure(name, "not applicable", why)
    drawn, halves = study.drawn(form, "tstr"), study.split(form, "tstr")
    return Score(drawn, halves, floor, float(real[0]))


ALPHA = 1 - LEVEL


def compared(tables: Mapping[str, ReplicatedFigures]) -> list[PairResult]:
    """All pairs of tables by all figures; two tables are told apart where the adjusted p is at most 0.05. A figure that
    could not be measured of a table, though it was of the other, is worse than any number: a table that gives no answer
    is not ahead of one that does. Where time ran out, or the rows cannot tell, nothing is said.
    """
    results = [
        _compare(name, pair, tables)
        for name in FIGURES
        for pair in itertools.combinations(tables, 2)
        if any(name in tables[label].measured for label in pair)
    ]
    adjusted = iter(holm([result.p for result in results if result.p is not None]))
    return [result if result.p is None else _decided(result, next(adjusted)) for result in results]


def _compare(name: str, pair: Sequence[str], tables: Mapping[str, ReplicatedFigures]) -> PairResult:
    first, second = pair
    sides = [tables[label].measured.get(name) for label in pair]
    if sides[0] is not None and sides[1] is not None:
        apart = sides[0].less(sides[1])
        low, high = apart.interval
        return PairResult(name, first, second, apart.value, low, high, apart.p, None, better=None, reason="")
    lacks = first if sides[0] is None else second
    failure = tables[lacks].absent[name]
    better = None if failure.reason in ("timed out", "not applicable") else (second if lacks == first else first)
    reason = f"not measured of {lacks!r}: {failure.message}"
    return PairResult(name, first, second, None, None, None, None, None, better, reason)


def _decided(result: PairResult, p_adjusted: float) -> PairResult:
    better = None
    if p_adjusted <= ALPHA and result.difference is not None:
        better = result.first if (result.difference > 0) == (FIGURES[result.figure] == "higher") else result.second
    return replace(result, p_adjusted=p_adjusted, better=better)


def places(
    names: Sequence[str], comparisons: Iterable[PairResult], keeps: Mapping[str, bool | None] | None = None
) -> list[Rank]:
    """The order of tables, the best first, ties as given; `keeps` all rules on fidelity: `None` where that is open."""
    better: dict[frozenset[str], set[str]] = {}
    for comparison in comparisons:
        if comparison.better is not None:
            better.setdefault(frozenset((comparison.first, comparison.second)), set()).add(comparison.better)
    # Of a pair in which each is better at something, neither is ahead.
    ahead = {pair: next(iter(who)) for pair, who in better.items() if len(who) == 1}
    kept, broken = ([name for name in names if (keeps or {}).get(name) is which] for which in (True, False))
    ahead |= {frozenset(pair): pair[0] for pair in itertools.product(kept, broken)}
    behind = {
        name: tuple(other for other in names if ahead.get(frozenset((name, other))) == other and other != name)
        for name in names
    }
    # Being ahead is not transitive: by those ahead of it alone, a table could stand before one that it is behind.
    through = {name: {*others} for name, others in behind.items()}
    for _ in names:
        through = {name: others.union(*(through[other] for other in others)) for name, others in through.items()}
    n_ahead = {name: len(others - {name}) for name, others in through.items()}
    order = sorted(names, key=n_ahead.__getitem__)
    shown = letters(order, [tuple(sorted(pair)) for pair in ahead])  # type: ignore[misc]
    return [Rank(name, n_ahead[name] + 1, behind[name], shown[name]) for name in order]


def frontier(points: Sequence[tuple[str, float, float]]) -> tuple[str, ...]:
    """Names of the points that no other beats (Pareto), in the order given. `points`: name, utility and exposure.

    >>> frontier([("x", 0.9, 0.6), ("y", 0.8, 0.5), ("z", 0.7, 0.6)])
    ('x', 'y')
    """

    def is_beaten(utility: float, exposure: float) -> bool:
        as_good = {(use, risk) for _, use, risk in points if use >= utility and risk <= exposure}
        return as_good != {(utility, exposure)}

    return tuple(name for name, utility, exposure in points if not is_beaten(utility, exposure))


RULE = (
    "A table that breaks a rule on fidelity stands behind those that keep them all. Else a table is ahead of another "
    "where at least one figure tells it to be better and none tells it to be worse; figures are not weighed against "
    "each other. Its place is one more than the number of tables ahead of it, directly or through others."
)


def ranked(tables: Mapping[str, ReplicatedFigures], keeps: Mapping[str, bool | None] | None = None) -> Order:
    """The order of some tables; `keeps` as `places` has it."""
    results = compared(tables)
    return Order(
        rule=RULE,
        alpha=round(ALPHA, 6),
        n_comparisons=sum(result.difference is not None for result in results),
        order=tuple(places(list(tables), results, keeps)),
        figures=tuple(_ranked_figure(name, tables, results) for name in FIGURES),
        comparisons=tuple(results),
    )


def _ranked_figure(name: str, tables: Mapping[str, ReplicatedFigures], results: Sequence[PairResult]) -> RankedFigure:
    sign = 1.0 if FIGURES[name] == "lower" else -1.0
    measured = {table: figures.measured[name] for table, figures in tables.items() if name in figures.measured}
    order = sorted(measured, key=lambda table: sign * measured[table].value)
    apart = [(result.first, result.second) for result in results if result.figure == name and result.better is not None]
    landmarks = [evidence.landmarks for evidence in measured.values()]
    return RankedFigure(
        figure=name,
        direction=FIGURES[name],
        values={table: measured[table].value for table in order},
        reference=landmarks[0][0] if landmarks else None,
        floor=landmarks[0][1] if landmarks else None,
        letters=letters(order, [pair for pair in apart if set(pair) <= set(order)]),
        absent={
            table: replicated.absent[name].message for table, replicated in tables.items() if name in replicated.absent
        },
    )
