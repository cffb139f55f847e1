"""Pictures of what is public: released numbers with the interval of their noise, and columns of the synthetic table."""

import xml.etree.ElementTree as ET

from markupsafe import Markup

from evaluate.dp_release.numbers import Released
from evaluate.text import alike, number, percent, short
from reports.charts import svg
from reports.public_table import PublicColumn

STRIP = (200.0, 22.0)
WIDTH, LEFT, RIGHT, PITCH = 320.0, 112.0, 268.0, 19.0
TALL, BASE, MARGIN = 132.0, 104.0, 34.0


def released_strip(released: Released, top: float) -> Markup:
    """One released number on a line from zero: a dot, its interval, and a tick for what chance alone would show.

    Args:
        released: a share or a distance.
        top: the right end of the line, shared by the numbers that are to be compared.
    """
    width, height = STRIP
    middle, spoken = height / 2, _spoken(released)

    def x(value: float) -> float:
        return 6 + min(value / top, 1.0) * (width - 12)

    root = svg.canvas(width, height, spoken, "strip")
    svg.hint(root, spoken)
    svg.line(root, "grid", (6, middle), (width - 6, middle))
    if released.expected is not None:
        svg.line(root, "mark", (x(released.expected), middle - 8), (x(released.expected), middle + 8))
    svg.line(root, "interval", (x(released.low), middle), (x(released.high), middle))
    svg.add(root, "circle", "dot", cx=x(released.value), cy=middle, r=4)
    return svg.rendered(root)


def _spoken(released: Released) -> str:
    value, low, high = alike(released.value, released.low, released.high)
    said = f"{value}; 95% interval of the noise {low} to {high}"
    return said if released.expected is None else f"{said}; chance alone would show {number(released.expected)}"


def column_chart(column: PublicColumn) -> Markup:
    """The distribution of one column of the synthetic table."""
    label = f"{short(column.name)}: shares of the synthetic rows"
    return _steps(column, label) if column.ordered else _bars(column, label)


def _bars(column: PublicColumn, label: str) -> Markup:
    rows = list(zip(column.labels, column.shares, strict=True))
    if column.n_more or column.more > 0:
        rows.append((f"{column.n_more} more" if column.n_more else "other", column.more))
    if column.missing > 0:
        rows.append(("missing", column.missing))
    top = max((share for _, share in rows), default=1.0) or 1.0
    root = svg.canvas(WIDTH, len(rows) * PITCH + 4, label)
    for place, (name, share) in enumerate(rows):
        _bar(root, (name, share), 4 + (place + 0.5) * PITCH, top)
    svg.line(root, "axis", (LEFT, 2), (LEFT, len(rows) * PITCH + 4))
    return svg.rendered(root)


def _bar(root: ET.Element, row: tuple[str, float], y: float, top: float) -> None:
    group = svg.add(root, "g", "row")
    svg.hint(group, f"{row[0]}: {percent(row[1])}")
    svg.words(group, "tick", (LEFT - 8, y + 4), short(row[0], 16), "end")
    svg.add(group, "rect", "own", x=LEFT, y=y - 5, width=max((RIGHT - LEFT) * row[1] / top, 0.5), height=10)
    svg.words(group, "tick num", (WIDTH - 2, y + 4), percent(row[1]), "end")


def _steps(column: PublicColumn, label: str) -> Markup:
    root = svg.canvas(WIDTH, TALL, label)
    top, n = max(column.shares, default=1.0) or 1.0, max(len(column.shares), 1)
    width = (WIDTH - 6 - MARGIN) / n
    svg.line(root, "grid", (MARGIN, 12), (WIDTH - 6, 12))
    svg.words(root, "tick num", (MARGIN - 6, 16), percent(top), "end")
    for place, (name, share) in enumerate(zip(column.labels, column.shares, strict=True)):
        height = (BASE - 12) * share / top
        bar = svg.add(
            root, "rect", "own", x=MARGIN + place * width + 0.5, y=BASE - height, width=max(width - 1, 0.5),
            height=height,
        )  # fmt: skip
        svg.hint(bar, f"{name}: {percent(share)}")
    svg.line(root, "axis", (MARGIN, BASE), (WIDTH - 6, BASE))
    if column.labels:
        svg.words(root, "tick num", (MARGIN, BASE + 15), _ends(column.labels[0])[0])
        svg.words(root, "tick num", (WIDTH - 6, BASE + 15), _ends(column.labels[-1])[-1], "end")
    if column.missing > 0:
        svg.words(root, "tick", (WIDTH - 6, BASE + 28), f"missing {percent(column.missing)}", "end")
    return svg.rendered(root)


def _ends(label: str) -> list[str]:
    """The first and the last value of a bin."""
    inner = label[1:-1].split(", ") if label.startswith("[") else label.split(" to ")
    return [short(part, 16) for part in inner]
