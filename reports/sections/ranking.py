"""The ranking of vendors: who was barred and by what, who is ahead of whom, and by how much.

The ranking is plain data from a file, and what stands in it came from vendors: whatever is not of the expected kind is
left out, and every name is text. Letters of groups rest on differences between tables. Values that lie far apart may
share one where the interval of either is wide, so that a page shows both: the letters, and each figure's own interval.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evaluate.plain_data import mapping, mappings, real, texts, whole
from evaluate.ranking.figures import FIGURES
from evaluate.result import Estimate, Evaluation, estimate_from
from evaluate.text import finite, loss
from reports.glossary import entry


@dataclass(frozen=True)
class Mark:
    """One table in the picture of utility against exposure.

    Attributes:
        name: of the table.
        utility: higher is better.
        low: lower end of its interval; the number itself where there is none.
        high: upper end.
        exposure: the unfavorable end of the privacy figure; lower is better.
        best: no other table in the ranking beats it in both.
        barred: it is disqualified.
    """

    name: str
    utility: float
    low: float
    high: float
    exposure: float
    best: bool
    barred: bool

    @property
    def standing(self) -> str:
        """What its shape says, in words."""
        if self.barred:
            return "disqualified"
        return "beaten by none" if self.best else "not on the frontier"


@dataclass(frozen=True)
class BrokenRule:
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
    evidence: tuple[BrokenRule, ...]
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
MOST_DIFFERENCES = 60
"""Pairs that are listed on the page; the file has all."""
MOST_NAMES = 5


def ranking_of(evaluation: Evaluation) -> Ranking | None:
    """The section of an evaluation; none where nothing was compared."""
    found = evaluation.ranking
    if not isinstance(found, Mapping) or not mappings(found.get("vendors")):
        return None
    places = {str(one.get("name")): one for one in mappings(found.get("order"))}
    rows = [_row(vendor, places.get(str(vendor.get("name")), {})) for vendor in mappings(found.get("vendors"))]
    order = list(STANDINGS)
    rows.sort(key=lambda row: (order.index(row.standing), row.place or 0))
    differences = [_difference(one) for one in mappings(found.get("comparisons"))]
    differences.sort(key=lambda one: (not one.better, 1.0 if one.p_adjusted is None else one.p_adjusted))
    terms, picture = mapping(found.get("terms")), mapping(found.get("picture"))
    return Ranking(
        rows=tuple(rows),
        figures=tuple(_figure(one) for one in mappings(found.get("figures")) if mapping(one.get("values"))),
        differences=tuple(differences[:MOST_DIFFERENCES]),
        n_differences=len(differences),
        rule=str(found.get("rule", "")),
        n_compared=whole(terms.get("rows")),
        rows_asked=terms.get("rows_asked") is not None,
        policy=str(terms.get("policy", "")),
        marks=tuple(_mark(one) for one in mappings(picture.get("points"))),
        titles=(_title(picture.get("utility")), f"{_title(picture.get('exposure'))}, upper end"),
        reference=real(picture.get("reference")),
    )


def _row(vendor: Mapping[str, Any], place: Mapping[str, Any]) -> VendorRow:
    standing = str(vendor.get("standing"))
    standing = standing if standing in STANDINGS else "not evaluated"
    return VendorRow(
        name=str(vendor.get("name")),
        file=str(vendor.get("file", "")),
        standing=standing,
        words=STANDINGS[standing],
        reason=str(vendor.get("reason", "")),
        place=whole(place.get("place")),
        letters=str(place.get("letters", "")),
        behind=texts(place.get("behind")),
        delivered=whole(vendor.get("rows_offered")),
        compared=whole(vendor.get("rows_compared")),
        missing=texts(vendor.get("missing_columns")),
        extra=texts(vendor.get("extra_columns"))[:MOST_NAMES],
        n_extra=whole(vendor.get("n_extra_columns")) or 0,
        formulas=whole(vendor.get("formula_cells")) or 0,
        claim=tuple(_claims(mapping(vendor.get("claim")))),
        same_as=str(vendor.get("same_as") or ""),
        evidence=tuple(_evidence(one) for one in mappings(vendor.get("evidence"))),
        open=tuple(_named(name, name) for name in texts(vendor.get("open"))),
    )


def _claims(claim: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in claim.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        yield str(name), loss(value) if number else str(value)


def _evidence(one: Mapping[str, Any]) -> BrokenRule:
    rule = mapping(one.get("rule"))
    measure = str(rule.get("measure", ""))
    second = rule.get("fails_beyond")
    limit = finite(rule.get("limit") if second is None else second)
    return BrokenRule(
        measure, _named(one.get("name"), measure), str(rule.get("why", "")), limit,
        str(one.get("reason", "")), _estimate(one.get("estimate")), one.get("beyond_policy") is True,
    )  # fmt: skip


def _estimate(content: Any) -> Estimate | None:
    """An estimate of a file; none where it is none."""
    try:
        return estimate_from(content)
    except (TypeError, ValueError):
        return None


def _figure(one: Mapping[str, Any]) -> FigureColumn:
    values = {str(name): finite(value) for name, value in mapping(one.get("values")).items()}
    letters = {str(name): str(value) for name, value in mapping(one.get("letters")).items()}
    absent = {str(name): str(value) for name, value in mapping(one.get("absent")).items()}
    better = "higher is better" if one.get("direction") == "higher" else "lower is better"
    return FigureColumn(
        _title(one.get("figure")), better, values, letters, real(one.get("reference")), real(one.get("floor")),
        absent,
    )  # fmt: skip


def _difference(one: Mapping[str, Any]) -> DifferenceRow:
    difference, low, high, p_adjusted = (real(one.get(of)) for of in ("difference", "low", "high", "p_adjusted"))
    return DifferenceRow(
        _title(one.get("figure")), str(one.get("first")), str(one.get("second")), difference, low, high, p_adjusted,
        str(one.get("better") or ""), str(one.get("reason") or ""),
    )  # fmt: skip


def _mark(point: Mapping[str, Any]) -> Mark:
    utility = finite(point.get("utility"))
    ends = (real(point.get(name)) for name in ("utility_low", "utility_high"))
    low, high = (utility if end is None else end for end in ends)
    exposure, barred = finite(point.get("exposure")), point.get("standing") == "disqualified"
    return Mark(str(point.get("name")), utility, low, high, exposure, point.get("best") is True and not barred, barred)


def _named(name: Any, measure: str) -> str:
    """The title of a measure, or what a comparison calls what it measures for itself alone."""
    return f"{name[:1].upper()}{name[1:]}" if isinstance(name, str) and " " in name else _title(measure)


def _title(measure: Any) -> str:
    return entry(str(measure)).title if measure else ""
