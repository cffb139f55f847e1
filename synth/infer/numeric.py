"""Numeric columns: whole or with a fraction, their precision, spikes, and where their resolution should lie.

Whole numbers that are no amounts, too: few levels, codes, and those that stand for something else, such as -999.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from synth.domain.steps import FEWEST_STEPS, steps_of_shares, usual_steps
from synth.errors import TableError
from synth.infer.facts import ColumnFacts, snake
from synth.schema.kinds import CategoricalColumn, Column, IdentifierColumn, IntegerColumn, RealColumn, WeightColumn
from synth.schema.kinds.base import NEARLY_ALL
from synth.schema.kinds.number import INT64, MOST_SPIKES, NumericColumn
from synth.table.decode import INFINITY, rounded

MAX_DECIMALS = 12
EXACT_FLOAT = 2**53  # up to here every whole number is a float64
FEW_CODES = 64  # so many distinct whole numbers of a column named like an identifier are codes of categories
MANY_ROWS = 1_000  # in so many rows, whole numbers that never repeat identify them
ZERO_SHARE = 0.1  # from this share on, zeros of a column of reals are a spike that needs a place of its own
FINE_STEPS = 256  # up to so many steps between its bounds, a column is resolved in full on a linear scale
ROUNDING = 8.0  # float spacings by which a quotient may miss a whole number
LEAST_STEPPED = 100  # values that a step is told from at least
FEW_VALUES = 40  # up to so many distinct values, each in several rows, are all there are: every one is a spike
SPIKE_SHARE, LEAST_SPIKE = 0.005, 30  # share of the rows, and rows, from which on a value is a spike

# A leading zero or plus sign makes a code, not a number; so does an exponent without a sign ("12E4").
_LONGEST = 400
_WHOLE = re.compile(r"-?(0|[1-9]\d*)(\.0+)?", re.ASCII)
_REAL = re.compile(r"-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]\d+)?", re.ASCII)


def of_texts(texts: np.ndarray, name: str) -> np.ndarray | None:
    """Distinct texts as int64 or float64, or `None` where they are not all numbers."""
    others = [text for text in texts if not _REAL.fullmatch(text)]
    if 0 < len(others) < len(texts) and all(INFINITY.fullmatch(text) for text in others):
        raise _infinite(name)
    if others or any(len(text) > _LONGEST for text in texts):
        return None
    if all(_WHOLE.fullmatch(text) for text in texts):
        whole = [int(text.split(".")[0]) for text in texts]
        fits = INT64[0] <= min(whole) and max(whole) <= INT64[1]
        return np.array(whole, dtype=np.int64) if fits else None
    reals = np.array([float(text) for text in texts])
    return None if np.isinf(reals).any() else reals


def are_numbers(texts: Sequence[str]) -> bool:
    return all(_REAL.fullmatch(text) for text in texts) and of_texts(np.array(texts, dtype=object), "") is not None


def _infinite(name: str) -> TableError:
    return TableError(
        f"numbers must be finite: column={name!r} holds infinite values; replace them or leave them empty"
    )


def numbers_of(about: ColumnFacts) -> np.ndarray | None:
    """The number of each row that has one, int64 where all are whole and fit, else float64; `None`: some are none."""
    values: Any = about.per_row
    if about.raw.form == "text":
        read = of_texts(about.present, about.name) if about.from_text else None
        return None if read is None else np.asarray(read[about.numbers_per_row])
    if about.raw.form == "mixed":
        if not all(isinstance(cell, int | float | Decimal) for cell in values):
            return None
        values = np.array([float(cell) for cell in values])
    if values.dtype.kind not in "ifb":
        return None
    check_finite(about.name, values)
    whole = values.dtype.kind != "f" or (np.all(values == np.rint(values)) and np.abs(values).max() < 2.0**63)
    return np.asarray(values.astype(np.int64 if whole else np.float64))


def check_finite(name: str, values: np.ndarray) -> None:
    if np.isinf(values).any():
        raise _infinite(name)
    if not math.isfinite(float(values.max()) - float(values.min())):
        raise TableError(
            f"column={name!r} holds numbers too far apart for float64 to hold their distance; "
            "set those beyond 8e307 to missing, or leave the column out"
        )


def propose(about: ColumnFacts, values: np.ndarray) -> Column:
    """The kind of a column of numbers, of which `values` are those of all rows that have one, int64 or float64."""
    if values.dtype.kind == "f":
        check_finite(about.name, values)
        if not np.all(values == np.rint(values)) or np.abs(values).max() >= 2.0**63:
            return weight(about, values) if about.named_weight else real(about, values)
        values = values.astype(np.int64)
    return _whole(about, values)


def real(about: ColumnFacts, values: np.ndarray) -> RealColumn:
    common = about.common("float64")
    apart, values = _beside(about, values)
    return RealColumn(**_fraction(about, values), **apart, **common)


def weight(about: ColumnFacts, values: np.ndarray) -> WeightColumn:
    whole = values.dtype.kind != "f"
    return WeightColumn(**_fraction(about, values), **about.common(about.int64 if whole else "float64"))


def _fraction(about: ColumnFacts, values: np.ndarray) -> dict[str, Any]:
    values = values.astype(np.float64)
    decimals = decimals_of(values, about.raw.digits)
    if decimals is not None:
        values, _ = rounded(values, decimals, about.raw.digits)
    habits = habits_of(values, None if decimals is None else 10.0**-decimals)
    scale = scale_of(values, _spacing(habits, 10.0 ** -(MAX_DECIMALS if decimals is None else decimals)))
    return {"bounds": (float(values.min()), float(values.max())), "decimals": decimals, "scale": scale, **habits}


def _whole(about: ColumnFacts, values: np.ndarray) -> Column:
    if about.named_weight:
        return weight(about, values)
    distinct, counts = np.unique(values, return_counts=True)
    codes = are_codes(about.name, distinct, counts)
    if about.role is None and about.named_identifier and not (codes and named_code(about.name)):
        few = about.n_distinct <= FEW_CODES and about.n_distinct <= about.n_present / 4
        return levels(about, values, ordered=False) if few else identifier(about, values)
    # Whole numbers that never repeat identify rows: consecutive ones, or many.
    consecutive = int(distinct[-1]) - int(distinct[0]) == about.n_present - 1
    enough = about.n_present >= MANY_ROWS or (consecutive and about.n_present >= 20)
    if about.role is None and about.unique and enough:
        return identifier(about, values)
    if codes:
        return levels(about, values, ordered=False)
    yes_or_no = about.role == "target" and len(distinct) == 2 < len(values)
    if yes_or_no or are_levels(distinct, counts):
        return levels(about, values, ordered=True)
    return integer(about, values)


def levels(about: ColumnFacts, values: np.ndarray, *, ordered: bool) -> CategoricalColumn:
    known = tuple(np.unique(values).tolist())
    return CategoricalColumn(categories=known, ordered=ordered, **about.common(about.int64))


def identifier(about: ColumnFacts, values: np.ndarray) -> IdentifierColumn:
    low, high = int(values.min()), int(values.max())
    # Wide enough to draw ten times as many anew where the dtype has room for them.
    wide, dtype = max(high, low + 10 ** len(str(10 * len(about.codes)))), about.dtype or "int64"
    greatest = EXACT_FLOAT if dtype.lower().startswith("float") else INT64[1]
    bounds = (low, wide if "64" in dtype and wide <= greatest else high)
    return IdentifierColumn(bounds=bounds, **about.common(about.int64))


def integer(about: ColumnFacts, values: np.ndarray) -> IntegerColumn:
    apart, values = _beside(about, values)
    bounds, reals = (int(values.min()), int(values.max())), values.astype(np.float64)
    habits = habits_of(reals, 1.0)
    whole = {key: tuple(map(int, habits[key])) for key in ("steps", "spikes") if key in habits}
    scale = scale_of(reals, _spacing(habits, 1.0))
    return IntegerColumn(bounds=bounds, scale=scale, **habits | whole, **apart, **about.common(about.int64))


def _beside(about: ColumnFacts, values: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """How numbers are written and what lies beside them, and the ordinary ones."""
    fields: dict[str, Any] = {"below": (), "above": (), **about.written}
    distinct, counts = np.unique(values, return_counts=True)
    n_below, n_above = sentinels(distinct.astype(np.float64), counts, is_sentinel)
    if n_below or n_above:
        plain = distinct.tolist()
        fields["below"] += tuple(plain[:n_below])
        fields["above"] = (*plain[len(plain) - n_above :], *fields["above"])
        values = values[(values >= distinct[n_below]) & (values <= distinct[len(distinct) - 1 - n_above])]
    return {key: value for key, value in fields.items() if value}, values


FEWEST_ROWS, MOST_APART, LEAST_OTHERS = 3, 5, 10
"""Rows of each such value at least, such values at either end at most, and different ordinary ones at least."""
_REPEATED = re.compile(r"-?(([1789])\2+(\.\2+)?|10{6,}|2147483647|2147483648)(\.0)?")


def is_sentinel(value: float) -> bool:
    """True if a number looks like one that stands for something else.

    >>> is_sentinel(-999.0), is_sentinel(99.99), is_sentinel(120000.0)
    (True, True, False)
    """
    return _REPEATED.fullmatch(repr(float(value))) is not None


def sentinels(distinct: np.ndarray, counts: np.ndarray, fits: Callable[[Any], bool]) -> tuple[int, int]:
    """How many values at either end are beside the line: in several rows, and farther off than all others reach.

    >>> sentinels(np.array([*range(18, 90), 999.0]), np.array([9] * 73), is_sentinel)
    (0, 1)
    """
    ends = [0, 0]
    for side in (0, 1, 0):
        kept = slice(ends[0], len(distinct) - ends[1])
        line, rows = (distinct[kept], counts[kept]) if side == 0 else (-distinct[kept][::-1], counts[kept][::-1])
        for n in range(1, min(MOST_APART, len(line) - LEAST_OTHERS) + 1):
            is_far = line[n] - line[n - 1] > line[-1] - line[n] and rows[:n].min() >= FEWEST_ROWS
            if is_far and all(map(fits, line[:n] if side == 0 else -line[:n])):
                ends[side] += n
                break
    return ends[0], ends[1]


def _spacing(habits: Mapping[str, Any], unit: float) -> float:
    """The coarsest step that nearly all values are on, as `spacing` has it of a column."""
    steps = habits.get("steps", ())
    shares = habits.get("step_shares", (1.0,) * len(steps))
    return next((size for size, share in zip(steps, shares, strict=True) if share >= NEARLY_ALL), unit)


def habits_of(values: np.ndarray, unit: float | None) -> dict[str, Any]:
    """The steps and the frequent values of a column, as a schema writes them. `unit`: its precision, if it has one."""
    low, high = float(values.min()), float(values.max())
    if unit is not None and max(-low, high) / unit >= EXACT_FLOAT:
        return {}  # float64 does not tell its values apart
    distinct, counts = np.unique(values, return_counts=True)
    if (unit != 1.0 or high - low >= FINE_STEPS) and _are_all_there_are(counts):
        return {"spikes": tuple(distinct.tolist())}
    if unit is not None and (high - low) / unit < FINE_STEPS:  # a public grid resolves every value
        whole = tuple(size for size, share in _steps_of(values[values != 0], unit) if share == 1.0)
        return {"steps": whole} if whole else {}
    spikes = _spikes_of(distinct, counts)
    others = values[(values != 0) & ~np.isin(values, spikes)]
    steps = () if unit is None else _steps_of(others, unit)
    often = next((size for size, share in steps if share >= NEARLY_ALL), unit)
    if often is not None and (high - low) / often < FINE_STEPS:  # it resolves every multiple
        spikes, steps = (), () if unit is None else _steps_of(values[values != 0], unit)
    fields: dict[str, Any] = {"steps": tuple(size for size, _ in steps)} if steps else {}
    if any(share < 1.0 for _, share in steps):
        fields["step_shares"] = tuple(share for _, share in steps)
    return {**fields, "spikes": spikes} if spikes else fields


def frequent_values(distinct: np.ndarray, counts: np.ndarray, column: NumericColumn) -> tuple[float, ...]:
    """The spikes of a column of known precision and steps: those that `habits_of` finds where it has no steps."""
    unit, often = column.unit, column.spacing
    low, high = column.bounds
    if len(distinct) == 0 or (unit is not None and max(-low, high) / unit >= EXACT_FLOAT):
        return ()
    if (unit != 1.0 or high - low >= FINE_STEPS) and _are_all_there_are(counts):
        return tuple(distinct.tolist())
    return () if often is not None and (high - low) / often < FINE_STEPS else _spikes_of(distinct, counts)


def _are_all_there_are(counts: np.ndarray) -> bool:
    """True if a column's values are few, and each is in several rows."""
    return len(counts) <= FEW_VALUES and counts.min() > 1 and counts.sum() >= LEAST_STEPPED


def _steps_of(values: np.ndarray, unit: float) -> tuple[tuple[float, float], ...]:
    """Steps that more values are on than finer and coarser steps explain, coarsest first, with their shares.
    `values`: without zeros and frequent ones, which are on a step by themselves.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if counts.sum() < LEAST_STEPPED or len(distinct) < FEWEST_STEPS:
        return ()
    shares = {}
    for size in usual_steps(float(np.abs(distinct).max()) / unit):
        times = distinct / (size * unit)
        noise = np.clip(ROUNDING * np.spacing(np.abs(times)), 1e-9, 0.01)  # no fifth is a whole number
        on = np.abs(times - np.round(times)) <= noise
        shares[size] = float(counts[on].sum() / counts.sum()) if on.sum() >= FEWEST_STEPS else 0.0
    return steps_of_shares(shares, unit)


def _spikes_of(distinct: np.ndarray, counts: np.ndarray) -> tuple[float, ...]:
    """Values that many rows have, ascending; the most frequent ones where these are too many."""
    frequent = counts >= max(SPIKE_SHARE * counts.sum(), LEAST_SPIKE)
    if not frequent.any():
        return ()
    chosen = np.argsort(-np.where(frequent, counts, 0), kind="stable")[: min(int(frequent.sum()), MOST_SPIKES)]
    return tuple(float(value) for value in np.sort(distinct[chosen]))


def decimals_of(values: np.ndarray, digits: int = 15) -> int | None:
    """The fewest digits after the point that express all values, or `None` where more than `MAX_DECIMALS` are needed.

    >>> decimals_of(np.array([1.5, 2.25]))
    2
    """
    distinct = np.unique(values)
    most = MAX_DECIMALS if digits >= 15 else 4
    for decimals in range(most + 1):
        near, wrong = rounded(distinct, decimals, digits)
        exact = digits < 15 or np.array_equal(near, distinct)
        if exact and not wrong.any():
            return decimals
    return None


def scale_of(values: np.ndarray, step: float) -> Literal["linear", "log"]:
    """The scale of a column: its resolution lies on small magnitudes where the tail is heavy."""
    peak = float(np.abs(values).max())
    if peak <= step:
        return "linear"
    values, step = values / peak, step / peak  # so that nothing overflows; the answer does not depend on the unit
    low, high = values.min(), values.max()
    if high - low <= FINE_STEPS * step or (low < 0 and high <= 0):
        return "linear"
    size = np.abs(values)
    middle = np.median(size)
    if low < 0:
        return "log" if size.max() >= 20 * middle else "linear"
    if middle == 0 or (step * peak < 1 and np.mean(values == 0) >= ZERO_SHARE):
        return "log"
    heavy = high >= 3 * middle and _skewness(values) > 1.0
    return "log" if heavy and abs(_skewness(np.log(values + middle / 100))) < _skewness(values) else "linear"


def _skewness(values: np.ndarray) -> float:
    spread = values.std()
    return float((((values - values.mean()) / spread) ** 3).mean()) if spread > 0 else 0.0


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
    for step, below in itertools.product(_STEPS, (0, 1)):
        is_on = (values + below) % step == 0
        on, off = size[is_on], size[~is_on]
        if min(len(on), len(off)) >= 4:
            error = math.sqrt(float(on.var(ddof=1)) / len(on) + float(off.var(ddof=1)) / len(off))
            if on.mean() - off.mean() > HEAPED * max(error, 1e-9):
                return True
    return False


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
