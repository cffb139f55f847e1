"""The ranking of vendors: who was barred and by what, who is ahead of whom, and by how much.

What stands in it came from vendors: every name is text. Letters of groups rest on differences between tables. Values
that lie far apart may share one where the interval of either is wide. So a page shows both: letters, and the interval
of each figure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluate.comparison import BarringFinding, PairResult, PicturePoint, Rank, RankedFigure, VendorResult
from evaluate.ranking.figures import FIGURES
from evaluate.result import Estimate, Evaluation
from evaluate.text import MOST_NAMED, loss
from reports.glossary import entry


@dataclass(frozen=True)
class Mark:
    name: str
    utility: float
    low: float
    high: float
    exposure: float
    best: bool
    barred: bool

    @property
    def standing(self) -> str:
        """The meaning of its shape, in words."""
        if self.barred:
            return "disqualified"
        return "beaten by none" if self.best else "not on the frontier"


@dataclass(frozen=True)
class BrokenRule:
    measure: str
    title: str
    why: str
    limit: float
    reason: str
    estimate: Estimate | None
    own: bool

    @property
    def note(self) -> str:
        """The meaning of the number, without full stop; empty where the reason says it, or nothing does."""
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
    evidence: tuple[BrokenRule, ...]
    open: tuple[str, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.title for one in self.evidence))


@dataclass(frozen=True)
class Ranking:
    rows: tuple[VendorRow, ...]
    figures: tuple[RankedFigure, ...]
    differences: tuple[PairResult, ...]
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
        return tuple(row for row in self.rows if row.standing == "ranked")

    @property
    def others(self) -> tuple[VendorRow, ...]:
        return tuple(row for row in self.rows if row.standing != "ranked")

    @property
    def claimed(self) -> bool:
        return any(row.claim for row in self.rows)


def intervals_of(evaluation: Evaluation) -> Mapping[tuple[str, str], Estimate]:
    """Estimates by title of the figure and name of the table; a number without an interval is not there."""
    if evaluation.ranking is None:
        return {}
    found = ((c.name, c.find(measure)) for c in evaluation.candidates for measure in FIGURES)
    return {
        (entry(one.measure).title, name): one
        for name, one in found
        if isinstance(one, Estimate) and one.low is not None and one.high is not None
    }


STANDINGS = {
    "ranked": "ranked",
    "incomplete": "columns missing",
    "disqualified": "disqualified",
    "not evaluated": "not evaluated",
}
MOST_DIFFERENCES = 60  # Pairs that are listed on the page; the file has all


def ranking_of(evaluation: Evaluation) -> Ranking | None:
    """The section of an evaluation; `None` where nothing was compared."""
    found = evaluation.ranking
    if found is None:
        return None
    order, picture = found.order, found.picture
    places = {one.name: one for one in order.order}
    rows = [_row(vendor, places.get(vendor.name)) for vendor in found.vendors]
    shown = list(STANDINGS)
    rows.sort(key=lambda row: (shown.index(row.standing), row.place or 0))
    differences = sorted(
        order.comparisons, key=lambda one: (not one.better, 1.0 if one.p_adjusted is None else one.p_adjusted)
    )
    return Ranking(
        rows=tuple(rows),
        figures=tuple(one for one in order.figures if one.values),
        differences=tuple(differences[:MOST_DIFFERENCES]),
        n_differences=len(differences),
        rule=order.rule,
        n_compared=found.terms.rows,
        rows_asked=found.terms.rows_asked is not None,
        policy=found.terms.policy,
        marks=() if picture is None else tuple(_mark(one) for one in picture.points),
        titles=("", "") if picture is None else (_title(picture.utility), f"{_title(picture.exposure)}, upper end"),
        reference=None if picture is None else picture.reference,
    )


def _row(vendor: VendorResult, place: Rank | None) -> VendorRow:
    return VendorRow(
        name=vendor.name,
        file=vendor.file,
        standing=vendor.standing,
        words=STANDINGS[vendor.standing],
        reason=vendor.reason,
        place=None if place is None else place.place,
        letters="" if place is None else place.letters,
        behind=() if place is None else place.behind,
        delivered=vendor.rows_offered,
        compared=vendor.rows_compared,
        missing=vendor.missing_columns,
        extra=vendor.extra_columns[:MOST_NAMED],
        n_extra=vendor.n_extra_columns,
        formulas=vendor.formula_cells or 0,
        claim=tuple((name, str(one) if isinstance(one, str) else loss(one)) for name, one in vendor.claim.items()),
        same_as=vendor.same_as or "",
        evidence=tuple(_evidence(one) for one in vendor.evidence),
        open=tuple(_named(name, name) for name in vendor.open),
    )


def _evidence(one: BarringFinding) -> BrokenRule:
    title = _named(one.name, one.measure)
    return BrokenRule(one.measure, title, one.why, one.fails_beyond, one.reason, one.estimate, one.beyond_policy)


def _mark(point: PicturePoint) -> Mark:
    low, high = (point.utility if end is None else end for end in (point.utility_low, point.utility_high))
    barred = point.standing == "disqualified"
    return Mark(point.name, point.utility, low, high, point.exposure, point.best and not barred, barred)


def _named(name: str, measure: str) -> str:
    """The title of a measure, or what a comparison calls what it measures for itself alone."""
    return f"{name[:1].upper()}{name[1:]}" if " " in name else _title(measure)


def _title(measure: str) -> str:
    return entry(measure).title if measure else ""
