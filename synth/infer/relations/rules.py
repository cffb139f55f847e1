"""Rules on values that stand together: fixed combinations, of which far fewer occur than could, and keys.

One column may tell another. The values of a key never repeat together, though by chance they would.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from synth.constraints import FixedCombinations, Inequality, Unique
from synth.constraints.expression import written
from synth.domain.constraint_checks import compares_days
from synth.infer.relations.lines import DAY, Lines
from synth.schema import Schema
from synth.schema.kinds.modeled import Modeled

ENOUGH = 30.0  # rows (or pairs of rows) that would break a rule by chance where a table that keeps it says something


def percent(share: float) -> str:
    """A share in words, to the percent.

    >>> percent(0.342), percent(0.0004)
    ('34%', 'less than 1%')
    """
    return f"{share:.0%}" if share >= 0.005 else "less than 1%"


def coded(series: pd.Series) -> tuple[np.ndarray, pd.Index]:
    """The number of each row's value among the distinct ones in order, -1 where missing, and these values.
    `series`: *Sensitive*. A canonical column, shape (n,).
    """
    codes, values = pd.factorize(series, sort=True)
    return codes, pd.Index(values)


def twins(codes: np.ndarray) -> float:
    """The chance that two different rows hold one value.
    `codes`: *Sensitive*. The value of each row as a code from 0, shape (n,), at least two rows.

    >>> twins(np.array([0, 0, 1, 1])), twins(np.arange(9))
    (0.3333333333333333, 0.0)
    """
    counts = np.bincount(codes).astype(np.float64)
    n = len(codes)
    return float((counts * (counts - 1)).sum() / (n * (n - 1)))


MOST_VALUES, MOST_LISTED = 1_000, 2_000
"""Values of a column, and combinations, at most: nobody looks through longer lists."""
FEW_NUMBERS = 100  # numbers with more distinct values than this are measured, not coded
LEAST_BROKEN = 0.1
"""Share of shuffled rows that would hold a combination that never occurs, where one column tells the other."""
MORE_BROKEN, MOST_OCCURRING = 0.2, 0.5
"""That share, and the share of combinations that occur, where neither tells the other."""
MOST_UNSEEN = 1e-3  # share of further rows that may hold a combination not seen yet: what was seen once estimates it
MOST_ALONE = 0.01
"""That share where one column tells the other: a value seen once says nothing of that, and nothing against it."""
EXPECTED = 5.0
"""Rows with a combination among shuffled columns, for its absence to say something: with fewer, it is chance."""
PARTS_OF_TIMES = ("month({})", "weekday({})", "hour({})", "12 * year({0}) + month({0})")
FEW_ROWS = 10
"""Rows with a combination, below which others like it may not have come up: a household answers alike many times."""
FIRST_ROWS = 2_000  # rows that are looked at before all of them
LEAST_ROWS_EACH = 5  # rows for each value of a telling column, and for each combination there could be, on average


@dataclass(frozen=True)
class _Pair:
    """Two columns, whether each tells the other, and the share of shuffled rows that hold what never occurs."""

    names: tuple[str, str]
    tells: tuple[bool, bool]
    broken: float
    n_listed: int
    n_possible: int


def combinations(
    table: pd.DataFrame, schema: Schema, among: Sequence[str], units: np.ndarray
) -> list[FixedCombinations]:
    """The fixed combinations: one for columns that tell each other, one for each column that tells one of these.
    `table`: *Sensitive*. Conforming to the schema.
    `units`: *Sensitive*. The entity of each row as a code from 0, or each row its own, shape (n,): rows of one that
    hold the same values are one piece of evidence.
    """
    columns = {name: schema.columns[name] for name in among}
    reals = {n for n, column in columns.items() if column.is_number and not (column.is_whole or column.is_weight)}
    numbers = reals | {name for name, column in columns.items() if column.is_whole}
    # Reals come last: they are told, and tell nothing.
    ranked = sorted((n for n in among if n in numbers or columns[n].is_categorical), key=lambda name: name in reals)
    codes = {name: coded(table[name]) for name in ranked}
    most = {name: FEW_NUMBERS if name in numbers else MOST_VALUES for name in codes}
    codes = {name: known for name, known in codes.items() if 2 <= len(known[1]) <= most[name]}
    pairs = []
    for names in itertools.combinations(codes, 2):
        # Numbers that go along leave out many combinations, and none of that is a rule.
        if names[1] in reals and not columns[names[0]].is_categorical:
            continue
        pair = _pair(names, codes, numbers.isdisjoint(names), units)
        pairs += [pair] if pair is not None and (pair.tells[0] or names[1] not in reals) else []
    return [_listed(table, names, reason) for names, reason in _together(pairs)]


def _pair(
    names: tuple[str, str], codes: dict[str, tuple[np.ndarray, pd.Index]], codes_only: bool, units: np.ndarray
) -> _Pair | None:
    """The evidence on two columns; `None` where they do not go together."""
    first, second = (codes[name] for name in names)
    for n_rows in (FIRST_ROWS, len(units)):
        counts = _counted(first, second, n_rows)
        n_listed = int((counts > 0).sum())
        tells = _tells(counts), _tells(counts.T)
        # More rows only add combinations: what the first ones deny, all deny.
        sparse = codes_only and n_listed <= MOST_OCCURRING * counts.size
        if n_listed == 0 or n_listed > MOST_LISTED or not (any(tells) or sparse):
            return None
    result = _weighed(names, counts, tells, sparse)
    if result is None or units.max() + 1 == len(units):
        return result
    return _weighed(names, _of_units(first, second, counts, units), tells, sparse)


def _weighed(names: tuple[str, str], counts: np.ndarray, tells: tuple[bool, bool], sparse: bool) -> _Pair | None:
    """The evidence in counts; `None` where they are too few, or shuffled columns would show it, too."""
    n = int(counts.sum())
    if (counts == 1).sum() > (MOST_ALONE if any(tells) else MOST_UNSEEN) * n:
        return None
    tells = tells[0] and _often(counts), tells[1] and _often(counts.T)
    by_chance = np.outer(counts.sum(axis=1) / n, counts.sum(axis=0) / n)
    broken = float(by_chance[counts == 0].sum())
    unsure = float(by_chance[(counts == 0) & (by_chance * n < EXPECTED)].sum() + counts[counts < FEW_ROWS].sum() / n)
    rare = sparse and broken >= MORE_BROKEN and unsure <= MOST_UNSEEN and n >= LEAST_ROWS_EACH * counts.size
    if not rare and not (any(tells) and broken >= LEAST_BROKEN):
        return None
    return _Pair(names, tells, broken, int((counts > 0).sum()), counts.size)


def _counted(first: tuple[np.ndarray, pd.Index], second: tuple[np.ndarray, pd.Index], n_rows: int) -> np.ndarray:
    """Counts of the first rows by pair of values; a row with a missing value has no pair."""
    rows, columns = first[0][:n_rows], second[0][:n_rows]
    both = (rows >= 0) & (columns >= 0)
    shape = len(first[1]), len(second[1])
    cells = rows[both] * shape[1] + columns[both]
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def _of_units(
    first: tuple[np.ndarray, pd.Index], second: tuple[np.ndarray, pd.Index], counts: np.ndarray, units: np.ndarray
) -> np.ndarray:
    """Counts of entities by pair of values."""
    both = (first[0] >= 0) & (second[0] >= 0)
    cells = first[0][both] * counts.shape[1] + second[0][both]
    each = np.unique(units[both] * counts.size + cells) % counts.size
    return np.bincount(each, minlength=counts.size).reshape(counts.shape)


def _tells(counts: np.ndarray) -> bool:
    """True if each value of the first column goes with one value of the second."""
    return bool((counts > 0).sum(axis=1).max() <= 1)


def _often(counts: np.ndarray) -> bool:
    """True if the values of the first column come often enough for that to mean something."""
    return bool(counts.sum() >= LEAST_ROWS_EACH * np.count_nonzero(counts.sum(axis=1)))


def _together(pairs: list[_Pair]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The groups of columns to list, each with its reason."""
    first = _heads(pairs)
    groups: dict[str, list[str]] = {}
    for name, head in first.items():
        groups.setdefault(head, []).append(name)
    for members in groups.values():
        if len(members) > 1:
            yield tuple(members), "each of them tells the others in every row"
    between: dict[frozenset[str], tuple[tuple[str, str], _Pair]] = {}
    for pair in pairs:
        ends = (first[pair.names[0]], first[pair.names[1]])
        if ends[0] != ends[1]:
            between.setdefault(frozenset(ends), (ends, pair))
    arrows = {_arrow(ends, pair) for ends, pair in between.values() if any(pair.tells)}
    for ends, pair in between.values():
        if not any(pair.tells):
            yield ends, _seldom(pair)
            continue
        telling, told = _arrow(ends, pair)
        if not any((telling, middle) in arrows and (middle, told) in arrows for _, middle in arrows):
            yield (telling, told), f"{telling!r} tells {told!r} in every row"


def _seldom(pair: _Pair) -> str:
    return (
        f"{pair.n_listed} of {pair.n_possible} combinations occur, and about {percent(pair.broken)} of rows with "
        "shuffled columns would hold another"
    )


def _arrow(ends: tuple[str, str], pair: _Pair) -> tuple[str, str]:
    """The column that tells the other, and that other."""
    return ends if pair.tells[0] else (ends[1], ends[0])


def _heads(pairs: list[_Pair]) -> dict[str, str]:
    """For every column the first of those that it tells and is told by."""
    head = {name: name for pair in pairs for name in pair.names}
    for pair in pairs:
        if all(pair.tells):
            ours, theirs = (head[name] for name in pair.names)
            head = {name: ours if at == theirs else at for name, at in head.items()}
    return head


def _listed(table: pd.DataFrame, names: tuple[str, ...], reason: str) -> FixedCombinations:
    rows = table[list(names)].dropna().drop_duplicates()
    values = sorted(zip(*(rows[name].tolist() for name in names), strict=True))
    return FixedCombinations(columns=names, combinations=tuple(values), proposed=reason)


MOST_UNUSUAL, MOST_OF_CHANCE = 0.02, 0.1
"""Share of the rows that break what is usual, also as a share of those that the commonest category would miss."""


def usual_categories(
    table: pd.DataFrame, lines: Lines, among: Sequence[str], listed: Sequence[FixedCombinations]
) -> dict[str, Modeled]:
    """Categories that another column, or a part of a time, nearly always says: which does, and what.
    `table`: *Sensitive*.
    """
    schema, units = lines.schema, lines.units
    known = {pair for rule in listed for pair in rule.determined}
    codes = {name: coded(table[name]) for name in among if schema.columns[name].is_categorical}
    codes = {name: each for name, each in codes.items() if 2 <= len(each[1]) <= MOST_VALUES}
    follows = {name for dependent, name in known if (name, dependent) not in known}
    views = _parts_of_times(lines)
    sources = {**codes, **{text: each for text, (_, each) in views.items()}}
    ranked = []
    for by, name in itertools.product(sources, codes):
        if by == name or name == schema.target or name in follows or (by, name) in known:
            continue
        if len(sources[by][1]) < len(codes[name][1]):
            continue
        if (name in schema.constant_in_entity) > (views.get(by, (by,))[0] in schema.constant_in_entity):
            continue
        for n_rows in (FIRST_ROWS, len(units)):
            counts = _counted(sources[by], codes[name], n_rows)
            if not _are_usual(counts, slack=2.0 if n_rows < len(units) else 1.0):
                break
        else:
            of_units = counts if units.max() + 1 == len(units) else _of_units(sources[by], codes[name], counts, units)
            if _are_usual(of_units) and _often(of_units):
                ranked.append((_unusual(counts), len(sources[by][1]), by, name, counts))
    usual: dict[str, Modeled] = {}
    for unusual, _, by, name, counts in sorted(ranked, key=lambda each: each[:2]):
        if name in usual or by in usual or any(each.by == name for each in usual.values()):
            continue
        seen = np.flatnonzero(counts.sum(axis=1))
        pairs = tuple((_value(sources[by][1][int(i)]), _value(codes[name][1][int(counts[i].argmax())])) for i in seen)
        told: dict[str, Any] = {"expression": by, "unit": "day"} if by in views else {"by": by}
        usual[name] = Modeled(**told, usual=pairs, proposed=f"so in {100 * (1 - unusual):.3g}% of the rows")
    return usual


def _parts_of_times(lines: Lines) -> dict[str, tuple[str, tuple[np.ndarray, pd.Index]]]:
    """Months, weekdays and hours of times as expressions: of which column, and their codes."""
    parts: dict[str, tuple[str, tuple[np.ndarray, pd.Index]]] = {}
    for name in lines.positions:
        if lines.is_time(name) and lines.column(name).zone in (None, "UTC"):
            texts = [part.format(written(name)) for part in PARTS_OF_TIMES]
            codes = [coded(pd.Series(lines.evaluate(text, "day")).astype("Int64")) for text in texts]
            parts |= {
                text: (name, each) for text, each in zip(texts, codes, strict=True) if 1 < len(each[1]) <= MOST_VALUES
            }
    return parts


def _are_usual(counts: np.ndarray, slack: float = 1.0) -> bool:
    missed = 1 - float(counts.sum(axis=0).max()) / max(float(counts.sum()), 1.0)
    return missed * slack >= LEAST_BROKEN and _unusual(counts) <= slack * min(MOST_UNUSUAL, MOST_OF_CHANCE * missed)


def _unusual(counts: np.ndarray) -> float:
    return 1 - float(counts.max(axis=1).sum()) / max(float(counts.sum()), 1.0)


def _value(cell: Any) -> Any:
    return cell.item() if hasattr(cell, "item") else cell


FIRST_ROWS_OF_KEYS = 2_000  # rows that are looked at first; then four times as many, until they are all
MOST_ENTITIES = 0.8  # share of entities that may hold one value of their key, for drawn rows to be dealt to them


def keys(table: pd.DataFrame, schema: Schema, among: Sequence[str]) -> list[Unique]:
    """The keys of one and of two columns, none of which holds another. `table`: *Sensitive*."""
    kept = {name: schema.columns[name] for name in among if not schema.columns[name].missing}
    names = [name for name, c in kept.items() if c.is_categorical or c.is_whole or c.is_time]
    codes = {n: coded(pd.Series(kept[n].instants(table[n])) if kept[n].is_time else table[n])[0] for n in names}
    alone = [name for name in names if codes[name].max() + 1 == len(table)]
    rest = [name for name in names if name not in alone and codes[name].max() > 0]
    single = [(name,) for name in alone if _says_something(len(table), schema, name)]
    if schema.entity is not None:
        codes[schema.entity] = coded(table[schema.entity])[0]
        rest = [schema.entity, *rest]
    alike = {name: twins(codes[name]) for name in rest}
    likely = {pair: math.prod(alike[name] for name in pair) for pair in itertools.combinations(rest, 2)}
    enough = ENOUGH / (len(table) * (len(table) - 1) / 2)
    pairs = [pair for pair, chance in likely.items() if chance >= enough and _is_key(*(codes[name] for name in pair))]
    # Rows are dealt to entities for one key: for the one that says most.
    # No value may stand in nearly all entities, as the first visit of each patient: a few more rows would find no room.
    most = MOST_ENTITIES * (0 if schema.entity is None else int(codes[schema.entity].max()) + 1)
    dealt = (pair for pair in pairs if schema.entity in pair and np.bincount(codes[pair[1]]).max() <= most)
    within = sorted(dealt, key=lambda pair: -likely[pair])
    keys = [*single, *within[:1], *(pair for pair in pairs if schema.entity not in pair)]
    return [Unique(columns=columns, proposed=_REASON) for columns in keys]


_REASON = "no row repeats another, and by chance many would"


def _says_something(n: int, schema: Schema, name: str) -> bool:
    """True if values spread evenly between the bounds would repeat."""
    column = schema.columns[name]
    if not (column.is_whole or column.is_time):
        return True
    low, high = column.ends
    unit = column.unit or 1.0
    n_values = (high - low) / unit + 1
    # Histories are drawn row after row: the last ones would end for want of a value that is left.
    has_room = schema.order is None or n_values >= 2 * n
    return bool(has_room and n**2 / 2 / n_values >= ENOUGH)


def _is_key(first: np.ndarray, second: np.ndarray) -> bool:
    """True if two columns together never repeat."""
    n, width = len(first), int(second.max()) + 1
    if (int(first.max()) + 1) * width < n:
        return False
    looked = FIRST_ROWS_OF_KEYS
    while True:
        together = np.sort(first[:looked].astype(np.int64) * width + second[:looked])
        if np.any(together[1:] == together[:-1]):
            return False
        if looked >= n:
            return True
        looked *= 4


LEAST_BROKEN_ORDERS = (
    0.1  # share of shuffled rows that would break an inequality: below it, the bounds nearly say it already
)
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
            return _judge_order(lines, low, high, low_line[both], high_line[both], by_day and not of_days)
    return None


def _days_beside_times(lines: Lines, low: str, high: str) -> bool:
    """True if one of two times is always midnight, and stands for a day."""
    columns = [lines.column(low), lines.column(high)]
    if not all(not column.is_date and column.zone in (None, "UTC") for column in columns):
        return False
    days = [not np.any(np.mod(lines.positions[name][~np.isnan(lines.positions[name])], DAY)) for name in (low, high)]
    return days[0] != days[1]


def _judge_order(
    lines: Lines, low: str, high: str, low_line: np.ndarray, high_line: np.ndarray, by_day: bool
) -> Order | None:
    broken = float(np.searchsorted(np.sort(high_line), low_line, side="left").mean()) / len(low_line)
    n_units = len(low_line) * lines.n_all_units / max(len(lines.units), 1)
    if broken < max(LEAST_BROKEN_ORDERS, ENOUGH / n_units):
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
