"""Shares of valid rows from counts: estimates with their landmarks, and the figure that a report lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from evaluate.intervals import clopper_pearson, design_effect
from evaluate.metrics import UNJUDGED
from evaluate.result import Estimate
from evaluate.tables import MetricResult, Tables
from evaluate.text import MOST_NAMED, listed
from synth.constraints import Constraint, Unique
from synth.personal.formats import form_of
from synth.row_order import broken_in
from synth.table.translating import Translations, in_words

Marks = tuple[float, float]
"""The share of rows without a violation among fresh real rows, and among rows with shuffled columns."""


@dataclass(frozen=True)
class ViolationCounts:
    n: int
    n_broken: int
    effect: float

    @classmethod
    def of(cls, flags: np.ndarray, units: np.ndarray) -> Self:
        """Of flagged rows, shape (n,), and the unit of each, a code from 0."""
        return cls(len(flags), int(flags.sum()), design_effect(flags, units))


@dataclass(frozen=True)
class Landmarks:
    """Of all rules together, of each constraint, and of each column: of real rows as they were before any clamping."""

    rows: Marks
    each: tuple[Marks, ...]
    columns: Mapping[str, Marks]

    @classmethod
    def of(cls, tables: Tables) -> Self:
        """The landmarks of the real rows at hand."""
        constraints = tables.declared.constraints
        rows, each, of_columns = [], [], []
        for frame, faulty in zip((tables.holdout, tables.shuffled), tables.faulty or (None, None), strict=True):
            cells = {} if faulty is None else {name: faulty[name].to_numpy() for name in faulty.columns}
            laws = [
                np.logical_or.reduce(
                    [broken_in(frame, law, tables.schema), *(cells[n] for n in law.columns if n in cells)]
                )
                for law in constraints
            ]
            rows.append(float(1 - np.logical_or.reduce([np.zeros(len(frame), bool), *cells.values(), *laws]).mean()))
            each.append([float(1 - law.mean()) for law in laws])
            of_columns.append({name: float(1 - flags.mean()) for name, flags in cells.items()})
        by_column = {name: (valid, of_columns[1][name]) for name, valid in of_columns[0].items()}
        return cls((rows[0], rows[1]), tuple(zip(*each, strict=True)), by_column)


@dataclass(frozen=True)
class Law:
    constraint: Constraint
    tally: ViolationCounts
    n_faulty: int
    shapes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Judged:
    rows: ViolationCounts
    columns: Mapping[str, ViolationCounts]
    rules: Mapping[str, Sequence[str]]
    laws: Sequence[Law]
    translated: Translations = field(default_factory=dict)

    def measurement(self, lawful: Landmarks) -> MetricResult:
        columns = [
            self._column(name, tally, lawful.columns.get(name, (1.0, 1.0))) for name, tally in self.columns.items()
        ]
        constraints = [_constraint(law, marks) for law, marks in zip(self.laws, lawful.each, strict=True)]
        whole = share("validity.rows", self.rows, (), self._rows_note, marks=lawful.rows)
        return MetricResult(estimates=(whole, *columns, *constraints), figures=self._figure(lawful, columns))

    def _column(self, name: str, tally: ViolationCounts, marks: Marks) -> Estimate:
        notes = []
        if tally.n_broken:
            rules = ", and ".join(self.rules[name])
            notes.append(f"{tally.n_broken:,} of {tally.n:,} rows break a rule: the column {rules}.")
        if name in self.translated:
            listed = in_words(self.translated[name])
            notes.append(f"Cells in another form than the schema's, taken for what they mean: {listed}.")
        return share("validity.column", tally, (name,), " ".join(notes), marks=marks)

    @property
    def _rows_note(self) -> str:
        notes = []
        if self.rules:
            notes.append(f"Columns that break a rule: {', '.join(map(repr, self.rules))}.")
        if self.translated:
            columns = ", ".join(f"{name!r} ({in_words(counted)})" for name, counted in self.translated.items())
            notes.append(f"Cells in another form than the schema's, taken for what they mean: {columns}.")
        return " ".join(notes)

    def _figure(self, lawful: Landmarks, columns: Sequence[Estimate]) -> dict[str, Any]:
        """The report's list: every constraint, every column with a note; empty where there is neither."""
        constraints = [
            {
                "rule": str(law.constraint), "n": law.tally.n, "n_broken": law.tally.n_broken,
                "n_unreadable": law.n_faulty, "reference": marks[0], "floor": marks[1],
                "shapes": [{"shape": shape, "n": n} for shape, n in law.shapes],
            }
            for law, marks in zip(self.laws, lawful.each, strict=True)
        ]  # fmt: skip
        wrong = [
            {"column": name, "n": tally.n, "n_broken": tally.n_broken, "note": column.note}
            for (name, tally), column in zip(self.columns.items(), columns, strict=True)
            if column.note
        ]
        return {"validity": {"constraints": constraints, "columns": wrong}} if constraints or wrong else {}


def share(
    measure: str,
    tally: ViolationCounts,
    subject: tuple[str, ...],
    note: str,
    *,
    marks: Marks = (1.0, 1.0),
    least: float = 1.0,
) -> Estimate:
    found = float(1 - tally.n_broken / tally.n)
    worth = tally.n / max(least, tally.effect)
    low, high = clopper_pearson(found * worth, worth)
    return Estimate(
        measure, found, tally.n, "higher", subject=subject, low=low, high=high, reference=marks[0], floor=marks[1],
        note=note,
    )  # fmt: skip


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


def rules_of_personal(column: Any) -> list[str]:
    """The rule of a column of personal data that holds values without its form; `None` for any other column."""
    if not column.is_personal:
        return []
    once = ", or repeats them" if column.unique else ""
    return [f"holds values that have not the form of its kind ({form_of(column)}){once}"]


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
