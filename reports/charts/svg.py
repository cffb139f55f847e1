"""The few SVG elements that charts are made of. Text goes through ElementTree, so no name can become markup."""

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from evaluate.text import plain

Point = tuple[float, float]


def canvas(width: float, height: float, label: str, css: str = "chart") -> ET.Element:
    root = ET.Element("svg", {"viewBox": f"0 0 {_n(width)} {_n(height)}", "class": css, "role": "img"})
    root.set("aria-label", plain(label))
    return root


def add(parent: ET.Element, tag: str, css: str, **attributes: float | str) -> ET.Element:
    """A child element; underscores in attribute names become hyphens."""
    element = ET.SubElement(parent, tag, {"class": css})
    for name, value in attributes.items():
        element.set(name.replace("_", "-"), _n(value) if isinstance(value, int | float) else value)
    return element


def line(parent: ET.Element, css: str, start: Point, end: Point) -> ET.Element:
    return add(parent, "line", css, x1=start[0], y1=start[1], x2=end[0], y2=end[1])


def words(parent: ET.Element, css: str, at: Point, content: str, anchor: str = "start") -> ET.Element:
    """A line of text, isolated from its neighbors whatever its direction."""
    element = add(parent, "text", css, x=at[0], y=at[1])
    if anchor != "start":  # which is SVG's own
        element.set("text-anchor", anchor)
    content = plain(content)
    element.text = content if content.isascii() else f"\u2068{content}\u2069"
    return element


def path(parent: ET.Element, css: str, points: Sequence[Point]) -> ET.Element:
    shown = [(_n(x), _n(y)) for x, y in points]
    moves = ["M" + " ".join(shown[0])]
    for (x, y), (to_x, to_y) in pairwise(shown):
        moves.append(f"V{to_y}" if x == to_x else f"H{to_x}" if y == to_y else f"L{to_x} {to_y}")
    return add(parent, "path", css, d="".join(moves))


def hint(element: ET.Element, content: str) -> None:
    ET.SubElement(element, "title").text = plain(content)


def round_values(low: float, high: float) -> list[float]:
    """Two to six round values within an axis.

    >>> round_values(0.51, 0.58)
    [0.52, 0.54, 0.56, 0.58]
    """
    power = 10.0 ** math.floor(math.log10((high - low) / 3))
    step = next(power * factor for factor in (1, 2, 5, 10) if (high - low) / (power * factor) <= 5)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def rendered(root: ET.Element) -> Markup:
    """The drawing as markup: safe, because ElementTree has escaped every text and attribute."""
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704 - escaped by ElementTree


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
