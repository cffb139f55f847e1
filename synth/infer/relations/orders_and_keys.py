"""Rules that all rows keep, and that chance does not explain: orders, fixed combinations, keys, and usual categories.

That no row breaks a rule is weak evidence: many rows of shuffled columns would have to break it.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from synth.constraints import FixedCombinations, Inequality, Unique
from synth.constraints.expression import written
from synth.constraints.kinds import Value
from synth.domain.relations import compares_days
from synth.infer.relations.line_columns import DAY, Lines, needed
from synth.schema import Schema
from synth.schema.kinds.modeled import Modeled

ENOUGH = 30.0  # rows (or pairs of rows) that would break a rule by chance where a table that keeps it says something
LEAST_BROKEN = 0.1  # share of shuffled rows that would break a rule: below it, other facts nearly say it already
FIRST_ROWS = 2_000  # rows that are looked at before all of them


def percent(share: float) -> str:
    """A share in words, to the percent.

    >>> percent(0.342), percent(0.0004)
    ('34%', 'less than 1%')
    """
    return f"{share:.0%}" if share >= 0.005 else "less than 1%"


# --- orders ----------------------------------------------------------------------------------------------------------

NEAR, NEAR_OF_SPREAD = 0.1, 0.02
"""Distance that is near: as a share of the higher of two amounts; else of the spread of both columns."""
LEAST_NEAR, LEAST_VALUES = 0.05, 10
"""Share of rows near the limit; and distinct values of each number: with fewer they are codes, which have no unit."""


def find_orders(
    lines: Lines, among: Collection[str], implied: Collection[tuple[str, str]]
) -> list[tuple[Inequality, bool]]:
    """The orders of pairs, without those that follow from others, and whether each is a law rather than chance.
    `implied`: pairs that a formula holds together.
    """
    names = [name for name in among if name in lines.computable]
    orders: list[tuple[Inequality, bool]] = []
    after: dict[str, set[str]] = {name: set() for name in names}
    for low, high in itertools.permutations(names, 2):
        known = _find_order(lines, low, high) if lines.comparable(low, high) else None
        if known is not None:
            is_implied = (low, high) in implied
            orders += [] if is_implied else [known]
            if is_implied or known[1]:
                after[low].add(high)
    missing = {name for name in names if lines.column(name).missing}

    def follows(low: str, high: str) -> bool:
        """True if other orders lead from one column to the other, over columns that are never missing."""
        others = {name: highs for name, highs in after.items() if name not in missing}
        return high in needed({low}, {**others, low: after[low] - {high}})

    return [order for order in orders if not follows(order[0].low, order[0].high)]


def _find_order(lines: Lines, low: str, high: str) -> tuple[Inequality, bool] | None:
    """The order of two columns; `None` where a row has it otherwise, or nothing tells them apart."""
    of_days = lines.is_time(low) and compares_days(Inequality(low=low, high=high), lines.schema.columns)
    for by_day in (of_days, *([True] if lines.is_time(low) and _is_day_beside_time(lines, low, high) else [])):
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
            order = Inequality(low=low, high=high, by_day=by_day and not of_days)
            return _judge_order(lines, order, low_line[both], high_line[both])
    return None


def _is_day_beside_time(lines: Lines, low: str, high: str) -> bool:
    """True if one of two times is always midnight, and stands for a day."""
    if any(lines.column(name).is_date or lines.column(name).zone not in (None, "UTC") for name in (low, high)):
        return False
    known = [values[~np.isnan(values)] for values in (lines.positions[low], lines.positions[high])]
    return bool(np.any(known[0] % DAY)) != bool(np.any(known[1] % DAY))


def _judge_order(lines: Lines, order: Inequality, low: np.ndarray, high: np.ndarray) -> tuple[Inequality, bool] | None:
    broken = float(np.searchsorted(np.sort(high), low, side="left").mean()) / len(low)
    n_units = len(low) * lines.n_all_units / max(len(lines.units), 1)
    if broken < max(LEAST_BROKEN, ENOUGH / n_units):
        return None
    # Times are all of one unit, and what precedes what is hardly ever chance.
    is_law = lines.is_time(order.low) or (
        lines.step(order.low) == lines.step(order.high)
        and min(len(np.unique(low)), len(np.unique(high))) >= LEAST_VALUES
        and _share_near(low, high) >= max(LEAST_NEAR, ENOUGH / n_units)
    )
    reason = f"every row keeps it, and about {percent(broken)} of rows with shuffled columns would not"
    return order.model_copy(update={"proposed": reason}), is_law


def _share_near(low: np.ndarray, high: np.ndarray) -> float:
    """The share of rows close to the limit: two numbers that merely lie apart thin out before they meet.

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


# --- combinations of values ------------------------------------------------------------------------------------------

MOST_VALUES, MOST_LISTED = 1_000, 2_000
"""Values of a column, and combinations, at most: nobody looks through longer lists."""
FEW_NUMBERS = 100  # numbers with more distinct values than this are measured, not coded
MORE_BROKEN, MOST_OCCURRING, SURE_OCCURRING = 0.2, 0.6, 0.5
"""Share of shuffled rows that would break it, and share of combinations that occur, where neither column tells the
other; of more than the last, none may be in doubt."""
MOST_UNSEEN = 1e-3  # share of further rows that may hold a combination not seen yet: what was seen once estimates it
MOST_ALONE = 0.01
"""That share where one column tells the other: a value seen once says nothing of that, and nothing against it."""
EXPECTED = 5.0
"""Rows with a combination among shuffled columns, for its absence to say something: with fewer, it is chance."""
FEW_ROWS = 10
"""Rows with a combination, below which others like it may not have come up: a household answers alike many times."""
LEAST_ROWS_EACH = 5  # rows for each value of a telling column, and for each combination there could be, on average

Coded = tuple[np.ndarray, pd.Index]  # the number of each row's value among the distinct ones, -1 where missing; these


class _Pair(NamedTuple):
    """Two columns, whether each tells the other, and what speaks for a list where none does."""

    names: tuple[str, str]
    tells: tuple[bool, bool]
    reason: str


def code(series: pd.Series) -> Coded:
    codes, values = pd.factorize(series, sort=True)
    return codes, pd.Index(values)


def find_combinations(
    table: pd.DataFrame, schema: Schema, among: Sequence[str], units: np.ndarray
) -> list[FixedCombinations]:
    """The fixed combinations: one for columns that tell each other, one for each column that tells one of these.
    `units`: the entity of each row as a code from 0: rows of one that hold the same values are one piece of evidence.
    """
    columns = {name: schema.columns[name] for name in among}
    reals = {n for n, column in columns.items() if column.is_number and not (column.is_whole or column.is_weight)}
    numbers = reals | {name for name, column in columns.items() if column.is_whole}
    # Reals come last: they are told, and tell nothing.
    ranked = sorted((n for n in among if n in numbers or columns[n].is_categorical), key=lambda name: name in reals)
    codes = {name: code(table[name]) for name in ranked}
    most = {name: FEW_NUMBERS if name in numbers else MOST_VALUES for name in codes}
    codes = {name: known for name, known in codes.items() if 2 <= len(known[1]) <= most[name]}
    pairs = []
    for names in itertools.combinations(codes, 2):
        # Numbers that go along leave out many combinations, and none of that is a rule.
        if names[1] in reals and not columns[names[0]].is_categorical:
            continue
        pair = _find_pair(names, codes, numbers.isdisjoint(names), units)
        pairs += [pair] if pair is not None and (pair.tells[0] or names[1] not in reals) else []
    rules = []
    for group, reason in _group(pairs):
        rows = table[list(group)].dropna().drop_duplicates()
        while len(group) > 1 and any(rows[name].nunique() < len(codes[name][1]) for name in group):
            # A value that only rows with another one missing have would be in no list.
            emptiest = min(group, key=lambda name: int((codes[name][0] >= 0).sum()))
            group = tuple(name for name in group if name != emptiest)
            rows = table[list(group)].dropna().drop_duplicates()
        if len(group) < 2:
            continue
        values = sorted(zip(*(rows[name].tolist() for name in group), strict=True))
        rules.append(FixedCombinations(columns=group, combinations=tuple(values), proposed=reason))
    whole = {name for name, (rows, _) in codes.items() if rows.min() >= 0}
    for rule in [rule for rule in rules[::-1] if len(rule.columns) == 2 and not rule.determined]:
        others = [other for other in rules if other is not rule]
        rules = others if _follows(rule, others, whole) else rules
    return rules


def _follows(rule: FixedCombinations, others: Sequence[FixedCombinations], whole: Collection[str]) -> bool:
    """True if two other lists say as much: what each column goes with of a third, which is never missing."""
    listed = {other.columns: {*other.combinations} for other in others if len(other.columns) == 2}
    listed |= {(b, a): {(y, x) for x, y in pairs} for (a, b), pairs in listed.items()}
    first, second = rule.columns
    for middle in whole:
        if (first, middle) in listed and (middle, second) in listed:
            after: dict[Value, set[Value]] = {}
            for y, z in listed[middle, second]:
                after.setdefault(y, set()).add(z)
            if {(x, z) for x, y in listed[first, middle] for z in after.get(y, ())} <= {*rule.combinations}:
                return True
    return False


def _find_pair(names: tuple[str, str], codes: dict[str, Coded], codes_only: bool, units: np.ndarray) -> _Pair | None:
    """The evidence on two columns; `None` where they do not go together."""
    first, second = (codes[name] for name in names)
    for n_rows in (FIRST_ROWS, len(units)):
        counts = _count(first, second, n_rows)
        n_listed = int((counts > 0).sum())
        # Each value of a telling column goes with one value of the other.
        tells = tuple(bool((counts > 0).sum(axis=axis).max() <= 1) for axis in (1, 0))
        # More rows only add combinations: what the first ones deny, all deny.
        sparse = codes_only and n_listed <= MOST_OCCURRING * counts.size
        if n_listed == 0 or n_listed > MOST_LISTED or not (any(tells) or sparse):
            return None
    result = _judge_pair(names, counts, tells, sparse)
    if result is None or units.max() + 1 == len(units):
        return result
    return _judge_pair(names, _count(first, second, len(units), units), tells, sparse)


def _judge_pair(names: tuple[str, str], counts: np.ndarray, tells: tuple[bool, ...], sparse: bool) -> _Pair | None:
    """The evidence in counts; `None` where they are too few, or shuffled columns would show it, too."""
    n, n_listed = int(counts.sum()), int((counts > 0).sum())
    if (counts == 1).sum() > (MOST_ALONE if any(tells) else MOST_UNSEEN) * n:
        return None
    known = tells[0] and _are_enough(counts), tells[1] and _are_enough(counts.T)
    by_chance = np.outer(counts.sum(axis=1) / n, counts.sum(axis=0) / n)
    broken = float(by_chance[counts == 0].sum())
    unsure = float(by_chance[(counts == 0) & (by_chance * n < EXPECTED)].sum() + counts[counts < FEW_ROWS].sum() / n)
    most = MOST_UNSEEN if n_listed <= SURE_OCCURRING * counts.size else 0.0
    rare = sparse and broken >= MORE_BROKEN and unsure <= most and n >= LEAST_ROWS_EACH * counts.size
    if not rare and not (any(known) and broken >= LEAST_BROKEN):
        return None
    reason = (
        f"{n_listed} of {counts.size} combinations occur, and about {percent(broken)} of rows with shuffled columns "
        "would hold another"
    )
    return _Pair(names, known, reason)


def _count(first: Coded, second: Coded, n_rows: int, units: np.ndarray | None = None) -> np.ndarray:
    """Counts of the first rows, or of all units, by pair of values; a row with a missing value has no pair."""
    rows, columns = first[0][:n_rows], second[0][:n_rows]
    both = (rows >= 0) & (columns >= 0)
    shape = len(first[1]), len(second[1])
    size = shape[0] * shape[1]
    cells = rows[both] * shape[1] + columns[both]
    if units is not None:
        cells = np.unique(units[both] * size + cells) % size
    return np.bincount(cells, minlength=size).reshape(shape)


def _are_enough(counts: np.ndarray) -> bool:
    """True if the values of the first column come often enough for what they tell to mean something."""
    return bool(counts.sum() >= LEAST_ROWS_EACH * np.count_nonzero(counts.sum(axis=1)))


def _group(pairs: list[_Pair]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The groups of columns to list, each with its reason."""
    head = _heads(pairs)
    groups: dict[str, list[str]] = {}
    for name, first in head.items():
        groups.setdefault(first, []).append(name)
    for members in groups.values():
        if len(members) > 1:
            yield tuple(members), "each of them tells the others in every row"
    between: dict[frozenset[str], tuple[tuple[str, str], _Pair]] = {}
    for pair in pairs:
        first, second = (head[name] for name in pair.names)
        if first != second:
            ends = (second, first) if pair.tells == (False, True) else (first, second)  # the one that tells comes first
            between.setdefault(frozenset(ends), (ends, pair))
    arrows = {ends for ends, pair in between.values() if any(pair.tells)}
    for (telling, told), pair in between.values():
        if not any(pair.tells):
            yield (telling, told), pair.reason
        elif not any((telling, middle) in arrows and (middle, told) in arrows for _, middle in arrows):
            yield (telling, told), f"{telling!r} tells {told!r} in every row"


def _heads(pairs: list[_Pair]) -> dict[str, str]:
    """For every column the first of those that it tells and is told by."""
    head = {name: name for pair in pairs for name in pair.names}
    for pair in pairs:
        if all(pair.tells):
            ours, theirs = (head[name] for name in pair.names)
            head = {name: ours if first == theirs else first for name, first in head.items()}
    return head


# --- usual categories ------------------------------------------------------------------------------------------------

MOST_UNUSUAL, MOST_OF_CHANCE = 0.02, 0.1
"""Share of the rows that break what is usual, also as a share of those that the commonest category would miss."""
PARTS_OF_TIMES = ("month({})", "weekday({})", "hour({})", "12 * year({0}) + month({0})")


def usual_categories(
    table: pd.DataFrame, lines: Lines, among: Sequence[str], listed: Sequence[FixedCombinations],
    given: Collection[str] = (),
) -> dict[str, Modeled]:  # fmt: skip
    """Categories that another column, or a part of a time, nearly always says: which does, and what; none of given."""
    schema, units = lines.schema, lines.units
    known = {pair for rule in listed for pair in rule.determined}
    codes = {name: code(table[name]) for name in among if schema.columns[name].is_categorical}
    codes = {name: each for name, each in codes.items() if 2 <= len(each[1]) <= MOST_VALUES}
    follows = {name for dependent, name in known if (name, dependent) not in known}
    times = _code_parts_of_times(lines)
    sources = {**codes, **{text: each for text, (_, each) in times.items()}}
    ranked = []
    for by, name in itertools.product(sources, codes):
        if by == name or name in {schema.target, *given, *follows} or (by, name) in known:
            continue
        if len(sources[by][1]) < len(codes[name][1]):
            continue
        if (name in schema.constant_in_entity) > (times.get(by, (by,))[0] in schema.constant_in_entity):
            continue
        for n_rows in (FIRST_ROWS, len(units)):
            counts = _count(sources[by], codes[name], n_rows)
            if not _are_usual(counts, slack=2.0 if n_rows < len(units) else 1.0):
                break
        else:
            alone = units.max() + 1 == len(units)
            of_units = counts if alone else _count(sources[by], codes[name], len(units), units)
            if _are_usual(of_units) and _are_enough(of_units):
                ranked.append((_unusual_share(counts), len(sources[by][1]), by, name, counts))
    usual: dict[str, Modeled] = {}
    for unusual, _, by, name, counts in sorted(ranked, key=lambda each: each[:2]):
        if name in usual or by in usual or any(each.by == name for each in usual.values()):
            continue
        seen, values = np.flatnonzero(counts.sum(axis=1)), (sources[by][1], codes[name][1])
        pairs = zip(values[0][seen].tolist(), values[1][counts[seen].argmax(axis=1)].tolist(), strict=True)
        told: dict[str, Any] = {"expression": by, "unit": "day"} if by in times else {"by": by}
        reason = f"so in {100 * (1 - unusual):.3g}% of the rows"
        usual[name] = Modeled(**told, usual=tuple(pairs), proposed=reason)
    return usual


def _code_parts_of_times(lines: Lines) -> dict[str, tuple[str, Coded]]:
    """Months, weekdays and hours of times as expressions: of which column, and their codes."""
    parts = {}
    for name in lines.positions:
        if lines.is_time(name) and lines.column(name).zone in (None, "UTC"):
            for text in (part.format(written(name)) for part in PARTS_OF_TIMES):
                coded = code(pd.Series(lines.evaluate(text, "day")).astype("Int64"))
                if 1 < len(coded[1]) <= MOST_VALUES:
                    parts[text] = name, coded
    return parts


def _are_usual(counts: np.ndarray, slack: float = 1.0) -> bool:
    missed = 1 - float(counts.sum(axis=0).max()) / max(float(counts.sum()), 1.0)
    most = slack * min(MOST_UNUSUAL, MOST_OF_CHANCE * missed)
    return missed * slack >= LEAST_BROKEN and _unusual_share(counts) <= most


def _unusual_share(counts: np.ndarray) -> float:
    return 1 - float(counts.max(axis=1).sum()) / max(float(counts.sum()), 1.0)


# --- keys ------------------------------------------------------------------------------------------------------------

MOST_ENTITIES = 0.8  # share of entities that may hold one value of their key, for drawn rows to be dealt to them


def find_keys(table: pd.DataFrame, schema: Schema, among: Sequence[str]) -> list[Unique]:
    """The keys of one and of two columns, none of which holds another: by chance their values would repeat."""
    kept = {name: schema.columns[name] for name in among if not schema.columns[name].missing}
    names = [name for name, c in kept.items() if c.is_categorical or c.is_whole or c.is_time]
    codes = {n: code(pd.Series(kept[n].instants(table[n])) if kept[n].is_time else table[n])[0] for n in names}
    alone = [name for name in names if codes[name].max() + 1 == len(table)]
    rest = [name for name in names if name not in alone and codes[name].max() > 0]
    single = [(name,) for name in alone if _would_repeat(len(table), schema, name)]
    if schema.entity is not None:
        codes[schema.entity] = code(table[schema.entity])[0]
        rest = [schema.entity, *rest]
    n_pairs = len(table) * (len(table) - 1)
    counts = {name: np.bincount(codes[name]).astype(np.float64) for name in rest}
    alike = {name: float((n * (n - 1)).sum() / n_pairs) for name, n in counts.items()}  # chance of two rows
    likely = {pair: math.prod(alike[name] for name in pair) for pair in itertools.combinations(rest, 2)}
    enough = ENOUGH / (n_pairs / 2)
    pairs = [pair for pair, chance in likely.items() if chance >= enough and _is_key(*(codes[name] for name in pair))]
    # Rows are dealt to entities for one key: for the one that says most.
    # No value may stand in nearly all entities, as the first visit of each patient: a few more rows would find no room.
    most = MOST_ENTITIES * (0 if schema.entity is None else int(codes[schema.entity].max()) + 1)
    dealt = (pair for pair in pairs if schema.entity in pair and counts[pair[1]].max() <= most)
    within = sorted(dealt, key=lambda pair: -likely[pair])
    keys = [*single, *within[:1], *(pair for pair in pairs if schema.entity not in pair)]
    reason = "no row repeats another, and by chance many would"
    return [Unique(columns=columns, proposed=reason) for columns in keys]


def _would_repeat(n: int, schema: Schema, name: str) -> bool:
    """True if values spread evenly between the bounds would repeat."""
    column = schema.columns[name]
    if not (column.is_whole or column.is_time):
        return True
    low, high = column.ends
    n_values = (high - low) / (column.unit or 1.0) + 1
    # Histories are drawn row after row: the last ones would end for want of a value that is left.
    has_room = schema.order is None or n_values >= 2 * n
    return bool(has_room and n**2 / 2 / n_values >= ENOUGH)


def _is_key(first: np.ndarray, second: np.ndarray) -> bool:
    """True if two columns together never repeat; four times as many rows are looked at each time."""
    n, width = len(first), int(second.max()) + 1
    if (int(first.max()) + 1) * width < n:
        return False
    n_rows = FIRST_ROWS
    while True:
        together = np.sort(first[:n_rows].astype(np.int64) * width + second[:n_rows])
        if np.any(together[1:] == together[:-1]):
            return False
        if n_rows >= n:
            return True
        n_rows *= 4
