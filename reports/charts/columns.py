"""Marginal distributions of one column, and tables of shades for pairs.

Gray is the training table, the colored line or dot the synthetic one. Numbers and dates are drawn in bins, as bars with
a stepped line over them; categories as rows. Each cell of a table tells its number, so that a page needs no script.
"""

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from markupsafe import Markup

from evaluate.text import compact, finite, number, percent, plain, short
from reports.charts import svg

Row = tuple[str, float, float]  # A label, its real share and its synthetic share
Share = tuple[str, float]  # A label and its synthetic share
RARER = " rarer ones"  # The end of the name of what rare categories are drawn together as
EVERYTHING_ELSE = 2  # The last two labels of a column are `other` and `missing`
WIDTH = 320.0
HEIGHT, BASE, LEFT, RIGHT = 148.0, 116.0, 34.0, WIDTH - 6
LETTER = 6.4  # Width of a character of a tick, for keeping ticks apart
_BEGINS = re.compile(r"[\s<>=\u2264\u2265\[($-]*\d")  # A category that is a number, a range of them or a date
_HALF_OPEN = re.compile(r"\[(\S+), (\S+)[)\]]")  # Names for bins of a column without a step


def steps(body: list[Row], last: list[Row], top: float, label: str, *, own: bool = False) -> Markup:
    """The chart of one column whose rows are bins, in order, and those that hold everything else."""
    root = svg.canvas(WIDTH, HEIGHT if last else HEIGHT - 14, label)
    svg.line(root, "grid", (LEFT, 12), (RIGHT, 12))
    svg.words(root, "tick num", (LEFT - 6, 16), percent(top), "end")
    gap = 10.0 if last else 0.0
    width = (RIGHT - LEFT - gap) / max(len(body) + 2 * len(last), 1)
    scale = (BASE - 12) / top
    _steps(root, body, (LEFT, BASE), (width, scale), own=own)
    x = LEFT + width * len(body) + gap
    for row in last:
        _steps(root, [row], (x, BASE), (width * 2, scale), own=own)
        x += width * 2
    svg.words(root, "tick", (RIGHT, BASE + 28), ", ".join(row[0] for row in last), "end")
    svg.line(root, "axis", (LEFT, BASE), (RIGHT, BASE))
    _ticks(root, [row[0] for row in body], width)
    return svg.rendered(root)


def _steps(root: ET.Element, rows: list[Row], origin: svg.Point, size: svg.Point, *, own: bool) -> None:
    points: list[svg.Point] = []
    width, scale = size
    for i, (name, real, synthetic) in enumerate(rows):
        x, y = origin[0] + i * width, origin[1] - synthetic * scale
        left, right, high = x + 0.5, x + max(width - 0.5, 1.0), origin[1] - real * scale
        corners = [(left, origin[1]), (left, high), (right, high), (right, origin[1])]
        svg.hint(svg.path(root, "own" if own else "real", corners), _told((_range(name), real, synthetic), own=own))
        points += [(x, y), (x + width, y)]
    if points and not own:
        svg.path(root, "line", points)


def _told(row: Row, *, own: bool) -> str:
    name, real, synthetic = row
    return f"{name}: {percent(synthetic)}" if own else f"{name}: real {percent(real)}, synthetic {percent(synthetic)}"


def _ticks(root: ET.Element, labels: list[str], width: float) -> None:
    """Start of the first bin, content of the middle one, end of the last one: values that occur, no edges."""
    if not labels:
        return
    y, end = BASE + 15, LEFT + len(labels) * width
    if len(labels) == 1:
        svg.words(root, "tick num", ((LEFT + end) / 2, y), _range(labels[0]), "middle")
        return
    first, last = _ends(labels[0])[0], _ends(labels[-1])[-1]
    svg.words(root, "tick num", (LEFT, y), first)
    svg.words(root, "tick num", (end, y), last, "end")
    middle = len(labels) // 2
    room = min((middle + 0.5) * width - len(first) * LETTER, (len(labels) - middle - 0.5) * width - len(last) * LETTER)
    for shown in (_range(labels[middle]), _ends(labels[middle])[0]):
        if len(labels) > 2 and len(shown) * LETTER / 2 + LETTER <= room:
            svg.words(root, "tick num", (LEFT + (middle + 0.5) * width, y), shown, "middle")
            return


def _range(label: str) -> str:
    return " to ".join(dict.fromkeys(_ends(label)))


def _ends(label: str) -> list[str]:
    """The first and the last value of a bin, which may be one."""
    half_open = _HALF_OPEN.fullmatch(label)
    return [_value(part) for part in (half_open.groups() if half_open else label.split(" to "))]


def _value(text: str) -> str:
    """A number as one writes it, four digits long; a date, or what else a bin may be called, as it is."""
    try:
        value = float(text)
    except ValueError:
        return short(text, 16)
    if abs(value) < 10_000:
        whole = "." not in text or abs(value) >= 1000
        shown = f"{value:.0f}" if whole else compact(value)
    else:
        shown = f"{value:,.0f}"
    return "0" if value == 0 else shown.replace("-", "\u2212")


SMALL_HEIGHT = 26.0


def thumbnail(figure: Mapping[str, Any]) -> Markup:
    """The small picture of one column: real shares as a gray area, synthetic ones as a line over it. Bins of numbers
    and categories that have an order stand in it, others by their real share; the last two hold everything else.
    """
    named, last = _rows(figure)
    rows = [row[1:] for row in (*named, *last)]
    label = f"{short(figure['column'])}: total variation {finite(figure['tvd']):.3f}"
    # Each is a unit wide, and the whole is stretched: it takes few bytes.
    root = svg.canvas(max(len(rows), 1), SMALL_HEIGHT, label, "small")
    root.set("preserveAspectRatio", "none")
    top = max((max(row) for row in rows), default=0.0) or 1.0
    base = SMALL_HEIGHT - 1
    for which, css in enumerate(("area", "line")):
        points = [
            (float(edge), base - row[which] / top * (base - 2)) for i, row in enumerate(rows) for edge in (i, i + 1)
        ]
        if css == "area":
            points = [(0, base), *points, (len(rows), base)]
        if points:
            svg.path(root, css, points)
    return svg.rendered(root)


BAR_LEFT, BAR_RIGHT, BAR_PITCH = 112.0, 268.0, 19.0
MOST_ROWS = 9  # Categories drawn one by one; what is left is drawn as one row


def overlay(figure: Mapping[str, Any], top: float) -> Markup:
    named, last = _rows(figure)
    label = f"{short(figure['column'])}: real and synthetic shares, total variation {finite(figure['tvd']):.3f}"
    draw = _categories if figure.get("edges") is None else steps
    return draw(named, last, max(top, 1e-9), label)


def own_shares(named: Sequence[Share], rest: Sequence[Share], label: str, *, ordered: bool) -> Markup:
    """The shares of a synthetic table alone, of bins in order or of categories, and of everything else."""
    bars, others = ([(name, share, share) for name, share in rows] for rows in (named, rest))
    top = max((share for _, share in (*named, *rest)), default=0.0) or 1.0
    return (steps if ordered else _categories)(bars, others, top, label, own=True)


def _rows(figure: Mapping[str, Any]) -> tuple[list[Row], list[Row]]:
    """Bins and categories that begin with a number, or that the schema puts in order, as they follow each other; other
    categories by their real share; and what is there of the last two.
    """
    rows = [
        (plain(label), finite(real), finite(synthetic))
        for label, real, synthetic in zip(figure["labels"], figure["train"], figure["synthetic"], strict=True)
    ]
    named, last = rows[:-EVERYTHING_ELSE], [row for row in rows[-EVERYTHING_ELSE:] if row[1] > 0 or row[2] > 0]
    if figure.get("edges") is not None or figure.get("ordered"):
        return named, last
    if all(_BEGINS.match(label) for label, _, _ in named):
        return sorted(named, key=lambda row: _numbers(row[0])), last
    return sorted(named, key=lambda row: -row[1]), last


def _numbers(label: str) -> list[float]:
    """The numbers of a category, a minus sign only before the first: what comes later is a range, or a date."""
    if label.endswith(RARER):
        return [math.inf]
    first, *others = re.findall(r"\d+(?:\.\d+)?", label)
    return [float(first) * (-1 if label.startswith("-") else 1), *map(float, others)]


def _categories(named: list[Row], last: list[Row], top: float, label: str, *, own: bool = False) -> Markup:
    """Bars of the largest. What is left over is told in words: a bar of it would dwarf the categories."""
    largest = sorted(named, key=lambda row: -row[1])
    rest = largest[MOST_ROWS - 1 :] if len(named) > MOST_ROWS else []
    shown = [row for row in named if row not in rest] + last
    height = (len(shown) + bool(rest)) * BAR_PITCH + 4
    root = svg.canvas(WIDTH, height, label)
    for i, row in enumerate(shown):
        _bar(root, row, 4 + (i + 0.5) * BAR_PITCH, top, own=own)
    if rest:
        real, synthetic = sum(row[1] for row in rest), sum(row[2] for row in rest)
        y = 8 + (len(shown) + 0.5) * BAR_PITCH
        svg.words(root, "tick", (BAR_LEFT - 8, y), f"{len(rest)} more", "end")
        svg.words(root, "tick", (BAR_LEFT + 6, y), f"together {percent(real)} of real rows")
        svg.words(root, "tick num", (WIDTH - 2, y), percent(synthetic), "end")
    svg.line(root, "axis", (BAR_LEFT, 2), (BAR_LEFT, len(shown) * BAR_PITCH + 4))
    return svg.rendered(root)


def _bar(root: ET.Element, row: Row, y: float, top: float, *, own: bool) -> None:
    name, real, synthetic = row
    css = "own" if own else "real"
    ends = [BAR_LEFT + (BAR_RIGHT - BAR_LEFT) * min(share / top, 1.0) for share in (real, synthetic)]
    group = svg.add(root, "g", "row")
    svg.hint(group, _told(row, own=own))
    svg.words(group, "tick", (BAR_LEFT - 8, y + 4), short(name, 16), "end")
    svg.add(group, "rect", css, x=BAR_LEFT, y=y - 5, width=max(ends[0] - BAR_LEFT, 0.5), height=10)
    if not own:
        svg.line(group, "stem", (ends[0], y), (ends[1], y))
        svg.add(group, "circle", "dot", cx=ends[1], cy=y, r=3.6)
    svg.words(group, "tick num", (WIDTH - 2, y + 4), percent(synthetic), "end")


LEVELS = 8  # Shades on either side of zero
MAP_SIDE = 232.0


def association_map(
    columns: Sequence[str], values: Sequence[Sequence[float | None]], label: str, top: float = 1.0
) -> Markup:
    """The triangle of one table, or of the difference of two; each column is named where its row meets the diagonal.
    `values`: symmetric, shape (d, d); `top` and more is the strongest shade, `None` no association to speak of.
    """
    d = max(len(columns), 1)
    cell = MAP_SIDE / d
    root = svg.canvas(WIDTH, MAP_SIDE + 4, label, "chart map")
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
