"""A sweep in the report: each metric along epsilon, averaged over seeds, with its scatter, and what all of it promises.

The error bars are Student's 95% interval of the mean over seeds: how much the generator's own chance moves a number.
They do not hold the chance of the real sample, which the interval of each single estimate does.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluate.metrics import Metric
from evaluate.result import Candidate, Estimate, Evaluation
from reports.glossary import better, entry

PANELS = (
    "utility.tstr.boosting", "utility.gap.boosting.without", "columns.tvd.excess", "pairs.tvd.excess",
    "pairs.dependence.floor_share", "privacy.membership.auc",
)  # fmt: skip
"""Measures that are drawn along epsilon, in this order, as far as they were measured."""
MOST_SECTIONS = 4  # Points that are shown in full where none is named for release; a page holds no more than about this


@dataclass(frozen=True)
class SweepPoint:
    """One fit of a sweep: a generator at an epsilon (none: without) with a seed."""

    candidate: Candidate
    generator: str
    epsilon: float | None
    seed: int

    @property
    def setting(self) -> tuple[str, float | None]:
        return self.generator, self.epsilon


@dataclass(frozen=True)
class Mean:
    values: tuple[float, ...]
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Curve:
    """One generator's means by epsilon, smallest first, the one without epsilon last."""

    generator: str
    dots: tuple[tuple[float | None, Mean], ...]


@dataclass(frozen=True)
class Panel:
    measure: str
    entry: Metric
    better: str
    note: str
    reference: float | None
    floor: float | None
    epsilons: tuple[float | None, ...]
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class SweepRow:
    """One generator at one epsilon: a mean for each panel, none where no seed gave a number."""

    generator: str
    epsilon: float | None
    n_seeds: int
    cells: tuple[Mean | None, ...]


@dataclass(frozen=True)
class Sweep:
    releasable: bool
    epsilon: float | None
    delta: float | None
    n_fits: int
    n_points: int
    n_seeds: int
    panels: tuple[Panel, ...]
    rows: tuple[SweepRow, ...]
    hidden: int

    @property
    def n_uncovered(self) -> int:
        """Fits that promise nothing: what the others come to together does not cover their tables."""
        return max(0, self.n_points - self.n_fits)


def sweep_of(evaluation: Evaluation, shown: Sequence[Candidate] = ()) -> Sweep | None:
    """The sweep that an evaluation is of; none where it is of none. `evaluation`: *Sensitive*: it was measured on real
    rows.
    """
    swept, points = evaluation.provenance.sweep, sweep_points(evaluation)
    if swept is None or not points:
        return None
    composed = swept.composed
    panels = tuple(panel for measure in PANELS if (panel := _panel(measure, points)) is not None)
    return Sweep(
        releasable=is_releasable(evaluation),
        epsilon=None if composed is None else composed.epsilon,
        delta=None if composed is None else composed.delta,
        n_fits=0 if composed is None else composed.n_fits,
        n_points=len(points),
        n_seeds=max(len(group) for group in by_setting(points).values()),
        panels=panels,
        rows=tuple(_row(setting, group, panels) for setting, group in by_setting(points).items()),
        hidden=len(points) - len(shown),
    )


def is_releasable(evaluation: Evaluation) -> bool:
    """True where anything of it may be released: nothing of a sweep whose private fits nobody pays for."""
    swept = evaluation.provenance.sweep
    return swept is None or swept.releasable


def sweep_points(evaluation: Evaluation) -> tuple[SweepPoint, ...]:
    """The points of a sweep, in the order of its generators, by epsilon and seed; empty where there is none."""
    swept = evaluation.provenance.sweep
    candidates = {candidate.name: candidate for candidate in evaluation.candidates}
    found = [
        SweepPoint(candidates[one.label], one.generator, one.epsilon, one.seed)
        for one in (() if swept is None else swept.points)
        if one.label in candidates
    ]
    order = {name: i for i, name in enumerate(dict.fromkeys(point.generator for point in found))}
    return tuple(sorted(found, key=lambda p: (order[p.generator], _rank(p.epsilon), p.seed)))


def shown_in_full(evaluation: Evaluation, release: str | None) -> tuple[Candidate, ...]:
    """Candidates with a section of their own: all, but of a sweep the one to release, or a few of the first seed."""
    points = sweep_points(evaluation)
    if not points:
        return evaluation.candidates
    named = tuple(c for c in evaluation.candidates if c.name == release)
    firsts = [group[0].candidate for group in by_setting(points).values()]
    return named or tuple(firsts[i] for i in _spread(len(firsts), MOST_SECTIONS))


def by_setting(points: Iterable[SweepPoint]) -> dict[tuple[str, float | None], list[SweepPoint]]:
    groups: dict[tuple[str, float | None], list[SweepPoint]] = {}
    for point in points:
        groups.setdefault(point.setting, []).append(point)
    return groups


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of independent repetitions with Student's 95% interval.

    >>> round(mean_of([1.0, 2.0, 3.0]).low, 6)
    -0.484138
    >>> mean_of([1.0]).low is None
    True
    """
    from scipy.special import stdtrit

    n, mean = len(values), math.fsum(values) / len(values)
    if n < 2:
        return Mean(tuple(values), mean, None, None)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
    half = float(stdtrit(n - 1, 0.975)) * spread
    return Mean(tuple(values), mean, mean - half, mean + half)


def _spread(n: int, most: int) -> list[int]:
    """Places spread evenly over a list, both ends among them.

    >>> _spread(5, 4), _spread(2, 4)
    ([0, 1, 3, 4], [0, 1])
    """
    return list(range(n)) if n <= most else [round(i * (n - 1) / (most - 1)) for i in range(most)]


def _rank(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _estimates(measure: str, points: Iterable[SweepPoint]) -> list[Estimate]:
    found = (point.candidate.find(measure) for point in points)
    return [one for one in found if isinstance(one, Estimate)]


def _mean(measure: str, points: Iterable[SweepPoint]) -> Mean | None:
    values = [one.value for one in _estimates(measure, points)]
    return mean_of(values) if values else None


def _panel(measure: str, points: Sequence[SweepPoint]) -> Panel | None:
    found = _estimates(measure, points)
    if not found:
        return None
    dots: dict[str, list[tuple[float | None, Mean]]] = {}
    for (generator, epsilon), group in by_setting(points).items():
        mean = _mean(measure, group)
        if mean is not None:
            dots.setdefault(generator, []).append((epsilon, mean))
    notes = {one.note for one in found}
    return Panel(
        measure=measure,
        entry=entry(measure),
        better=better(measure, found[0].direction),
        note=notes.pop() if len(notes) == 1 and measure.startswith("utility.") else "",
        reference=average([one.reference for one in found]),
        floor=average([one.floor for one in found]),
        epsilons=tuple(sorted({point.epsilon for point in points}, key=_rank)),
        curves=tuple(Curve(generator, tuple(listed)) for generator, listed in dots.items()),
    )


def average(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are there; none where none is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _row(setting: tuple[str, float | None], group: Sequence[SweepPoint], panels: Sequence[Panel]) -> SweepRow:
    return SweepRow(*setting, len(group), tuple(_mean(panel.measure, group) for panel in panels))
