"""The ranking of several synthetic tables of one real table: comparisons, the overall order, and the Pareto frontier.

All comparisons of pairs are one family (Holm), and groups are shown by letters (Piepho 2004). A table that breaks a
rule on fidelity stands behind those that keep them all. Else a table is ahead of another where it is told better by
some figure and worse by none; its place is one more than the number of tables ahead of it. On the frontier are tables
that no other beats in both utility and privacy.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from evaluate.comparison import Order, PairResult, Rank, RankedFigure
from evaluate.intervals import LEVEL, holm, letters
from evaluate.ranking.figures import FIGURES, ReplicatedFigures

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
    order = sorted(names, key=lambda name: len(behind[name]))
    shown = letters(order, [tuple(sorted(pair)) for pair in ahead])  # type: ignore[misc]
    return [Rank(name, len(behind[name]) + 1, behind[name], shown[name]) for name in order]


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
    "each other. Its place is one more than the number of tables ahead of it."
)


def ranked(tables: Mapping[str, ReplicatedFigures], keeps: Mapping[str, bool | None] | None = None) -> Order:
    """The order of some tables; `keeps` as `places` has it."""
    results = compared(tables)
    return Order(
        rule=RULE,
        alpha=round(ALPHA, 6),
        n_comparisons=sum(result.difference is not None for result in results),
        order=tuple(places(list(tables), results, keeps)),
        figures=tuple(_figure(name, tables, results) for name in FIGURES),
        comparisons=tuple(results),
    )


def _figure(name: str, tables: Mapping[str, ReplicatedFigures], results: Sequence[PairResult]) -> RankedFigure:
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
