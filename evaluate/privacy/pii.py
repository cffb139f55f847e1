"""Real personal data (PII) in the synthetic table: names, e-mail, telephone, card numbers, identifiers.

Such columns are never learned, so that a real value can be there by chance or by a leak only. Chance is what a fresh
draw of as many values gives. Values are compared without case, spaces and punctuation, numbers by their digits, in
other columns and amid longer texts as well.
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
from scipy import stats

from evaluate.intervals import clustered
from evaluate.metrics import SYNTHETIC, Metric
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes
from evaluate.tables import MetricResult, Tables
from synth import identifiers, personal
from synth.infer.personal import CALLING_CODE
from synth.locales import IBAN_LENGTHS
from synth.personal import CARD_DIGITS, as_text, templates_of
from synth.schema import Schema

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


def likenesses(values: pd.Series, kind: str) -> np.ndarray:
    """*Sensitive* where real. Normalized forms of values, shape (n,); `None` where missing or nothing is left."""
    codes, distinct = pd.factorize(values.astype(object))
    forms = [likeness(as_text(value), kind) or None for value in distinct]
    return np.array([*forms, None], dtype=object)[codes]


def likeness(text: str, kind: str) -> str:
    """The normalized form of a value; empty where nothing is left to compare.

    >>> likeness("+1 (555) 010-0123", "phone") == likeness("555.010.0123", "phone")
    True
    >>> likeness("+49 30 23125 001", "phone") == likeness("030 23125-001", "phone")
    True
    >>> likeness("ÉMILE  O'Brien", "name"), likeness("007-A", "identifier")
    ('émileobrien', '7a')
    """
    plain = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    if kind == "phone":  # without its extension and the code of its country
        plain = _EXTENSION.sub("", plain).lstrip(" (")
        abroad = CALLING_CODE.match(plain)
        plain = plain if abroad is None else plain[abroad.end() :]
    if kind in _DIGITS_ONLY:
        plain = _BETWEEN_DIGITS.sub("", plain if kind == "phone" else _AS_FLOAT.sub("", plain))
        digits = plain if plain.isascii() else "".join(str(unicodedata.decimal(c)) for c in plain)
        return (digits[-N_PHONE:] if kind == "phone" else digits).lstrip("0")
    plain = _TAG.sub("", plain) if kind == "email" else plain
    if plain.isascii():
        kept = _SIGNS.sub("", plain)
    else:
        kept = "".join(c for c in plain if c.isalnum() or unicodedata.category(c)[0] == "M")
    # Whoever keeps a number as a number loses its zeros.
    return kept.lstrip("0") or kept[:1]


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
    if column.is_identifier and column.consecutive:  # whoever numbers rows uses the same numbers
        return float(n)
    if column.is_identifier:
        return n * len(real) / identifiers.capacity(column)
    if column.personal not in _NUMBERS:
        return 0.0
    chances = []
    for template in templates_of(column) or [column.template]:
        form = column.model_copy(update={"unique": False, "missing_share": 0.0, "template": template})
        values = likenesses(pd.Series(personal.generate(form, _DRAWS, rng), dtype=object), column.personal)
        chances.append(_chance([text for text in values if text], real))
    return n * float(np.mean(chances))


def too_many(hits: int, by_chance: float) -> bool:
    """True where chance does not explain so many different real values.

    >>> too_many(1, 1e-5), too_many(1, 0.02), too_many(90, 0.02), too_many(110, 100.0)
    (True, False, True, False)
    """
    if by_chance < RARE or hits == 0:
        return hits > 0
    return bool(stats.poisson.sf(hits - 1, _WIDE * by_chance) < RARE**2)


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
_AMID: Mapping[str, Callable[[str], list[str]]] = {
    "email": _BETWEEN_WORDS.split,
    "card_number": _CARD.findall,
    # Words may follow it: its country says where it ends.
    "iban": lambda text: [part.replace(" ", "")[: IBAN_LENGTHS.get(part[:2].upper())] for part in _IBAN.findall(text)],
}
"""Parts of a text that may be a value of a kind which is looked for among other words, too."""
WHOLE = ("email", "phone", "address", "card_number", "iban", "account_number", "national_id", "url", "text")
"""Personal data that points to one person or household by itself."""
_NAMES = ("name", "first_name", "last_name")
LONG = 20  # Letters and digits of a text below which it is anybody's


@dataclass(frozen=True)
class _Compared:
    """*Sensitive*. A column that is replaced, its values made comparable: `None` where missing."""

    name: str
    column: Any
    kind: str
    synthetic: np.ndarray
    train: frozenset[str]
    holdout: frozenset[str]

    @classmethod
    def of(cls, name: str, tables: Tables, holdout: pd.DataFrame) -> "_Compared":
        column: Any = tables.schema.columns[name]
        kind = column.personal if column.is_personal else "identifier"
        synthetic, *real = (likenesses(rows[name], kind) for rows in (tables.synthetic, tables.train, holdout))
        return cls(name, column, kind, synthetic, *(frozenset(values) - {None} for values in real))

    @property
    def telling(self) -> frozenset[str]:
        """Real values that say whose they are: a text of a word or two is anybody's."""
        real = self.train | self.holdout
        return frozenset(value for value in real if len(value) >= LONG) if self.kind == "text" else real

    def is_counted(self, seed: int) -> bool:
        """True where chance does not repeat a real value, or not as many as there are."""
        if self.kind not in (*WHOLE, "identifier"):
            return False
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode()), 7])
        by_chance = expected(self.column, self.train | self.holdout, len(self.synthetic), rng)
        return by_chance < RARE or too_many(len(self.telling & set(self.synthetic.tolist())), by_chance)


def measure(tables: Tables) -> MetricResult:
    """The share of rows with a real value that chance does not repeat, and for each column how many values are real.

    Estimates: `privacy.personal` (rows; counted in this very table, so that its interval is the number itself), and by
    column `privacy.personal.column` (share of values that stand in the training rows).
    """
    holdout, columns = tables.holdout, tables.schema.columns
    compared = [_Compared.of(name, tables, holdout) for name in tables.schema.kept if columns[name].is_replaced]
    estimates, failures = [_rows(compared, tables, holdout)], []
    for each in compared:
        if any(value is not None for value in each.synthetic):
            estimates.append(_of_column(each, tables))
        else:
            message = "the synthetic column has missing values only"
            failures.append(Failure("privacy.personal.column", "skipped", message, (each.name,)))
    return MetricResult(tuple(estimates), tuple(failures))


def _of_column(each: _Compared, tables: Tables) -> Estimate:
    present = np.array([value is not None for value in each.synthetic])
    groups, schema = entity_codes(tables.synthetic, tables.schema), tables.schema
    # By chance: as many values, drawn anew; one for each entity where an entity has one.
    shared = schema.entity is not None and each.name in (schema.entity, *schema.constant_in_entity)
    owners = groups if shared else np.arange(len(groups))
    rng, n_drawn = np.random.default_rng([tables.seed, zlib.crc32(each.name.encode()), 6]), int(owners.max()) + 1
    if each.column.is_identifier:
        drawn = identifiers.draw(each.column, n_drawn, rng)
    else:
        plain = each.column.model_copy(update={"unique": False, "missing_share": 0.0})
        drawn = personal.generate(plain, n_drawn, rng)
    fresh = likenesses(pd.Series(np.asarray(drawn[owners], dtype=object)), each.kind)
    n = int(present.sum())
    value, low, high = clustered(_among(each.synthetic, each.train)[present], groups[present])
    return Estimate(
        "privacy.personal.column", value, n, "lower", (each.name,), low, high,
        float(_among(fresh, each.train)[present].mean()), 1.0 if each.train else 0.0,
        f"share of values of this column that stand in the training rows, of {n:,}; the reference is chance",
    )  # fmt: skip


def _among(values: np.ndarray, real: frozenset[str]) -> np.ndarray:
    return np.fromiter((value is not None and value in real for value in values), dtype=bool, count=len(values))


def _rows(compared: list[_Compared], tables: Tables, holdout: pd.DataFrame) -> Estimate:
    """Rows with a real value that chance does not repeat: in its own column, in another, or by name and street."""
    counted = [each for each in compared if each.is_counted(tables.seed)]
    n, flags = len(tables.synthetic), {"names and streets together": _by_name_and_street(compared, tables, holdout)}
    for each in counted:
        flags[repr(each.name)] = _among(each.synthetic, each.telling)
        if each.kind in ANYWHERE:
            flags[repr(each.name)] |= _elsewhere(each, compared, tables, holdout)
    whole = np.zeros(n, dtype=bool)
    for name, series in _columns_written(tables):
        if name not in tables.schema.learned:
            whole |= _with_whole_rows(series, tables)
    rows = np.logical_or.reduce([*flags.values(), whole])
    share, hit = float(rows.mean()), [name for name, mask in flags.items() if mask.any()]
    note = "the schema keeps no column of personal data whose values chance does not repeat"
    if counted or hit:
        named = ", ".join(hit or [repr(each.name) for each in counted])
        note = f"{int(rows.sum()):,} of {n:,} rows hold a value of {named} that is real and that chance does not repeat"
    if whole.any():
        note = f"{int(whole.sum()):,} of {n:,} rows hold all values of a training row in one text; {note}"
    floor = 1.0 if counted or whole.any() else 0.0
    # No sample of anything: what is in the table is in it.
    return Estimate("privacy.personal", share, n, "lower", (), share, share, 0.0, floor, note)


def _elsewhere(each: _Compared, compared: list[_Compared], tables: Tables, holdout: pd.DataFrame) -> np.ndarray:
    """Rows that hold a real value of this column in another one, or amid a text."""
    flags, kind = np.zeros(len(tables.synthetic), dtype=bool), each.kind
    real = pd.concat([tables.train[each.name], holdout[each.name]])
    has_form = real.map(lambda value: not pd.isna(value) and ANYWHERE[kind](as_text(value))).astype(bool)
    formed = frozenset(likenesses(real[has_form], kind)) - {None}
    apart = (*_DIGITS_ONLY, "email")
    alike = {o.name: o.synthetic for o in compared if o.kind == kind or (o.kind not in apart and kind not in apart)}
    for name, series in _columns_written(tables):
        is_text = series.dtype == object
        if is_text and kind in _AMID:
            texts = series.dropna().unique()
            parts = ([part for part in _AMID[kind](str(text)) if ANYWHERE[kind](part)] for text in texts)
            is_holding = [any(likeness(part, kind) in formed for part in each_text) for each_text in parts]
            flags |= series.isin(texts[is_holding]).to_numpy()
        # A column could hold such values: one of text, and for cards one of numbers as long.
        if not is_text and kind == "card_number" and pd.api.types.is_numeric_dtype(series):
            is_text = bool((series.dropna() >= 10 ** (CARD_DIGITS[0] - 1)).any())
        if name != each.name and is_text:
            flags |= _among(alike[name] if name in alike else likenesses(series, kind), formed)
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
    """Texts that hold all values of a training row; none where they hold held-out rows about as often."""
    cells = {text: _tokens(text) for text in texts[texts.map(lambda value: isinstance(value, str))].unique()}
    cells = {text: tokens for text, tokens in islice(cells.items(), _MOST_CELLS) if len(tokens) >= _LEAST_VALUES}
    hits: list[str] = []
    if cells:
        train, holdout = (_rows_as_tokens(side, tables.schema) for side in (tables.train, tables.holdout))
        hits, by_chance = (_holding(cells, side - other) for side, other in ((train, holdout), (holdout, train)))
        share = len(train) / max(len(train) + len(holdout), 1)
        if stats.binom.sf(len(hits) - 1, len(hits) + len(by_chance), share) >= RARE**2:
            hits = []
    return np.asarray(texts.isin(hits))


def _tokens(text: str) -> frozenset[str]:
    return frozenset(likeness(word, "") for word in _TOKENS.findall(text))


def _rows_as_tokens(side: pd.DataFrame, schema: Schema) -> set[frozenset[str]]:
    """*Sensitive*. The words and numbers of each row that has several, rows of one side alone."""
    kept = side.loc[: _MOST_ROWS - 1, list(schema.learned)].astype(object)
    texts = (" ".join(as_text(value) for value in row if not pd.isna(value)) for row in kept.itertuples(index=False))
    return {row for row in map(_tokens, texts) if len(row) >= _LEAST_VALUES}


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
    kinds = {each.name: each.kind for each in compared if each.kind in (*_NAMES, "street")}
    if "street" not in kinds.values() or len(kinds) < 2:
        return np.zeros(len(tables.synthetic), dtype=bool)
    synthetic, *real = (
        list(zip(*(likenesses(frame[name], kind) for name, kind in kinds.items()), strict=True))
        for frame in (tables.synthetic, tables.train, holdout)
    )
    known = {row for rows in real for row in rows if None not in row}
    return np.array([row in known for row in synthetic], dtype=bool)
