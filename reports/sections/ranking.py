"""The ranking of vendors: who was barred and by what, who is ahead of whom, and by how much.

What stands in it came from vendors: every name is text. Letters of groups rest on differences between tables. Values
that lie far apart may share one where the interval of either is wide. So a page shows both: letters, and the interval
of each figure.
"""

from dataclasses import dataclass

from evaluate.comparison import PairResult, PicturePoint, Rank, VendorRanking, VendorResult
from evaluate.result import Estimate, Evaluation
from reports.glossary import entry

STANDINGS = {
    "ranked": "ranked",
    "incomplete": "columns missing",
    "disqualified": "disqualified",
    "not evaluated": "not evaluated",
}
MOST_DIFFERENCES = 60  # Pairs that are listed on the page; the file has all


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
class VendorRow:
    """One vendor with its rank; `None` where it has none."""

    vendor: VendorResult
    rank: Rank | None

    @property
    def name(self) -> str:
        return self.vendor.name

    @property
    def words(self) -> str:
        return STANDINGS[self.vendor.standing]

    @property
    def broken(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(named(rule.name) for rule in self.vendor.evidence))


@dataclass(frozen=True)
class Ranking:
    """A comparison as the page reads it, with the interval of each figure by its name and the table's."""

    comparison: VendorRanking
    rows: tuple[VendorRow, ...]
    differences: tuple[PairResult, ...]
    marks: tuple[Mark, ...]
    titles: tuple[str, str]
    intervals: dict[tuple[str, str], Estimate]

    @property
    def ranked(self) -> tuple[VendorRow, ...]:
        return tuple(row for row in self.rows if row.vendor.standing == "ranked")

    @property
    def reference(self) -> float | None:
        return None if self.comparison.picture is None else self.comparison.picture.reference


def ranking_of(evaluation: Evaluation) -> Ranking | None:
    """The section of an evaluation; `None` where nothing was compared."""
    comparison = evaluation.ranking
    if comparison is None:
        return None
    order, picture, standings = comparison.order, comparison.picture, list(STANDINGS)
    ranks = {rank.name: rank for rank in order.order}
    rows = [VendorRow(vendor, ranks.get(vendor.name)) for vendor in comparison.vendors]
    rows.sort(key=lambda row: (standings.index(row.vendor.standing), row.rank.place if row.rank else 0))
    differences = sorted(
        order.comparisons, key=lambda pair: (not pair.better, 1.0 if pair.p_adjusted is None else pair.p_adjusted)
    )
    measured = {
        (figure.figure, candidate.name): candidate.find(figure.figure)
        for figure in order.figures
        for candidate in evaluation.candidates
    }
    titles = ("", "")
    if picture is not None:
        titles = (entry(picture.utility).title, f"{entry(picture.exposure).title}, upper end")
    return Ranking(
        comparison=comparison,
        rows=tuple(rows),
        differences=tuple(differences[:MOST_DIFFERENCES]),
        marks=() if picture is None else tuple(_mark(point) for point in picture.points),
        titles=titles,
        intervals={key: e for key, e in measured.items() if isinstance(e, Estimate) and e.low is not None},
    )


def _mark(point: PicturePoint) -> Mark:
    low, high = (point.utility if end is None else end for end in (point.utility_low, point.utility_high))
    barred = point.standing == "disqualified"
    return Mark(point.name, point.utility, low, high, point.exposure, point.best and not barred, barred)


def named(name: str) -> str:
    """The title of a measure, or what a comparison calls what it measures for itself alone."""
    return f"{name[:1].upper()}{name[1:]}" if " " in name else entry(name).title
