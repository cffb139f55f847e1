"""Small panels side by side, both axes logarithmic and all on one scale of seconds: a cliff would show as a bend."""

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass

from reports.charts import svg

WIDTH, HEIGHT, GAP, LEFT, TOP, BASE = 228.0, 336.0, 28.0, 46.0, 62.0, 290.0
LEAST_S = 1.0
STYLE = """
svg { background: #fdfcfa; font: 12px -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif; }
text { fill: #5d5a54; font-variant-numeric: tabular-nums; }
.title { fill: #1d1c1a; font-weight: 600; font-size: 13px; }
.grid { stroke: #dedad2; stroke-width: 1; }
.guide { stroke: #b9b4a9; stroke-width: 1; stroke-dasharray: 2 4; fill: none; }
.aim { stroke: #2747b8; } .mst { stroke: #97591b; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.dot { stroke-width: 2; stroke: #fdfcfa; } .dot.aim, .name.aim { fill: #2747b8; } .dot.mst, .name.mst { fill: #97591b; }
.name { font-weight: 600; stroke: none; }
.stopped { fill: #fdfcfa; stroke-width: 2; }
"""


@dataclass(frozen=True)
class Line:
    """One generator on one panel.

    Attributes:
        name: of the generator.
        points: what grows, and seconds.
        stopped: what grows where nothing was measured, and why.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    stopped: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Panel:
    """One thing that grows.

    Attributes:
        title: what grows.
        values: to what.
        lines: one a generator.
        limit_s: seconds at which a point was stopped.
    """

    title: str
    values: tuple[float, ...]
    lines: tuple[Line, ...]
    limit_s: float


def draw_panels(panels: Sequence[Panel], note: str = "") -> str:
    """The panels as one SVG that stands alone, with a note below."""
    width = LEFT + len(panels) * (WIDTH + GAP)
    root = svg.canvas(width, HEIGHT, "Processor seconds of a fit and a sample as the work grows")
    root.set("xmlns", "http://www.w3.org/2000/svg")
    root.set("width", f"{width:.0f}")
    root.set("height", f"{HEIGHT:.0f}")
    ET.SubElement(root, "style").text = STYLE
    svg.words(root, "title", (12, 22), "Processor seconds to fit, and to draw as many rows")
    seconds = [s for panel in panels for line in panel.lines for _, s in line.points]
    most = 10 ** math.ceil(math.log10(max([10 * LEAST_S, *seconds, *(panel.limit_s for panel in panels)])))
    least = min([LEAST_S, *(10 ** math.floor(math.log10(max(s, 1e-3))) for s in seconds)])
    for index, panel in enumerate(panels):
        _Drawing(root, panel, LEFT + index * (WIDTH + GAP), least, most).draw(ticks=index == 0)
    svg.words(root, "tick", (12, HEIGHT - 8), note)
    return str(svg.rendered(root))


@dataclass(frozen=True)
class _Drawing:
    root: ET.Element
    panel: Panel
    left: float
    least: float
    most: float

    def draw(self, ticks: bool) -> None:
        values = self.panel.values
        svg.words(self.root, "title", (self.left, TOP - 16), self.panel.title)
        for power in range(round(math.log10(self.least)), round(math.log10(self.most)) + 1):
            y = self._at(values[0], 10.0**power)[1]
            svg.line(self.root, "grid", (self.left, y), (self.left + WIDTH, y))
            if ticks:
                svg.words(self.root, "tick", (self.left - 8, y + 4), f"{10.0**power:g}", "end")
        for value in values:
            svg.words(self.root, "tick", (self._at(value, self.least)[0], BASE + 18), _short(value), "middle")
        self._guide()
        for line in self.panel.lines:
            self._line(line)
        self._names()

    def _at(self, value: float, seconds: float) -> svg.Point:
        values, margin = self.panel.values, 14.0
        across = math.log(value / values[0]) / math.log(values[-1] / values[0])
        up = math.log(max(seconds, self.least) / self.least) / math.log(self.most / self.least)
        return self.left + margin + across * (WIDTH - 2 * margin - 26), BASE - up * (BASE - TOP)

    def _guide(self) -> None:
        """Where a cost would go that grows in proportion."""
        values = self.panel.values
        factor = min(values[-1] / values[0], self.most / self.least)
        start, end = self._at(values[0], self.least), self._at(values[0] * factor, self.least * factor)
        svg.path(self.root, "guide", [start, end])

    def _line(self, line: Line) -> None:
        if len(line.points) > 1:
            svg.path(self.root, f"line {line.name}", [self._at(*point) for point in line.points])
        for value, seconds in line.points:
            x, y = self._at(value, seconds)
            dot = svg.add(self.root, "circle", f"dot {line.name}", cx=x, cy=y, r=4)
            svg.hint(dot, f"{line.name}, {_short(value)}: {seconds:.1f} s")
        for value, why in line.stopped:
            x, y = self._at(value, self.panel.limit_s)
            mark = svg.add(self.root, "path", f"stopped {line.name}", d=f"M{x - 5:.1f} {y + 4:.1f}h10l-5 -9z")
            svg.hint(mark, f"{line.name}, {_short(value)}: {why}")
            svg.words(self.root, f"name {line.name}", (x, y - 10), why, "end")

    def _names(self) -> None:
        """Names beside the last points, kept apart where the lines meet."""
        ends = [(self._at(*line.points[-1]), line.name) for line in self.panel.lines if line.points]
        ends.sort(key=lambda end: end[0][1])
        lowest = -math.inf
        for (x, y), name in ends:
            lowest = max(y + 4, lowest + 14)
            svg.words(self.root, f"name {name}", (x + 9, lowest), name)


def _short(value: float) -> str:
    """A round number as it is said: 10k, 1M."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
