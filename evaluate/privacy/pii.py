"""Real personal data (PII) in the synthetic table: names, e-mail, telephone, card numbers, identifiers.

Such columns are never learned, so that a real value can be there by chance or by a leak only. Chance is what a fresh
draw of as many values gives, made just as the table's were meant to be: a common first name comes again, an IBAN does
not (`expected`, `too_many`).

Values are normalized before they are compared: no case, spaces or punctuation, numbers by their digits (`likeness`).
Real values are looked for where they do not belong as well, in other columns and amid longer texts (`formed`,
`readable`, `amid`).
"""

import math
import re
import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from evaluate.intervals import clustered
from evaluate.metrics import SYNTHETIC, Metric
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from synth import identifiers, personal
from synth.infer.personal import CALLING_CODE
from synth.locales import IBAN_LENGTHS
from synth.personal.formats import CARD_DIGITS, as_text
from synth.personal.replacement import templates_of
from synth.schema import Schema
from synth.schema.kinds import Column

METRICS = (
    Metric("privacy.personal", "lower", "Real personal data", "Share of synthetic rows with a real e-mail, telephone, "
           "card number or the like, which chance does not repeat.", counted=SYNTHETIC, key=True, without_holdout=True,
           sampled="counted"),
    Metric("privacy.personal.column", "lower", "Real values of a personal column",
           "Share of values of a column of personal data that stand in training rows; the reference is a fresh draw.",
           describes="common names and numbers coincide by chance; name 'privacy.personal'"),
)  # fmt: skip

_DIGITS_ONLY = ("phone", "card_number")
"""Kinds of which digits alone are compared; all others but e-mail are compared alike."""
_EXTENSION = re.compile(r"(x|ext|poste).*")
_BETWEEN_DIGITS = re.compile(r"\D+")
_AS_FLOAT = re.compile(r"(?<=\d)\.0+$")
_TAG = re.compile(r"\+[^@]*(?=@)")  # A tag in an e-mail address: mail to ann+news reaches ann
_SIGNS = re.compile(r"[\W_]+", re.ASCII)
N_PHONE = 10  # Last digits of a telephone number that are compared: what comes before says where one calls from


def likenesses(values: pd.Series, personal: str) -> np.ndarray:
    """Normalized forms by which values are compared, shape (n,), texts as objects; `None` where nothing is left.
    `values`: *Sensitive*. As a canonical table holds them.
    """
    known: dict[object, str | None] = {}
    made = np.full(len(values), None, dtype=object)
    for index, value in enumerate(values.tolist()):
        if value is None or pd.isna(value):
            continue
        if value not in known:
            known[value] = likeness(as_text(value), personal) or None
        made[index] = known[value]
    return made


def compared_alike(one: str, other: str) -> bool:
    """True where values of two kinds are compared in the same way."""
    apart = (*_DIGITS_ONLY, "email")
    return one == other or (one not in apart and other not in apart)


def likeness(text: str, personal: str) -> str:
    """The normalized form of a value; empty where nothing is left to compare.

    >>> likeness("+1 (555) 010-0123", "phone") == likeness("555.010.0123", "phone")
    True
    >>> likeness("+49 30 23125 001", "phone") == likeness("030 23125-001", "phone")
    True
    >>> likeness("ÉMILE  O'Brien", "name"), likeness("007-A", "identifier")
    ('émileobrien', '7a')
    """
    plain = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    plain = _TAG.sub("", plain) if personal == "email" else plain
    if personal not in _DIGITS_ONLY and plain.isascii():
        kept = _SIGNS.sub("", plain)
        return kept.lstrip("0") or kept[:1]
    if personal in _DIGITS_ONLY:
        plain = _nationally(plain) if personal == "phone" else _AS_FLOAT.sub("", plain)
        plain = _BETWEEN_DIGITS.sub("", plain)
        digits = plain if plain.isascii() else "".join(str(unicodedata.decimal(c)) for c in plain)
        return digits[-N_PHONE:].lstrip("0") if personal == "phone" else digits.lstrip("0")
    kept = "".join(c for c in plain if c.isalnum() or unicodedata.category(c)[0] == "M")
    # Whoever keeps a number as a number loses its zeros.
    return kept.lstrip("0") or kept[:1]


def _nationally(plain: str) -> str:
    """A telephone number without its extension and the code of its country."""
    number = _EXTENSION.sub("", plain).lstrip(" (")
    abroad = CALLING_CODE.match(number)
    return number if abroad is None else number[abroad.end() :]


RARE = 1e-3  # Matches by chance, expected in the whole table, below which a match is no chance
_WIDE = 1.25  # Factor on the expected matches by chance, which are known from draws only
_NUMBERS = ("phone", "account_number", "national_id")
_DRAWS = 2_000


def expected(column: Any, real: frozenset[str], n: int, rng: np.random.Generator) -> float:
    """Expected real values among so many new ones: real ones of a form, over all that the form holds. `real`:
    *Sensitive*. What the real values are compared by.

    Of numbers only; other personal data is as good as never made twice.

    >>> from synth.schema.kinds import PersonalColumn
    >>> column = PersonalColumn(personal="phone", template="555-01##")
    >>> round(expected(column, frozenset({"5550123", "5559123"}), 50, np.random.default_rng(0)), 6)
    0.5
    """
    if column.is_identifier:
        return n * len(real) / identifiers.capacity(column)
    if column.personal not in _NUMBERS:
        return 0.0
    plain = column.model_copy(update={"unique": False, "missing_share": 0.0})
    forms = [plain.model_copy(update={"template": template}) for template in templates_of(column)] or [plain]
    drawn = [
        likenesses(pd.Series(personal.generate(form, _DRAWS, rng), dtype=object), column.personal) for form in forms
    ]
    return n * float(np.mean([_chance([text for text in texts if text], real) for texts in drawn]))


def too_many(hits: int, by_chance: float) -> bool:
    """True where chance does not explain so many different real values.

    >>> too_many(1, 1e-5), too_many(1, 0.02), too_many(90, 0.02), too_many(110, 100.0)
    (True, False, True, False)
    """
    if by_chance < RARE or hits == 0:
        return hits > 0
    from scipy.stats import poisson

    return bool(poisson.sf(hits - 1, _WIDE * by_chance) < RARE**2)


def _chance(drawn: Sequence[str], real: frozenset[str]) -> float:
    """The chance that one more value is real, its characters as in the drawn ones of its length."""
    by_length = defaultdict(list)
    for text in drawn:
        by_length[len(text)].append(text)
    chance = 0.0
    for length, texts in by_length.items():
        admitted = [set(characters) for characters in zip(*texts, strict=True)]
        fitting = sum(
            len(value) == length and all(c in among for c, among in zip(value, admitted, strict=True)) for value in real
        )
        chance += len(texts) / len(drawn) * fitting / math.prod(map(len, admitted))
    return chance


ANYWHERE: Mapping[str, Callable[[str], bool]] = {
    "email": lambda text: "@" in text,
    "card_number": lambda text: sum(map(str.isdigit, text)) >= CARD_DIGITS[0],
    "iban": lambda text: sum(map(str.isalnum, text)) >= min(IBAN_LENGTHS.values()),
    "address": lambda text: any(map(str.isdigit, text)) and any(map(str.isalpha, text)),
}
"""Kinds that no other column may hold, and the form without which a real value is anybody's: "unknown"."""
_BETWEEN_WORDS = re.compile(r"[\s<>,;:()\"']+")
_CARD = re.compile(r"\d(?:[ -]?\d){12,18}")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d\d(?: ?[A-Za-z0-9]){11,30}")


def formed(real: pd.Series, personal: str) -> frozenset[str]:
    """Normalized forms of the real values that have the form of their kind. `real`: *Sensitive*. All values, missing
    ones among them.

    >>> formed(pd.Series(["ann@example.org", "unknown", None]), "email")
    frozenset({'annexampleorg'})
    """
    fits = real.map(lambda value: not pd.isna(value) and ANYWHERE[personal](as_text(value)))
    return frozenset(value for value in likenesses(real[fits.astype(bool)], personal) if value is not None)


def readable(values: pd.Series, personal: str) -> bool:
    """True where a column could hold such values: one of text, and for cards one of numbers as long."""
    if values.dtype == object or personal != "card_number" or not pd.api.types.is_numeric_dtype(values):
        return values.dtype == object
    return bool((values.dropna() >= 10 ** (CARD_DIGITS[0] - 1)).any())


def amid(values: pd.Series, personal: str, real: frozenset[str]) -> np.ndarray:
    """Mask of texts that hold a real e-mail address, card number or IBAN among other words; shape (n,). `real`:
    *Sensitive*. What the real values are compared by.

    >>> amid(pd.Series(["write to <ann@example.org>.", "or not"]), "email", frozenset({"annexampleorg"})).tolist()
    [True, False]
    """
    if personal not in ("email", "card_number", "iban") or values.dtype != object:
        return np.zeros(len(values), dtype=bool)
    known = {value: _holds(str(value), personal, real) for value in values.dropna().unique()}
    return np.array([known.get(value, False) for value in values.tolist()], dtype=bool)


def _holds(text: str, personal: str, real: frozenset[str]) -> bool:
    if personal == "iban":  # words may follow it: its country says where it ends
        parts = [part.replace(" ", "")[: IBAN_LENGTHS.get(part[:2].upper())] for part in _IBAN.findall(text)]
    else:
        parts = _CARD.findall(text) if personal == "card_number" else _BETWEEN_WORDS.split(text)
    return any(likeness(part, personal) in real for part in parts if ANYWHERE[personal](part))


WHOLE = ("email", "phone", "address", "card_number", "iban", "account_number", "national_id", "url", "text")
"""Personal data that points to one person or household by itself."""
_NAMES = ("name", "first_name", "last_name")
LONG = 20  # Letters and digits of a text below which it is anybody's


@dataclass(frozen=True)
class _Compared:
    """*Sensitive*. A column's values, made comparable: `None` where missing."""

    name: str
    column: Any
    synthetic: np.ndarray
    train: frozenset[str]
    holdout: frozenset[str]

    @property
    def real(self) -> frozenset[str]:
        return self.train | self.holdout


def measure(tables: Tables) -> MetricResult:
    """The share of rows with a real value that chance does not repeat, and for each column how many values are real.

    Estimates: `privacy.personal` (rows; counted in this very table, so that its interval is the number itself), and by
    column `privacy.personal.column` (share of values that stand in the training rows).
    """
    holdout = tables.holdout
    compared = [_compare(name, column, tables, holdout) for name, column in _unlearned(tables).items()]
    estimates, failures = [_rows(compared, tables, holdout)], []
    for one in compared:
        if any(value is not None for value in one.synthetic):
            estimates.append(_of_column(one, tables))
        else:
            message = "the synthetic column has missing values only"
            failures.append(Failure("privacy.personal.column", "skipped", message, (one.name,)))
    return MetricResult(tuple(estimates), tuple(failures))


def _unlearned(tables: Tables) -> dict[str, Any]:
    columns = {name: tables.schema.columns[name] for name in tables.schema.kept}
    return {name: one for name, one in columns.items() if one.is_replaced}


def _compare(
    name: str, column: Any, tables: Tables, holdout: pd.DataFrame
) -> _Compared:  # fmt: skip
    train, held = (
        frozenset(value for value in likenesses(frame[name], _held(column)) if value is not None)
        for frame in (tables.train, holdout)
    )
    return _Compared(name, column, likenesses(tables.synthetic[name], _held(column)), train, held)


def _held(column: Column) -> str:
    return column.personal if column.is_personal else "identifier"


def _of_column(one: _Compared, tables: Tables) -> Estimate:
    present = np.array([value is not None for value in one.synthetic])
    groups = entity_codes(tables.synthetic, tables.schema)
    fresh = likenesses(pd.Series(_drawn(one, groups, tables), dtype=object), _held(one.column))
    n = int(present.sum())
    value, low, high = clustered(_among(one.synthetic, one.train)[present], groups[present])
    return Estimate(
        "privacy.personal.column", value, n, "lower", (one.name,), low, high,
        float(_among(fresh, one.train)[present].mean()), 1.0 if one.train else 0.0,
        f"share of values of this column that stand in the training rows, of {n:,}; the reference is chance",
    )  # fmt: skip


def _among(values: np.ndarray, real: frozenset[str]) -> np.ndarray:
    return np.fromiter((value is not None and value in real for value in values), dtype=bool, count=len(values))


def _drawn(one: _Compared, groups: np.ndarray, tables: Tables) -> np.ndarray:
    """As many values as the table has, made anew; one for each entity where an entity has one."""
    rng = np.random.default_rng([tables.seed, zlib.crc32(one.name.encode()), 6])
    schema = tables.schema
    shared = schema.entity is not None and one.name in (schema.entity, *schema.constant_in_entity)
    owners = groups if shared else np.arange(len(groups))
    n = int(owners.max()) + 1
    if one.column.is_identifier:
        values = identifiers.draw(one.column, n, rng)
    else:
        values = personal.generate(one.column.model_copy(update={"unique": False, "missing_share": 0.0}), n, rng)
    return np.asarray(values[owners], dtype=object)


def _rows(compared: list[_Compared], tables: Tables, holdout: pd.DataFrame) -> Estimate:
    """Rows with a real value that chance does not repeat: in its own column, in another, or by name and street."""
    by_chance = {one.name: _expected(one, tables) for one in compared if _is_whole(one)}
    counted = [
        one
        for one in compared
        if one.name in by_chance and (by_chance[one.name] < RARE or too_many(_n_real(one), by_chance[one.name]))
    ]
    n, found = len(tables.synthetic), {"names and streets together": _by_name_and_street(compared, tables, holdout)}
    for one in counted:
        flags = _among(one.synthetic, _telling(one))
        if _held(one.column) in ANYWHERE:
            flags |= _elsewhere(one, compared, tables, holdout)
        found[repr(one.name)] = flags
    whole = np.zeros(n, dtype=bool)
    for name, series in _columns_written(tables):
        if name not in tables.schema.learned:
            whole |= _with_whole_rows(series, tables)
    rows = np.logical_or.reduce([*found.values(), whole])
    share, hit = float(rows.mean()), [name for name, flags in found.items() if flags.any()]
    note = "the schema keeps no column of personal data whose values chance does not repeat"
    if counted or hit:
        named = ", ".join(hit or [repr(one.name) for one in counted])
        note = f"{int(rows.sum()):,} of {n:,} rows hold a value of {named} that is real and that chance does not repeat"
    if whole.any():
        note = f"{int(whole.sum()):,} of {n:,} rows hold all values of a training row in one text; {note}"
    floor = 1.0 if counted or whole.any() else 0.0
    # No sample of anything: what is in the table is in it.
    return Estimate("privacy.personal", share, n, "lower", (), share, share, 0.0, floor, note)


def _telling(one: _Compared) -> frozenset[str]:
    """Real values that say whose they are: a text of a word or two is anybody's."""
    return frozenset(v for v in one.real if len(v) >= LONG) if _held(one.column) == "text" else one.real


def _n_real(one: _Compared) -> int:
    return len(_telling(one) & set(one.synthetic.tolist()))


def _is_whole(one: _Compared) -> bool:
    return _held(one.column) in (*WHOLE, "identifier")


def _expected(one: _Compared, tables: Tables) -> float:
    rng = np.random.default_rng([tables.seed, zlib.crc32(one.name.encode()), 7])
    return expected(one.column, one.real, len(one.synthetic), rng)


def _elsewhere(one: _Compared, compared: list[_Compared], tables: Tables, holdout: pd.DataFrame) -> np.ndarray:
    """Rows that hold a real value of this column in another one, or amid a text."""
    flags, held = np.zeros(len(tables.synthetic), dtype=bool), _held(one.column)
    real = formed(pd.concat([tables.train[one.name], holdout[one.name]]), held)
    known = {other.name: other.synthetic for other in compared if compared_alike(held, _held(other.column))}
    for name, series in _columns_written(tables):
        flags |= amid(series, held, real)
        if name != one.name and readable(series, held):
            flags |= _among(known[name] if name in known else likenesses(series, held), real)
    return flags


def _columns_written(tables: Tables) -> Iterator[tuple[str, pd.Series]]:
    """All columns of the synthetic table, those too that the schema drops or does not know, as they were offered."""
    for name in tables.schema.kept:
        yield name, tables.synthetic[name]
    for unjudged, series in tables.unjudged.items():
        yield str(unjudged), series.astype(object)


_TOKENS = re.compile(r"[^\W_]+(?:[.:/@-][^\W_]+)*")
_LEAST_VALUES = 4  # Different words and numbers of a row below which it is anybody's
_MOST_CELLS, _MOST_ROWS, _MOST_ALIKE = 5_000, 20_000, 200
"""Distinct texts, and real rows of either side, that are searched for whole rows; rows that share their rarest word."""


def _with_whole_rows(texts: pd.Series, tables: Tables) -> np.ndarray:
    """Mask of texts that hold all values of a training row; none where they hold held-out rows about as often. A text
    may describe its own synthetic row, which is a real one by chance: then members and others come up alike.
    """
    from scipy.stats import binom

    cells = {text: _tokens(text) for text in texts[texts.map(lambda value: isinstance(value, str))].unique()}
    cells = {text: tokens for text, tokens in islice(cells.items(), _MOST_CELLS) if len(tokens) >= _LEAST_VALUES}
    hits: list[str] = []
    if cells:
        train, holdout = (_rows_as_tokens(side, tables.schema) for side in (tables.train, tables.holdout))
        hits, by_chance = (_holding(cells, one - other) for one, other in ((train, holdout), (holdout, train)))
        share = len(train) / max(len(train) + len(holdout), 1)
        if binom.sf(len(hits) - 1, len(hits) + len(by_chance), share) >= RARE**2:
            hits = []
    return np.asarray(texts.isin(hits))


def _tokens(text: str) -> frozenset[str]:
    return frozenset(likeness(word, "") for word in _TOKENS.findall(text))


def _rows_as_tokens(side: pd.DataFrame, schema: Schema) -> set[frozenset[str]]:
    """*Sensitive*. The words and numbers of each row that has several, rows of one side alone."""
    kept = side.loc[: _MOST_ROWS - 1, list(schema.learned)].astype(object)
    texts = (" ".join(as_text(value) for value in row if not pd.isna(value)) for row in kept.itertuples(index=False))
    rows = map(_tokens, texts)
    return {row for row in rows if len(row) >= _LEAST_VALUES}


def _holding(cells: Mapping[str, frozenset[str]], rows: set[frozenset[str]]) -> list[str]:
    """Texts that hold all words of one of the rows: only rows with their rarest word in it are looked at."""
    counts = Counter(token for row in rows for token in row)
    by_rarest = defaultdict(list)
    for row in rows:
        by_rarest[min(row, key=lambda token: (counts[token], token))].append(row)
    return [
        text
        for text, tokens in cells.items()
        if any(row <= tokens for token in tokens for row in by_rarest.get(token, ())[:_MOST_ALIKE])
    ]


def _by_name_and_street(compared: list[_Compared], tables: Tables, holdout: pd.DataFrame) -> np.ndarray:
    """Rows whose names and streets, taken together, are those of a real row."""
    held: Mapping[str, str] = {one.name: _held(one.column) for one in compared}
    names = [name for name, what in held.items() if what in (*_NAMES, "street")]
    if "street" not in held.values() or len(names) < 2:
        return np.zeros(len(tables.synthetic), dtype=bool)
    synthetic, *real = (
        list(zip(*(likenesses(frame[name], held[name]) for name in names), strict=True))
        for frame in (tables.synthetic, tables.train, holdout)
    )
    known = {row for rows in real for row in rows if None not in row}
    return np.array([row in known for row in synthetic], dtype=bool)
