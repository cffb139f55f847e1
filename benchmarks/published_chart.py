"""One picture of the public benchmark: how hard rows are to tell from real ones, over the seconds of a fit."""

import math
import statistics
import xml.etree.ElementTree as ET
from collections.abc import Collection, Mapping

from benchmarks.published_tables import TABLES
from reports.charts import svg

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BASE = 720.0, 430.0, 56.0, 150.0, 76.0, 360.0
APART = 13.0  # least distance of two names, one above the other
STYLE = """
svg { background: #fdfcfa; font: 12px -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif; }
text { fill: #5d5a54; font-variant-numeric: tabular-nums; }
.title { fill: #1d1c1a; font-weight: 600; font-size: 14px; }
.grid { stroke: #dedad2; stroke-width: 1; }
.ours { fill: #2747b8; } .name.ours { font-weight: 600; } .theirs { fill: #8d877c; }
"""


def chart(everyone: Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]], ours: Collection[str]) -> str:
    """Means over the tables, of methods that have figures of all and take any time.
    `everyone`: by method, table and figure. `ours`: methods in color.
    """
    points = {}
    for method, tables in everyone.items():
        known = [tables.get(table, {}) for table in TABLES]
        if all("xgb" in each and each.get("seconds", (0.0,))[0] > 0 for each in known):
            means = (statistics.fmean(each[figure][0] for each in known) for figure in ("seconds", "xgb"))
            points[method] = tuple(means)
    root = svg.canvas(WIDTH, HEIGHT, "Detection over seconds, means of five tables")
    for name, value in (("xmlns", "http://www.w3.org/2000/svg"), ("width", f"{WIDTH:g}"), ("height", f"{HEIGHT:g}")):
        root.set(name, value)
    ET.SubElement(root, "style").text = STYLE
    svg.words(root, "title", (12, 24), "How hard synthetic rows are to tell from real ones, over seconds of a fit")
    svg.words(root, "tick", (12, 44), "1: XGBoost cannot tell them. Seconds of a CPU core (blue, cart) or a GPU.")
    svg.words(root, "tick", (12, 60), "Means of five public tables; cart hands on the values of people.")
    powers = [math.floor(math.log10(min(seconds for seconds, _ in points.values()))), 5]

    def at(seconds: float, score: float) -> tuple[float, float]:
        across = (math.log10(seconds) - powers[0]) / (powers[1] - powers[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), BASE - score * (BASE - TOP)

    for score in (0.0, 0.25, 0.5, 0.75, 1.0):
        _, y = at(1.0, score)
        svg.line(root, "grid", (LEFT, y), (WIDTH - RIGHT, y))
        svg.words(root, "tick", (LEFT - 8, y + 4), f"{score:g}", "end")
    for power in range(powers[0], powers[1] + 1):
        x, _ = at(10.0**power, 0.0)
        svg.line(root, "grid", (x, BASE), (x, BASE + 5))
        svg.words(root, "tick", (x, BASE + 20), f"{10.0**power:,g} s", "middle")
    taken: list[tuple[float, float]] = []
    for method, (seconds, score) in sorted(points.items(), key=lambda item: -item[1][1]):
        kind, (x, y) = "ours" if method in ours else "theirs", at(seconds, score)
        dot = svg.add(root, "circle", f"dot {kind}", cx=x, cy=y, r=4.5)
        svg.hint(dot, f"{method}: {score:.3f}, {seconds:,.0f} s")
        label = y + 4
        while any(abs(label - other) < APART and abs(x - across) < 110 for across, other in taken):
            label += APART / 4
        taken.append((x, label))
        svg.words(root, f"name {kind}", (x + 9, label), method)
    return str(svg.rendered(root))
