"""One column, real against synthetic: gray is the training table, the colored line or dot the synthetic one."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from reports.charts import svg
from reports.text import finite, percent, plain, short

Row = tuple[str, float, float]
"""A label, its real share and its synthetic share."""
WIDTH, LEFT, RIGHT, PITCH = 320.0, 112.0, 268.0, 19.0
MOST_ROWS = 9
"""Categories drawn one by one; what is left is drawn as one row."""
EVERYTHING_ELSE = 2
"""The last two labels of a column are `other` and `missing`."""


def overlay(figure: Mapping[str, Any], top: float) -> Markup:
    """The chart of one column.

    Args:
        figure: an entry of the figure "columns" (see `evaluate.engine`).
        top: the largest share to make room for; the same for all charts that stand side by side.
    """
    labels = [plain(label) for label in figure["labels"]]
    real = [finite(share) for share in figure["train"]]
    synthetic = [finite(share) for share in figure["synthetic"]]
    label = f"{short(figure['column'])}: real and synthetic shares, total variation {finite(figure['tvd']):.3f}"
    rows = list(zip(labels, real, synthetic, strict=True))
    if figure.get("edges") is None:
        return _categories(rows, max(top, 1e-9), label)
    return _bins(rows, [plain(edge) for edge in figure["edges"]], max(top, 1e-9), label)


def _categories(rows: list[Row], top: float, label: str) -> Markup:
    """Bars by size. What is left over is told in words: a bar of it would dwarf the categories."""
    named, last = rows[:-EVERYTHING_ELSE], rows[-EVERYTHING_ELSE:]
    named = sorted(named, key=lambda row: -row[1])
    kept = named if len(named) <= MOST_ROWS else named[: MOST_ROWS - 1]
    rest = named[len(kept) :]
    shown = kept + [row for row in last if row[1] > 0 or row[2] > 0]
    height = (len(shown) + bool(rest)) * PITCH + 4
    root = svg.canvas(WIDTH, height, label)
    for i, row in enumerate(shown):
        _bar(root, row, 4 + (i + 0.5) * PITCH, top)
    if rest:
        real, synthetic = sum(row[1] for row in rest), sum(row[2] for row in rest)
        y = 8 + (len(shown) + 0.5) * PITCH
        svg.words(root, "tick", (LEFT - 8, y), f"{len(rest)} more", "end")
        svg.words(root, "tick", (LEFT + 6, y), f"together {percent(real)} of the real rows")
        svg.words(root, "tick num", (WIDTH - 2, y), percent(synthetic), "end")
    svg.line(root, "axis", (LEFT, 2), (LEFT, len(shown) * PITCH + 4))
    return svg.rendered(root)


def _bar(root: ET.Element, row: Row, y: float, top: float) -> None:
    name, real, synthetic = row
    ends = [LEFT + (RIGHT - LEFT) * min(share / top, 1.0) for share in (real, synthetic)]
    group = svg.add(root, "g", "row")
    svg.hint(group, f"{name}: real {percent(real)}, synthetic {percent(synthetic)}")
    svg.words(group, "tick", (LEFT - 8, y + 4), short(name, 16), "end")
    svg.add(group, "rect", "real", x=LEFT, y=y - 5, width=max(ends[0] - LEFT, 0.5), height=10)
    svg.line(group, "stem", (ends[0], y), (ends[1], y))
    svg.add(group, "circle", "dot", cx=ends[1], cy=y, r=3.6)
    svg.words(group, "tick num", (WIDTH - 2, y + 4), percent(synthetic), "end")


def _bins(rows: list[Row], edges: Sequence[str], top: float, label: str) -> Markup:
    height, base, left, right = 148.0, 116.0, 34.0, WIDTH - 6
    body, last = rows[:-EVERYTHING_ELSE], [r for r in rows[-EVERYTHING_ELSE:] if r[1] > 0 or r[2] > 0]
    root = svg.canvas(WIDTH, height, label)
    svg.line(root, "grid", (left, 12), (right, 12))
    svg.words(root, "tick num", (left - 6, 16), percent(top), "end")
    gap = 10.0 if last else 0.0
    width = (right - left - gap) / max(len(body) + 2 * len(last), 1)
    scale = (base - 12) / top
    _steps(root, body, (left, base), width, scale)
    x = left + width * len(body) + gap
    for row in last:
        _steps(root, [row], (x, base), width * 2, scale)
        svg.words(root, "tick", (x + width, base + 28), row[0], "middle")
        x += width * 2
    svg.line(root, "axis", (left, base), (right, base))
    _edges(root, edges, (left, base), width)
    return svg.rendered(root)


def _steps(root: ET.Element, rows: list[Row], origin: svg.Point, width: float, scale: float) -> None:
    points: list[svg.Point] = []
    for i, (name, real, synthetic) in enumerate(rows):
        x, y = origin[0] + i * width, origin[1] - synthetic * scale
        bar = svg.add(
            root, "rect", "real", x=x + 0.5, y=origin[1] - real * scale, width=max(width - 1, 0.5), height=real * scale
        )
        svg.hint(bar, f"{name}: real {percent(real)}, synthetic {percent(synthetic)}")
        points += [(x, y), (x + width, y)]
    if points:
        svg.path(root, "line", points)


def _edges(root: ET.Element, edges: Sequence[str], origin: svg.Point, width: float) -> None:
    """The first, middle and last edge: enough to know where one is."""
    if not edges:
        return
    last = len(edges) - 1
    for i, anchor in ((0, "start"), (last // 2, "middle"), (last, "end")):
        if i in (0, last) or last >= 4:
            svg.words(root, "tick num", (origin[0] + i * width, origin[1] + 15), _edge(edges[i]), anchor)


def _edge(edge: str) -> str:
    """A number as one writes it, a date as it is."""
    try:
        value = float(edge)
    except ValueError:
        return short(edge, 12)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
