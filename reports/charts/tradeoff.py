"""A measure along epsilon: means over seeds with error bars, the fit without epsilon set apart, landmarks as lines."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree.ElementTree import Element

from markupsafe import Markup

from evaluate.text import alike, compact, number, short
from reports.charts import svg
from reports.sections.comparison import Mean, Panel

WIDTH, HEIGHT, LEFT, TOP, BASE = 400.0, 226.0, 48.0, 14.0, 182.0
PAD = 16.0
APART = 52.0  # Between the largest epsilon and the fit without one
NAMES = 98.0  # Room for the names of landmarks and generators, at the right
DODGE = 8.0  # Between the error bars of two generators at one epsilon
CLOSEST = 22.0  # Labels of the axis that would be closer than this are left out
LINE = 13.0

Scale = Callable[[float], float]


@dataclass(frozen=True)
class Axis:
    """The horizontal axis: epsilon by its logarithm, and the fit without one at the right."""

    places: dict[float | None, float]
    right: float

    @classmethod
    def of(cls, epsilons: Sequence[float | None]) -> "Axis":
        right, known = WIDTH - NAMES, set(epsilons)
        numbers = sorted(epsilon for epsilon in known if epsilon is not None and epsilon > 0)
        last = right - PAD - (APART if None in known and numbers else 0)
        places: dict[float | None, float] = {None: right - PAD if numbers else (LEFT + right) / 2}
        for epsilon in numbers:
            share = 0.5
            if numbers[-1] > numbers[0]:
                share = math.log(epsilon / numbers[0]) / math.log(numbers[-1] / numbers[0])
            places[epsilon] = LEFT + PAD + share * (last - LEFT - PAD)
        return cls({epsilon: at for epsilon, at in places.items() if epsilon in known}, right)

    @property
    def ends(self) -> float | None:
        """The end of the logarithmic part, before the fit without epsilon; `None` where there is one part."""
        return self.places[None] - APART / 2 if None in self.places and len(self.places) > 1 else None


def tradeoff(panel: Panel) -> Markup:
    dots = [(curve.generator, *dot) for curve in panel.curves for dot in curve.dots]
    spoken = [f"{generator} at {_epsilon(epsilon)}: {number(mean.value)}" for generator, epsilon, mean in dots]
    root = svg.canvas(WIDTH, HEIGHT, f"{panel.entry.title} by epsilon. {'; '.join(spoken)}")
    axis, (low, high) = Axis.of(panel.epsilons), _extent(panel)

    def y(value: float) -> float:
        return BASE - (value - low) / (high - low) * (BASE - TOP)

    _frame(root, axis, (low, high), y)
    names = []
    real = "trained on real" if panel.measure.startswith("utility.tstr") else "fresh real"
    for value, css, name in ((panel.reference, "", real), (panel.floor, "floor", "shuffled")):
        if value is not None:
            svg.line(root, f"mark {css} thin", (LEFT, y(value)), (axis.right, y(value)))
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
    _names(root, names, axis.right)
    return svg.rendered(root)


def _extent(panel: Panel) -> tuple[float, float]:
    """The ends of the vertical axis: they hold every seed, every error bar and both landmarks."""
    means = [mean for curve in panel.curves for _, mean in curve.dots]
    values = [value for mean in means for value in (*mean.values, mean.low, mean.high)]
    known = [value for value in (*values, panel.reference, panel.floor) if value is not None]
    low, high = min(known), max(known)
    spread = max(high - low, abs(high) / 50, 1e-3)
    middle = (low + high) / 2
    return min(low, middle - spread / 2) - spread / 20, max(high, middle + spread / 2) + spread / 20


def _frame(root: Element, axis: Axis, extent: tuple[float, float], y: Scale) -> None:
    for value in svg.round_values(*extent):
        svg.line(root, "grid", (LEFT, y(value)), (axis.right, y(value)))
        svg.words(root, "tick num", (LEFT - 6, y(value) + 4), compact(value), "end")
    parts = [(LEFT, axis.right)] if axis.ends is None else [(LEFT, axis.ends - 5), (axis.ends + 5, axis.right)]
    for start, end in parts:
        svg.line(root, "axis", (start, BASE), (end, BASE))
    for at in () if axis.ends is None else (axis.ends - 5, axis.ends + 5):
        svg.line(root, "axis", (at - 3, BASE + 5), (at + 3, BASE - 5))
    taken = -CLOSEST
    for epsilon, at in sorted(axis.places.items(), key=lambda item: item[1]):
        svg.line(root, "axis", (at, BASE), (at, BASE + 4))
        if at - taken >= CLOSEST or epsilon is None:
            svg.words(root, "tick num", (at, BASE + 17), "none" if epsilon is None else compact(epsilon), "middle")
            taken = at
    if set(axis.places) != {None}:
        svg.words(root, "tick", ((LEFT + (axis.ends or axis.right)) / 2, BASE + 36), "epsilon, logarithmic", "middle")


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


def _names(root: Element, names: Iterable[tuple[float, str, str]], right: float) -> None:
    """Names beside the ends of what they name, pushed apart where they would overlap."""
    placed: list[float] = []
    listed = sorted(names)
    for height, _, _ in listed:
        placed.append(max(height, placed[-1] + LINE + 1) if placed else height)
    over = max(0.0, placed[-1] - BASE) if placed else 0.0
    for height, (_, css, name) in zip(placed, listed, strict=True):
        svg.words(root, f"tick {css}", (right + 6, height - over + 4), short(name, 15))


def _epsilon(epsilon: float | None) -> str:
    return "no epsilon" if epsilon is None else f"epsilon {compact(epsilon)}"


def _over_seeds(mean: Mean) -> str:
    if mean.low is None:
        return f"{number(mean.value)}, one seed"
    value, low, high = alike(mean.value, mean.low, mean.high)
    return f"{value}, {low} to {high} over {len(mean.values)} seeds"
