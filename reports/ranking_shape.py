"""The section of a comparison of vendors, as the page shows it."""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluate.result import Estimate
from reports.charts.pareto import Mark


@dataclass(frozen=True)
class Evidence:
    """One rule that a table broke.

    Attributes:
        measure: what it is about.
        title: of the measure.
        why: the reason for the rule.
        limit: of the rule, that was broken.
        reason: what was found.
        estimate: the number with its interval and landmarks; none where there is none.
        own: whether it is a rule of comparisons, not of the policy.
    """

    measure: str
    title: str
    why: str
    limit: float
    reason: str
    estimate: Estimate | None
    own: bool

    @property
    def note(self) -> str:
        """What the number is, as a sentence without its full stop; empty where the reason says it, or nothing does."""
        said = "" if self.estimate is None else self.estimate.note.strip().rstrip(".")
        return "" if said in self.reason else f"{said[:1].upper()}{said[1:]}"


@dataclass(frozen=True)
class VendorRow:
    """One vendor; `formulas` counts cells that a spreadsheet would run."""

    name: str
    file: str
    standing: str
    words: str
    reason: str
    place: int | None
    letters: str
    behind: tuple[str, ...]
    delivered: int | None
    compared: int | None
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    n_extra: int
    formulas: int
    claim: tuple[tuple[str, str], ...]
    same_as: str
    evidence: tuple[Evidence, ...]
    open: tuple[str, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """Titles of the measures whose rules it broke, each once."""
        return tuple(dict.fromkeys(one.title for one in self.evidence))


@dataclass(frozen=True)
class FigureColumn:
    """One figure of every ranked table: its value and its group, by vendor."""

    title: str
    better: str
    values: Mapping[str, float]
    letters: Mapping[str, str]
    reference: float | None
    floor: float | None
    absent: Mapping[str, str]


@dataclass(frozen=True)
class DifferenceRow:
    """Two tables by one figure; `better` is empty where nothing tells them apart."""

    title: str
    first: str
    second: str
    difference: float | None
    low: float | None
    high: float | None
    p_adjusted: float | None
    better: str
    reason: str


@dataclass(frozen=True)
class Ranking:
    """The section of a comparison.

    Attributes:
        rows: every vendor: the ranked in order, then the incomplete, the disqualified, those not evaluated.
        figures: what the order rests on.
        differences: those that tell tables apart first; no more than a page has room for.
        n_differences: how many there are.
        rule: how the order comes about.
        n_compared: rows of each table.
        rows_asked: whether somebody asked for that many.
        policy: that rules were taken from.
        marks: the picture; empty where there is none.
        titles: of its axes.
        reference: the utility of real rows in it.
    """

    rows: tuple[VendorRow, ...]
    figures: tuple[FigureColumn, ...]
    differences: tuple[DifferenceRow, ...]
    n_differences: int
    rule: str
    n_compared: int | None
    rows_asked: bool
    policy: str
    marks: tuple[Mark, ...]
    titles: tuple[str, str]
    reference: float | None

    @property
    def ranked(self) -> tuple[VendorRow, ...]:
        """The vendors that are in the order."""
        return tuple(row for row in self.rows if row.standing == "ranked")

    @property
    def others(self) -> tuple[VendorRow, ...]:
        """The vendors that are not."""
        return tuple(row for row in self.rows if row.standing != "ranked")

    @property
    def claimed(self) -> bool:
        """Whether any vendor claims anything."""
        return any(row.claim for row in self.rows)
