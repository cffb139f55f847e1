"""Whole numbers that are no amounts: few levels, and codes, told by their name or by how often each occurs."""

import math
import re

import numpy as np

from synth.infer.facts import snake
from synth.schema.kinds.base import NEARLY_ALL

MOST_CODES = 2_000  # more distinct whole numbers than this are no codes
FEWEST_CODES = 25  # with fewer distinct values, how often they occur says nothing
OFTEN = 10  # rows that each code has on average; half of them where the name says that it is one
COMMON = 5  # rows of a value from which on its frequency is looked at
IRREGULAR, ROUGH, UNRELATED = 0.9, 0.35, 0.5
"""Limits of codes. They fill no more of their range. Their frequencies differ by this and chance from those beside them
(median of the logarithms), and the rank correlation with those is no higher."""
ROUGHEST, MOST_UNRELATED = 0.7, 0.25  # the same of codes that fill their range
HEAPED = 4.0  # standard errors from which on multiples of a step are more frequent than other values

MOST_LEVELS = 24  # distinct whole numbers that are levels at most: the hours of a day are
ROWS_A_LEVEL, LEAST_ROWS = 10, 50  # rows of each level on average at least, and of the column
SPARSE, RARE = 1.5, 0.01
"""Values of a longer line are no levels: their range is this many times as long as they are many, and the rarest is in
fewer rows than this share."""
FEWEST_AT_END, SHARE_AT_END = 3, 1e-4
"""Two values at one end with fewer rows each, as a number and as a share, are the tail of a longer line."""

_WORDS = re.compile(r"[a-z]+")
_CODES = frozenset({
    "agency", "agent", "airport", "bank", "branch", "brand", "carrier", "cat", "category", "cd", "city", "cluster",
    "code", "company", "county", "cpt", "department", "dept", "district", "div", "division", "fips", "icd", "indp",
    "industry", "isic", "key", "label", "msa", "naics", "nationality", "occp", "occupation", "postal", "postcode",
    "product", "puma", "region", "route", "sector", "shop", "sic", "sku", "state", "station", "store", "supplier",
    "type", "vendor", "zip", "zipcode", "zone",
})  # fmt: skip
"""Last words of names of codes. Words that amounts go by, too (area, class, group, number), are not among them."""
_ALONE = frozenset({"ethnicity", "gender", "marital", "marriage", "nation", "race", "religion", "sex"})
"""Names of codes that are one such word."""
_NUMBERED = frozenset({"id", "nbr", "no", "nr", "num", "number"})  # words that may follow those
_AMOUNTS = frozenset({
    "age", "amount", "amt", "area", "bal", "balance", "bill", "charge", "charges", "cost", "costs", "credit",
    "days", "debt", "distance", "duration", "fee", "fees", "gain", "height", "hours", "hrs", "income", "km",
    "length", "limit", "loan", "loss", "miles", "mins", "minutes", "months", "nights", "pay", "payment", "points",
    "population", "premium", "price", "qty", "quantity", "rate", "rent", "revenue", "salary", "sales", "score",
    "seconds", "size", "sqft", "sum", "tax", "temp", "temperature", "time", "times", "total", "value", "volume",
    "wage", "weeks", "weight", "width", "worth", "year", "years", "yr", "yrs",
})  # fmt: skip
_COUNTED = frozenset({"amt", "count", "n", "no", "num", "number", "sum", "total"})
"""First words of names of counts and sums."""
_STEPS = (3, 4, 5, 6, 7, 10, 12, 15, 20, 24, 25, 30, 50, 60, 100, 250, 500, 1000)
"""Multiples that people prefer: of ten, of a dozen, of a week or of a month."""


def named_code(name: str) -> bool:
    """True if the last word of a column's name says that it holds codes.

    >>> named_code("zipcode"), named_code("storeNbr"), named_code("n_type"), named_code("store_visits")
    (True, True, False, False)
    """
    words = _WORDS.findall(snake(name))
    if not words or words[0] in _COUNTED:
        return False
    while len(words) > 1 and words[-1] in _NUMBERED:
        words = words[:-1]
    return words[-1] in _CODES or (len(words) == 1 and words[0] in _ALONE)


def are_levels(distinct: np.ndarray, counts: np.ndarray) -> bool:
    """True if whole numbers are few levels that repeat themselves, rather than counts of which larger ones may come.
    `distinct`: *Sensitive*. The values, ascending.

    >>> are_levels(np.arange(5), np.array([40, 90, 60, 20, 9])), are_levels(np.arange(5), np.array([900, 90, 9, 1, 1]))
    (True, False)
    """
    n_rows, n_levels = int(counts.sum()), len(distinct)
    if not 1 < n_levels <= MOST_LEVELS or n_rows < max(LEAST_ROWS, ROWS_A_LEVEL * n_levels):
        return False
    if n_levels == 2:
        return True
    every = math.gcd(*np.diff(distinct).tolist())
    span = (int(distinct[-1]) - int(distinct[0])) // every + 1
    if span > SPARSE * n_levels and counts.min() < RARE * n_rows:
        return False
    few = counts < max(FEWEST_AT_END, SHARE_AT_END * n_rows)
    return not (few[:2].all() or few[-2:].all())


def are_codes(name: str, distinct: np.ndarray, counts: np.ndarray) -> bool:
    """True if whole numbers are codes: by their name, or since no smooth density explains how often each occurs.

    Codes are spaced irregularly, and neighbors are not alike. Amounts are, among equally round ones: prices and
    durations heap on multiples of ten, a dozen or a month.
    `distinct`: *Sensitive*. Its values, ascending.
    """
    often = counts.sum() / len(distinct)
    if named_code(name):
        return bool(len(distinct) <= MOST_CODES and often >= OFTEN / 2)
    words = _WORDS.findall(snake(name))
    is_amount = bool(words) and (words[0] in _COUNTED or not _AMOUNTS.isdisjoint(words))
    if is_amount or len(distinct) > MOST_CODES or often < OFTEN or len(distinct) < FEWEST_CODES:
        return False
    if distinct[0] < 0 or distinct[counts.argmax()] == 0:
        return False  # amounts may be owed, and most often there is nothing
    grid = 1  # the largest power of ten that divides nearly all rows
    while 10 * grid <= distinct[-1] and counts[distinct % (10 * grid) == 0].sum() >= NEARLY_ALL * counts.sum():
        grid *= 10
    on_grid = distinct % grid == 0
    values, counts = distinct[on_grid] // grid, counts[on_grid]
    if _heaped(values, counts):
        return False
    rough, related, filled = _neighbors(values, counts)
    if filled <= IRREGULAR:
        return rough >= ROUGH and related <= UNRELATED
    return rough >= ROUGHEST and related <= MOST_UNRELATED


def _heaped(values: np.ndarray, counts: np.ndarray) -> bool:
    """True if multiples of a step, or the numbers just below them, are more frequent than other values."""
    size = np.log(counts + 0.5)
    return any(_more(size, (values + below) % step == 0) for step in _STEPS for below in (0, 1))


def _more(size: np.ndarray, on: np.ndarray) -> bool:
    n_on, n_off = int(on.sum()), int((~on).sum())
    if min(n_on, n_off) < 4:
        return False
    error = math.sqrt(float(size[on].var(ddof=1)) / n_on + float(size[~on].var(ddof=1)) / n_off)
    return bool(size[on].mean() - size[~on].mean() > HEAPED * max(error, 1e-9))


def _neighbors(values: np.ndarray, counts: np.ndarray) -> tuple[float, float, float]:
    """Roughness of neighboring frequencies beyond chance, their rank correlation, and the share of the range in use.

    All of it within the middle nine tenths of the rows.
    """
    shares = np.cumsum(counts) / counts.sum()
    body = np.flatnonzero((shares >= 0.05) & (shares - counts / counts.sum() <= 0.95))
    values, counts = values[body], counts[body]
    filled = len(values) / float(values[-1] - values[0] + 1)
    counts = counts[counts >= COMMON]
    if len(counts) < FEWEST_CODES // 2:
        return 0.0, 1.0, filled
    left, right = counts[:-1].astype(float), counts[1:].astype(float)
    apart = np.log(left / right) ** 2 - (1 / left + 1 / right)
    ranks = [np.argsort(np.argsort(side, kind="stable"), kind="stable") for side in (left, right)]
    return math.sqrt(max(float(np.median(apart)), 0.0)), float(np.corrcoef(ranks[0], ranks[1])[0, 1]), filled
