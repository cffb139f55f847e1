"""The weakest points of one table: its worst columns and relations, and the groups of people whom it serves worst."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluate.result import Candidate, Estimate
from evaluate.text import finite, mapping, mappings
from reports.sections.extra import WeakSpot, weak_spots
from reports.sections.utility import subgroups

MOST = 5
LOST = 0.05  # Share of the rows that keep a relation among real ones and not here, from which it is a weak spot


@dataclass(frozen=True)
class WeakColumn:
    column: str
    tvd: float
    excess: Estimate | None


@dataclass(frozen=True)
class WeakGroup:
    group: str
    what: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Weakest:
    columns: tuple[WeakColumn, ...]
    groups: tuple[WeakGroup, ...]
    spots: tuple[WeakSpot, ...]
    relations: tuple[Mapping[str, Any], ...]


def weakest_of(candidate: Candidate) -> Weakest:
    columns = []
    for figure in mappings(candidate.figures.get("columns")):
        name = str(figure.get("column", ""))
        excess = candidate.find("columns.tvd.excess", (name,))
        columns.append(WeakColumn(name, finite(figure.get("tvd")), excess if isinstance(excess, Estimate) else None))
    columns.sort(key=lambda column: -column.tvd)
    spots = sorted(weak_spots(candidate), key=lambda spot: -spot.value)
    laws = (law for law in mappings(candidate.figures.get("relations")) if law["reference"] - law["kept"] >= LOST)
    return Weakest(tuple(columns[:MOST]), groups_of(candidate)[:MOST], tuple(spots[:MOST]), tuple(laws)[:MOST])


def groups_of(candidate: Candidate) -> tuple[WeakGroup, ...]:
    """Every group of which anything was measured, the one first for which most is surely off."""
    groups = []
    for table in subgroups(candidate):
        for row in table["groups"]:
            name = f"{table['column']}: {row['group']}"
            if "excess" in row:
                groups.append(WeakGroup(name, "column distance beyond noise", finite(row["excess"])))
            if gap := mapping(row.get("boosting")):
                numbers = (finite(gap.get(key)) for key in ("gap", "low", "high"))
                groups.append(WeakGroup(name, "loss of the boosting model", *numbers))
    return tuple(sorted(groups, key=lambda group: (-(group.value if group.low is None else group.low), -group.value)))
