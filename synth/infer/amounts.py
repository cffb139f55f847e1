"""Numbers as people write them: currencies, units, percentages, marks between thousands, signs, odd texts beside."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

from synth.schema.kinds.number_format import GROUPS, NumberFormat, Section

_ONE = re.compile(
    r"(?P<before>[^\d.,]*?)(?P<digits>[.,]?\d(?:[\d.,'’ \u00a0\u202f]*\d)?)(?P<after>[^\d]*|\s?[^\W\d]+[23])", re.ASCII
)
_SIGNS, _OPEN = "+-\u2212", "("
_SCALES = {"k": 1, "m": 2, "b": 3, "t": 4}
_WORDS = frozenset({"rs", "rs.", "kr", "kr.", "~", "\u2248", "ca.", "approx."})  # that stand before amounts
_SURELY, _BELOW, _ABOVE = re.compile(r"\s*([<>\u2264\u2265]=?|\++\d?$|\d+\+$)"), "<\u2264", ">\u2265"
LONGEST = 40
MOST_ODD = 20  # different texts beside numbers
ODD, ODD_LIMITS = 0.05, 0.6
"""Share of rows of texts beside numbers, and of those that compare (``<5``), which laboratories write."""
FEWEST = 3  # different numbers
MANY_POINTS = 20  # different numbers with a point, from which on it is no chance that three digits follow each
WRITTEN_ALIKE = 0.95  # share of the numbers that the format writes as they stand


@dataclass(frozen=True)
class Amounts:
    """Numbers that distinct texts stand for, in one format, and the texts that stand for none."""

    form: NumberFormat
    numbers: Mapping[str, Decimal]
    below: tuple[str, ...] = ()
    above: tuple[str, ...] = ()

    @property
    def fields(self) -> dict[str, object]:
        """Of a column of such numbers."""
        plain = self.form.is_plain and not self.form.plain[0].least
        return {"format": None if plain else str(self.form), "below": self.below, "above": self.above}


def read_amounts(counts: Mapping[str, int]) -> Amounts | None:
    """The numbers of a column; `None` where it holds others, or too much beside them.
    `counts`: *Sensitive*. Rows of each distinct text.

    >>> read_amounts({"$4,000.00": 3, "($12.50)": 1, "$7.00": 1}).fields["format"]
    '$#,##0.00;($#,##0.00)'
    """
    pieces = {text: known for text in counts if len(text) <= LONGEST and (known := _ONE.fullmatch(text))}
    if len(pieces) < max(FEWEST, len(counts) - MOST_ODD):
        return None
    cores = Counter[tuple[str, str]]()
    for text, known in pieces.items():
        cores[_core(known)] += counts[text]
    before = cores.most_common(1)[0][0][0]
    after = _without_scale([core[1] for core in cores if core[0] == before], cores, before)
    if not _may_precede(before):
        return None
    scaled = len({core[1] for core in cores if core[0] == before and _scale(core[1], after) is not None}) > 1
    rows = {
        text: known
        for text, known in pieces.items()
        if _core(known)[0] == before and _scale(_core(known)[1], after) is not None
    }
    mark, point, lakh = _marks([known["digits"] for known in rows.values()])
    pattern = _strict(mark, point, lakh)
    rows = {text: known for text, known in rows.items() if pattern.fullmatch(known["digits"])}
    if len(rows) < FEWEST:
        return None
    form, numbers = _form(rows, counts, (mark, point, lakh), after, scaled=scaled)
    numbers = {text: number for text, number in numbers.items() if form.read(text) == number}
    odd = [text for text in counts if text not in numbers]
    alike = sum(form.write(number) == text for text, number in numbers.items())
    if len(numbers) < max(FEWEST, len(odd) + 1) or alike < WRITTEN_ALIKE * len(numbers) or not _is_rare(odd, counts):
        return None
    if form.is_plain and any(re.search(r"\d", text) and not _SURELY.match(text) for text in odd):
        return None  # codes, of which some are letters and digits
    sides = {text: _side(text) for text in odd}
    below, above = (tuple(sorted((t for t in odd if (sides[t][0] > 0) is up), key=sides.get)) for up in (False, True))  # type: ignore[arg-type]
    return Amounts(form, numbers, below, above)


def _is_rare(odd: Sequence[str], counts: Mapping[str, int]) -> bool:
    total = sum(counts.values())
    unsure = sum(counts[text] for text in odd if not _SURELY.match(text))
    return len(odd) <= MOST_ODD and unsure <= ODD * total and sum(counts[text] for text in odd) <= ODD_LIMITS * total


def _side(text: str) -> tuple[int, float, str]:
    """Below the numbers or above them, and in what order."""
    number = re.search(r"\d+(?:[.,]\d+)?", text)
    above = text.strip()[:1] in _ABOVE or (text.strip().endswith("+"))
    compares = above or text.strip()[:1] in _BELOW
    return (1 if above else 0 if compares else -1), float(number[0].replace(",", ".")) if number else 0.0, text


def _core(known: re.Match[str]) -> tuple[str, str]:
    """What stands around the digits, without signs and the parentheses of negative numbers."""
    before = "".join(c for c in known["before"] if c not in _SIGNS + _OPEN)
    after = known["after"]
    return before, after.removesuffix(")") if _OPEN in known["before"] else after.removesuffix("-")


def _is_negative(known: re.Match[str]) -> bool:
    enclosed = _OPEN in known["before"] and known["after"].endswith(")")
    return enclosed or known["after"].endswith("-") or any(sign in known["before"] for sign in _SIGNS[1:])


def _without_scale(afters: Sequence[str], cores: Counter[tuple[str, str]], before: str) -> str:
    """What follows the digits, and the letter of a scale where numbers have different ones."""
    best = max(afters, key=lambda after: cores[before, after])
    bare = best[1:] if best[:1].lower() in _SCALES else best
    others = [after for after in afters if after != best and _scale(after, bare) is not None]
    return bare if others else best


def _scale(after: str, bare: str) -> int | None:
    if after == bare:
        return 0
    return _SCALES.get(after[:1].lower()) if after[1:] == bare else None


@cache
def _currencies() -> frozenset[str]:
    from faker.providers.currency import Provider

    return frozenset(code for code, _ in Provider.currencies)


def _may_precede(before: str) -> bool:
    """True of a currency: words and letters before a number make it a code."""
    word = before.strip()
    has_sign = any(unicodedata.category(character) == "Sc" for character in word)
    return not word or word.lower() in _WORDS or word in _currencies() or (has_sign and len(word) <= len("HK$ "))


def _strict(mark: str, point: str, lakh: bool) -> re.Pattern[str]:
    """Digits in that form, none of them a leading zero."""
    m, p = re.escape(mark), re.escape(point)
    grouped = rf"[1-9]\d?(?:{m}\d\d)*{m}\d{{3}}|[1-9]\d{{0,2}}" if lakh else rf"[1-9]\d{{0,2}}(?:{m}\d{{3}})*"
    whole = grouped if mark else r"[1-9]\d*"
    return re.compile(rf"(?:0|{whole})(?:{p}\d+)?|{p}\d+", re.ASCII)


def _marks(digits: Sequence[str]) -> tuple[str, str, bool]:
    """The mark between thousands and the point of decimals that most numbers have, the usual ones first."""
    used = [mark for mark in GROUPS if any(mark in text for text in digits)]
    forms = [("", ".", False), *((mark, "," if mark == "." else ".", False) for mark in used), ("", ",", False)]
    forms += [(mark, ",", False) for mark in used if mark not in ",."] + [(",", ".", True)] * ("," in used)
    if _has_point_thousands(digits):
        return ".", ",", False
    return max(forms, key=lambda form: sum(_strict(*form).fullmatch(text) is not None for text in digits))


def _has_point_thousands(digits: Sequence[str]) -> bool:
    """True if three digits follow each point and some numbers have none: as decimals, some would be shorter."""
    pointed = sum("." in text for text in digits)
    return MANY_POINTS <= pointed < len(digits) and all(_strict(".", ",", False).fullmatch(text) for text in digits)


def has_point_thousands(texts: Sequence[str]) -> bool:
    return _has_point_thousands([text.removeprefix("-") for text in texts])


def _form(
    rows: Mapping[str, re.Match[str]],
    counts: Mapping[str, int],
    marks: tuple[str, str, bool],
    after: str,
    *,
    scaled: bool,
) -> tuple[NumberFormat, dict[str, Decimal]]:
    """The format of most texts, and the number of each."""
    mark, point, lakh = marks
    numbers, groups = dict[str, Decimal](), dict[tuple[int, int], Counter[tuple[str, str]]]()
    n_decimals = dict[int, list[int]]()
    for text, known in rows.items():
        scale = (_scale(_core(known)[1], after) or 0) if scaled else 0
        size = Decimal(
            known["digits"].replace(mark, "").replace(point, ".") if mark else known["digits"].replace(point, ".")
        )
        numbers[text] = (-size if _is_negative(known) else size).scaleb(3 * scale)
        sign = 0 if size == 0 else -1 if _is_negative(known) else 1
        n_decimals.setdefault(scale, []).append(len(known["digits"].partition(point)[2]))
        groups.setdefault((scale, sign), Counter())[known["before"], known["after"]] += counts[text]
    bare = any(known["digits"].startswith(point) for known in rows.values())

    def section(scale: int, sign: int) -> Section | None:
        if (scale, sign) not in groups:
            return None
        around = groups[scale, sign].most_common(1)[0][0]
        return Section(*around, mark if scale == 0 else "", lakh and scale == 0, point,
                       min(n_decimals[scale]), max(n_decimals[scale]), bare, scale)  # fmt: skip

    scales = [section(scale, 1) for scale in sorted({scale for scale, _ in groups if scale}, reverse=True)]
    positive, negative, zero = (section(0, sign) for sign in (1, -1, 0))
    first = positive or zero
    if first is None:
        first = Section("", after, point=point)
        first = first if negative is None else replace(negative, before=negative.before.lstrip(_SIGNS))
    plain = [first]
    if negative is not None and (negative.before, negative.after) != ("-" + first.before, first.after):
        plain.append(negative)
    elif first.before.startswith("+"):
        plain.append(replace(first, before="-" + first.before[1:]))
    if len(plain) == 2 and zero is not None and zero != first:
        plain.append(zero)
    return NumberFormat(tuple(scale for scale in scales if scale is not None), tuple(plain)), numbers
