"""Several tables beside each other: a sweep along epsilon, and the ranking of vendors.

Error bars of a sweep are Student's 95% interval of the mean over seeds: how much the generator's own chance moves a
number. They do not hold the chance of the real sample, which the interval of each single estimate does.

What stands in a ranking came from vendors: every name is text. Letters of groups rest on differences between tables.
Values that lie far apart may share one where the interval of either is wide. So a page shows both.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from evaluate.comparison import PairResult, PicturePoint, Rank, VendorRanking, VendorResult
from evaluate.metrics import Metric
from evaluate.result import Candidate, Estimate, Evaluation
from reports.glossary import better, entry

PANELS = (
    "utility.tstr.boosting", "utility.gap.boosting.without", "columns.tvd.excess", "pairs.tvd.excess",
    "pairs.dependence.floor_share", "privacy.membership.auc",
)  # fmt: skip
"""Measures that are drawn along epsilon, in this order, as far as they were measured."""
MOST_SECTIONS = 4  # Points that are shown in full where none is named for release; a page holds no more than about this
Setting = tuple[str, float | None]  # A generator, and its epsilon; `None`: without


@dataclass(frozen=True)
class SweepPoint:
    """One fit of a sweep."""

    candidate: Candidate
    generator: str
    epsilon: float | None
    seed: int


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
    """One measure along epsilon."""

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
    """What the private fits come to together, and each measure along epsilon; `n_uncovered` fits promise nothing."""

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
        return max(0, self.n_points - self.n_fits)


def sweep_of(evaluation: Evaluation, shown: Sequence[Candidate] = ()) -> Sweep | None:
    """*Sensitive*. The sweep that an evaluation is of; none where it is of none."""
    swept, points = evaluation.provenance.sweep, sweep_points(evaluation)
    if swept is None or not points:
        return None
    together, groups = swept.composed, by_setting(points)
    panels = tuple(panel for measure in PANELS if (panel := _panel(measure, groups)) is not None)
    dots = [{(c.generator, epsilon): mean for c in panel.curves for epsilon, mean in c.dots} for panel in panels]
    return Sweep(
        releasable=swept.releasable,
        epsilon=None if together is None else together.epsilon,
        delta=None if together is None else together.delta,
        n_fits=0 if together is None else together.n_fits,
        n_points=len(points),
        n_seeds=max(map(len, groups.values())),
        panels=panels,
        rows=tuple(SweepRow(*key, len(group), tuple(each.get(key) for each in dots)) for key, group in groups.items()),
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
    points = [
        SweepPoint(candidates[point.label], point.generator, point.epsilon, point.seed)
        for point in (() if swept is None else swept.points)
        if point.label in candidates
    ]
    order = list(dict.fromkeys(point.generator for point in points))
    return tuple(sorted(points, key=lambda p: (order.index(p.generator), _rank(p.epsilon), p.seed)))


def shown_in_full(evaluation: Evaluation, release: str | None) -> tuple[Candidate, ...]:
    """Candidates with a section of their own: all, but of a sweep the one to release, or a few of the first seed."""
    points = sweep_points(evaluation)
    if not points:
        return evaluation.candidates
    named = tuple(c for c in evaluation.candidates if c.name == release)
    firsts = [group[0].candidate for group in by_setting(points).values()]
    last = len(firsts) - 1
    spread = dict.fromkeys(round(i * last / (MOST_SECTIONS - 1)) for i in range(MOST_SECTIONS))  # both ends among them
    return named or tuple(firsts if last < MOST_SECTIONS else (firsts[i] for i in spread))


def by_setting(points: Iterable[SweepPoint]) -> dict[Setting, list[SweepPoint]]:
    """The points of each generator at each epsilon, of points in the order of `sweep_points`."""
    groups = groupby(points, key=lambda point: (point.generator, point.epsilon))
    return {setting: list(group) for setting, group in groups}


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


def average(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are there; none where none is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _rank(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _panel(measure: str, groups: dict[Setting, list[SweepPoint]]) -> Panel | None:
    estimates: list[Estimate] = []
    dots: dict[str, list[tuple[float | None, Mean]]] = {}
    for (generator, epsilon), group in groups.items():
        answers = (point.candidate.find(measure) for point in group)
        measured = [answer for answer in answers if isinstance(answer, Estimate)]
        if measured:
            dots.setdefault(generator, []).append((epsilon, mean_of([each.value for each in measured])))
            estimates += measured
    if not estimates:
        return None
    notes = {each.note for each in estimates}
    return Panel(
        measure=measure,
        entry=entry(measure),
        better=better(measure, estimates[0].direction),
        note=notes.pop() if len(notes) == 1 and measure.startswith("utility.") else "",
        reference=average(each.reference for each in estimates),
        floor=average(each.floor for each in estimates),
        epsilons=tuple(sorted({epsilon for _, epsilon in groups}, key=_rank)),
        curves=tuple(Curve(generator, tuple(means)) for generator, means in dots.items()),
    )


STANDINGS = {
    "ranked": "ranked", "incomplete": "columns missing", "disqualified": "disqualified",
    "not evaluated": "not evaluated",
}  # fmt: skip
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
    """`None` where nothing was compared."""
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
    intervals = {
        (figure.figure, candidate.name): estimate
        for figure in order.figures
        for candidate in evaluation.candidates
        if isinstance(estimate := candidate.find(figure.figure), Estimate) and estimate.low is not None
    }
    marks: tuple[Mark, ...] = ()
    titles = ("", "")
    if picture is not None:
        marks = tuple(map(_mark, picture.points))
        titles = (entry(picture.utility).title, f"{entry(picture.exposure).title}, upper end")
    return Ranking(comparison, tuple(rows), tuple(differences[:MOST_DIFFERENCES]), marks, titles, intervals)


def _mark(point: PicturePoint) -> Mark:
    low, high = (point.utility if end is None else end for end in (point.utility_low, point.utility_high))
    barred = point.standing == "disqualified"
    return Mark(point.name, point.utility, low, high, point.exposure, point.best and not barred, barred)


def named(name: str) -> str:
    """The title of a measure, or what a comparison calls what it measures for itself alone."""
    return f"{name[:1].upper()}{name[1:]}" if " " in name else entry(name).title
