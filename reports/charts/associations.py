"""Tables of shades: associations of all pairs of columns as a triangle, and the joint shares of two columns.

Each cell tells its number, so that a page needs no script for it.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from markupsafe import Markup

from evaluate.text import compact, finite, number, percent, plain, short
from reports.charts import svg

LEVELS = 8  # Shades on either side of zero
SIDE, WIDTH = 232.0, 320.0


def association_map(
    columns: Sequence[str], values: Sequence[Sequence[float | None]], label: str, top: float = 1.0
) -> Markup:
    """The triangle of one table, or of the difference of two; each column is named where its row meets the diagonal.
    `values`: symmetric, shape (d, d); `top` and more is the strongest shade, `None` no association to speak of.
    """
    d = max(len(columns), 1)
    cell = SIDE / d
    root = svg.canvas(WIDTH, SIDE + 4, label, "chart map")
    names = [short(name) for name in columns]
    cells = _grid(root, (cell, cell))
    for i in range(d):
        for j in range(i):
            words = f"{names[j]} \u00d7 {names[i]}: {number(values[i][j], 2)}"
            _cell(cells, values[i][j], top, (j, i), words)
    for i, name in enumerate(columns):
        at = (i * cell + 4, i * cell + cell / 2 + 3.5)
        room = max(10, int((WIDTH - i * cell - 8) / 6.4))  # characters between the diagonal and the right edge
        svg.hint(svg.words(root, "tick" if d <= 18 else "tick tiny", at, short(name, room)), name)
    return svg.rendered(root)


def association_legend(top: float = 1.0) -> Markup:
    root = svg.canvas(200, 26, f"Shades from minus {compact(top)} to {compact(top)}", "chart legend")
    shades = [f"n{i}" for i in range(LEVELS, 0, -1)] + [f"p{i}" for i in range(LEVELS + 1)]
    width = 200 / len(shades)
    for i, shade in enumerate(shades):
        svg.add(root, "rect", shade, x=i * width, y=0, width=width + 0.2, height=9)
    for x, words, anchor in ((0, f"\u2212{compact(top)}", "start"), (100, "0", "middle"), (200, compact(top), "end")):
        svg.words(root, "tick num", (x, 23), words, anchor)
    return svg.rendered(root)


JOINT = (320.0, 180.0)


def joint_shares(clique: Mapping[str, Any], side: str) -> Markup:
    """The shares of one table by the codes of two columns, on a scale that both tables share."""
    down, across = ([plain(label) for label in labels] for labels in clique["cells"]["labels"])
    tables = {name: clique["cells"][name] for name in ("train", "synthetic")}
    top = max(finite(share) for table in tables.values() for row in table for share in row) or 1.0
    both = [*tables["train"], *tables["synthetic"]]
    rows = [i for i in range(len(down)) if any(sum(map(finite, table[i])) > 0 for table in tables.values())]
    places = [j for j in range(len(across)) if any(finite(row[j]) > 0 for row in both)]
    root = svg.canvas(*JOINT, f"Shares of rows by {' and '.join(map(short, clique['columns']))}", "chart map")
    cells = _grid(root, (JOINT[0] / max(len(places), 1), JOINT[1] / max(len(rows), 1)))
    for y, i in enumerate(rows):
        for x, j in enumerate(places):
            share = finite(tables[side][i][j])
            words = f"{short(down[i])} \u00d7 {short(across[j])}: {percent(share)}"
            # By the square root: one frequent cell leaves the others a shade.
            _cell(cells, share**0.5, top**0.5, (x, y), words)
    return svg.rendered(root)


def _grid(root: Element, size: svg.Point) -> Element:
    """A group in which a cell is a unit square, so that a map of many takes few bytes."""
    return svg.add(root, "g", "cells", transform=f"scale({size[0]:.3f} {size[1]:.3f})")


def _cell(cells: Element, value: float | None, top: float, at: tuple[int, int], words: str) -> None:
    level = 0 if value is None else min(round(abs(finite(value)) / top * LEVELS), LEVELS)
    shade = "none" if value is None else f"{'n' if finite(value) < 0 and level else 'p'}{level}"
    svg.hint(svg.add(cells, "path", shade, d=f"M{at[0]} {at[1]}h1v1h-1z"), words)
