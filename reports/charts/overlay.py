"""One column, real against synthetic: gray is the training table, the colored line or dot the synthetic one."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from evaluate.text import finite, percent, plain, short
from reports.charts import svg
from reports.charts.bins import EVERYTHING_ELSE, WIDTH, Row, steps

LEFT, RIGHT, PITCH = 112.0, 268.0, 19.0
MOST_ROWS = 9
"""Categories drawn one by one; what is left is drawn as one row."""


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
    return steps(rows, max(top, 1e-9), label)


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
