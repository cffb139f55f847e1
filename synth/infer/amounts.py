"""Numbers as people write them: currencies, units, percentages, marks between thousands, signs, odd texts beside.

Cells that hold several numbers, such as ``120/80``, ``[10, 20)`` or ``POINT (30.1 10.2)``, become columns of their own.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

import pandas as pd

from synth.infer.facts import RawColumn
from synth.infer.personal import named_personal
from synth.infer.times import read_times
from synth.schema.kinds.base import Part
from synth.schema.kinds.number_format import GROUPS, NumberFormat, Section
from synth.table.typed_cells import pieces_of

_ONE = re.compile(
    r"([^\d.,#;]*?)([.,]?\d(?:[\d.,'’ \u00a0\u202f]*\d)?)([^\d#;]*|\s?[^\W\d]+[23])", re.ASCII
)  # before the digits, these, and after them
_SIGNS = "+-\u2212"
_SCALES = {"k": 1, "m": 2, "b": 3, "t": 4}
_WORDS = frozenset({"rs", "rs.", "kr", "kr.", "~", "\u2248", "ca.", "approx."})  # that stand before amounts
_COMPARES = re.compile(r"\s*([<>\u2264\u2265]=?|~\s*\d|\++\d?$|\d+\+$)")
_LIMIT = re.compile(r"\s*([<>]=?|[\u2264\u2265~])\s*\d*[.,]?\d+\s*")  # a sign and a number
LONGEST, MOST_ODD = 40, 20  # characters of a number; different texts beside numbers
LONGEST_ODD = 16  # characters of such a text that fewer than `FEWEST` rows have
ODD, ODD_LIMITS = 0.05, 0.6
MOST_LIMITS, LIMITS = 12, 0.2  # different limits (``<0.1``), and their share of rows, that speak for numbers
"""Share of rows of texts beside numbers, and of those that compare (``<5``), which laboratories write."""
FEWEST, MANY_POINTS = 3, 20
"""Different numbers, and those with a point from which on it is no chance that three digits follow each."""
WRITTEN_ALIKE = 0.95  # share of the numbers that the format writes as they stand


class _Piece(NamedTuple):
    before: str
    digits: str
    after: str

    @property
    def core(self) -> tuple[str, str]:
        """What stands around the digits, without signs and the parentheses of negative numbers."""
        before = "".join(character for character in self.before if character not in _SIGNS + "(")
        return before, self.after.removesuffix(")") if "(" in self.before else self.after.removesuffix("-")

    @property
    def is_negative(self) -> bool:
        enclosed = "(" in self.before and self.after.endswith(")")
        return enclosed or self.after.endswith("-") or any(sign in self.before for sign in _SIGNS[1:])


class Amounts(NamedTuple):
    """Numbers that distinct texts stand for, in one format, and the texts that stand for none."""

    form: NumberFormat
    numbers: Mapping[str, Decimal]
    below: tuple[str, ...]
    above: tuple[str, ...]

    @property
    def fields(self) -> dict[str, object]:
        plain = self.form.is_plain and not self.form.plain[0].least
        return {"format": None if plain else str(self.form), "below": self.below, "above": self.above}


def read_amounts(counts: Mapping[str, int]) -> Amounts | None:
    """The numbers of a column, of which each distinct text is in so many rows; `None` where it holds too much else.

    >>> read_amounts({"$4,000.00": 3, "($12.50)": 1, "$7.00": 1}).fields["format"]
    '$#,##0.00;($#,##0.00)'
    """
    matches = ((text, _ONE.fullmatch(text)) for text in counts if len(text) <= LONGEST)
    pieces = {text: _Piece(*known.groups()) for text, known in matches if known is not None}
    cores = Counter[tuple[str, str]]()
    for text, piece in pieces.items():
        cores[piece.core] += counts[text]
    if len(pieces) < max(FEWEST, len(counts) - MOST_ODD) or not _may_precede(before := cores.most_common(1)[0][0][0]):
        return None
    after = _without_scale({after: n for (start, after), n in cores.items() if start == before})
    pieces = {t: p for t, p in pieces.items() if p.core[0] == before and _scale(p.core[1], after) is not None}
    marks = _marks([piece.digits for piece in pieces.values()])
    pattern = _strict(*marks)
    pieces = {text: piece for text, piece in pieces.items() if pattern.fullmatch(piece.digits)}
    if len(pieces) < FEWEST:
        return None
    form, numbers = _form(pieces, counts, marks, after)
    numbers = {text: number for text, number in numbers.items() if form.read(text) == number}
    odd = [text for text in counts if text not in numbers]
    n_odd, n = (sum(counts[text] for text in texts) for texts in (odd, counts))
    # A few limits in a few rows: tests of one laboratory are reported with more decimals or fewer: 140, 4.0, 2.00.
    are_limits = 0 < len(odd) <= MOST_LIMITS and n_odd <= LIMITS * n and all(map(_LIMIT.fullmatch, odd))
    n_alike = sum(form.write(number) == text for text, number in numbers.items())
    is_alike = n_alike >= WRITTEN_ALIKE * len(numbers) or are_limits
    if len(numbers) < max(FEWEST, len(odd) + 1) or not is_alike or len(odd) > MOST_ODD:
        return None
    if any(len(text) > LONGEST_ODD and counts[text] < FEWEST for text in odd):
        return None  # a note, which may say who a single row is about
    unsure = [text for text in odd if not _COMPARES.match(text)]
    if (
        sum(counts[text] for text in unsure) > ODD * n
        or n_odd > ODD_LIMITS * n
        or (form.is_plain and any(map(re.compile(r"\d").search, unsure)))
    ):
        return None  # or codes, of which some are letters and digits
    sides = sorted((_side(text), text) for text in odd)
    below, above = (tuple(text for side, text in sides if (side[0] > 0) is is_above) for is_above in (False, True))
    return Amounts(form, numbers, below, above)


def _side(text: str) -> tuple[int, float]:
    number, bare = re.search(r"\d+(?:[.,]\d+)?", text), text.strip()
    side = 1 if bare[:1] in (">", "\u2265") or bare.endswith("+") else 0 if bare[:1] in ("<", "\u2264") else -1
    return side, float(number[0].replace(",", ".")) if number else 0.0


def _without_scale(afters: Mapping[str, int]) -> str:
    """What follows the digits, but for the letter of a scale where numbers have different ones."""
    best = max(afters, key=afters.get)  # type: ignore[arg-type]
    bare = best[1:] if best[:1].lower() in _SCALES else best
    return bare if any(after != best and _scale(after, bare) is not None for after in afters) else best


def _scale(after: str, bare: str) -> int | None:
    return 0 if after == bare else _SCALES.get(after[:1].lower()) if after[1:] == bare else None


def _may_precede(before: str) -> bool:
    """True of a currency: words and letters before a number make it a code."""
    word = before.strip()
    has_sign = any(unicodedata.category(character) == "Sc" for character in word) and len(word) <= len("HK$ ")
    if not word or has_sign or word.lower() in _WORDS:
        return True
    from faker.providers.currency import Provider

    return any(word == code for code, _ in Provider.currencies)


def _strict(mark: str, point: str, lakh: bool) -> re.Pattern[str]:
    m, p = re.escape(mark), re.escape(point)
    grouped = rf"[1-9]\d?(?:{m}\d\d)*{m}\d{{3}}|[1-9]\d{{0,2}}" if lakh else rf"[1-9]\d{{0,2}}(?:{m}\d{{3}})*"
    return re.compile(rf"(?:0|{grouped if mark else '[1-9][0-9]*'})(?:{p}\d+)?|{p}\d+", re.ASCII)


def _marks(digits: Sequence[str]) -> tuple[str, str, bool]:
    """The mark between thousands and the point of decimals that most numbers have, the usual ones first."""
    used = [mark for mark in GROUPS if any(mark in text for text in digits)]
    forms = [("", ".", False), *((mark, "," if mark == "." else ".", False) for mark in used), ("", ",", False)]
    forms += [(mark, ",", False) for mark in used if mark not in ",."] + [(",", ".", True)] * ("," in used)
    if has_point_thousands(digits):
        return ".", ",", False
    return max(forms, key=lambda form: sum(_strict(*form).fullmatch(text) is not None for text in digits))


def has_point_thousands(texts: Sequence[str]) -> bool:
    """True if three digits follow each point and some numbers have none: as decimals, some would be shorter."""
    strict = _strict(".", ",", False)
    pointed = sum("." in text for text in texts)
    return MANY_POINTS <= pointed < len(texts) and all(strict.fullmatch(text.removeprefix("-")) for text in texts)


def _form(
    pieces: Mapping[str, _Piece], counts: Mapping[str, int], marks: tuple[str, str, bool], after: str
) -> tuple[NumberFormat, dict[str, Decimal]]:
    (mark, point, lakh), numbers = marks, dict[str, Decimal]()
    around, n_decimals = dict[tuple[int, int], Counter[tuple[str, str]]](), dict[int, list[int]]()
    for text, piece in pieces.items():
        scale = _scale(piece.core[1], after) or 0
        size = Section(mark=mark, point=point, scale=scale).read(piece.digits)
        numbers[text] = -size if piece.is_negative else size
        sign = 0 if size == 0 else -1 if piece.is_negative else 1
        n_decimals.setdefault(scale, []).append(len(piece.digits.partition(point)[2]))
        around.setdefault((scale, sign), Counter())[piece.before, piece.after] += counts[text]
    is_bare = any(piece.digits.startswith(point) for piece in pieces.values())

    def section(scale: int, sign: int) -> Section | None:
        if (scale, sign) not in around:
            return None
        usual, (least, most) = around[scale, sign].most_common(1)[0][0], (f(n_decimals[scale]) for f in (min, max))
        return Section(*usual, "" if scale else mark, lakh and not scale, point, least, most, is_bare, scale)

    scaled = [section(scale, 1) for scale in sorted({scale for scale, _ in around if scale}, reverse=True)]
    positive, negative, zero = (section(0, sign) for sign in (1, -1, 0))
    first = positive or zero or (negative and replace(negative, before=negative.before.lstrip(_SIGNS)))
    plain = [first or Section(after=after, point=point)]
    if negative is not None and (negative.before, negative.after) != ("-" + plain[0].before, plain[0].after):
        plain.append(negative)
    elif plain[0].before.startswith("+"):
        plain.append(replace(plain[0], before="-" + plain[0].before[1:]))
    if len(plain) == 2 and zero is not None and zero != plain[0]:
        plain.append(zero)
    return NumberFormat(tuple(each for each in scaled if each is not None), tuple(plain)), numbers


FEWEST_TEXTS = 20  # different texts; fewer are categories
MOST_PARTS, MOST_WORDS = 6, 3  # numbers in a cell, and different texts without any
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
    frame: pd.DataFrame, looked: Mapping[str, RawColumn], tokens: Collection[str], others: Collection[str | None]
) -> tuple[pd.DataFrame, dict[str, Part]]:
    """The table with a column for each number of cells that hold several, and which these are.
    `tokens`: texts that stand for a missing value. `others`: columns that stay as they are.
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
    """The form of distinct texts that hold several numbers, `{}` for each that varies; `None` where they have none.

    >>> form_of([f"{a}/{a - 40}" for a in range(100, 130)])
    '{}/{}'
    """
    odd = [text for text in texts if not any(map(str.isdigit, text))]
    texts = [text for text in texts if any(map(str.isdigit, text))]
    if len(texts) <= FEWEST_TEXTS or len(odd) > MOST_WORDS or any("{" in text or "}" in text for text in texts):
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
