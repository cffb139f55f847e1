"""Fidelity of one synthetic table: columns with the worst first, associations, pairs and triples, extents of scores.

Where public facts gave an expectation of a private fit, it stands beside the error and the time that were measured.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluate.result import Candidate, Estimate, Expectation
from evaluate.text import finite, number, percent, plain

MOST_COLUMNS = 20  # Columns that a triangle of associations shows at most, the most wrong ones
MOST_CLIQUES = 10
MINUS = "\u2212"
MARKED = 0.1  # Total variation up to which a column whose details are marked comes before others


@dataclass(frozen=True)
class ColumnRow:
    column: str
    kind: str
    worst: float
    top: float
    figures: tuple[Mapping[str, Any] | None, ...]
    details: tuple["tuple[Detail, ...]", ...] = ()

    @property
    def order(self) -> float:
        """By what columns are sorted: one that is marked comes before all that are right in nine rows of ten."""
        marked = any(detail.marked for details in self.details for detail in details)
        return max(self.worst, MARKED) if marked else self.worst


@dataclass(frozen=True)
class Detail:
    """A few words beside a column's picture; marked where it is plainly off."""

    words: str
    marked: bool


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
    found = [{f["column"]: f for f in c.figures.get("columns", ())} for c in candidates]
    names = list(dict.fromkeys(name for figures in found for name in figures))
    rows = []
    for name in names:
        figures = tuple(of.get(name) for of in found)
        rows.append(_column_row(name, figures, tuple(map(_details, figures))))
    return tuple(sorted(rows, key=lambda row: (-row.order, -row.worst)))


def _details(figure: Mapping[str, Any] | None) -> tuple[Detail, ...]:
    """Tails, moments, frequent values and steps of one column, each where it was measured."""
    details, drawn = [], (figure or {}).get("descriptives") or {}
    for name in ("tail", "mean", "std", "spikes", "steps"):
        if drawn.get(name) is not None:
            details.append(Detail(_words(name, finite(drawn[name]), drawn), name in drawn.get("off", ())))
    return tuple(details)


def _words(name: str, value: float, drawn: Mapping[str, Any]) -> str:
    if name == "tail":
        beyond = f"tails {'+' if value >= 0 else MINUS}{percent(abs(value))}"
        return "tails as real" if abs(value) < 0.0005 else beyond
    if name == "mean":
        return f"mean {MINUS if value < 0 else '+'}{number(abs(value), 2)} SD"
    if name == "std":
        return f"SD \u00d7 {value:.3g}"
    called = "frequent values" if name == "spikes" else drawn.get("lattice") or "steps"
    return f"{plain(called)} {percent(min(value, 9.99))} kept"


def _column_row(
    name: str, figures: tuple[Mapping[str, Any] | None, ...], details: tuple[tuple[Detail, ...], ...]
) -> ColumnRow:
    present = [figure for figure in figures if figure is not None]
    shares = [finite(share) for figure in present for name in ("train", "synthetic") for share in figure[name]]
    worst = max(finite(figure["tvd"]) for figure in present)
    return ColumnRow(name, str(present[0]["kind"]), worst, max(shares, default=1.0), figures, details)


def associations(candidate: Candidate, columns: Sequence[str] = ()) -> AssociationSet | None:
    """The triangles of one candidate; `None` where associations were not measured."""
    figure = candidate.figures.get("associations")
    if not figure or len(figure["columns"]) < 2:
        return None
    train, synthetic = figure["train"], figure["synthetic"]
    d = len(figure["columns"])
    difference = [[_gap(train[i][j], synthetic[i][j]) for j in range(d)] for i in range(d)]
    kept = [i for i, name in enumerate(figure["columns"]) if name in columns] if columns else _most_wrong(difference)

    def part(matrix: Sequence[Sequence[float | None]]) -> tuple[tuple[float | None, ...], ...]:
        return tuple(tuple(matrix[i][j] for j in kept) for i in kept)

    return AssociationSet(
        columns=tuple(figure["columns"][i] for i in kept),
        train=part(train),
        synthetic=part(synthetic),
        difference=part(difference),
        left_out=d - len(kept),
    )


def associated(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """Columns that every candidate's triangle shows, so that one real triangle serves all: the most wrong of any."""
    worst: dict[str, float] = {}
    for figure in (one.figures.get("associations") for one in candidates):
        if not figure:
            continue
        for name, real, synthetic in zip(figure["columns"], figure["train"], figure["synthetic"], strict=True):
            gaps = (abs(_gap(*pair) or 0.0) for pair in zip(real, synthetic, strict=True))
            worst[name] = max(worst.get(name, 0.0), *gaps)
    order = sorted(worst, key=lambda name: -worst[name])
    return tuple(order[:MOST_COLUMNS])


def _gap(real: float | None, synthetic: float | None) -> float | None:
    """Synthetic association less real one; one that the synthetic table lacks is lost whole."""
    return None if real is None else finite(synthetic or 0.0) - finite(real)


def _most_wrong(difference: Sequence[Sequence[float | None]]) -> list[int]:
    """Indices of the columns to show, in table order."""
    order = sorted(range(len(difference)), key=lambda i: (-max((abs(v or 0.0) for v in difference[i]), default=0.0), i))
    return sorted(order[:MOST_COLUMNS])


def worst_cliques(candidate: Candidate, family: str) -> tuple[WorstClique, ...]:
    """The "pairs" or "triples" that are furthest off, with the landmarks of each."""
    worst = candidate.figures.get(family, {}).get("worst", ())[:MOST_CLIQUES]
    return tuple(WorstClique(tuple(found["columns"]), _clique_estimate(family, found), found) for found in worst)


def _clique_estimate(family: str, found: Mapping[str, Any]) -> Estimate:
    reference, floor = (None if found.get(name) is None else finite(found[name]) for name in ("reference", "floor"))
    tvd, columns = finite(found["tvd"]), tuple(found["columns"])
    return Estimate(f"{family}.tvd", tvd, 0, "lower", columns, None, None, reference, floor)


def score_extent(candidates: Sequence[Candidate]) -> tuple[float, float]:
    """The ends of the axis that holds every score of every candidate's models."""
    models = [model for c in candidates for model in c.figures.get("utility", {}).get("models", ())]
    scores = [finite(m[k]) for m in models for k in ("tstr", "trtr", "fresh", "floor") if m.get(k) is not None]
    low, high = min(scores, default=0.0), max(scores, default=1.0)
    step = 0.1 if high - low > 0.25 else 0.02
    low, high = max(low, -1.0) - step / 4, min(high + step / 4, 1.0)
    return round(math.floor(low / step) * step, 2), round(math.ceil(high / step) * step, 2)


DASH = "\u2014"


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
    column, tree, pair = expected.column, expected.tree, expected.pair
    lines = []
    if column is not None:
        note = "mean total variation, against the training rows"
        each = [figure["tvd"] for figure in figures.get("columns", ())]
        lines.append(ExpectationLine("A column", note, number(column), _mean(each)))
    if tree is not None and pair is not None:
        note = "a small pair to a typical one; measured: mean over all pairs"
        low, high = sorted((tree, pair))
        matrix = figures.get("pairs", {}).get("tvd", ())
        each = [row[j] for i, row in enumerate(matrix) for j in range(i)]
        shown = number(low) if low == high else f"{number(low)} to {number(high)}"
        lines.append(ExpectationLine("A pair of columns", note, shown, _mean(each)))
    return tuple(lines)


def _mean(distances: Sequence[Any]) -> str:
    return number(sum(map(finite, distances)) / len(distances)) if distances else DASH
