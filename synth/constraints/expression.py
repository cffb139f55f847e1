"""Arithmetic over columns, as a formula writes it: parsed into a small tree, never run as code.

::

    sum      = product (("+" | "-") product)*
    product  = signed (("*" | "/") signed)*
    signed   = ("-" | "+") signed | number | name | "(" sum ")"
    name     = identifier | "`" any text "`"        a backtick within is written twice
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

MAX_LENGTH, MAX_NESTING = 500, 20
"""Characters of an expression and parentheses or signs within each other at most."""
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)|`(?P<quoted>(?:[^`]|``)+)`"
    r"|(?P<symbol>[-+*/()]))"
)
_PLAIN = re.compile(r"[^\W\d]\w*")
_OPERATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide,
}  # fmt: skip


@dataclass(frozen=True)
class ConstantTerm:
    """A constant."""

    value: float


@dataclass(frozen=True)
class Name:
    """A column."""

    name: str


@dataclass(frozen=True)
class Operation:
    """Two expressions and what is done with them."""

    symbol: str
    left: "Expression"
    right: "Expression"


Expression = ConstantTerm | Name | Operation


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


def names(expression: Expression) -> Iterator[str]:
    """The columns that an expression names, left to right, repeated where it repeats them."""
    if isinstance(expression, Name):
        yield expression.name
    elif isinstance(expression, Operation):
        yield from names(expression.left)
        yield from names(expression.right)


def evaluate(expression: Expression, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The value in every row, shape (n,), float64; NaN where an operand is missing or a divisor is zero.
    `values`: the columns that it names, shape (n,) each, NaN where missing.

    >>> evaluate(parse("a / b"), {"a": np.array([1.0, 1.0, np.nan]), "b": np.array([2.0, 0.0, 1.0])}).tolist()
    [0.5, nan, nan]
    """
    with np.errstate(all="ignore"):
        made = _evaluate(expression, values)
    return np.where(np.isfinite(made), made, np.nan)


def _evaluate(expression: Expression, values: Mapping[str, np.ndarray]) -> np.ndarray:
    if isinstance(expression, ConstantTerm):
        return np.asarray(expression.value)
    if isinstance(expression, Name):
        return values[expression.name]
    left, right = _evaluate(expression.left, values), _evaluate(expression.right, values)
    made = _OPERATIONS[expression.symbol](left, right)
    # What was infinite once stays missing: 1 / (1 / 0) is no zero.
    return np.where(np.isfinite(made), made, np.nan)


class _Reading:
    """One pass over a text: the token at hand, and the rules of the grammar."""

    def __init__(self, text: str) -> None:
        self.text, self.end = text, 0
        self.start, self.kind, self.value = 0, "", ""
        self._next()

    def sum(self, depth: int) -> Expression:
        made = self._product(depth)
        while self.value in ("+", "-") and self.kind == "symbol":
            made = Operation(self._taken(), made, self._product(depth))
        return made

    def unexpected(self, wanted: str) -> ValueError:
        found = "its end" if self.kind == "end" else f"{self.text[self.start : self.start + 10]!r}"
        return ValueError(
            f"expression={self.text!r} has {found} where {wanted} should be; write sums and products of columns and "
            "numbers, with names that are no plain words in backticks"
        )

    def _product(self, depth: int) -> Expression:
        made = self._signed(depth)
        while self.value in ("*", "/") and self.kind == "symbol":
            made = Operation(self._taken(), made, self._signed(depth))
        return made

    def _signed(self, depth: int) -> Expression:
        if depth > MAX_NESTING:
            raise ValueError(
                f"expression={self.text!r} nests deeper than {MAX_NESTING} levels; use a second formula for a part"
            )
        if self.kind == "symbol" and self.value in ("+", "-"):
            return Operation(self._taken(), ConstantTerm(0.0), self._signed(depth + 1))
        if self.kind == "symbol" and self.value == "(":
            self._next()
            made = self.sum(depth + 1)
            if (self.kind, self.value) != ("symbol", ")"):
                raise self.unexpected("an operator (+ - * /) or a closing parenthesis")
            self._next()
            return made
        if self.kind == "number":
            number = float(self.value)
            if not math.isfinite(number):
                raise ValueError(f"expression={self.text!r} has a number beyond 64 bits; write a smaller one")
            self._next()
            return ConstantTerm(number)
        if self.kind in ("name", "quoted"):
            return Name(self._taken())
        raise self.unexpected("a column, a number or an opening parenthesis")

    def _taken(self) -> str:
        value = self.value
        self._next()
        return value

    def _next(self) -> None:
        self.start = self.end + len(self.text[self.end :]) - len(self.text[self.end :].lstrip())
        if self.start == len(self.text):
            self.kind, self.value = "end", ""
            return
        found = _TOKEN.match(self.text, self.end)
        if found is None:
            self.kind, self.value = "unknown", ""
            return
        self.end, self.kind = found.end(), str(found.lastgroup)
        self.value = found[self.kind].replace("``", "`") if self.kind == "quoted" else found[self.kind]
