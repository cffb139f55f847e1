"""Whether real personal data stands in the synthetic table: names, e-mail, telephone, card numbers, identifiers.

Such columns are never learned, so that a real value can be there by chance or by a leak only. Chance is what a fresh
draw of as many values gives, made just as the table's were meant to be: a common first name comes again, an IBAN does
not. Values are compared without case, spaces and punctuation, numbers by their digits.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from evaluate.intervals import clustered, newcombe
from evaluate.privacy.chance import RARE, expected, too_many
from evaluate.privacy.elsewhere import ANYWHERE, amid, formed, readable
from evaluate.privacy.likeness import compared_alike, likenesses
from evaluate.result import Estimate, Failure
from evaluate.sampling import entity_codes
from evaluate.tables import Measurement, Tables
from synth import identifiers, personal
from synth.columns import Column, IdentifierColumn, PersonalColumn

WHOLE = ("email", "phone", "address", "card_number", "iban", "account_number", "national_id", "text")
"""Personal data that points to one person or household by itself."""
_NAMES = ("name", "first_name", "last_name")
LONG = 20
"""Letters and digits of a text below which it is anybody's."""


@dataclass(frozen=True)
class _Compared:
    """*Sensitive*. A column's values, made comparable: none where missing."""

    name: str
    column: Column
    synthetic: np.ndarray
    train: frozenset[str]
    holdout: frozenset[str]

    @property
    def real(self) -> frozenset[str]:
        return self.train | self.holdout


def measure(tables: Tables) -> Measurement:
    """The share of rows with a real value that chance does not repeat, and for each column how many values are real.

    Estimates: `privacy.personal` (rows; counted in this very table, so that its interval is the number itself), and by
    column `privacy.personal.column` (share of values that stand in the training rows), `privacy.personal.holdout` (in
    the holdout) and `privacy.personal.excess` (of the training rows, beyond chance).
    """
    holdout = tables.holdout
    compared = [_compare(name, tables, holdout) for name in _unlearned(tables)]
    estimates, failures = [_rows(compared, tables, holdout)], []
    for one in compared:
        if any(value is not None for value in one.synthetic):
            estimates += _of_column(one, tables)
        else:
            failures += _nothing(one.name)
    return Measurement(tuple(estimates), tuple(failures))


def _unlearned(tables: Tables) -> list[str]:
    columns = tables.schema.columns
    return [name for name in tables.schema.kept if isinstance(columns[name], IdentifierColumn | PersonalColumn)]


def _compare(name: str, tables: Tables, holdout: pd.DataFrame) -> _Compared:
    column = tables.schema.columns[name]
    train, held = (
        frozenset(value for value in likenesses(frame[name], _held(column)) if value is not None)
        for frame in (tables.train, holdout)
    )
    return _Compared(name, column, likenesses(tables.synthetic[name], _held(column)), train, held)


def _held(column: Column) -> str:
    return column.personal if isinstance(column, PersonalColumn) else "identifier"


def _nothing(name: str) -> list[Failure]:
    return [
        Failure(f"privacy.personal.{what}", "skipped", "the synthetic column has missing values only", (name,))
        for what in ("column", "holdout", "excess")
    ]


def _of_column(one: _Compared, tables: Tables) -> list[Estimate]:
    """The shares of real values in one column, and of those that chance gives."""
    present = np.array([value is not None for value in one.synthetic])
    groups = entity_codes(tables.synthetic, tables.schema)
    fresh = likenesses(pd.Series(_drawn(one, groups, tables), dtype=object), _held(one.column))
    n, by_place = int(present.sum()), {}
    for place, real in (("train", one.train), ("holdout", one.holdout)):
        hits, chance = _among(one.synthetic, real), _among(fresh, real)
        by_place[place] = clustered(hits[present], groups[present]), clustered(chance[present], groups[present])
    (share, chance_share), (held, held_chance) = by_place["train"], by_place["holdout"]
    difference = newcombe(share, chance_share)
    what = f"values of this column that stand in the {{}}, of {n:,}"
    subject = (one.name,)
    return [
        Estimate(
            "privacy.personal.column", share[0], n, "lower", subject, share[1], share[2], chance_share[0],
            1.0 if one.train else 0.0, f"share of {what.format('training rows')}; the reference is chance",
        ),
        Estimate(
            "privacy.personal.holdout", held[0], n, "lower", subject, held[1], held[2], held_chance[0],
            note=f"share of {what.format('holdout')}; the reference is chance",
        ),
        Estimate(
            "privacy.personal.excess", difference[0], n, "lower", subject, difference[1], difference[2], 0.0,
            1.0 - chance_share[0] if one.train else 0.0,
            f"share of {what.format('training rows')}, less the same share of a fresh draw",
        ),
    ]  # fmt: skip


def _among(values: np.ndarray, real: frozenset[str]) -> np.ndarray:
    return np.fromiter((value is not None and value in real for value in values), dtype=bool, count=len(values))


def _drawn(one: _Compared, groups: np.ndarray, tables: Tables) -> np.ndarray:
    """As many values as the table has, made anew; one for each entity where an entity has one."""
    rng = np.random.default_rng([tables.seed, zlib.crc32(one.name.encode()), 6])
    schema = tables.schema
    shared = schema.entity is not None and one.name in (schema.entity, *schema.constant_in_entity)
    owners = groups if shared else np.arange(len(groups))
    n = int(owners.max()) + 1
    if isinstance(one.column, IdentifierColumn):
        values = identifiers.draw(one.column, n, rng)
    else:
        assert isinstance(one.column, PersonalColumn)
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
    rows = np.logical_or.reduce(list(found.values()))
    share, hit = float(rows.mean()), [name for name, flags in found.items() if flags.any()]
    note = "the schema keeps no column of personal data whose values chance does not repeat"
    if counted or hit:
        named = ", ".join(hit or [repr(one.name) for one in counted])
        note = f"{int(rows.sum()):,} of {n:,} rows hold a value of {named} that is real and that chance does not repeat"
    # No sample of anything: what is in the table is in it.
    return Estimate("privacy.personal", share, n, "lower", (), share, share, 0.0, 1.0 if counted else 0.0, note)


def _telling(one: _Compared) -> frozenset[str]:
    """Real values that say whose they are: a text of a word or two is anybody's."""
    return frozenset(v for v in one.real if len(v) >= LONG) if _held(one.column) == "text" else one.real


def _n_real(one: _Compared) -> int:
    """How many different real values the synthetic column holds."""
    return len(_telling(one) & set(one.synthetic.tolist()))


def _is_whole(one: _Compared) -> bool:
    return _held(one.column) in (*WHOLE, "identifier")


def _expected(one: _Compared, tables: Tables) -> float:
    """How many synthetic values would be real by chance."""
    assert isinstance(one.column, IdentifierColumn | PersonalColumn)
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
    for name in tables.offered.columns:
        if name not in tables.schema.kept:
            yield str(name), tables.offered[name].astype(object).reset_index(drop=True)


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
