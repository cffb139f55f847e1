"""Every two tables compared by every figure, with one allowance for all of these comparisons together."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evaluate.intervals import LEVEL
from evaluate.ranking.difference import Difference
from evaluate.ranking.figure import FIGURES, Figures
from evaluate.ranking.holm import holm

ALPHA = 1 - LEVEL


@dataclass(frozen=True)
class PairComparison:
    """Two tables by one figure.

    Attributes:
        figure: its name.
        first: a table.
        second: another one.
        difference: the figure of the first less that of the second; none where it was measured of one of them only.
        p_adjusted: after Holm, over all comparisons of all figures; none where there is no difference to test.
        better: the one that is told to be better; none where they cannot be told apart.
        reason: why there is no difference; empty where there is one.
    """

    figure: str
    first: str
    second: str
    difference: Difference | None
    p_adjusted: float | None
    better: str | None
    reason: str = ""

    def content(self) -> dict[str, Any]:
        """The comparison as plain data."""
        low, high = (None, None) if self.difference is None else self.difference.interval
        bounded = low is not None and math.isfinite(low)
        return {
            "figure": self.figure, "first": self.first, "second": self.second,
            "difference": None if self.difference is None else self.difference.value,
            "low": low if bounded else None, "high": high if bounded else None,
            "p": None if self.difference is None else self.difference.p, "p_adjusted": self.p_adjusted,
            "better": self.better, "reason": self.reason,
        }  # fmt: skip


def compared(tables: Mapping[str, Figures]) -> list[PairComparison]:
    """All pairs of tables by all figures; two tables are told apart where the adjusted p is at most 0.05.

    A figure that could not be measured of a table, though it was of the other, is worse than any number: a table that
    gives no answer is not ahead of one that does. Where time ran out, nothing is said.

    Args:
        tables: figures by name of the table, all measured beside the same real rows.
    """
    pairs = list(itertools.combinations(tables, 2))
    found = [_compare(name, pair, tables) for name in FIGURES for pair in pairs if _known(name, pair, tables)]
    tested = [one for one in found if one.difference is not None]
    adjusted = iter(holm([one.difference.p for one in tested if one.difference is not None]))
    return [one if one.difference is None else _decided(one, next(adjusted)) for one in found]


def _known(name: str, pair: Sequence[str], tables: Mapping[str, Figures]) -> bool:
    return any(name in tables[one].found for one in pair)


def _compare(name: str, pair: Sequence[str], tables: Mapping[str, Figures]) -> PairComparison:
    first, second = pair
    sides = [tables[one].found.get(name) for one in pair]
    if sides[0] is not None and sides[1] is not None:
        return PairComparison(name, first, second, sides[0].less(sides[1]), None, None)
    lacks = first if sides[0] is None else second
    failure = tables[lacks].absent[name]
    late = failure.reason == "timed out"
    better = None if late else (second if lacks == first else first)
    return PairComparison(name, first, second, None, None, better, f"not measured of {lacks!r}: {failure.message}")


def _decided(one: PairComparison, p_adjusted: float) -> PairComparison:
    assert one.difference is not None
    if p_adjusted > ALPHA:
        return replace(one, p_adjusted=p_adjusted)
    ahead = (one.difference.value > 0) == (FIGURES[one.figure] == "higher")
    return replace(one, p_adjusted=p_adjusted, better=one.first if ahead else one.second)
