"""The weakest points of one table: its worst columns, and the groups of people whom it serves or exposes worst."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evaluate.plain_data import mappings
from evaluate.result import Candidate, Estimate
from evaluate.text import finite
from reports.sections.extra import WeakSpot, weak_spots
from reports.sections.utility import subgroups

MOST = 5
Anchor = Literal["columns", "utility", "attacks"]


@dataclass(frozen=True)
class WeakColumn:
    column: str
    kind: str
    tvd: float
    excess: Estimate | None


@dataclass(frozen=True)
class WeakGroup:
    group: str
    what: str
    value: float
    low: float | None
    high: float | None
    anchor: Anchor


@dataclass(frozen=True)
class Weakest:
    columns: tuple[WeakColumn, ...]
    groups: tuple[WeakGroup, ...]
    spots: tuple[WeakSpot, ...]


def weakest_of(candidate: Candidate) -> Weakest:
    drawn = mappings(candidate.figures.get("columns"))
    columns = sorted((_column(candidate, figure) for figure in drawn), key=lambda one: -one.tvd)
    spots = sorted(weak_spots(candidate), key=lambda spot: -spot.value)
    return Weakest(tuple(columns[:MOST]), groups_of(candidate)[:MOST], tuple(spots[:MOST]))


def groups_of(candidate: Candidate) -> tuple[WeakGroup, ...]:
    """Every group of which anything was measured, the one first for which most is surely off."""
    sure = sorted(_groups(candidate), key=lambda one: (-(one.value if one.low is None else one.low), -one.value))
    return tuple(sure)


def _column(candidate: Candidate, figure: Mapping[str, Any]) -> WeakColumn:
    name = str(figure.get("column", ""))
    excess = candidate.find("columns.tvd.excess", (name,))
    return WeakColumn(
        name, str(figure.get("kind", "")), finite(figure.get("tvd")), excess if isinstance(excess, Estimate) else None
    )


def _groups(candidate: Candidate) -> Iterator[WeakGroup]:
    """Groups of sensitive columns."""
    for table in subgroups(candidate):
        for row in table["groups"]:
            yield from _group(f"{table['column']}: {row['group']}", row)


def _group(name: str, row: Mapping[str, Any]) -> Iterator[WeakGroup]:
    if "excess" in row:
        yield WeakGroup(name, "column distance beyond noise", finite(row["excess"]), None, None, "utility")
    found = row.get("boosting")
    if isinstance(found, Mapping):
        value, low, high = (finite(found.get(key)) for key in ("gap", "low", "high"))
        yield WeakGroup(name, "loss of the boosting model", value, low, high, "utility")
