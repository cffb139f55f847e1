"""Arithmetic over columns, as a formula writes it: parsed into a small tree, never run as code.

`+ - * /`, parentheses and calls mean what they mean in Python. A column is a plain word, or any text in backticks, of
which one within is written twice. Times count as so many of a unit since 1970. Functions: `floor`, `round`; of times
`day` (its midnight), `year`, `month`, `weekday` (Monday 0), `hour`; `before`, the value of a column in the row before,
of the same entity; and `either`, the first of two values, or where it is missing the second. `date` is the day of a
year, a month and a day. `annuity(rate, n)` is what a loan of 1 costs in each of n periods; `growth(rate, n)` what 1 is
worth after them.
"""

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from synth.errors import nearest

MAX_LENGTH, MAX_NESTING = 500, 20  # characters of an expression, and operands within each other, at most
_WORD = re.compile(r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)|`(?P<quoted>(?:[^`]|``)+)`")
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
_SIGNS: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.UAdd: "+", ast.Sub: "-", ast.USub: "-", ast.Mult: "*", ast.Div: "/",
}  # fmt: skip
_CYCLES = {"month": (1.0, 12.0), "weekday": (0.0, 6.0), "hour": (0.0, 23.0)}
FUNCTIONS = ("floor", "round", "day", "year", *_CYCLES, BEFORE, EITHER, DATE, *OF_INTEREST)
_N_ARGUMENTS = {EITHER: 2, DATE: 3, **dict.fromkeys(OF_INTEREST, 2)}


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
    words: list[str] = []

    def stand_in(match: re.Match[str]) -> str:
        if match["number"]:
            return match[0]
        words.append(match["name"] or match["quoted"].replace("``", "`"))
        return f" n{len(words) - 1} "

    # Names of columns may be words of Python's own, and it would take other letters for some of theirs.
    plain = " ".join(_WORD.sub(stand_in, text).split())
    try:
        if {*plain} & {*"#'\"\\"}:
            raise SyntaxError("a comment or a text")
        tree = ast.parse(plain, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _unreadable(text) from None
    return _read(tree, words, text, 0)


def _read(node: ast.expr, words: Sequence[str], text: str, depth: int) -> Expression:
    """The expression of a node: of all that Python has, arithmetic and calls of a few functions."""
    if depth > MAX_NESTING:
        raise ValueError(f"expression={text!r} nests deeper than {MAX_NESTING} levels; use a second formula for a part")
    match node:
        case ast.Name(id=name):
            return Expression(COLUMN, name=words[int(name[1:])])
        case ast.Constant(value=int() | float() as value):
            number = float(str(value))
            if not math.isfinite(number):
                raise ValueError(f"expression={text!r} has a number beyond 64 bits; write a smaller one")
            return Expression(CONSTANT, value=number)
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand):
            return Expression(_SIGNS[type(sign)], (Expression(CONSTANT), _read(operand, words, text, depth + 1)))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            sides = _read(left, words, text, depth), _read(right, words, text, depth + 1)
            return Expression(_SIGNS[type(sign)], sides)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _call(words[int(name[1:])], [_read(each, words, text, depth + 1) for each in arguments], text)
    raise _unreadable(text)


def _call(function: str, arguments: Sequence[Expression], text: str) -> Expression:
    if function not in FUNCTIONS:
        raise ValueError(f"expression={text!r} has no function {function!r}; {nearest(function, FUNCTIONS)}")
    wanted = _N_ARGUMENTS.get(function, 1)
    if len(arguments) != wanted:
        raise ValueError(f"expression={text!r}: {function} has {wanted} arguments; correct it")
    if function == BEFORE and arguments[0].function != COLUMN:
        raise ValueError(f"expression={text!r}: before(...) is of one column; name it alone")
    return Expression(function, tuple(arguments))


def _unreadable(text: str) -> ValueError:
    return ValueError(
        f"expression={text!r} cannot be read; write sums and products of columns and numbers, with names that are no "
        "plain words in backticks"
    )


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
