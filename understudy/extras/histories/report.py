"""Histories of one synthetic table: figures, rows per entity, and the transitions that are furthest off."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluate.result import UNASKED, Candidate, Estimate
from evaluate.text import finite, number
from reports.glossary import entry
from reports.sections.extra import ExtraSection
from synth.schema import Schema

FAMILY = "histories."
MEASURE = "fidelity.histories"
MOST_COLUMNS = 10


@dataclass(frozen=True)
class ColumnTransitions:
    column: str
    estimate: Estimate

    @property
    def spoken(self) -> str:
        """The distance with its landmarks, for a tip and a screen reader."""
        marks = (("fresh real histories", self.estimate.reference), ("dealt at random", self.estimate.floor))
        said = [f"{words} {number(value)}" for words, value in marks if value is not None]
        return "; ".join([number(self.estimate.value), *said])


@dataclass(frozen=True)
class HistorySection:
    rows: tuple[Estimate, ...]
    absent: tuple[tuple[str, str], ...]
    lengths: dict[str, Any] | None
    transitions: tuple[ColumnTransitions, ...]


def histories_of(candidate: Candidate, schema: Schema) -> HistorySection | None:
    """The histories of a table; `None` where its schema names no order, or nothing is known of it."""
    rows = tuple(one for one in candidate.estimates if one.measure.startswith(FAMILY) and not one.subject)
    missing = [one for one in candidate.failures if one.measure.startswith(FAMILY)]
    drawn = candidate.figures.get("histories") or {}
    if not rows and not drawn and not any(one.message != UNASKED for one in missing):
        return None
    absent = tuple((entry(one.measure).title, one.message.rstrip(".")) for one in missing)
    worst = tuple(_transitions(found) for found in drawn.get("transitions", ())[:MOST_COLUMNS])
    return HistorySection(rows, absent, drawn.get("lengths"), worst)


def _transitions(found: dict[str, Any]) -> ColumnTransitions:
    name = str(found["columns"][0])
    reference, floor = (None if found.get(key) is None else finite(found[key]) for key in ("reference", "floor"))
    return ColumnTransitions(
        name, Estimate("histories.transitions", finite(found["tvd"]), 0, "lower", (name,), None, None, reference, floor)
    )


SECTION = ExtraSection("histories", "Histories", Path(__file__).with_name("histories.html.j2"), histories_of)
