"""Masked shapes of rows that break a constraint: how the values stand to each other, and never a value.

A synthetic row may be a copy of a real one: categories are told by their number in the schema, all else by its form.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from synth.constraints import Constraint, FixedCombinations, Formula, Inequality, Steps, Unique
from synth.domain.relations import compares_days, exact_positions, on_one_line
from synth.schema import Schema

MOST = 3  # Shapes of one constraint at most
_LONGEST = 24
_UNITS = ((86_400_000_000, "days"), (3_600_000_000, "hours"), (60_000_000, "minutes"), (1_000_000, "seconds"))


def shapes(broken: pd.DataFrame, constraint: Constraint, schema: Schema) -> list[tuple[str, int]]:
    """The most frequent shapes of rows that break a constraint, each with its number of rows; frequent ones first."""
    of_kind = {
        Inequality: _orders,
        FixedCombinations: _combinations,
        Formula: _results,
        Unique: _repeats,
        Steps: _steps,
    }
    counted: Counter[str] = Counter()
    for shape, n in of_kind[type(constraint)](broken, constraint, schema) if len(broken) else ():
        counted[shape] += n
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:MOST]


def form(text: str) -> str:
    """The form of a text: letters as a or A, digits as 9, signs beyond ASCII as ?.

    >>> form("Bach 7, b-moll")
    'Aaaa 9, a-aaaa'
    >>> form("😀")
    '?'
    """
    masked = "".join(
        "9" if character.isnumeric()
        else ("A" if character.isupper() else "a") if character.isalnum()
        else character if character.isascii() else "?"
        for character in text[:_LONGEST]
    )  # fmt: skip
    return masked if len(text) <= _LONGEST else f"{masked}..."


def _first_digit(number: float) -> str:
    return f"{float(f'{number:.0e}'):,.10g}"


def _coarse(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values to three digits, each once, and how many there are of it: one sentence each would take long."""
    size = 10.0 ** (np.floor(np.log10(np.where(values == 0, 1.0, np.abs(values)))) - 2)
    return np.unique(np.round(values / size) * size, return_counts=True)


def _distinct(broken: pd.DataFrame, names: Sequence[str], schema: Schema) -> Iterator[tuple[str, int]]:
    """The shape of each distinct tuple of values, and how many rows hold it."""
    columns: list[Any] = [schema.columns[name] for name in names]
    levels = [{} if each.is_boolean else {value: i for i, value in enumerate(each.levels, 1)} for each in columns]

    def shape(value: Any, name: str, column: Any, known: Mapping[Any, int]) -> str:
        if column.is_boolean:
            return f"{name!r} true or false"
        if value in known:
            return f"level {known[value]} of {name!r}"
        return f"a time of {name!r}" if column.is_time else f"{form(str(value))} of {name!r}"

    for values, n in Counter(zip(*(broken[name].tolist() for name in names), strict=True)).items():
        yield ", ".join(map(shape, values, names, columns, levels)), n


def _combinations(broken: pd.DataFrame, constraint: Any, schema: Schema) -> Iterator[tuple[str, int]]:
    for shape, n in _distinct(broken, constraint.columns, schema):
        yield f"the combination ({shape}) is not listed", n


def _repeats(broken: pd.DataFrame, constraint: Any, schema: Schema) -> Iterator[tuple[str, int]]:
    for shape, n in _distinct(broken, constraint.columns, schema):
        yield f"{n:,} rows hold the same values ({shape})", n


def _orders(broken: pd.DataFrame, constraint: Any, schema: Schema) -> Iterator[tuple[str, int]]:
    columns: list[Any] = [schema.columns[name] for name in constraint.columns]
    by_day = compares_days(constraint, schema.columns)
    low, high = (
        on_one_line(column.positions(broken[name]), column, by_day=by_day)
        for name, column in zip(constraint.columns, columns, strict=True)
    )
    excesses, counts = _coarse(low - high)
    if columns[0].is_time:
        sentences = [_lasting(excess) for excess in excesses]
    else:
        ends = [end for column in columns for end in column.ends]
        sentences = [_relative(excess, max(ends) - min(ends), "the range of both") for excess in excesses]
    for words, n in zip(sentences, counts.tolist(), strict=True):
        text = "equals" if words is None else "is above"
        yield f"{constraint.low!r} {text} {constraint.high!r}{'' if words is None else f' by about {words}'}", n


def _lasting(micros: float) -> str | None:
    """A stretch of time to its first digit; `None` for no time at all."""
    if micros == 0:
        return None
    size, unit = next(((size, unit) for size, unit in _UNITS if micros >= size), (1, "microseconds"))
    return f"{_first_digit(micros / size)} {unit}"


def _relative(excess: float, extent: float, what: str) -> str | None:
    if excess == 0:
        return None
    return f"{_first_digit(100 * excess / extent)}% of {what}" if extent > 0 else f"less than the precision of {what}"


def _steps(broken: pd.DataFrame, constraint: Any, schema: Schema) -> Iterator[tuple[str, int]]:
    yield f"{constraint.column!r} follows a value that it never follows", len(broken)


def _results(broken: pd.DataFrame, constraint: Any, schema: Schema) -> Iterator[tuple[str, int]]:
    if constraint.looks_back:
        yield f"{constraint.column!r} is not what its formula gives by the row before", len(broken)
        return
    column: Any = schema.columns[constraint.column]
    exact, stated = (
        exact_positions(broken, constraint, column, schema.columns),
        column.positions(broken[constraint.column]),
    )
    low, high = column.ends
    for is_there, gives, words in ((False, True, "is missing where its formula gives a value"),
                                   (True, False, "is there where its formula gives no value")):  # fmt: skip
        n = int(((np.isnan(stated) != is_there) & (np.isnan(exact) != gives)).sum())
        if n:
            yield f"{constraint.column!r} {words}", n
    differences, counts = _coarse((stated - exact)[~np.isnan(stated - exact)])
    for difference, n in zip(differences, counts.tolist(), strict=True):
        where = "above" if difference > 0 else "below"
        size = _relative(abs(difference), high - low, "its range")
        if column.is_time:
            size = _lasting(abs(difference) * column.per_position)
        yield f"{constraint.column!r} is {where} what its formula gives by about {size}", n
