"""Utility against exposure: a mark for each table; those that none beats are filled and joined, barred ones crosses."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree.ElementTree import Element

from markupsafe import Markup

from evaluate.text import compact, number, short
from reports.charts import svg
from reports.sections.comparison import Mark

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
