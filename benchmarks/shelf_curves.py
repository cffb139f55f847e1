"""Curves of quality over epsilon: a row of panels for each table, one for each figure, a line for each generator."""

import math
import statistics
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.charts import svg

PANELS = {"tstr": "TSTR (higher is better)", "tv2": "pairs (lower)", "tv3": "triples (lower)", "c2st": "C2ST (lower)"}
"""Figures of a fit, and what they are called."""
COLORS = {
    "latent_class": "#2747b8", "aim": "#97591b", "mst": "#3f7d4e", "tvae": "#8a3b8f", "ctgan": "#b8273a",
    "independent": "#5d5a54",
}  # fmt: skip
OTHER_COLOR, FRESH = "#5d5a54", "fresh real rows"
WIDTH, HEIGHT, GAP, LEFT, TOP = 200.0, 150.0, 46.0, 56.0, 84.0
ROW, MARGIN = 236.0, 10.0
"""From the top of a row of panels to that of the next, and from a panel's edges to its first and last points."""
STYLE = """
svg { background: #fdfcfa; font: 12px -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif; }
text { fill: #5d5a54; font-variant-numeric: tabular-nums; }
.table { fill: #1d1c1a; font-weight: 600; font-size: 14px; } .title { fill: #1d1c1a; }
.grid { stroke: #dedad2; stroke-width: 1; }
.fresh { stroke: #8d877c; stroke-width: 1.5; stroke-dasharray: 4 4; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
"""

Curves = Mapping[str, Sequence[tuple[float, float]]]
"""For each generator its epsilons, rising, and the means of a figure."""


def draw_curves(tables: Mapping[str, Any]) -> str:
    """One SVG that stands alone, of the tables that a generator was fitted to at two epsilons or more.

    Args:
        tables: what `benchmarks.shelf` keeps.
    """
    drawn = {name: fits for name, fits in tables.items() if any(len(c) > 1 for c in curves_of(fits, "tstr").values())}
    names = [name for name in COLORS if any(name in curves_of(fits, "tstr") for fits in drawn.values())]
    width = LEFT + len(PANELS) * (WIDTH + GAP)
    height = TOP + len(drawn) * ROW - 20
    root = svg.canvas(width, height, "Quality of private generators over epsilon")
    root.set("xmlns", "http://www.w3.org/2000/svg")
    root.set("width", f"{width:.0f}")
    root.set("height", f"{height:.0f}")
    ET.SubElement(root, "style").text = STYLE
    for index, name in enumerate([*names, FRESH]):
        x = LEFT + index * 120
        mark = svg.line(root, "fresh" if name == FRESH else "line", (x, 18), (x + 22, 18))
        if name != FRESH:
            mark.set("stroke", COLORS[name])
        svg.words(root, "name", (x + 28, 22), name)
    for row, (table, fits) in enumerate(drawn.items()):
        top = TOP + row * ROW
        svg.words(root, "table", (LEFT, top - 26), table)
        for column, (figure, title) in enumerate(PANELS.items()):
            panel = _Panel(root, (LEFT + column * (WIDTH + GAP), top), curves_of(fits, figure), _fresh(fits, figure))
            panel.draw(title)
    return str(svg.rendered(root))


def curves_of(fits: Mapping[str, Any], figure: str) -> dict[str, list[tuple[float, float]]]:
    """Means over seeds by generator and epsilon; fits that failed are left out."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for fit, runs in fits.items():
        name, _, epsilon = fit.partition(":")
        values = [run[figure] for run in runs.values() if "failure" not in run]
        if epsilon and values:
            curves.setdefault(name, []).append((float(epsilon), statistics.fmean(values)))
    return {name: sorted(points) for name, points in curves.items()}


def _fresh(fits: Mapping[str, Any], figure: str) -> float | None:
    values = [run[figure] for run in fits.get(FRESH, {}).values() if "failure" not in run]
    return statistics.fmean(values) if values else None


@dataclass(frozen=True)
class _Panel:
    """One figure of one table.

    Attributes:
        root: what it is drawn on.
        at: its upper left corner.
        curves: one for each generator.
        fresh: the figure of fresh real rows.
    """

    root: ET.Element
    at: svg.Point
    curves: Curves
    fresh: float | None

    def draw(self, title: str) -> None:
        left, top = self.at
        svg.words(self.root, "title", (left, top - 8), title)
        for value in self._ticks():
            y = self._y(value)
            svg.line(self.root, "grid", (left, y), (left + WIDTH, y))
            svg.words(self.root, "tick", (left - 6, y + 4), f"{value:.3g}", "end")
        for epsilon in self._epsilons():
            svg.words(self.root, "tick", (self._x(epsilon), top + HEIGHT + 18), f"{epsilon:g}", "middle")
        svg.words(self.root, "tick", (left + WIDTH / 2, top + HEIGHT + 34), "epsilon", "middle")
        if self.fresh is not None:
            svg.line(self.root, "fresh", (left, self._y(self.fresh)), (left + WIDTH, self._y(self.fresh)))
        for name, points in self.curves.items():
            color = COLORS.get(name, OTHER_COLOR)
            if len(points) > 1:
                svg.path(self.root, "line", [(self._x(e), self._y(v)) for e, v in points]).set("stroke", color)
            for epsilon, value in points:
                dot = svg.add(self.root, "circle", "dot", cx=self._x(epsilon), cy=self._y(value), r=3.5, fill=color)
                svg.hint(dot, f"{name}, epsilon {epsilon:g}: {value:.3g}")

    def _epsilons(self) -> list[float]:
        return sorted({epsilon for points in self.curves.values() for epsilon, _ in points})

    def _values(self) -> Iterator[float]:
        yield from (value for points in self.curves.values() for _, value in points)
        if self.fresh is not None:
            yield self.fresh

    def _range(self) -> tuple[float, float]:
        """Between the round numbers around all values; below zero a regression tells nothing, however far."""
        low = max(min(self._values()), 0.0)
        high = max(*self._values(), low + 1e-3)
        step = 10 ** math.floor(math.log10(max(high - low, 1e-6)))
        return math.floor(low / step) * step, math.ceil(high / step) * step

    def _ticks(self) -> list[float]:
        low, high = self._range()
        return [low, (low + high) / 2, high]

    def _x(self, epsilon: float) -> float:
        epsilons = self._epsilons()
        across = math.log(epsilon / epsilons[0]) / math.log(epsilons[-1] / epsilons[0]) if len(epsilons) > 1 else 0.5
        return self.at[0] + MARGIN + across * (WIDTH - 2 * MARGIN)

    def _y(self, value: float) -> float:
        low, high = self._range()
        return self.at[1] + HEIGHT * (1 - (max(value, low) - low) / (high - low))
