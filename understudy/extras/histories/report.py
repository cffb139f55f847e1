"""Histories of one synthetic table: figures, rows per entity, and the transitions that are furthest off."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluate.result import UNASKED, Candidate, Estimate
from evaluate.text import finite, number
from reports.glossary import entry
from reports.sections.quality import ExtraSection, WeakSpot
from synth.schema import Schema

FAMILY = "histories."
MOST_COLUMNS = 10
LOST = 0.25  # share of the squared dependence on the row before from which a column is a weak spot: half of it is lost


def read(candidate: Candidate, schema: Schema) -> dict[str, Any] | None:
    """The histories of a table; `None` where its schema names no order, or nothing is known of it.

    Of each column's transitions its name, the distance with its landmarks, and the same in words.
    """
    rows = [estimate for estimate in candidate.estimates if estimate.measure.startswith(FAMILY)]
    missing = [failure for failure in candidate.failures if failure.measure.startswith(FAMILY)]
    drawn = candidate.figures.get("histories") or {}
    if not rows and not drawn and all(failure.message == UNASKED for failure in missing):
        return None
    transitions = []
    for figure in drawn.get("transitions", ())[:MOST_COLUMNS]:
        name, (tvd, fresh, dealt) = figure["columns"][0], (finite(figure[k]) for k in ("tvd", "reference", "floor"))
        spoken = f"{number(tvd)}; fresh real histories {number(fresh)}; dealt at random {number(dealt)}"
        estimate = Estimate("histories.transitions", tvd, 0, "lower", (name,), None, None, fresh, dealt)
        transitions.append((name, estimate, spoken))
    absent = [(entry(failure.measure).title, failure.message.rstrip(".")) for failure in missing]
    return {"rows": rows, "absent": absent, "lengths": drawn.get("lengths"), "transitions": transitions}


def weak_spots(candidate: Candidate) -> Iterator[WeakSpot]:
    for figure in (candidate.figures.get("histories") or {}).get("transitions", ()):
        if (lost := figure.get("lost")) is not None and lost >= LOST:
            yield WeakSpot(str(figure["columns"][0]), "dependence on the row before", finite(lost))


SECTION = ExtraSection("histories", "Histories", Path(__file__).with_name("histories.html.j2"), read, weak_spots)
