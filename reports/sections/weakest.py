"""The weakest points of one table: its worst columns and relations, and the groups of people whom it serves worst."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evaluate.plain_data import mapping, mappings
from evaluate.result import Candidate, Estimate
from evaluate.text import finite
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
    columns = sorted(
        (
            WeakColumn(
                str(one.get("column", "")), finite(one.get("tvd")), excess if isinstance(excess, Estimate) else None
            )
            for one in mappings(candidate.figures.get("columns"))
            for excess in [candidate.find("columns.tvd.excess", (str(one.get("column", "")),))]
        ),
        key=lambda one: -one.tvd,
    )
    spots = sorted(weak_spots(candidate), key=lambda spot: -spot.value)
    laws = (law for law in mappings(candidate.figures.get("relations")) if law["reference"] - law["kept"] >= LOST)
    return Weakest(tuple(columns[:MOST]), groups_of(candidate)[:MOST], tuple(spots[:MOST]), tuple(laws)[:MOST])


def groups_of(candidate: Candidate) -> tuple[WeakGroup, ...]:
    """Every group of which anything was measured, the one first for which most is surely off."""
    sure = sorted(_groups(candidate), key=lambda one: (-(one.value if one.low is None else one.low), -one.value))
    return tuple(sure)


def _groups(candidate: Candidate) -> Iterator[WeakGroup]:
    for table in subgroups(candidate):
        for row in table["groups"]:
            name = f"{table['column']}: {row['group']}"
            if "excess" in row:
                yield WeakGroup(name, "column distance beyond noise", finite(row["excess"]))
            if found := mapping(row.get("boosting")):
                value, low, high = (finite(found.get(key)) for key in ("gap", "low", "high"))
                yield WeakGroup(name, "loss of the boosting model", value, low, high)
