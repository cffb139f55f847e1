"""Rules on numbers and times: inequalities and formulas that all rows keep, and that chance does not explain.

That no row breaks an inequality is weak evidence: of forty numbers, some never meet. Three things are asked for. Many
rows of shuffled columns would break it. Two numbers are of one unit, by precision and names. And it is a limit: values
come close to it and never cross, where two numbers that merely lie apart thin out before they meet.

A formula gives a column of numbers by others: a sum, difference, product, quotient or multiple. Candidates are found on
a few rows, where every pair of columns is tried for every third, and kept where all rows agree.
"""

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from synth.constraints import Formula, Inequality
from synth.constraints.expression import written
from synth.constraints.kinds import in_order
from synth.domain.constraint_checks import broken, compares_days, on_one_line
from synth.infer.constraints.evidence import ENOUGH, percent
from synth.schema import Schema
from synth.schema.kinds import Column
from synth.schema.kinds.moments import DAY

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ENDS = (
    ({"min", "minimum", "low", "lower", "least", "lowest"}, {"max", "maximum", "high", "higher", "upper", "highest"}),
    ({"start", "started", "begin", "first", "from", "open", "opened"},
     {"end", "ended", "finish", "last", "to", "close", "closed"}),
    ({"part", "sub", "subtotal", "net", "partial", "used", "paid"}, {"total", "all", "whole", "gross", "overall"}),
)  # fmt: skip
"""Words that name two ends of one thing, the lower first."""
_ANOTHER_UNIT = {
    "per", "rate", "ratio", "share", "pct", "percent", "percentage", "std", "sd", "error", "variance", "deviation",
    "code", "id", "year", "month", "day", "days", "hour", "hours", "lat", "latitude", "long", "lng", "longitude",
}  # fmt: skip
"""Words that name a unit: columns of which one has it, and the other does not, are of two."""


@dataclass(frozen=True)
class Kinship:
    """Evidence in names: a word that both have, and whether they name the lower and the upper end of one thing."""

    word: bool
    ends: bool


def kinship(low: str, high: str) -> Kinship:
    """The evidence in two names.

    >>> kinship("temp_min", "temp_max"), kinship("OWN_RENT", "WGTP")
    (Kinship(word=True, ends=True), Kinship(word=False, ends=False))
    """
    one, other = _words(low), _words(high)
    ends = any(one & lower and other & upper and _rest(one, lower) == _rest(other, upper) for lower, upper in _ENDS)
    return Kinship(word=bool((one & other) - _ANOTHER_UNIT), ends=ends)


def one_unit(low: str, high: str, columns: Mapping[str, Column]) -> bool:
    """Whether two columns of numbers may be of one unit: equal precision or kin by name, no word against it."""
    if (_words(low) & _ANOTHER_UNIT) != (_words(high) & _ANOTHER_UNIT):
        return False
    alike = columns[low].unit == columns[high].unit
    kin = kinship(low, high)
    return alike or kin.word or kin.ends


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


def _rest(words: set[str], end: set[str]) -> set[str]:
    return words - end


LEAST_BROKEN = 0.1
"""Share of shuffled rows that would break an inequality: below it, the bounds nearly say it already."""
NEAR, NEAR_OF_SPREAD = 0.1, 0.02
"""Distance that is near: as a share of the higher of two amounts; else of the spread of both columns."""
LEAST_NEAR, LEAST_NEAR_OF_KIN = 0.05, 0.01
"""Share of rows near the limit, for columns of any names, and for those whose names share a word."""
ENOUGH_OF_KIN = 10.0
"""Rows near the limit, for columns whose names share a word: without a limit, half of so many would lie beyond it."""
LEAST_VALUES = 10
"""Distinct values of each number, unless names share a word: with fewer they are codes, which have no unit."""


@dataclass(frozen=True)
class _Order:
    """An order that all rows keep: whether days are compared, and both columns where neither is missing.
    `low`: *Sensitive*. Positions of the lower column, shape (n,).
    `high`: *Sensitive*. Positions of the higher one.
    """

    low: np.ndarray = field(repr=False)
    high: np.ndarray = field(repr=False)
    by_day: bool

    @property
    def broken(self) -> float:
        """The share of shuffled rows in which the lower column is above the higher one."""
        return float(np.searchsorted(np.sort(self.high), self.low, side="left").mean()) / len(self.low)

    def near(self) -> float:
        """The share of rows close to the limit, among those where it says something.

        A number at its own least value is at most anything, and anything is at most a number at its own greatest.
        """
        says = (self.low > self.low.min()) & (self.high < self.high.max())
        low, high = self.low[says], self.high[says]
        if not len(low):
            return 0.0
        if self.low.min() >= 0 and self.high.min() >= 0:
            return float((high - low <= NEAR * high).mean())
        spread = np.subtract(*np.quantile(np.concatenate([self.low, self.high]), [0.9, 0.1]))
        return float((high - low <= NEAR_OF_SPREAD * spread).mean())


def orders(
    table: pd.DataFrame, schema: Schema, among: Sequence[str], n_units: int, known: Sequence[Formula] = ()
) -> list[Inequality]:
    """The inequalities, without those that follow from others or from formulas. `table`: *Sensitive*."""
    kept = {name: schema.columns[name] for name in among if schema.columns[name].is_quantity}
    places = {name: column.positions(table[name]) for name, column in kept.items()}
    implied = {pair for formula in known for pair in itertools.permutations(formula.columns, 2)}
    share = n_units / max(len(table), 1)
    found: dict[tuple[str, str], _Order] = {}
    arrows: set[tuple[str, str]] = set()
    for low, high in _pairs(kept):
        order = _order(places, low, high, kept)
        if order is None:
            continue
        if (low, high) in implied:
            arrows.add((low, high))
        elif _is_law(order, low, high, kept, share):
            found[low, high] = order
    arrows |= found.keys()
    new = {pair: order for pair, order in found.items() if not _follows(*pair, arrows, kept)}
    return [_inequality(low, high, order) for (low, high), order in new.items()]


def _pairs(kept: Mapping[str, Column]) -> Iterator[tuple[str, str]]:
    """Columns that can be compared: numbers, times with a zone, times without, days beside times in UTC."""
    times = {name: column for name, column in kept.items() if column.is_time}
    zoned = [name for name, column in times.items() if column.zone is not None]
    for names in ([n for n in kept if n not in times], zoned, [n for n in times if n not in zoned]):
        yield from itertools.permutations(names, 2)
    days = [name for name, column in times.items() if column.is_date]
    for day, time in itertools.product(days, zoned):
        if times[time].zone == "UTC":
            yield from ((day, time), (time, day))


def _order(places: Mapping[str, np.ndarray], low: str, high: str, kept: Mapping[str, Column]) -> _Order | None:
    """The order of two columns; `None` where a row has it otherwise, or nothing tells them apart."""
    of_days = compares_days(Inequality(low=low, high=high), kept)
    for by_day in (of_days, *([True] if _days_beside_times(places, low, high, kept) else [])):
        one, other = (on_one_line(places[name], kept[name], by_day=by_day) for name in (low, high))
        if np.any(one > other):  # false where either is missing
            continue
        both = ~(np.isnan(one) | np.isnan(other))
        one, other = one[both], other[both]
        if len(one) and not np.array_equal(one, other):
            return _Order(one, other, by_day=by_day and not of_days)
        return None
    return None


def _days_beside_times(places: Mapping[str, np.ndarray], low: str, high: str, kept: Mapping[str, Column]) -> bool:
    """True if one of two times is always midnight, and stands for a day."""
    columns = [kept[low], kept[high]]
    if not all(column.is_time and not column.is_date and column.zone in (None, "UTC") for column in columns):
        return False
    days = [not np.any(np.mod(places[name][~np.isnan(places[name])], DAY)) for name in (low, high)]
    return days[0] != days[1]


def _is_law(order: _Order, low: str, high: str, kept: Mapping[str, Column], share: float) -> bool:
    """True if chance explains an order badly enough."""
    n_units = share * len(order.low)
    if order.broken < max(LEAST_BROKEN, ENOUGH / n_units):
        return False
    if kept[low].is_time:
        return True  # times are all of one unit, and what precedes what is hardly ever chance
    return one_unit(low, high, kept) and _is_limit(order, kinship(low, high), n_units)


def _is_limit(order: _Order, kin: Kinship, n_units: float) -> bool:
    """True if two numbers come close enough to their order, or are named as the two ends of one thing."""
    if kin.ends:
        return True
    if kin.word:
        return order.near() >= max(LEAST_NEAR_OF_KIN, ENOUGH_OF_KIN / n_units)
    n_values = min(len(np.unique(order.low)), len(np.unique(order.high)))
    return n_values >= LEAST_VALUES and order.near() >= max(LEAST_NEAR, ENOUGH / n_units)


def _follows(low: str, high: str, arrows: Collection[tuple[str, str]], kept: Mapping[str, Column]) -> bool:
    """True if other orders lead from one column to the other, over columns that are never missing."""
    reached, waiting = {low}, [low]
    while waiting:
        at = waiting.pop()
        for one, other in arrows:
            if one != at or other in reached or (one, other) == (low, high):
                continue
            if other == high:
                return True
            if not kept[other].missing:
                reached.add(other)
                waiting.append(other)
    return False


def _inequality(low: str, high: str, order: _Order) -> Inequality:
    reason = f"every row keeps it, and about {percent(order.broken)} of rows with shuffled columns would not"
    return Inequality(low=low, high=high, by_day=order.by_day, proposed=reason)


MOST_COLUMNS = 60  # numeric columns beyond these are not looked at: their triples are too many
FIRST_ROWS, FIRST_ROWS_EACH = 200, 8
"""Rows of the first look: spread evenly, and of the largest magnitudes of each column."""
LEAST_VALUES_OF_OPERANDS = 5  # distinct values of each column
DIGITS_OF_FACTORS = 4  # significant digits of the factor of a multiple
_FORMULA_REASON = "gives the column in every row"


@dataclass(frozen=True)
class _Numbers:
    """Columns of numbers: all rows, shape (n_columns, n), and which of them to look at first.

    `enough` is how many rows must say something: those in which a result differs from zero and from its operands.
    """

    names: tuple[str, ...]
    all: np.ndarray
    first: np.ndarray
    slack: np.ndarray
    enough: float


def formulas(table: pd.DataFrame, schema: Schema, n_units: int) -> list[Formula]:
    """The formulas, at most one for each column and one for every three columns.

    None of them computes the target, or the order of an entity's rows.
    `table`: *Sensitive*. Conforming to the schema.
    """
    numbers = _numbers(table, schema, n_units)
    if numbers is None:
        return []
    found: list[Formula] = []
    used: set[frozenset[str]] = set()
    for formula in itertools.chain(_multiples(numbers), _results(numbers)):
        about = frozenset(formula.columns)
        new = about not in used and formula.column not in (schema.target, schema.order)
        if new and _fits(found, formula) and not broken(table, formula, schema.columns).any():
            used.add(about)
            found.append(formula)
    return found


def _fits(found: list[Formula], formula: Formula) -> bool:
    """True if the formula computes a column of its own, from none that is a multiple of another or needs it."""
    computed = {known.column for known in found}
    copies = {known.column for known in found if len(known.operands) == 1}
    if formula.column in computed or not copies.isdisjoint(formula.operands):
        return False
    try:
        in_order({each.column: each.operands for each in [*found, formula]})
    except ValueError:
        return False
    return True


def _numbers(table: pd.DataFrame, schema: Schema, n_units: int) -> _Numbers | None:
    positions = {}
    for name in schema.learned:
        column = schema.columns[name]
        if column.is_number and not column.is_weight:
            values = column.positions(table[name])
            if len(np.unique(values[~np.isnan(values)])) >= LEAST_VALUES_OF_OPERANDS:
                positions[name] = values
    names = tuple(positions)[:MOST_COLUMNS]
    if len(names) < 2:
        return None
    of_all = np.stack([positions[name] for name in names])
    steps = [schema.columns[name].unit or 0.0 for name in names]
    enough = ENOUGH * len(table) / n_units
    return _Numbers(names, of_all, of_all[:, _first_rows(of_all)], np.array(steps)[:, None] / 2, enough)


def _first_rows(numbers: np.ndarray) -> np.ndarray:
    spread = np.linspace(0, numbers.shape[1] - 1, FIRST_ROWS).astype(np.int64)
    # Columns are mostly zero at times, and zeros fit many formulas.
    largest = np.argsort(-np.nan_to_num(np.abs(numbers)), axis=1)[:, :FIRST_ROWS_EACH]
    return np.unique(np.concatenate([spread, largest.ravel()]))


def _results(numbers: _Numbers) -> Iterator[Formula]:
    """Formulas of two operands that hold in the first rows, the plainest first."""
    order = range(len(numbers.names))
    for symbol, operation, pairs in (
        ("+", np.add, itertools.combinations), ("*", np.multiply, itertools.combinations),
        ("-", np.subtract, itertools.permutations), ("/", np.divide, itertools.permutations),
    ):  # fmt: skip
        for one, other in pairs(order, 2):
            with np.errstate(all="ignore"):
                made = operation(numbers.first[one], numbers.first[other])
            for given in _matches(numbers, made):
                if given not in (one, other) and _apart(numbers, given, one, other):
                    left, right = (written(numbers.names[operand]) for operand in (one, other))
                    yield _formula(numbers.names[given], f"{left} {symbol} {right}")


def _multiples(numbers: _Numbers) -> Iterator[Formula]:
    """Columns that are another one, or a plain multiple of it, in the first rows."""
    for one, given in itertools.combinations(range(len(numbers.names)), 2):
        values, results = numbers.first[one], numbers.first[given]
        largest = int(np.argmax(np.nan_to_num(np.abs(values))))
        with np.errstate(all="ignore"):
            factor = float(f"{results[largest] / values[largest]:.{DIGITS_OF_FACTORS}g}")
        plain = np.isfinite(factor) and factor and np.count_nonzero(numbers.all[given]) >= numbers.enough
        if plain and given in _matches(numbers, factor * values):
            name = written(numbers.names[one])
            yield _formula(numbers.names[given], name if factor == 1 else f"{factor:.12g} * {name}")


def _matches(numbers: _Numbers, made: np.ndarray) -> np.ndarray:
    """Columns that the results may be, up to their precision, missing where they are."""
    with np.errstate(all="ignore"):
        made = np.where(np.isfinite(made), made, np.nan)
        # Beside columns of tiny numbers, the tolerance of a formula holds for anything.
        scale = np.minimum(1.0, np.nanmax(np.abs(numbers.first), axis=1, keepdims=True))
        near = np.abs(numbers.first - made) <= 1.001 * numbers.slack + 1e-8 * np.maximum(scale, np.abs(made))
    return np.flatnonzero((near | (np.isnan(numbers.first) & np.isnan(made))).all(axis=1))


def _apart(numbers: _Numbers, given: int, one: int, other: int) -> bool:
    """True if the column is often enough neither zero nor one of its operands."""
    values = numbers.all[given]
    with np.errstate(invalid="ignore"):
        return all(
            int(np.count_nonzero(values != against)) >= numbers.enough
            for against in (np.zeros(1), numbers.all[one], numbers.all[other])
        )


def _formula(column: str, expression: str) -> Formula:
    return Formula(column=column, expression=expression, proposed=_FORMULA_REASON)
