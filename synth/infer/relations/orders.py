"""Orders of two columns that all rows keep, and that chance does not explain.

That no row breaks an inequality is weak evidence: of forty numbers, some never meet. Many rows of shuffled columns
have to break it; and of numbers, it has to be a limit: values come close to it and never cross, where two numbers that
merely lie apart thin out before they meet.
"""

import itertools
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from synth.constraints import Inequality
from synth.domain.relations import compares_days
from synth.infer.relations.evidence import ENOUGH, percent
from synth.infer.relations.lines import DAY, Lines

LEAST_BROKEN = 0.1  # share of shuffled rows that would break an inequality: below it, the bounds nearly say it already
NEAR, NEAR_OF_SPREAD = 0.1, 0.02
"""Distance that is near: as a share of the higher of two amounts; else of the spread of both columns."""
LEAST_NEAR, LEAST_VALUES = 0.05, 10
"""Share of rows near the limit; and distinct values of each number: with fewer they are codes, which have no unit."""


@dataclass(frozen=True)
class Order:
    """An order that all rows keep, where neither value is missing."""

    low: str
    high: str
    by_day: bool
    is_law: bool  # chance explains it badly enough for a constraint
    broken: float  # the share of shuffled rows in which the lower column is above the higher one

    def inequality(self) -> Inequality:
        reason = f"every row keeps it, and about {percent(self.broken)} of rows with shuffled columns would not"
        return Inequality(low=self.low, high=self.high, by_day=self.by_day, proposed=reason)


def find_orders(lines: Lines, among: Collection[str], implied: Collection[tuple[str, str]]) -> list[Order]:
    """The orders of pairs, without those that follow from others. `implied`: pairs that a formula holds together."""
    names = [name for name in among if name in lines.computable]
    orders: list[Order] = []
    arrows: set[tuple[str, str]] = set()
    for low, high in itertools.permutations(names, 2):
        if not lines.comparable(low, high):
            continue
        order = _order(lines, low, high)
        if order is None:
            continue
        if (low, high) in implied:
            arrows.add((low, high))
        else:
            orders.append(order)
    arrows |= {(order.low, order.high) for order in orders if order.is_law}
    missing = {name for name in names if lines.column(name).missing}
    return [order for order in orders if not _follows(order.low, order.high, arrows, missing)]


def _order(lines: Lines, low: str, high: str) -> Order | None:
    """The order of two columns; `None` where a row has it otherwise, or nothing tells them apart."""
    of_days = lines.is_time(low) and compares_days(Inequality(low=low, high=high), lines.schema.columns)
    for by_day in (of_days, *([True] if lines.is_time(low) and _days_beside_times(lines, low, high) else [])):
        # On the sample first: most pairs go either way.
        for rows in (lines.rows, slice(None)):
            low_line, high_line = (lines.positions[name][rows] for name in (low, high))
            if by_day:
                low_line, high_line = np.floor(low_line / DAY), np.floor(high_line / DAY)
            if np.any(low_line > high_line):  # false where either is missing
                break
        else:
            both = ~(np.isnan(low_line) | np.isnan(high_line))
            if not both.any() or np.array_equal(low_line[both], high_line[both]):
                return None
            return _weighed(lines, low, high, low_line[both], high_line[both], by_day and not of_days)
    return None


def _days_beside_times(lines: Lines, low: str, high: str) -> bool:
    """True if one of two times is always midnight, and stands for a day."""
    columns = [lines.column(low), lines.column(high)]
    if not all(not column.is_date and column.zone in (None, "UTC") for column in columns):
        return False
    days = [not np.any(np.mod(lines.positions[name][~np.isnan(lines.positions[name])], DAY)) for name in (low, high)]
    return days[0] != days[1]


def _weighed(
    lines: Lines, low: str, high: str, low_line: np.ndarray, high_line: np.ndarray, by_day: bool
) -> Order | None:
    broken = float(np.searchsorted(np.sort(high_line), low_line, side="left").mean()) / len(low_line)
    n_units = len(low_line) * lines.n_all_units / max(len(lines.units), 1)
    if broken < max(LEAST_BROKEN, ENOUGH / n_units):
        return None
    # Times are all of one unit, and what precedes what is hardly ever chance.
    is_law = lines.is_time(low) or (
        lines.step(low) == lines.step(high)
        and min(len(np.unique(low_line)), len(np.unique(high_line))) >= LEAST_VALUES
        and _near(low_line, high_line) >= max(LEAST_NEAR, ENOUGH / n_units)
    )
    return Order(low, high, by_day, is_law, broken)


def _near(low: np.ndarray, high: np.ndarray) -> float:
    """The share of rows close to the limit, among those where it says something.

    A number at its own least value is at most anything, and anything is at most a number at its own greatest.
    """
    says = (low > low.min()) & (high < high.max())
    non_negative = low.min() >= 0 and high.min() >= 0
    low, high = low[says], high[says]
    if not len(low):
        return 0.0
    if non_negative:
        return float((high - low <= NEAR * high).mean())
    spread = np.subtract(*np.quantile(np.concatenate([low, high]), [0.9, 0.1]))
    return float((high - low <= NEAR_OF_SPREAD * spread).mean())


def _follows(low: str, high: str, arrows: Collection[tuple[str, str]], missing: Collection[str]) -> bool:
    """True if other orders lead from one column to the other, over columns that are never missing."""
    reached, waiting = {low}, [low]
    while waiting:
        at = waiting.pop()
        for first, other in arrows:
            if first != at or other in reached or (first, other) == (low, high):
                continue
            if other == high:
                return True
            if other not in missing:
                reached.add(other)
                waiting.append(other)
    return False
