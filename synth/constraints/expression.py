"""Arithmetic over columns, as a formula writes it: parsed into a small tree, never run as code.

::

    sum      = product (("+" | "-") product)*
    product  = signed (("*" | "/") signed)*
    signed   = ("-" | "+") signed | number | name | call | "(" sum ")"
    call     = function "(" sum ("," sum)* ")"
    name     = identifier | "`" any text "`"        a backtick within is written twice

Times count as so many of a unit since 1970. Functions: `floor`, `round`; of times `day` (its midnight), `year`,
`month`, `weekday` (Monday 0), `hour`; `before`, the value of a column in the row before, of the same entity; and
`either`, the first of two values, or where it is missing the second. `date` is the day of a year, a month and a day.
`annuity(rate, n)` is what a loan of 1 costs in each of n periods; `growth(rate, n)` what 1 is worth after them.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from synth.errors import nearest

MAX_LENGTH, MAX_NESTING = 500, 20  # characters of an expression and parentheses or signs within each other at most
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)|`(?P<quoted>(?:[^`]|``)+)`"
    r"|(?P<symbol>[-+*/(),]))"
)
Unit = Literal["week", "day", "hour", "minute", "second"]
UNITS: Mapping[str, int] = {
    "week": 604_800 * 10**6, "day": 86_400 * 10**6, "hour": 3_600 * 10**6, "minute": 60 * 10**6, "second": 10**6,
}  # fmt: skip
"""Microseconds of each unit of times."""
BEFORE, EITHER, DATE, CONSTANT, COLUMN = "before", "either", "date", "constant", "column"
OF_INTEREST: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "annuity": lambda rate, n: np.where(rate == 0, 1 / n, rate / -np.expm1(-n * np.log1p(rate))),
    "growth": lambda rate, n: np.exp(n * np.log1p(rate)),
}  # of a rate and a number of periods; each rises or falls in both
_SLACK = 5e-7  # by which a quotient of times may miss a whole number below which it would be cut off
_PLAIN = re.compile(r"[^\W\d]\w*")
_OPERATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, **OF_INTEREST,
}  # fmt: skip


@dataclass(frozen=True)
class Expression:
    """A constant or a column, or what is done with other expressions: an operation or a function."""

    function: str
    arguments: tuple["Expression", ...] = ()
    value: float = 0.0  # of a constant
    name: str = ""  # of a column


@lru_cache(maxsize=1000)
def parse(text: str) -> Expression:
    """The expression that a text writes.

    >>> parse("`capital-gain` - 2 * loss") == parse("`capital-gain` - (2 * loss)")
    True
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"an expression has at most {MAX_LENGTH} characters; shorten it, or use a second formula")
    reading = _Reading(text)
    parsed = reading.sum(0)
    if reading.kind != "end":
        raise reading.unexpected("an operator (+ - * /) or the end")
    return parsed


def written(name: str) -> str:
    """A column as an expression names it.

    >>> written("net"), written("capital-gain")
    ('net', '`capital-gain`')
    """
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"


def names(expression: Expression, *, before: bool = False) -> Iterator[str]:
    """The columns that an expression names in the row itself, or in the one before it, repeated where it repeats them.

    >>> list(names(parse("before(balance) - paid"))), list(names(parse("before(balance) - paid"), before=True))
    (['paid'], ['balance'])
    """
    if expression.function == COLUMN and not before:
        yield expression.name
    for argument in expression.arguments:
        yield from names(argument, before=before != (expression.function == BEFORE))


def needs(expression: Expression) -> frozenset[str]:
    """The columns of which none may be missing where the expression has a value; "before()": a row before.

    >>> sorted(needs(parse("either(before(balance), lent) - paid")))
    ['paid']
    """
    if expression.function == COLUMN:
        return frozenset({expression.name})
    if expression.function == BEFORE:
        return frozenset({f"{BEFORE}()"})
    parts = [needs(argument) for argument in expression.arguments]
    return parts[0] & parts[1] if expression.function == EITHER else frozenset().union(*parts)


def evaluate(
    expression: Expression,
    values: Mapping[str, np.ndarray],
    before: Mapping[str, np.ndarray] | None = None,
    unit: Unit | None = None,
) -> np.ndarray:
    """The value in every row, shape (n,), float64; NaN where an operand is missing or a divisor is zero.
    `values`: the columns that it names, shape (n,) each, NaN where missing; times in so many of `unit` since 1970.
    `before`: the same of the row before; `None`: there is none before any.

    >>> evaluate(parse("a / b"), {"a": np.array([1.0, 1.0, np.nan]), "b": np.array([2.0, 0.0, 1.0])}).tolist()
    [0.5, nan, nan]
    """
    with np.errstate(all="ignore"):
        result = _evaluate(expression, values, before, UNITS.get(unit or "", 1))
    return np.where(np.isfinite(result), result, np.nan)


def _evaluate(
    expression: Expression, values: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray] | None, micros: int
) -> np.ndarray:
    function = expression.function
    if function in (CONSTANT, COLUMN):
        return np.asarray(expression.value) if function == CONSTANT else values[expression.name]
    if function == BEFORE:
        return np.asarray(np.nan) if before is None else _evaluate(expression.arguments[0], before, None, micros)
    parts = [_evaluate(argument, values, before, micros) for argument in expression.arguments]
    if function in _OPERATIONS:
        result = _OPERATIONS[function](*parts)
        # What was infinite once stays missing: 1 / (1 / 0) is no zero.
        return np.where(np.isfinite(result), result, np.nan)
    if function == DATE:
        return np.asarray(_dated(*parts) * UNITS["day"] / micros)
    if function == EITHER:
        return np.where(np.isnan(parts[0]), parts[1], parts[0])
    return _called(function, parts[0], micros)


def _dated(years: np.ndarray, months: np.ndarray, days: np.ndarray) -> np.ndarray:
    """Days since 1970, shape (n,); NaN where the calendar has no such day."""
    months = (years - 1970) * 12 + months - 1
    counted = np.where(np.isfinite(months + days), months, 0).astype(np.int64)
    firsts, after = (
        each.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for each in (counted, counted + 1)
    )
    return np.where((days >= 1) & (days <= after - firsts), firsts + days - 1, np.nan)


def dates(expression: Expression) -> Iterator[Expression]:
    """The days in an expression that a year, a month and a day make."""
    if expression.function == DATE:
        yield expression
    for part in expression.arguments:
        yield from dates(part)


def _called(function: str, x: np.ndarray, micros: int) -> np.ndarray:
    """A function of values, of which times are in units of so many microseconds."""
    if function in ("floor", "round"):
        return np.asarray(np.floor(x + _SLACK) if function == "floor" else np.rint(x))
    stamps = np.rint(x * micros)
    days = np.floor(stamps / UNITS["day"])
    if function == "day":
        return np.asarray(days * UNITS["day"] / micros)
    if function == "weekday":
        return np.asarray((days + 3) % 7)  # 1970 began on a Thursday
    if function == "hour":
        return np.asarray(np.floor(stamps % UNITS["day"] / UNITS["hour"]))
    calendar = np.where(np.isfinite(days), days, 0).astype(np.int64).astype("datetime64[D]")
    months = calendar.astype("datetime64[M]").astype(np.float64)
    part = np.floor(months / 12) + 1970 if function == "year" else months % 12 + 1
    return np.where(np.isfinite(days), part, np.nan)


def limits(
    expression: Expression, bounds: Mapping[str, tuple[float, float]], unit: Unit | None = None
) -> tuple[float, float]:
    """The least and the greatest value that an expression can have, infinite where a divisor may be zero.
    `bounds`: of the columns, of times in `unit`.

    >>> limits(parse("a - 2 * b"), {"a": (0, 10), "b": (-1, 1)})
    (-2.0, 12.0)
    """
    function, micros = expression.function, UNITS[unit or "day"]
    if function == CONSTANT:
        return expression.value, expression.value
    if function == COLUMN:
        return bounds[expression.name]
    if function in _CYCLES:
        return _CYCLES[function]
    lows, highs = zip(*(limits(argument, bounds, unit) for argument in expression.arguments), strict=True)
    if function == "/" and lows[1] <= 0 <= highs[1]:
        return -math.inf, math.inf
    ends = np.array([min(lows), max(highs)])
    if function in _OPERATIONS:
        with np.errstate(all="ignore"):
            ends = _OPERATIONS[function](np.repeat([lows[0], highs[0]], 2), np.tile([lows[1], highs[1]], 2))
    elif function == DATE:
        firsts, lasts = np.array([lows[0], highs[0]]), (np.array([1.0, 12.0]), np.array([1.0, 31.0]))
        ends = _dated(firsts, *lasts) * UNITS["day"] / micros
    elif function not in (BEFORE, EITHER):
        ends = _called(function, ends, micros)
    return (-math.inf, math.inf) if np.isnan(ends).any() else (float(ends.min()), float(ends.max()))


_CYCLES = {"month": (1.0, 12.0), "weekday": (0.0, 6.0), "hour": (0.0, 23.0)}
FUNCTIONS = ("floor", "round", "day", "year", *_CYCLES, BEFORE, EITHER, DATE, *OF_INTEREST)
_N_ARGUMENTS = {EITHER: 2, DATE: 3, **dict.fromkeys(OF_INTEREST, 2)}


class _Reading:
    """One pass over a text: the token at hand, and the rules of the grammar."""

    def __init__(self, text: str) -> None:
        self.text, self.end = text, 0
        self.start, self.kind, self.value = 0, "", ""
        self._next()

    def sum(self, depth: int) -> Expression:
        result = self._product(depth)
        while self.value in ("+", "-") and self.kind == "symbol":
            result = Expression(self._taken(), (result, self._product(depth)))
        return result

    def unexpected(self, wanted: str) -> ValueError:
        token = "its end" if self.kind == "end" else f"{self.text[self.start : self.start + 10]!r}"
        return ValueError(
            f"expression={self.text!r} has {token} where {wanted} should be; write sums and products of columns and "
            "numbers, with names that are no plain words in backticks"
        )

    def _product(self, depth: int) -> Expression:
        result = self._signed(depth)
        while self.value in ("*", "/") and self.kind == "symbol":
            result = Expression(self._taken(), (result, self._signed(depth)))
        return result

    def _signed(self, depth: int) -> Expression:
        if depth > MAX_NESTING:
            raise ValueError(
                f"expression={self.text!r} nests deeper than {MAX_NESTING} levels; use a second formula for a part"
            )
        if self.kind == "symbol" and self.value in ("+", "-"):
            return Expression(self._taken(), (Expression(CONSTANT), self._signed(depth + 1)))
        if self.kind == "symbol" and self.value == "(":
            self._next()
            result = self.sum(depth + 1)
            if (self.kind, self.value) != ("symbol", ")"):
                raise self.unexpected("an operator (+ - * /) or a closing parenthesis")
            self._next()
            return result
        if self.kind == "number":
            number = float(self.value)
            if not math.isfinite(number):
                raise ValueError(f"expression={self.text!r} has a number beyond 64 bits; write a smaller one")
            self._next()
            return Expression(CONSTANT, value=number)
        if self.kind == "name" and self.text[self.end :].lstrip().startswith("("):
            return self._call(self._taken(), depth)
        if self.kind in ("name", "quoted"):
            return Expression(COLUMN, name=self._taken())
        raise self.unexpected("a column, a number or an opening parenthesis")

    def _call(self, function: str, depth: int) -> Expression:
        if function not in FUNCTIONS:
            raise ValueError(f"expression={self.text!r} has no function {function!r}; {nearest(function, FUNCTIONS)}")
        self._next()
        arguments = [self.sum(depth + 1)]
        while (self.kind, self.value) == ("symbol", ","):
            self._next()
            arguments.append(self.sum(depth + 1))
        if (self.kind, self.value) != ("symbol", ")"):
            raise self.unexpected("an operator (+ - * /) or a closing parenthesis")
        self._next()
        wanted = _N_ARGUMENTS.get(function, 1)
        if len(arguments) != wanted:
            raise ValueError(f"expression={self.text!r}: {function} has {wanted} arguments; correct it")
        if function == BEFORE and arguments[0].function != COLUMN:
            raise ValueError(f"expression={self.text!r}: before(...) is of one column; name it alone")
        return Expression(function, tuple(arguments))

    def _taken(self) -> str:
        value = self.value
        self._next()
        return value

    def _next(self) -> None:
        self.start = self.end + len(self.text[self.end :]) - len(self.text[self.end :].lstrip())
        if self.start == len(self.text):
            self.kind, self.value = "end", ""
            return
        match = _TOKEN.match(self.text, self.end)
        if match is None:
            self.kind, self.value = "unknown", ""
            return
        self.end, self.kind = match.end(), str(match.lastgroup)
        self.value = match[self.kind].replace("``", "`") if self.kind == "quoted" else match[self.kind]
