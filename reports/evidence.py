"""What the pictures are drawn from: columns with the worst first, associations, pairs and triples, scores' extent."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluate.result import Candidate, Estimate
from reports.text import finite

MOST_COLUMNS = 20
"""Columns that a triangle of associations shows at most, the most wrong ones."""
MOST_CLIQUES = 10


@dataclass(frozen=True)
class ColumnRow:
    """One column's charts side by side, drawn to the same scale.

    Attributes:
        column: its name.
        kind: of the schema.
        worst: the largest total variation of any candidate.
        top: the largest share of any bar.
        figures: one for each candidate; none where it was not measured.
    """

    column: str
    kind: str
    worst: float
    top: float
    figures: tuple[Mapping[str, Any] | None, ...]


@dataclass(frozen=True)
class AssociationSet:
    """Associations of one candidate beside the real ones; `left_out` columns had the smallest differences."""

    columns: tuple[str, ...]
    train: tuple[tuple[float | None, ...], ...]
    synthetic: tuple[tuple[float | None, ...], ...]
    difference: tuple[tuple[float | None, ...], ...]
    left_out: int


@dataclass(frozen=True)
class WorstClique:
    """Two or three columns and their total variation together, as an estimate with landmarks."""

    columns: tuple[str, ...]
    estimate: Estimate


def column_rows(candidates: Sequence[Candidate]) -> tuple[ColumnRow, ...]:
    """Every column that any candidate has a figure for, the worst first."""
    found = [{f["column"]: f for f in c.figures.get("columns", ())} for c in candidates]
    names = list(dict.fromkeys(name for figures in found for name in figures))
    rows = [_column_row(name, tuple(figures.get(name) for figures in found)) for name in names]
    return tuple(sorted(rows, key=lambda row: -row.worst))


def _column_row(name: str, figures: tuple[Mapping[str, Any] | None, ...]) -> ColumnRow:
    present = [figure for figure in figures if figure is not None]
    shares = [finite(share) for figure in present for name in ("train", "synthetic") for share in figure[name]]
    worst = max(finite(figure["tvd"]) for figure in present)
    return ColumnRow(name, str(present[0]["kind"]), worst, max(shares, default=1.0), figures)


def associations(candidate: Candidate) -> AssociationSet | None:
    """The triangles of one candidate; none where associations were not measured."""
    figure = candidate.figures.get("associations")
    if not figure or len(figure["columns"]) < 2:
        return None
    train, synthetic = figure["train"], figure["synthetic"]
    d = len(figure["columns"])
    difference = [[_gap(train[i][j], synthetic[i][j]) for j in range(d)] for i in range(d)]
    kept = _most_wrong(difference)

    def part(matrix: Sequence[Sequence[float | None]]) -> tuple[tuple[float | None, ...], ...]:
        return tuple(tuple(matrix[i][j] for j in kept) for i in kept)

    return AssociationSet(
        columns=tuple(figure["columns"][i] for i in kept),
        train=part(train),
        synthetic=part(synthetic),
        difference=part(difference),
        left_out=d - len(kept),
    )


def difference_top(candidates: Sequence[Candidate]) -> float:
    """The difference of associations that the darkest shade stands for: the same for all candidates, a round number."""
    sets = [found for c in candidates if (found := associations(c)) is not None]
    top = max((v for s in sets for row in s.difference for v in row if v is not None), default=0.0)
    return max(math.ceil(top * 10) / 10, 0.1)


def _gap(real: float | None, synthetic: float | None) -> float | None:
    """How far off an association is; one that the synthetic table does not have at all is lost whole."""
    return None if real is None else abs(finite(real) - finite(synthetic or 0.0))


def _most_wrong(difference: Sequence[Sequence[float | None]]) -> list[int]:
    """Indices of the columns to show, in table order."""
    order = sorted(range(len(difference)), key=lambda i: (-max((v or 0.0 for v in difference[i]), default=0.0), i))
    return sorted(order[:MOST_COLUMNS])


def worst_cliques(candidate: Candidate, family: str) -> tuple[WorstClique, ...]:
    """The "pairs" or "triples" that are furthest off, with the landmarks of each."""
    worst = candidate.figures.get(family, {}).get("worst", ())[:MOST_CLIQUES]
    return tuple(WorstClique(tuple(found["columns"]), _clique_estimate(family, found)) for found in worst)


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
