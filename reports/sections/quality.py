"""The quality of one table: fidelity, utility, its weakest points, and sections that extras bring, kind "section".

Columns come with the worst first. Where public facts gave an expectation of a private fit, it stands beside the error
that was measured. Weak points are the worst columns and relations, and the groups of people who are served worst.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from evaluate.metrics import numbers_of
from evaluate.result import Candidate, Estimate, Evaluation, Expectation
from evaluate.text import finite, mapping, mappings, number, percent, plain
from reports.glossary import entry
from synth import extras
from synth.schema import Schema

MOST_COLUMNS = 20  # Columns that a triangle of associations shows at most, the most wrong ones
MOST_CLIQUES = 10
MINUS = "\u2212"
MARKED = 0.1  # Total variation up to which a column whose details are marked comes before others


class Detail(NamedTuple):
    """A few words beside a column's picture; marked where it is plainly off."""

    words: str
    marked: bool


@dataclass(frozen=True)
class ColumnRow:
    column: str
    kind: str
    worst: float
    top: float
    figures: tuple[Mapping[str, Any] | None, ...]
    details: tuple[tuple[Detail, ...], ...] = ()

    @property
    def order(self) -> float:
        """By what columns are sorted: one that is marked comes before all that are right in nine rows of ten."""
        marked = any(detail.marked for details in self.details for detail in details)
        return max(self.worst, MARKED) if marked else self.worst


@dataclass(frozen=True)
class AssociationSet:
    """Associations of one candidate beside the real ones, and by how much they exceed these; `left_out` columns had the
    smallest differences.
    """

    columns: tuple[str, ...]
    train: tuple[tuple[float | None, ...], ...]
    synthetic: tuple[tuple[float | None, ...], ...]
    difference: tuple[tuple[float | None, ...], ...]
    left_out: int


@dataclass(frozen=True)
class WorstClique:
    """Two or three columns and their total variation together, as an estimate with landmarks; and what is drawn."""

    columns: tuple[str, ...]
    estimate: Estimate
    figure: Mapping[str, Any]

    @property
    def is_drawn(self) -> bool:
        return self.figure.get("cells") is not None


def column_rows(candidates: Sequence[Candidate]) -> tuple[ColumnRow, ...]:
    """Each column of any candidate, the worst first."""
    by_candidate = [{f["column"]: f for f in c.figures.get("columns", ())} for c in candidates]
    rows = []
    for name in dict.fromkeys(name for figures in by_candidate for name in figures):
        figures = tuple(each.get(name) for each in by_candidate)
        present = [figure for figure in figures if figure is not None]
        shares = [finite(share) for figure in present for side in ("train", "synthetic") for share in figure[side]]
        worst = max(finite(figure["tvd"]) for figure in present)
        details = tuple(map(_details, figures))
        rows.append(ColumnRow(name, str(present[0]["kind"]), worst, max(shares, default=1.0), figures, details))
    return tuple(sorted(rows, key=lambda row: (-row.order, -row.worst)))


def _details(figure: Mapping[str, Any] | None) -> tuple[Detail, ...]:
    """Tails, moments, frequent values and steps of one column, each where it was measured."""
    about = (figure or {}).get("descriptives") or {}
    measured = [name for name in ("tail", "mean", "std", "spikes", "steps") if about.get(name) is not None]
    return tuple(Detail(_words(name, finite(about[name]), about), name in about.get("off", ())) for name in measured)


def _words(name: str, value: float, about: Mapping[str, Any]) -> str:
    sign = MINUS if value < 0 else "+"
    if name == "tail":
        return "tails as real" if abs(value) < 0.0005 else f"tails {sign}{percent(abs(value))}"
    if name == "mean":
        return f"mean {sign}{number(abs(value), 2)} SD"
    if name == "std":
        return f"SD \u00d7 {value:.3g}"
    called = "frequent values" if name == "spikes" else about.get("lattice") or "steps"
    return f"{plain(called)} {percent(min(value, 9.99))} kept"


def associations(candidate: Candidate, columns: Sequence[str] = ()) -> AssociationSet | None:
    """The triangles of one candidate; `None` where associations were not measured."""
    figure = candidate.figures.get("associations")
    if not figure or len(figure["columns"]) < 2:
        return None
    names = figure["columns"]
    kept = [i for i, name in enumerate(names) if name in (columns or associated([candidate]))]
    train, synthetic, difference = (
        tuple(tuple(matrix[i][j] for j in kept) for i in kept)
        for matrix in (figure["train"], figure["synthetic"], _differences(figure))
    )
    return AssociationSet(tuple(names[i] for i in kept), train, synthetic, difference, len(names) - len(kept))


def associated(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """Columns that every candidate's triangle shows, so that one real triangle serves all: the most wrong of any."""
    worst: dict[str, float] = {}
    for figure in (candidate.figures.get("associations") for candidate in candidates):
        if figure:
            for name, row in zip(figure["columns"], _differences(figure), strict=True):
                worst[name] = max(worst.get(name, 0.0), *(abs(value or 0.0) for value in row))
    return tuple(sorted(worst, key=lambda name: -worst[name])[:MOST_COLUMNS])


def _differences(figure: Mapping[str, Any]) -> list[list[float | None]]:
    """Synthetic associations less real ones; one that the synthetic table lacks is lost whole."""
    return [
        [None if real is None else finite(other or 0.0) - finite(real) for real, other in zip(*rows, strict=True)]
        for rows in zip(figure["train"], figure["synthetic"], strict=True)
    ]


def worst_cliques(candidate: Candidate, family: str) -> tuple[WorstClique, ...]:
    """The "pairs" or "triples" that are furthest off, with the landmarks of each."""
    cliques = []
    for figure in candidate.figures.get(family, {}).get("worst", ())[:MOST_CLIQUES]:
        columns, tvd = tuple(figure["columns"]), finite(figure["tvd"])
        marks: dict[str, Any] = {
            name: finite(figure[name]) for name in ("reference", "floor") if figure.get(name) is not None
        }
        estimate = Estimate(f"{family}.tvd", tvd, 0, "lower", columns, **marks)
        cliques.append(WorstClique(columns, estimate, figure))
    return tuple(cliques)


def score_extent(candidates: Sequence[Candidate]) -> tuple[float, float]:
    """The ends of the axis that holds every score of every candidate's models."""
    models = [model for c in candidates for model in c.figures.get("utility", {}).get("models", ())]
    scores = [finite(m[k]) for m in models for k in ("tstr", "trtr", "fresh", "floor") if m.get(k) is not None]
    low, high = min(scores, default=0.0), max(scores, default=1.0)
    step = 0.1 if high - low > 0.25 else 0.02
    low, high = max(low, -1.0) - step / 4, min(high + step / 4, 1.0)
    return round(math.floor(low / step) * step, 2), round(math.ceil(high / step) * step, 2)


@dataclass(frozen=True)
class ExpectationLine:
    """One line: what, expected and measured, each ready to be shown."""

    what: str
    note: str
    expected: str
    measured: str


def expectations(candidate: Candidate) -> tuple[ExpectationLine, ...]:
    """The lines of one candidate; empty where nothing was expected."""
    expected, figures = candidate.expected or Expectation(), candidate.figures
    lines = []
    if expected.column is not None:
        note = "mean total variation beyond that of a fresh real sample"
        measured = candidate.find("columns.tvd.excess")
        shown = number(measured.value) if isinstance(measured, Estimate) else "\u2014"
        lines.append(ExpectationLine("A column", note, number(expected.column), shown))
    if expected.tree is not None and expected.pair is not None:
        note = "a small pair to a typical one; measured: mean over all pairs"
        low, high = sorted((expected.tree, expected.pair))
        each = [row[j] for i, row in enumerate(figures.get("pairs", {}).get("tvd", ())) for j in range(i)]
        shown = number(low) if low == high else f"{number(low)} to {number(high)}"
        lines.append(ExpectationLine("A pair of columns", note, shown, _mean(each)))
    return tuple(lines)


def _mean(distances: Sequence[Any]) -> str:
    return number(sum(map(finite, distances)) / len(distances)) if distances else "\u2014"


SCORES = ("utility.tstr.", "utility.gap.")  # Numbers that the section draws
WITHOUT = "utility.gap.boosting.without"  # The one that it lists, where a column gives the target away
FAMILIES = ("utility.", "fairness.")
NEXT_EVENT = "utility.next_event"  # The measure of the next event, which fails as a whole where there is none


def utility_rows(candidate: Candidate) -> tuple[Estimate, ...]:
    """Estimates of utility and fairness for a table; of each sensitive column, what is worst comes first."""
    given_away = bool((candidate.figures.get("utility") or {}).get("without"))  # else it is the loss that is drawn
    rows = [
        e
        for e in candidate.estimates
        if e.measure.startswith(FAMILIES)
        and not entry(e.measure).anchor  # of an extra with a section of its own
        and (not e.measure.startswith(SCORES) or (e.measure == WITHOUT and given_away))
    ]
    of_table = [e for e in rows if not e.subject]
    return (*of_table, *sorted((e for e in rows if e.subject), key=lambda e: (e.measure, -e.value)))


def utility_absent(candidate: Candidate) -> tuple[Mapping[str, str], ...]:
    """Utility that was not measured, one entry for each reason, titled by the first number."""
    titles: dict[str, str] = {}
    for failure in candidate.failures:
        measure = failure.measure
        if measure == NEXT_EVENT and failure.reason == "skipped":  # rows of an entity have no order
            continue
        has_own_section = any(entry(name).anchor for name in numbers_of(measure) or (measure,))
        if measure.startswith(FAMILIES) and not measure.startswith(SCORES) and not has_own_section:
            title = entry(measure).title
            titles.setdefault(failure.message, f"{title}: {', '.join(failure.subject)}" if failure.subject else title)
    return tuple({"title": title, "message": message.rstrip(".")} for message, title in titles.items())


def subgroups(candidate: Candidate) -> tuple[Mapping[str, Any], ...]:
    """By sensitive column, its groups with what was measured of each: first the group where columns are most off."""
    tables: dict[str, dict[str, Any]] = {}
    for figure in candidate.figures.get("fairness_columns", ()):
        groups = {row["group"]: dict(row) for row in figure["groups"]}
        tables[figure["column"]] = {"column": figure["column"], "groups": groups, "levels": ()}
    for figure in candidate.figures.get("fairness_models", ()):
        blank = {"column": figure["column"], "groups": {}, "levels": ()}
        table = tables.setdefault(figure["column"], blank)
        table["levels"] = figure["levels"]
        for row in figure["groups"]:
            group = table["groups"].setdefault(row["group"], {"group": row["group"]})
            group |= {**({"boosting": row["boosting"]} if "boosting" in row else {}), "few_test": row["few"]}

    def worst(row: Mapping[str, Any]) -> float:
        return max(float(row.get("excess", -1.0)), float(row.get("boosting", {}).get("gap", -1.0)))

    return tuple(
        {**table, "groups": sorted(table["groups"].values(), key=worst, reverse=True)} for table in tables.values()
    )


def predicted(evaluation: Evaluation) -> tuple[str, ...]:
    """The prediction task of each target that models were measured on. The reason may be read off real rows."""
    figures = [candidate.figures.get("utility") for candidate in evaluation.candidates]
    tasks = (f"Utility: {each['task']} of {each['target']!r}; the report says why" for each in figures if each)
    return tuple(dict.fromkeys(tasks))


def given_away(evaluation: Evaluation) -> tuple[str, ...]:
    """Warnings for each column that gives the target away: the clearest one alone tells it."""
    figures = [candidate.figures.get("utility") or {} for candidate in evaluation.candidates]
    return tuple(
        dict.fromkeys(
            f"column={giveaway['column']!r} gives target={each['target']!r} away: a model of it alone is "
            f"nearly always right, so read the loss without it ({WITHOUT!r}), or drop the column"
            for each in figures
            for giveaway in each.get("giveaways", ())
        )
    )


@dataclass(frozen=True)
class WeakSpot:
    """A column that is off in what a section is about: 0 as a fresh real sample, 1 where all of it is lost."""

    column: str
    what: str
    value: float
    anchor: str = ""


@dataclass(frozen=True)
class ExtraSection:
    """A section of the report: its anchor, its title, and its template, which finds `read`'s result by the anchor in
    `s.extras` of each candidate `s`; `None`: there is nothing to say of this candidate. `weak`: columns that are named
    among the weak spots.
    """

    anchor: str
    title: str
    template: Path
    read: Callable[[Candidate, Schema], Any]
    weak: Callable[[Candidate], Iterable[WeakSpot]] = lambda _: ()

    @property
    def part(self) -> tuple[str, str]:
        """Its anchor and title in the list of sections."""
        return self.anchor, self.title


def brought() -> tuple[ExtraSection, ...]:
    return tuple(extras.load("section").values())


def weak_spots(candidate: Candidate) -> Iterator[WeakSpot]:
    for section in brought():
        yield from (replace(spot, anchor=section.anchor) for spot in section.weak(candidate))


def filled(candidates: Iterable[Mapping[str, Any]]) -> tuple[ExtraSection, ...]:
    """The sections that say something of any candidate, of whom each has what they say by their anchors."""
    anchors = {anchor for each in candidates for anchor, content in each.items() if content is not None}
    return tuple(section for section in brought() if section.anchor in anchors)


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
