"""Expressions that may give a column: sums and products of terms, as a formula writes them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synth.constraints.expression import Unit, names, parse

DIGITS = 14  # significant ones of a weight, at most


@dataclass(frozen=True, eq=False)
class Term:
    """*Sensitive*. A column, or a view of one or two, as an expression writes it; its values in the sampled rows."""

    text: str
    names: tuple[str, ...]
    values: np.ndarray
    unit: Unit | None = None


def multiplied(first: Term, other: Term) -> Term:
    text = f"{_wrap(first.text)} * {_wrap(other.text)}"
    return Term(text, first.names + other.names, first.values * other.values, first.unit or other.unit)


Terms = Sequence[tuple[float, Term]]  # with weights in a sum, with exponents in a product


@dataclass(frozen=True, eq=False)
class Candidate:
    """*Sensitive*. An expression that may give a column, and its values in the sampled rows: times in seconds."""

    column: str
    expression: str
    values: np.ndarray
    terms: tuple[tuple[float, Term], ...] = ()
    unit: Unit | None = None
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


def number(value: float) -> str:
    return f"{value:.12g}"


def shortest(low: float, high: float) -> float:
    """The number of fewest digits between two, or what 1 is divided by one of fewer.

    >>> shortest(0.3481, 0.3522), shortest(-3.0, 9.0), shortest(0.55549, 0.5556)
    (0.35, 0.0, 0.5555555555555556)
    """
    plain, n = _shortest(low, high)
    if low * high > 0:
        inverse, fewer = _shortest(1 / high, 1 / low)
        return 1 / inverse if fewer + 1 < n else plain
    return plain


def _shortest(low: float, high: float) -> tuple[float, int]:
    middle = float(low + high) / 2
    exponent = math.ceil(math.log10(max(abs(low), abs(high), 1e-300)))
    rounded = ((round(middle, digits - exponent), digits) for digits in range(DIGITS))
    return next((each for each in rounded if low <= each[0] <= high), (middle, DIGITS))


def write_sum(terms: Terms, constant: float = 0.0) -> str:
    """
    >>> x, y = Term("x", ("x",), np.zeros(1)), Term("y", ("y",), np.zeros(1))
    >>> write_sum([(-1, x), (2 / 3, y)], 5)
    'y / 1.5 - x + 5'
    """
    text = ""
    for weight, term in sorted(terms, key=lambda each: -math.copysign(1, each[0])):
        size, part = abs(weight), term.text if weight == 1 else _wrap(term.text)
        if size != 1 and len(number(1 / size)) < len(number(size)):
            part = f"{part} / {number(1 / size)}"
        elif size != 1:
            part = f"{number(size)} * {part}"
        text += (f" {'-' if weight < 0 else '+'} " if text else "-" * (weight < 0)) + part
    return text + (f" {'-' if constant < 0 else '+'} {number(abs(constant))}" if constant else "")


def write_product(terms: Terms, factor: float = 1.0) -> str:
    """
    >>> x, y = Term("1 - x", ("x",), np.zeros(1)), Term("y", ("y",), np.zeros(1))
    >>> write_product([(-1, x), (2, y)], 0.01)
    'y * y / (1 - x) / 100'
    """
    wrapped = [(e, _wrap(term.text)) for e, term in terms]
    over, under = ([text for e, text in wrapped for _ in range(round(sign * e))] for sign in (1, -1))
    if factor < 1 and abs(1 / factor - round(1 / factor)) < 1e-9 / factor:
        under.append(number(round(1 / factor)))
    elif factor != 1:
        over.insert(0, number(factor))
    return " / ".join([" * ".join(over) or "1", *under])


def _wrap(text: str) -> str:
    return f"({text})" if " - " in text or " + " in text else text
