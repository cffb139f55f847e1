"""The figures that candidates are compared on, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from evaluate.result import Candidate, Estimate, Failure
from reports.glossary import KEY_FIGURES, NOTES, Entry, entry
from reports.readings import better


@dataclass(frozen=True)
class Comparison:
    """One key figure of every candidate, in the order of candidates."""

    measure: str
    entry: Entry
    better: str
    note: str
    cells: tuple[Estimate | Failure | None, ...]


def comparisons(candidates: Sequence[Candidate]) -> tuple[Comparison, ...]:
    """Every key figure that was tried on any candidate."""
    tried = [measure for measure in KEY_FIGURES if any(c.find(measure) is not None for c in candidates)]
    return tuple(_compare(measure, candidates) for measure in tried)


def _compare(measure: str, candidates: Sequence[Candidate]) -> Comparison:
    cells = tuple(c.find(measure) for c in candidates)
    directions = [cell.direction for cell in cells if isinstance(cell, Estimate)]
    notes = {cell.note for cell in cells if isinstance(cell, Estimate)}
    note = notes.pop() if len(notes) == 1 and measure.startswith("utility.") else NOTES.get(measure, "")
    return Comparison(measure, entry(measure), better(measure, directions[0] if directions else ""), note, cells)
