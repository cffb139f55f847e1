"""A comparison of vendors as a reader sees it: who was barred and by what, who is ahead of whom, and by how much.

The ranking is plain data from a file, and what stands in it came from vendors: whatever is not of the expected kind is
left out, and every name is text.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from evaluate.plain_data import mapping, mappings, real, texts, whole
from evaluate.result import Estimate, Evaluation, estimate_from
from evaluate.text import finite, loss
from reports.charts.pareto import Mark
from reports.glossary import entry
from reports.ranking_shape import DifferenceRow, Evidence, FigureColumn, Ranking, VendorRow

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


def _evidence(one: Mapping[str, Any]) -> Evidence:
    rule = mapping(one.get("rule"))
    measure = str(rule.get("measure", ""))
    second = rule.get("fails_beyond")
    limit = finite(rule.get("limit") if second is None else second)
    return Evidence(
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
