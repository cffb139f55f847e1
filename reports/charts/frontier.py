"""Privacy against utility: a measure along epsilon, and each table as a mark of utility against exposure.

Along epsilon stand means over seeds with error bars, the fit without epsilon set apart, landmarks as lines. Marks that
none beats are filled and joined, barred ones crosses.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree.ElementTree import Element

from markupsafe import Markup

from evaluate.text import alike, compact, number, short
from reports.charts import svg
from reports.sections.comparison import Mark, Mean, Panel

PANEL_WIDTH, PANEL_HEIGHT, PANEL_LEFT, PANEL_TOP, PANEL_BASE = 400.0, 226.0, 48.0, 14.0, 182.0
PAD = 16.0
APART = 52.0  # Between the largest epsilon and the fit without one
NAMES = 98.0  # Room for the names of landmarks and generators, at the right
DODGE = 8.0  # Between the error bars of two generators at one epsilon
CLOSEST = 22.0  # Labels of the axis that would be closer than this are left out
NAME_LINE = 13.0

Scale = Callable[[float], float]


@dataclass(frozen=True)
class Axis:
    """The horizontal axis: epsilon by its logarithm, and the fit without one at the right."""

    places: dict[float | None, float]
    right: float

    @classmethod
    def of(cls, epsilons: Sequence[float | None]) -> "Axis":
        right, known = PANEL_WIDTH - NAMES, set(epsilons)
        numbers = sorted(epsilon for epsilon in known if epsilon is not None and epsilon > 0)
        last = right - PAD - (APART if None in known and numbers else 0)
        places: dict[float | None, float] = {None: right - PAD if numbers else (PANEL_LEFT + right) / 2}
        for epsilon in numbers:
            share = 0.5
            if numbers[-1] > numbers[0]:
                share = math.log(epsilon / numbers[0]) / math.log(numbers[-1] / numbers[0])
            places[epsilon] = PANEL_LEFT + PAD + share * (last - PANEL_LEFT - PAD)
        return cls({epsilon: at for epsilon, at in places.items() if epsilon in known}, right)

    @property
    def ends(self) -> float | None:
        """The end of the logarithmic part, before the fit without epsilon; `None` where there is one part."""
        return self.places[None] - APART / 2 if None in self.places and len(self.places) > 1 else None


def tradeoff(panel: Panel) -> Markup:
    dots = [(curve.generator, *dot) for curve in panel.curves for dot in curve.dots]
    spoken = [f"{generator} at {_epsilon(epsilon)}: {number(mean.value)}" for generator, epsilon, mean in dots]
    root = svg.canvas(PANEL_WIDTH, PANEL_HEIGHT, f"{panel.entry.title} by epsilon. {'; '.join(spoken)}")
    axis, (low, high) = Axis.of(panel.epsilons), _panel_extent(panel)

    def y(value: float) -> float:
        return PANEL_BASE - (value - low) / (high - low) * (PANEL_BASE - PANEL_TOP)

    _panel_frame(root, axis, (low, high), y)
    names = []
    real = "trained on real" if panel.measure.startswith("utility.tstr") else "fresh real"
    for value, css, name in ((panel.reference, "", real), (panel.floor, "floor", "shuffled")):
        if value is not None:
            svg.line(root, f"mark {css} thin", (PANEL_LEFT, y(value)), (axis.right, y(value)))
            names.append((y(value), css, name))
    for index, curve in enumerate(panel.curves):
        css, shift = f"s{index % 4}", (index - (len(panel.curves) - 1) / 2) * DODGE
        known = [
            (axis.places[epsilon] + shift, epsilon, mean) for epsilon, mean in curve.dots if epsilon in axis.places
        ]
        joined = [(at, y(mean.value)) for at, epsilon, mean in known if epsilon is not None]
        for start, end in pairwise(joined):  # no epsilon leads to the fit without one
            svg.line(root, f"run {css}", start, end)
        for at, epsilon, mean in known:
            words = f"{curve.generator}, {_epsilon(epsilon)}: {_over_seeds(mean)}"
            _dot(root, index, (at, mean, y), words)
        if len(panel.curves) > 1 and known:
            names.append((y(known[-1][2].value), f"named {css}", curve.generator))
    _panel_names(root, names, axis.right)
    return svg.rendered(root)


def _panel_extent(panel: Panel) -> tuple[float, float]:
    """The ends of the vertical axis: they hold every seed, every error bar and both landmarks."""
    means = [mean for curve in panel.curves for _, mean in curve.dots]
    values = [value for mean in means for value in (*mean.values, mean.low, mean.high)]
    known = [value for value in (*values, panel.reference, panel.floor) if value is not None]
    low, high = min(known), max(known)
    spread = max(high - low, abs(high) / 50, 1e-3)
    middle = (low + high) / 2
    return min(low, middle - spread / 2) - spread / 20, max(high, middle + spread / 2) + spread / 20


def _panel_frame(root: Element, axis: Axis, extent: tuple[float, float], y: Scale) -> None:
    for value in svg.round_values(*extent):
        svg.line(root, "grid", (PANEL_LEFT, y(value)), (axis.right, y(value)))
        svg.words(root, "tick num", (PANEL_LEFT - 6, y(value) + 4), compact(value), "end")
    parts = (
        [(PANEL_LEFT, axis.right)] if axis.ends is None else [(PANEL_LEFT, axis.ends - 5), (axis.ends + 5, axis.right)]
    )
    for start, end in parts:
        svg.line(root, "axis", (start, PANEL_BASE), (end, PANEL_BASE))
    for at in () if axis.ends is None else (axis.ends - 5, axis.ends + 5):
        svg.line(root, "axis", (at - 3, PANEL_BASE + 5), (at + 3, PANEL_BASE - 5))
    taken = -CLOSEST
    for epsilon, at in sorted(axis.places.items(), key=lambda item: item[1]):
        svg.line(root, "axis", (at, PANEL_BASE), (at, PANEL_BASE + 4))
        if at - taken >= CLOSEST or epsilon is None:
            svg.words(
                root, "tick num", (at, PANEL_BASE + 17), "none" if epsilon is None else compact(epsilon), "middle"
            )
            taken = at
    if set(axis.places) != {None}:
        svg.words(
            root,
            "tick",
            ((PANEL_LEFT + (axis.ends or axis.right)) / 2, PANEL_BASE + 36),
            "epsilon, logarithmic",
            "middle",
        )


SHAPES = {
    1: ((-4, -4), (4, -4), (4, 4), (-4, 4)), 2: ((0, -5.5), (5, 4), (-5, 4)), 3: ((0, -6), (5.5, 0), (0, 6), (-5.5, 0)),
}  # fmt: skip
"""Of each generator but the first, so that color is not needed to tell them apart."""


def _dot(root: Element, index: int, dot: tuple[float, Mean, Scale], words: str) -> None:
    (x, mean, y), css = dot, f"s{index % 4}"
    if mean.low is not None and mean.high is not None:
        low, high = y(mean.low), y(mean.high)
        svg.line(root, f"bar {css}", (x, low), (x, high))
        for end in (low, high):
            svg.line(root, f"bar {css}", (x - 4, end), (x + 4, end))
    for value in mean.values if len(mean.values) > 1 else ():
        svg.add(root, "circle", f"seed {css}", cx=x + 6, cy=y(value), r=1.7)
    if index % 4:
        corners = " ".join(f"{x + dx:.1f},{y(mean.value) + dy:.1f}" for dx, dy in SHAPES[index % 4])
        mark = svg.add(root, "polygon", f"point {css}", points=corners)
    else:
        mark = svg.add(root, "circle", f"point {css}", cx=x, cy=y(mean.value), r=4.5)
    svg.hint(mark, words)


def _panel_names(root: Element, names: Iterable[tuple[float, str, str]], right: float) -> None:
    """Names beside the ends of what they name, pushed apart where they would overlap."""
    placed: list[float] = []
    listed = sorted(names)
    for height, _, _ in listed:
        placed.append(max(height, placed[-1] + NAME_LINE + 1) if placed else height)
    over = max(0.0, placed[-1] - PANEL_BASE) if placed else 0.0
    for height, (_, css, name) in zip(placed, listed, strict=True):
        svg.words(root, f"tick {css}", (right + 6, height - over + 4), short(name, 15))


def _epsilon(epsilon: float | None) -> str:
    return "no epsilon" if epsilon is None else f"epsilon {compact(epsilon)}"


def _over_seeds(mean: Mean) -> str:
    if mean.low is None:
        return f"{number(mean.value)}, one seed"
    value, low, high = alike(mean.value, mean.low, mean.high)
    return f"{value}, {low} to {high} over {len(mean.values)} seeds"


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BASE = 560.0, 330.0, 54.0, 470.0, 16.0, 274.0
LINE = 14.0
CLOSE = 64.0  # Names of marks that are closer than this, side by side, are pushed apart


@dataclass(frozen=True)
class _Scale:
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, exposure: float, utility: float) -> svg.Point:
        across = (self.x[1] - exposure) / (self.x[1] - self.x[0])
        up = (utility - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + 12 + across * (RIGHT - LEFT - 24), BASE - 10 - up * (BASE - TOP - 20)


def pareto(marks: Sequence[Mark], titles: tuple[str, str], reference: float | None = None) -> Markup:
    """The picture; better is up and to the right."""
    texts = [f"{m.name} ({m.standing}): {number(m.utility)} at {number(m.exposure)}" for m in marks]
    root = svg.canvas(WIDTH, HEIGHT, f"{titles[0]} against {titles[1]}. {'; '.join(texts)}")
    utilities = [value for mark in marks for value in (mark.utility, mark.low, mark.high)]
    scale = _Scale(
        _extent([mark.exposure for mark in marks]), _extent(utilities if reference is None else [*utilities, reference])
    )
    _frame(root, scale, titles)
    if reference is not None:
        height = scale.at(scale.x[0], reference)[1]
        svg.line(root, "mark", (LEFT, height), (RIGHT, height))
        svg.words(root, "tick", (RIGHT + 6, height + 4), "trained on real")
    best = sorted((scale.at(m.exposure, m.utility) for m in marks if m.best), key=lambda at: at[0])
    for start, end in pairwise(best):
        svg.line(root, "chance", start, end)
    for mark in marks:
        _draw(root, mark, scale)
    _names(root, [(scale.at(mark.exposure, mark.utility), mark) for mark in marks])
    return svg.rendered(root)


def _extent(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = max(high - low, abs(high) / 50, 1e-3)
    return (low, high) if high - low >= room else ((low + high - room) / 2, (low + high + room) / 2)


def _frame(root: Element, scale: _Scale, titles: tuple[str, str]) -> None:
    for value in svg.round_values(*scale.y):
        height = scale.at(scale.x[0], value)[1]
        svg.line(root, "grid", (LEFT, height), (RIGHT, height))
        svg.words(root, "tick num", (LEFT - 6, height + 4), compact(value), "end")
    svg.line(root, "axis", (LEFT, BASE), (RIGHT, BASE))
    for value in svg.round_values(*scale.x):
        across = scale.at(value, scale.y[0])[0]
        svg.line(root, "axis", (across, BASE), (across, BASE + 4))
        svg.words(root, "tick num", (across, BASE + 18), compact(value), "middle")
    svg.words(root, "tick", (LEFT, TOP - 6), f"{short(titles[0], 60)} (up is better)")
    svg.words(root, "tick", ((LEFT + RIGHT) / 2, BASE + 42), f"{short(titles[1], 70)} (right is better)", "middle")


def _draw(root: Element, mark: Mark, scale: _Scale) -> None:
    """A cross for a barred table, a filled dot for one that none beats, a hollow one for all others."""
    x, y = scale.at(mark.exposure, mark.utility)
    svg.line(root, "stem", scale.at(mark.exposure, mark.low), scale.at(mark.exposure, mark.high))
    words = f"{mark.name}, {mark.standing}: {number(mark.utility)}, exposure at most {number(mark.exposure)}"
    if mark.barred:
        for rise in (-5.0, 5.0):
            svg.hint(svg.line(root, "cross", (x - 5, y - rise), (x + 5, y + rise)), words)
        return
    svg.hint(svg.add(root, "circle", "dot" if mark.best else "dot hollow", cx=x, cy=y, r=5.5), words)


def _names(root: Element, placed: Sequence[tuple[svg.Point, Mark]]) -> None:
    """Names beside their marks, at the side with room, pushed down where they would overlap."""
    taken: list[svg.Point] = []
    for (x, y), mark in sorted(placed, key=lambda pair: pair[0][1]):
        left = x > (LEFT + RIGHT) / 2 + 90
        at = (x - 10 if left else x + 10, y + 4)
        while any(abs(at[1] - other[1]) < LINE and abs(at[0] - other[0]) < CLOSE for other in taken):
            at = (at[0], at[1] + LINE)
        taken.append(at)
        svg.words(root, "tick hot" if mark.barred else "tick", at, short(mark.name, 18), "end" if left else "start")
