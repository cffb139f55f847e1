"""Cells that hold several numbers, such as ``120/80``, ``[10, 20)`` or ``POINT (30.1 10.2)``: columns of their own."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from synth.infer.amounts import read_amounts
from synth.infer.look import RawColumn
from synth.infer.personal import named_personal
from synth.infer.temporal import read_times
from synth.schema.kinds.base import Part
from synth.table.cast import pieces_of

FEWEST_TEXTS = 20  # different texts; fewer are categories
MOST_PARTS, MOST_ODD = 6, 3
_NUMBERS = (
    re.compile(r"[+-]?(?:\d[\d.,]*\d|\d)", re.ASCII),
    re.compile(r"(?<![\d.])[+-]?\d+(?:\.\d+)?(?![\d.]*\d)", re.ASCII),
)
_WITH_UNIT = re.compile(r"(?P<before>\W*?)[+-]?(?:[1-9][\d.,]*\d|\d) (?P<unit>[^\W\d][^\d\s]{0,9}(?: [^\d\s]{1,9})?)")
_OF_TIME = {"h", "hr", "hrs", "hour", "hours", "min", "mins", "minute", "minutes", "s", "sec", "seconds", "d", "days"}
UNIT_SHARE, MOST_UNITS = 0.01, 12
_BETWEEN = re.compile(r"[%kKmM]?\s*(?:[/,;|xX×@±–'-]|\.\.|to|and|of|by|ft|lbs?|kg)\s*[$€£]?", re.ASCII)
"""What may stand between two numbers that are read apart."""
_LEADING_ZERO = re.compile(r"[+-]?0\d")


def split_columns(
    frame: pd.DataFrame, looked: Mapping[str, RawColumn], tokens: Collection[str], others: Collection[str]
) -> tuple[pd.DataFrame, dict[str, Part]]:
    """The table with a column for each number of cells that hold several, and which these are.
    `looked`: *Sensitive*. Every column, by name.
    `tokens`: texts that stand for a missing value.
    `others`: columns that stay as they are.
    """
    columns, parts = dict[str, pd.Series](), dict[str, Part]()
    for name in frame.columns:
        form = None
        if looked[name].form == "text" and name not in others and named_personal(name) is None:
            texts = [text for text in looked[name].cells.tolist() if text and text not in tokens]
            form = form_of(texts)
        if form is None:
            columns[name] = frame[name]
            continue
        n = form.count("{}")
        for position in range(n):
            own = name if n == 1 else f"{name}, {position + 1}"
            while own in columns or (own in frame.columns and own != name):
                own += "'"
            parts[own] = Part(column=name, form=form, place=position)
            cells = frame[name].to_numpy(dtype=object)
            columns[own] = pd.Series(pieces_of(cells, parts[own], tokens), index=frame.index, dtype=object)
    return (pd.DataFrame(columns, copy=False) if parts else frame), parts


def form_of(texts: Sequence[str]) -> str | None:
    """The form of texts that hold several numbers, `{}` for each that varies; `None` where they have none.
    `texts`: *Sensitive*. Distinct texts.

    >>> form_of([f"{a}/{a - 40}" for a in range(100, 130)])
    '{}/{}'
    """
    odd = [text for text in texts if not any(map(str.isdigit, text))]
    texts = [text for text in texts if any(map(str.isdigit, text))]
    if len(texts) <= FEWEST_TEXTS or len(odd) > MOST_ODD or any("{" in text or "}" in text for text in texts):
        return None
    for number in _NUMBERS:
        first = _split(texts[0], number)[0]
        if not 2 < len(first) <= MOST_PARTS + 1:
            continue
        split = [_split(text, number) for text in texts]
        if all(literals == first for literals, _ in split):
            form = _checked(first, [numbers for _, numbers in split])
            usual = form is None or read_amounts(dict.fromkeys(texts, 1)) is not None or read_times(texts) is not None
            return None if usual else form
    return _with_unit(texts)


def _with_unit(texts: Sequence[str]) -> str | None:
    """The form of numbers in several units, each in many texts, such as 5 mg and 2 g."""
    known = [match for text in texts if (match := _WITH_UNIT.fullmatch(text))]
    units = Counter(match["unit"] for match in known)
    before = {match["before"] for match in known}
    if len(known) < len(texts) or len(before) > 1 or not 2 <= len(units) <= MOST_UNITS or {*units} <= _OF_TIME:
        return None
    rare = min(units.values()) < max(2, UNIT_SHARE * len(texts))
    return None if rare or read_amounts(dict.fromkeys(texts, 1)) is not None else f"{before.pop()}{{}} {{}}"


def _split(text: str, number: re.Pattern[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What stands around the numbers of a text, and these; a hyphen between two of them is no sign."""
    literals, numbers, end = [], [], 0
    for match in number.finditer(text):
        before = text[: match.start()][-1:]
        start = match.start() + (match[0][0] in "+-" and (before.isalnum() or before == "%"))
        literals.append(text[end:start])
        numbers.append(text[start : match.end()])
        end = match.end()
    return (*literals, text[end:]), tuple(numbers)


def _checked(literals: tuple[str, ...], numbers: Sequence[tuple[str, ...]]) -> str | None:
    """The form, with numbers in it that never vary; `None` where the numbers may be those of a code."""
    if any(_LEADING_ZERO.match(number) for row in numbers for number in row):
        return None
    inner = literals[1:-1]
    named = bool(literals[0].strip()) and not any(literal.strip() for literal in inner)  # POINT (30.1 10.2)
    if not named and not all(_BETWEEN.fullmatch(literal) for literal in inner):
        return None
    ranges = [position for position, literal in enumerate(inner) if "-" in literal or "–" in literal]
    sizes = [[float(number.replace(",", "")) for number in row] for row in numbers] if ranges else []
    if any(row[position] > row[position + 1] for row in sizes for position in ranges):
        return None
    columns = list(zip(*numbers, strict=True))
    pieces = ["{}" if len(set(column)) > 1 else column[0] for column in columns]
    if ranges and pieces.count("{}") < len(ranges) + 1:
        return None
    return literals[0] + "".join(map("".join, zip(pieces, literals[1:], strict=True)))
