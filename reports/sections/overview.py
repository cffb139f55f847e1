"""The overview of each synthetic table: one line each on utility, fidelity, attacks and the guarantee.

Each line is one number on an axis that all tables share, with what is worse on the left and better on the right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evaluate.gate.protection import Protection
from evaluate.plain_data import mapping
from evaluate.result import Candidate, Estimate, Failure
from evaluate.text import alike, at_most, listed
from reports.glossary import spoken

Extent = tuple[float, float]
Anchor = Literal["utility", "comparison", "attacks", "guarantee"]
WITHOUT = "utility.gap.boosting.without"
MEASURES: Mapping[Anchor, tuple[str, ...]] = {
    "utility": (WITHOUT, "utility.tstr.boosting", "utility.tstr.linear"),
    "comparison": ("joint.c2st.auc", "pairs.tvd.excess", "columns.tvd.excess"),
    "attacks": ("privacy.membership.auc",),
}
"""The number of each line: the first of them that any table has. Without columns that give the target away only where
there are such columns."""
_AUC = "0.5 is guessing, 1 is always right"
_SCORE = "the score on real rows of a model that learned from this table; higher is better"
READINGS: Mapping[str, tuple[str, str]] = {
    "utility.tstr.boosting": ("Utility", _SCORE),
    "utility.tstr.linear": ("Utility", _SCORE),
    WITHOUT: (
        "Utility",
        "what a model loses on real rows by learning from this table, without the columns that give the target away; "
        "lower is better",
    ),
    "joint.c2st.auc": (
        "Told apart",
        f"fidelity, as the success of a program in telling this table's rows from real ones; {_AUC}",
    ),
    "pairs.tvd.excess": (
        "Pairs off",
        "fidelity, as the mean distance of pairs of columns from the real ones beyond noise",
    ),
    "columns.tvd.excess": (
        "Columns off",
        "fidelity, as the mean distance of columns from the real ones beyond noise",
    ),
    "privacy.membership.auc": ("Attack", f"the success of an attacker in telling who was in the real table; {_AUC}"),
}
"""The title of a line by its number, and a reading of it."""
ABSENT: Mapping[Anchor, str] = {"utility": "Utility", "comparison": "Fidelity", "attacks": "Attack"}
"""The title of a line without a number."""
GUARANTEE = "Guarantee"
ALARMED = 0.6  # The membership AUC that the axis reaches at least, so that noise about 0.5 does not look like a leak
FALSE_ALARM_RATE = 0.01
TIGHT = 1e-3  # The least length of an axis


@dataclass(frozen=True)
class OverviewLine:
    anchor: Anchor
    title: str
    estimate: Estimate | None
    extent: Extent
    said: str
    spoken: str


@dataclass(frozen=True)
class Overview:
    lines: tuple[tuple[OverviewLine, ...], ...]
    readings: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Guarantee:
    protection: Protection | None
    unit: str = "rows"
    lacks: str = "no formal guarantee"


def overview_of(
    candidates: Sequence[Candidate], guarantees: Sequence[Guarantee], unlearned: Sequence[str] = ()
) -> Overview:
    lines: list[list[OverviewLine]] = [[] for _ in candidates]
    readings = []
    for anchor, measures in MEASURES.items():
        given_away = anchor == "utility" and any(_gives_away(one) for one in candidates)
        measure = _measured(candidates, [name for name in measures if (name == WITHOUT) == given_away])
        found = [None if measure is None else candidate.find(measure) for candidate in candidates]
        numbers = [one for one in found if isinstance(one, Estimate)]
        extent = _extent(numbers) if numbers else (0.0, 1.0)
        title = ABSENT[anchor] if measure is None else READINGS[measure][0]
        for of, candidate, one in zip(lines, candidates, found, strict=True):
            absent = "target given away" if given_away else _reason(candidate, measures)
            of.append(_line(anchor, title, one, extent, absent))
        if measure is not None:
            name, reading = READINGS[measure]
            without = f"; without the columns {listed(unlearned)}" if anchor == "comparison" and unlearned else ""
            readings.append((name, f"{reading}{without}"))
    for of, guarantee in zip(lines, guarantees, strict=True):
        of.append(_guarantee(guarantee))
    readings += _limits(guarantees)
    return Overview(tuple(tuple(of) for of in lines), tuple(readings))


def _gives_away(candidate: Candidate) -> bool:
    """True where a column gives the target away, so that a score with it says nothing."""
    utility = mapping(candidate.figures.get("utility"))
    return bool(utility.get("giveaways") or utility.get("without"))


def _measured(candidates: Sequence[Candidate], measures: Sequence[str]) -> str | None:
    return next((name for name in measures if any(isinstance(one.find(name), Estimate) for one in candidates)), None)


def _reason(candidate: Candidate, measures: Sequence[str]) -> str:
    """The reason why a table has none of the numbers, in a word or two."""
    failed = (found for name in measures if isinstance(found := candidate.find(name), Failure))
    return next((found.reason for found in failed), "not run")


def _extent(estimates: Sequence[Estimate]) -> Extent:
    """The ends of an axis that holds all estimates, their intervals and their landmarks; the worse one first."""
    ends = [[one.value, one.low, one.high, one.reference, one.floor] for one in estimates]
    values = [value for of in ends for value in of if value is not None]
    if estimates[0].measure.startswith("privacy."):
        values += [1 - ALARMED, ALARMED]
    low, high = min(values), max(values)
    if high - low < TIGHT:
        low, high = low - TIGHT, high + TIGHT
    return (low, high) if estimates[0].direction == "higher" else (high, low)


def _line(anchor: Anchor, title: str, found: Estimate | Failure | None, extent: Extent, absent: str) -> OverviewLine:
    if not isinstance(found, Estimate):
        return OverviewLine(anchor, title, None, extent, absent, "")
    told = spoken(found, "guessing" if anchor == "attacks" else "fresh real sample")
    value = alike(found.value, found.low, found.high)[0]
    return OverviewLine(anchor, title, found, extent, value, f"{title}: {told}")


def _limits(guarantees: Sequence[Guarantee]) -> list[tuple[str, str]]:
    """The reading of the limits that are shown; empty where there are none."""
    shown = [one for one in guarantees if one.protection is not None]
    if not shown:
        return []
    units = " or ".join(dict.fromkeys(one.unit for one in shown))
    by_events = all(one.protection is not None and one.protection.by_events for one in shown)
    source = "the noise that was drawn" if by_events else "the privacy claim"
    return [
        (
            GUARANTEE,
            f"the most {units} of the real table that any attack can find, by {source}, while it accuses 1% of others; "
            "1% is guessing",
        )
    ]


def _guarantee(guarantee: Guarantee) -> OverviewLine:
    extent = (1.0, 0.0)
    if guarantee.protection is None:
        return OverviewLine("guarantee", GUARANTEE, None, extent, guarantee.lacks, "")
    most = guarantee.protection.limit.detections(FALSE_ALARM_RATE)
    drawn = Estimate("statement.epsilon", most, 0, "lower", (), None, None, FALSE_ALARM_RATE, None)
    told = f"Guarantee: any test finds at most {at_most(most)} at 1% false alarms; guessing finds 1%"
    return OverviewLine("guarantee", GUARANTEE, drawn, extent, f"at most {at_most(most)}", told)
