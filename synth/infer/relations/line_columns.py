"""What the search sees and writes: positions of numbers and times on a line, and expressions that may give them."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from synth.constraints.expression import Unit, evaluate, names, parse
from synth.constraints.kinds import numbers_of
from synth.row_order import histories_of
from synth.schema import Schema
from synth.schema.kinds import Column

ROWS = 3_000  # that are looked at; what is claimed of all rows is checked on all
SECONDS: dict[Unit, float] = {"week": 604_800.0, "day": 86_400.0, "hour": 3_600.0, "minute": 60.0, "second": 1.0}
LARGEST = 1e100  # columns beyond it are left aside: their squares and products overflow
FINE = 1e-4  # of the standard deviation of a continuous column: what bits are counted in
DAY, WEEK = SECONDS["day"], SECONDS["week"]
MONDAY = 4 * DAY  # the first one after 1970 began, in seconds


class Lines:
    """*Sensitive*. Columns with positions: numbers, categories that stand for some, times in seconds since 1970."""

    def __init__(self, frame: pd.DataFrame, schema: Schema, among: Collection[str] | None = None) -> None:
        self.schema = schema
        columns = {name: schema.columns[name] for name in schema.learned if among is None or name in among}
        self.positions: dict[str, np.ndarray] = {}
        for name, column in columns.items():
            if column.is_line:
                values = column.ordinary(frame[name])
                if not np.any(np.abs(values) > LARGEST):
                    self.positions[name] = values * column.per_position / 1e6 if column.is_time else values
            elif column.is_categorical and (numbers := numbers_of(column.levels)) is not None:
                self.positions[name] = frame[name].map(numbers).to_numpy(dtype=np.float64, na_value=np.nan)
        # Those that an expression may give, rather than be about.
        self.computable = [n for n in self.positions if self.column(n).is_line and not self.column(n).is_weight]
        rng, self.previous = np.random.default_rng(0), None
        if schema.entity is None:
            self.units = np.arange(len(frame))
            self.rows = rng.permutation(len(frame))[:ROWS]
        else:
            self.units = pd.factorize(frame[schema.entity])[0]
            order = rng.permutation(int(self.units.max(initial=0)) + 1)[self.units]
            # Whole entities, in a random order.
            self.rows = np.argsort(order, kind="stable")[:ROWS]
        self.n_all_units = len(np.unique(self.units))
        if schema.entity is not None and schema.order is not None:
            after, before = histories_of(frame, schema).pairs
            self.previous = np.full(len(frame), -1)
            self.previous[after] = before
        self.sample = {name: values[self.rows] for name, values in self.positions.items()}
        self.categories = {name: frame[name] for name, column in columns.items() if column.is_categorical}
        # Those of the sampled rows, -1 where missing.
        self.codes = {
            name: pd.factorize(values.iloc[self.rows], sort=True)[0] for name, values in self.categories.items()
        }

    def comparable(self, first: str, other: str) -> bool:
        """True of two numbers, and of two times on one line: both with a zone or without, or a day beside UTC."""
        if self.is_time(first) != self.is_time(other):
            return False
        zones = [self.column(name).zone for name in (first, other)]
        has_days = any(self.column(name).is_date for name in (first, other))
        return (zones[0] is None) == (zones[1] is None) or (has_days and set(zones) == {None, "UTC"})

    def column(self, name: str) -> Column:
        return self.schema.columns[name]

    def is_time(self, name: str) -> bool:
        return self.column(name).is_time

    def step(self, name: str) -> float:
        """Distance between neighboring values; 0 for a continuous column."""
        column: Any = self.column(name)
        return column.micros / 1e6 if column.is_time else column.unit or 0.0 if column.is_line else 1.0

    def lattice(self, name: str) -> float:
        """Distance between nearly all values; of a continuous column, one that is fine enough to compare bits."""
        column: Any = self.column(name)
        fine = FINE * float(np.nanstd(self.sample[name]))
        return self.step(name) if column.is_time else column.spacing or fine or 1.0

    def coded(self, name: str) -> pd.Categorical:
        """The categories of the sampled rows, by all that there are."""
        return pd.Categorical(self.categories[name].iloc[self.rows], categories=self.column(name).levels)

    def before(self, name: str) -> np.ndarray:
        """The value of the row before in the same entity, of all rows; NaN in its first one."""
        assert self.previous is not None
        return np.where(self.previous >= 0, self.positions[name][self.previous], np.nan)

    def evaluate(
        self, expression: str, unit: Unit | None, name: str | None = None, rows: Any = slice(None), *,
        numbers: Mapping[str, Mapping[Any, float]] = {},
    ) -> np.ndarray:  # fmt: skip
        """The values of an expression in some rows; if it gives a column that is a time, in seconds."""
        parsed, per_unit = parse(expression), SECONDS[unit] if unit else 1.0
        added = {n: self.categories[n].map(each).to_numpy(np.float64, na_value=np.nan) for n, each in numbers.items()}
        positions = self.positions | added

        def scaled(other: str, values: np.ndarray) -> np.ndarray:
            return np.asarray(values[rows] / (per_unit if self.is_time(other) else 1.0))

        now = {other: scaled(other, positions[other]) for other in names(parsed)}
        earlier = {other: scaled(other, self.before(other)) for other in names(parsed, before=True)}
        values = np.broadcast_to(evaluate(parsed, now, earlier, unit), len(self.units[rows]))
        return values * per_unit if name is not None and self.is_time(name) else np.asarray(values)


def tolerance(values: np.ndarray, step: float) -> Any:
    """How far a rounded value may be from the exact one."""
    if step:
        return step / 2 * (1 + 1e-6) + 4 * np.spacing(np.abs(values)) + 1e-12 * np.abs(values)
    peak = float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 1.0
    return 1e-9 * np.maximum(min(1.0, peak), np.abs(values))


def needed(operands: Collection[str], parents: Mapping[str, Collection[str]]) -> set[str]:
    """The columns that operands are computed from, by any number of steps, and they themselves."""
    waiting, seen = list(operands), set[str]()
    while waiting:
        at = waiting.pop()
        if at not in seen:
            seen.add(at)
            waiting += set(parents.get(at, ())) - {at}
    return seen


@dataclass(frozen=True, eq=False)
class Term:
    """*Sensitive*. A column, or a view of one or two, as an expression writes it; its values in the sampled rows."""

    text: str
    names: tuple[str, ...]
    values: np.ndarray
    unit: Unit | None = None


Terms = Sequence[tuple[float, Term]]  # with weights in a sum, with exponents in a product


@dataclass(frozen=True, eq=False)
class Candidate:
    """*Sensitive*. An expression that may give a column, and its values in the sampled rows: times in seconds."""

    column: str
    expression: str
    values: np.ndarray
    terms: tuple[tuple[float, Term], ...] = ()
    unit: Unit | None = None
    numbers: Mapping[str, Mapping[Any, float]] = field(default_factory=dict)  # of its categories, by column
    is_product: bool = False  # of its terms, rather than a sum
    is_ratio: bool = False  # the column is looked at as a multiple of it
    is_result: bool = False  # a sum of summands or a product of factors, rather than a part of one
    is_view: bool = False  # a part of a time, or another one cut off: close only where it gives the column exactly

    @property
    def operands(self) -> frozenset[str]:
        return frozenset(name for _, term in self.terms for name in term.names)

    @property
    def parents(self) -> frozenset[str]:
        """The operands in the row itself, rather than in the one before it."""
        return frozenset(names(parse(self.expression))) if self.terms else frozenset()

    @property
    def looks_back(self) -> bool:
        return self.parents < self.operands

    @property
    def about(self) -> frozenset[str]:
        """Its column and operands: of one equation, a column is computed."""
        return self.operands | {self.column}

    @property
    def key(self) -> tuple[str, str, str | None, bool]:
        return self.column, self.expression, self.unit, self.is_ratio


DIGITS = 14  # significant ones of a weight, at most


def shortest(low: float, high: float) -> float:
    """The number of fewest digits between two, or what 1 is divided by one of fewer.

    >>> shortest(0.3481, 0.3522), shortest(-3.0, 9.0), shortest(0.55549, 0.5556)
    (0.35, 0.0, 0.5555555555555556)
    """

    def rounded(low: float, high: float) -> tuple[float, int]:
        middle = float(low + high) / 2
        exponent = math.ceil(math.log10(max(abs(low), abs(high), 1e-300)))
        each = ((round(middle, digits - exponent), digits) for digits in range(DIGITS))
        return next((known for known in each if low <= known[0] <= high), (middle, DIGITS))

    plain, n = rounded(low, high)
    if low * high > 0:
        inverse, fewer = rounded(1 / high, 1 / low)
        return 1 / inverse if fewer + 1 < n else plain
    return plain


def write_sum(terms: Terms, constant: float = 0.0) -> str:
    """
    >>> x, y = Term("x", ("x",), np.zeros(1)), Term("y", ("y",), np.zeros(1))
    >>> write_sum([(-1, x), (2 / 3, y)], 5)
    'y / 1.5 - x + 5'
    """
    text = ""
    for weight, term in sorted(terms, key=lambda each: -math.copysign(1, each[0])):
        size, part = abs(weight), term.text if weight == 1 else wrap(term.text)
        if size != 1 and len(f"{1 / size:.12g}") < len(f"{size:.12g}"):
            part = f"{part} / {1 / size:.12g}"
        elif size != 1:
            part = f"{size:.12g} * {part}"
        text += (f" {'-' if weight < 0 else '+'} " if text else "-" * (weight < 0)) + part
    return text + (f" {'-' if constant < 0 else '+'} {abs(constant):.12g}" if constant else "")


def write_product(terms: Terms, factor: float = 1.0) -> str:
    """
    >>> x, y = Term("1 - x", ("x",), np.zeros(1)), Term("y", ("y",), np.zeros(1))
    >>> write_product([(-1, x), (2, y)], 0.01)
    'y * y / (1 - x) / 100'
    """
    over, under = ([wrap(term.text) for e, term in terms for _ in range(round(sign * e))] for sign in (1, -1))
    if factor < 1 and abs(1 / factor - round(1 / factor)) < 1e-9 / factor:
        under.append(f"{round(1 / factor):.12g}")
    elif factor != 1:
        over.insert(0, f"{factor:.12g}")
    return " / ".join([" * ".join(over) or "1", *under])


def wrap(text: str) -> str:
    return f"({text})" if " - " in text or " + " in text else text
