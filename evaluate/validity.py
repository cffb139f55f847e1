"""Validity: the share of synthetic rows that keep the rules of the schema.

The one measure that looks at the table as it was offered, and at all of its rows; the others look at it clamped to the
schema.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from evaluate.intervals import clopper_pearson, design_effect
from evaluate.metrics import SYNTHETIC, UNJUDGED, Metric
from evaluate.result import Estimate
from evaluate.sampling import CellFaults, repeated, units_of
from evaluate.tables import MetricResult, Tables
from evaluate.text import MOST_NAMED, listed, percent
from synth.constraints import Constraint, FixedCombinations, Formula, Inequality, Steps, Unique
from synth.domain.relations import compares_days, exact_positions, on_one_line
from synth.personal import form_of, ill_formed
from synth.row_hash import entity_hashes
from synth.row_order import broken_in
from synth.schema import Schema
from synth.table.conforming import dtype_trouble
from synth.table.decode import words
from synth.table.rows import Rows, observe
from synth.table.translating import in_words

BROKEN = "Rules that are broken: "  # Begins a note
OTHER_FORM = "Cells in another form than the schema's, taken for what they mean:"  # Begins the next part
SHOWN_ROWS = 100_000  # Rows that break a constraint, of which shapes are told, at most

METRICS = (
    Metric("validity.rows", "higher", "Valid rows", "Share of synthetic rows that keep every rule of the schema.",
           counted=SYNTHETIC, key=True),
    Metric("validity.column", "higher", "Valid values",
           "Share of values of a column that keep every rule of the schema.", counted=SYNTHETIC),
    Metric("validity.constraint", "higher", "Lawful rows",
           "Share of synthetic rows that keep a constraint between columns.", counted=SYNTHETIC),
)  # fmt: skip

Marks = tuple[float, float]
"""The share of rows without a violation among fresh real rows, and among rows with shuffled columns."""
ALL: Marks = (1.0, 1.0)


@dataclass(frozen=True)
class ViolationCounts:
    n: int
    n_broken: int
    effect: float

    @classmethod
    def of(cls, flags: np.ndarray, units: np.ndarray) -> Self:
        """Of flagged rows, shape (n,), and the unit of each, a code from 0."""
        return cls(len(flags), int(flags.sum()), design_effect(flags, units))


class Law(NamedTuple):
    constraint: Constraint
    tally: ViolationCounts  # of rows that break it
    shapes: Sequence[tuple[str, int]]


class Judged(NamedTuple):
    """What breaks the rules."""

    rows: ViolationCounts
    columns: Mapping[str, ViolationCounts]
    rules: Mapping[str, Sequence[str]]
    laws: Sequence[Law]


def measure(tables: Tables) -> MetricResult:
    """The share of rows without a violation, of valid values in each column, and of rows that keep each constraint."""
    rows = tables.offered if tables.offered is not None else Rows.of(tables.synthetic, tables.declared)
    judged = _judged(rows, tables.declared, tables.schema, tables.ranks)
    of_rows, of_laws, of_columns = _landmarks(tables)
    counts = {f"{name!r} {', and '.join(rules)}": judged.columns[name].n_broken for name, rules in judged.rules.items()}
    counts |= {f"it is not so that {law.constraint}": law.tally.n_broken for law in judged.laws}
    broken = [f"in {percent(n / len(rows))} of rows {what}" for what, n in Counter(counts).most_common(MOST) if n]
    notes = [f"{BROKEN}{'; '.join(broken)}."] if broken else []
    if tables.translated:
        named = ", ".join(f"{name!r} ({in_words(counted)})" for name, counted in tables.translated.items())
        notes.append(f"{OTHER_FORM} {named}.")
    columns, wrong = [], []
    for name, tally in judged.columns.items():
        texts = []
        if tally.n_broken:
            rules = ", and ".join(judged.rules[name])
            texts.append(f"{tally.n_broken:,} of {tally.n:,} rows break a rule: the column {rules}.")
        if name in tables.translated:
            texts.append(f"{OTHER_FORM} {in_words(tables.translated[name])}.")
        note = " ".join(texts)
        columns.append(share("validity.column", tally, (name,), note, marks=of_columns.get(name, ALL)))
        if note:
            wrong.append({"column": name, "n": tally.n, "n_broken": tally.n_broken, "note": note})
    constraints, laws = [], []
    for law, marks in zip(judged.laws, of_laws, strict=True):
        constraints.append(_constraint(law, marks))
        laws.append({
            "rule": str(law.constraint), "n": law.tally.n, "n_broken": law.tally.n_broken,
            "reference": marks[0], "floor": marks[1], "shapes": [{"shape": shape, "n": n} for shape, n in law.shapes],
        })  # fmt: skip
    figures = {"validity": {"constraints": laws, "columns": wrong}} if laws or wrong else {}
    whole = share("validity.rows", judged.rows, (), " ".join(notes), marks=of_rows)
    return MetricResult((whole, *columns, *constraints), figures=figures)


def valid_rows(offered: Any, schema: Schema) -> Estimate:
    """The share of rows without a violation, from the table and its declared schema alone: no real row is read. It is
    `validity.rows` without the landmarks, which are those of real rows.
    """
    rows = Rows.of(offered, schema)
    judged = _judged(rows, schema, observe(schema, rows.frame(*schema.measured)))
    return replace(share("validity.rows", judged.rows, (), ""), reference=None, floor=None)


def share(
    measure: str, tally: ViolationCounts, subject: tuple[str, ...], note: str, *, marks: Marks = ALL, least: float = 1.0
) -> Estimate:
    share = float(1 - tally.n_broken / tally.n)
    worth = tally.n / max(least, tally.effect)
    low, high = clopper_pearson(share * worth, worth)
    return Estimate(measure, share, tally.n, "higher", subject, low, high, *marks, note)


def _constraint(law: Law, marks: Marks) -> Estimate:
    n_broken, notes = law.tally.n_broken, []
    if n_broken:
        notes.append(
            f"{n_broken:,} of {law.tally.n:,} rows break the constraint that {law.constraint}, or hold a value in its "
            "columns that the schema does not allow."
        )
    if marks[0] < 1:
        notes.append("Fresh real rows break it, too: the constraint, or a limit of its columns, is wrong.")
    # Rows that repeat each other come in pairs at least.
    least = 2.0 if isinstance(law.constraint, Unique) else 1.0
    return share("validity.constraint", law.tally, law.constraint.columns, " ".join(notes), marks=marks, least=least)


def _landmarks(tables: Tables) -> tuple[Marks, Sequence[Marks], Mapping[str, Marks]]:
    """Of all rules together, of each constraint and of each column: of real rows as they were before any clamping."""
    rows, of_laws, of_columns = [], [], []
    for frame, faulty in zip((tables.holdout, tables.shuffled), tables.faulty or (None, None), strict=True):
        cells = {} if faulty is None else {name: faulty[name].to_numpy() for name in faulty.columns}
        laws = [
            np.logical_or.reduce([broken_in(frame, law, tables.schema), *(cells[n] for n in law.columns if n in cells)])
            for law in tables.declared.constraints
        ]
        rows.append(float(1 - np.logical_or.reduce([np.zeros(len(frame), bool), *cells.values(), *laws]).mean()))
        of_laws.append([float(1 - law.mean()) for law in laws])
        of_columns.append({name: float(1 - flags.mean()) for name, flags in cells.items()})
    by_column = {name: (valid, of_columns[1][name]) for name, valid in of_columns[0].items()}
    return (rows[0], rows[1]), list(zip(*of_laws, strict=True)), by_column


def unjudged(tables: Tables) -> tuple[Estimate, ...]:
    """The columns of the offered table that no measure compares, as one number; none where there are none."""
    from synth.infer.personal import kind_of  # slow to import

    names = list(tables.unjudged.columns)
    if not names:
        return ()
    what = "a column" if len(names) == 1 else f"{len(names):,} columns"
    kinds = {name: kind_of(str(name), tables.unjudged[name].dropna().tolist()) for name in names[:MOST_NAMED]}
    personal = [f"{listed([name])} looks like {kind}" for name, kind in kinds.items() if kind is not None]
    note = "; ".join([f"the file holds {what} that nobody judged: {listed(names)}", *personal])
    n_columns = len(names) + len(tables.schema.kept)
    share = len(names) / n_columns
    return (Estimate(UNJUDGED, share, n_columns, "lower", (), share, share, 0.0, note=note),)


def _judged(rows: Rows, schema: Schema, seen: Schema, ranks: np.ndarray | None = None) -> Judged:
    """The violations of all rows. `schema`: under which the rows were read. `seen`: the same with the domains that were
    observed.
    """
    faults, units = CellFaults.of(rows, schema, ranks), np.arange(len(rows))
    if schema.entity is not None:  # a row without one is its own unit
        units = units_of(np.concatenate([entity_hashes(chunk, schema.entity, schema) for chunk in rows.chunks()]))
    faulty = dict(faults.flags)
    for name in schema.kept:
        column: Any = schema.columns[name]
        if column.is_personal:
            ill = np.concatenate([ill_formed(frame[name], column) for frame in rows.frames(name)])
            faulty[name] = faulty[name] | ill
            if column.unique:
                later = np.arange(len(rows)) if ranks is None else ranks
                faulty[name] |= repeated(rows, (name,), schema, later=later)
    laws = [_law(rows, constraint, seen, faulty, units) for constraint in schema.constraints]
    flags = np.logical_or.reduce([np.zeros(len(rows), dtype=bool), *faulty.values(), *(broken for _, broken in laws)])
    return Judged(
        ViolationCounts.of(flags, units),
        {name: ViolationCounts.of(flags, units) for name, flags in faulty.items()},
        {name: _rules(rows, schema, name, faults) for name, flags in faulty.items() if flags.any()},
        tuple(law for law, _ in laws),
    )


def _law(
    rows: Rows, constraint: Constraint, schema: Schema, faulty: Mapping[str, np.ndarray], units: np.ndarray
) -> tuple[Law, np.ndarray]:
    """A constraint, checked on values that are clamped and missing where they cannot be read, and the rows breaking it.
    What no column allows is flagged beside: it would count as lawful.
    """
    unread = np.logical_or.reduce([faulty[name] for name in constraint.columns])
    names = tuple(dict.fromkeys(constraint.columns))
    if isinstance(constraint, Unique):
        flags = repeated(rows, names, schema)
        # Rows that repeat each other go wrong together, as one unit; all others are a unit of their own.
        units, positions = np.arange(len(flags)), np.flatnonzero(flags)
        if len(positions):
            units[positions] = len(flags) + rows.where(flags).frame(*names).groupby(list(names), sort=False).ngroup()
        units = np.unique(units, return_inverse=True)[1]
    else:
        frames = [rows.frame()] if constraint.looks_back else rows.frames(*names)
        flags = np.concatenate([broken_in(frame, constraint, schema) for frame in frames])
    positions, shown = np.flatnonzero(flags & ~unread), list[tuple[str, int]]()
    if len(positions):
        among = f"among {SHOWN_ROWS:,} of them: " if len(positions) > SHOWN_ROWS else ""
        shown = [(among + shape, n) for shape, n in shapes(rows.take(positions[:SHOWN_ROWS]), constraint, schema)]
    return Law(constraint, ViolationCounts.of(flags | unread, units), shown), flags | unread


def _n_values(rows: Rows, name: str) -> int:
    return len(pd.concat([frame[name].drop_duplicates() for frame in rows.frames(name)]).dropna().unique())


def _rules(rows: Rows, schema: Schema, name: str, faults: CellFaults) -> list[str]:
    column: Any = schema.columns[name]
    rules = [words(kind, column, declared=schema.status == "declared")[0] for kind in faults.kinds[name]]
    known_empty = column.is_categorical and not (column.levels or column.is_measured)
    if name in faults.empty and not known_empty:
        rules.append("has missing values only")
    if name == schema.target and _n_values(rows, name) == 1:
        rules.append("is the target and has one value only")
    if (trouble := dtype_trouble(name, column)) is not None:
        rules.append(trouble[0])
    if schema.n_units is not None and schema.entity in (None, name):
        n_units = len(rows) if schema.entity is None else _n_values(rows, name)
        what = "rows" if schema.entity is None else "entities"
        rules += [f"has more {what} than n_units={schema.n_units}"] if n_units > schema.n_units else []
    if column.is_personal:
        once = ", or repeats them" if column.unique else ""
        rules.append(f"holds values that have not the form of its kind ({form_of(column)}){once}")
    return rules


MOST = 3  # Broken rules, and shapes of one constraint, at most
_LONGEST = 24
_UNITS = ((86_400_000_000, "days"), (3_600_000_000, "hours"), (60_000_000, "minutes"), (1_000_000, "seconds"))


def shapes(broken: pd.DataFrame, constraint: Constraint, schema: Schema) -> list[tuple[str, int]]:
    """The most frequent shapes of rows that break a constraint, each with its number of rows; frequent ones first."""
    counted: Counter[str] = Counter()
    for shape, n in _shapes(broken, constraint, schema) if len(broken) else ():
        counted[shape] += n
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:MOST]


def _shapes(broken: pd.DataFrame, constraint: Constraint, schema: Schema) -> Iterator[tuple[str, int]]:
    match constraint:
        case Inequality():
            yield from _orders(broken, constraint, schema)
        case Formula():
            yield from _results(broken, constraint, schema)
        case Steps():
            yield f"{constraint.column!r} follows a value that it never follows", len(broken)
        case FixedCombinations():
            for shape, n in _distinct(broken, constraint.columns, schema):
                yield f"the combination ({shape}) is not listed", n
        case Unique():
            for shape, n in _distinct(broken, constraint.columns, schema):
                yield f"{n:,} rows hold the same values ({shape})", n


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
    for by, n in zip(sentences, counts.tolist(), strict=True):
        above = f"equals {constraint.high!r}" if by is None else f"is above {constraint.high!r} by about {by}"
        yield f"{constraint.low!r} {above}", n


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


def _results(broken: pd.DataFrame, constraint: Any, schema: Schema) -> Iterator[tuple[str, int]]:
    if constraint.looks_back:
        yield f"{constraint.column!r} is not what its formula gives by the row before", len(broken)
        return
    column: Any = schema.columns[constraint.column]
    exact = exact_positions(broken, constraint, column, schema.columns)
    stated = column.positions(broken[constraint.column])
    low, high = column.ends
    for is_there, gives, fault in ((False, True, "is missing where its formula gives a value"),
                                   (True, False, "is there where its formula gives no value")):  # fmt: skip
        n = int(((np.isnan(stated) != is_there) & (np.isnan(exact) != gives)).sum())
        if n:
            yield f"{constraint.column!r} {fault}", n
    differences, counts = _coarse((stated - exact)[~np.isnan(stated - exact)])
    for difference, n in zip(differences, counts.tolist(), strict=True):
        where = "above" if difference > 0 else "below"
        size = _relative(abs(difference), high - low, "its range")
        if column.is_time:
            size = _lasting(abs(difference) * column.per_position)
        yield f"{constraint.column!r} is {where} what its formula gives by about {size}", n
