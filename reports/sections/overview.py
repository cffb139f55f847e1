"""The overview of each synthetic table: one line each on utility, fidelity, attacks and the guarantee.

Each line is one number on an axis that all tables share, with what is worse on the left and better on the right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evaluate.gate.protection import Protection
from evaluate.plain_data import mapping
from evaluate.result import Candidate, Estimate, Failure
from evaluate.text import alike, at_most, number

Extent = tuple[float, float]
Anchor = Literal["utility", "comparison", "attacks", "guarantee"]
MEASURES: Mapping[Anchor, tuple[str, ...]] = {
    "utility": tuple(
        f"utility.tstr.{model}{variant}" for variant in (".without", "") for model in ("boosting", "linear")
    ),
    "comparison": ("joint.c2st.auc", "pairs.tvd.mean", "columns.tvd.mean"),
    "attacks": ("privacy.membership.auc",),
}
"""The number of each line: the first of them that any table has. Without columns that give the target away only where
there are such columns."""
TITLES: Mapping[Anchor, str] = {
    "utility": "Utility", "comparison": "Fidelity", "attacks": "Attack", "guarantee": "Guarantee",
}  # fmt: skip
_AUC = "0.5 is guessing, 1 is always right"
_SCORE = "the score on real rows of a model that learned from this table; higher is better"
READINGS = {
    "utility.tstr.boosting": _SCORE,
    "utility.tstr.linear": _SCORE,
    "utility.tstr.boosting.without": f"{_SCORE}; columns that give the target away are left out",
    "utility.tstr.linear.without": f"{_SCORE}; columns that give the target away are left out",
    "joint.c2st.auc": f"the success of a program in telling this table's rows from real ones; {_AUC}",
    "pairs.tvd.mean": "the mean distance of pairs of columns from the real ones; lower is better",
    "columns.tvd.mean": "the mean distance of columns from the real ones; lower is better",
    "privacy.membership.auc": f"the success of an attacker in telling who was in the real table; {_AUC}",
}
LIMIT = (
    "the most people of the real table that any attack can find while it accuses 1% of others; 1% is guessing. It "
    "follows from \u03b5 and \u03b4: smaller ones are stronger"
)
ALARMED = 0.6
"""The membership AUC that the axis reaches at least, so that noise about 0.5 does not look like a leak."""
FALSE_ALARM_RATE = 0.01
TIGHT = 1e-3
"""The least length of an axis."""


@dataclass(frozen=True)
class OverviewLine:
    """One line of the overview.

    Attributes:
        anchor: the section that shows more.
        title: of the line.
        estimate: the number; `None` where there is none.
        extent: the ends of the axis, the worse one first.
        said: the number in words, or why there is none.
        spoken: a sentence on the number for a tip and a screen reader.
    """

    anchor: Anchor
    title: str
    estimate: Estimate | None
    extent: Extent
    said: str
    spoken: str


@dataclass(frozen=True)
class Overview:
    """The overview of all tables.

    Attributes:
        lines: of each table, in the order of the candidates.
        readings: the title of each line, with a reading of its number.
    """

    lines: tuple[tuple[OverviewLine, ...], ...]
    readings: tuple[tuple[str, str], ...]


def overview_of(candidates: Sequence[Candidate], protections: Sequence[Protection | None]) -> Overview:
    """The overview of candidates.

    Args:
        candidates: in their order.
        protections: of each; `None` without an undisputed guarantee.
    """
    lines: list[list[OverviewLine]] = [[] for _ in candidates]
    readings = []
    for anchor, measures in MEASURES.items():
        measure = _measured(candidates, measures)
        if measure is None:
            continue
        found = [candidate.find(measure) for candidate in candidates]
        extent = _extent([one for one in found if isinstance(one, Estimate)])
        for of, one in zip(lines, found, strict=True):
            of.append(_line(anchor, one, extent))
        readings.append((TITLES[anchor], READINGS[measure]))
    for of, protection in zip(lines, protections, strict=True):
        of.append(_guarantee(protection))
    readings.append((TITLES["guarantee"], LIMIT))
    return Overview(tuple(tuple(of) for of in lines), tuple(readings))


def _measured(candidates: Sequence[Candidate], measures: Sequence[str]) -> str | None:
    given_away = any(mapping(one.figures.get("utility")).get("without") for one in candidates)
    tried = (measure for measure in measures if given_away or not measure.endswith(".without"))
    return next((name for name in tried if any(isinstance(one.find(name), Estimate) for one in candidates)), None)


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


def _line(anchor: Anchor, found: Estimate | Failure | None, extent: Extent) -> OverviewLine:
    if not isinstance(found, Estimate):
        reason = found.reason if isinstance(found, Failure) else "not run"
        return OverviewLine(anchor, TITLES[anchor], None, extent, reason, "")
    value, low, high = alike(found.value, found.low, found.high)
    parts = [value]
    if found.low is not None:
        parts.append(f"95% interval {low} to {high}")
    if found.reference is not None:
        parts.append(f"{'guessing' if anchor == 'attacks' else 'fresh real sample'} {number(found.reference)}")
    if found.floor is not None:
        parts.append(f"shuffled columns {number(found.floor)}")
    return OverviewLine(anchor, TITLES[anchor], found, extent, value, f"{TITLES[anchor]}: {'; '.join(parts)}")


def _guarantee(protection: Protection | None) -> OverviewLine:
    extent = (1.0, 0.0)
    if protection is None:
        return OverviewLine("guarantee", TITLES["guarantee"], None, extent, "none", "")
    most = protection.limit.detections(FALSE_ALARM_RATE)
    drawn = Estimate("statement.epsilon", most, 0, "lower", (), None, None, FALSE_ALARM_RATE, None)
    said = f"at most {at_most(most)}"
    spoken = f"Guarantee: any test finds at most {at_most(most)} at 1% false alarms; guessing finds 1%"
    return OverviewLine("guarantee", TITLES["guarantee"], drawn, extent, said, spoken)
