"""Dots on a line with their landmarks: one estimate, scores of models, attribute inference by column.

A strip shows an estimate with its interval between a fresh real sample and shuffled columns. A dumbbell has two dots:
models trained on synthetic rows and on real ones, or an attacker's success on members and on everybody else.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from evaluate.result import Estimate
from evaluate.text import alike, compact, finite, number, percent, plain, short
from reports.charts import svg
from reports.glossary import spoken
from reports.sections.attacks import Rates

STRIP_WIDTH, STRIP_HEIGHT, STRIP_MIDDLE, STRIP_MARGIN = 150.0, 34.0, 11.0, 6.0
Extent = tuple[float, float]  # The ends of an axis: the worse one, which is drawn on the left, and the better one


def extent_of(estimates: Iterable[Estimate], around: Iterable[float] = ()) -> Extent:
    """The ends of an axis that holds the estimates, their intervals and their landmarks, all better the same way, and
    some values `around` them.
    """
    estimates = list(estimates)
    numbers = (value for e in estimates for value in (e.value, e.low, e.high, e.reference, e.floor))
    values = [*around, *(value for value in numbers if value is not None)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    spread = max(abs(low), abs(high), 1e-3) / 50
    low, high = (low, high) if high - low > spread else (low - spread, high + spread)
    return (high, low) if any(e.direction == "lower" for e in estimates) else (low, high)


def strip(estimate: Estimate, extent: Extent, told: str = "", *, numbered: bool = True) -> Markup:
    """An estimate on its line, with the numbers at both ends unless it is one of many `numbered` by the last."""
    worse, better = extent
    middle = STRIP_MIDDLE

    def x(value: float) -> float:
        return STRIP_MARGIN + (value - worse) / (better - worse) * (STRIP_WIDTH - 2 * STRIP_MARGIN)

    root = svg.canvas(
        STRIP_WIDTH, STRIP_HEIGHT if numbered else 2 * STRIP_MIDDLE, told or spoken(estimate), "strip"
    )  # fmt: skip
    if told:  # elsewhere the numbers stand beside it
        svg.hint(root, told)
    svg.line(root, "grid", (STRIP_MARGIN, middle), (STRIP_WIDTH - STRIP_MARGIN, middle))
    for value, css in ((estimate.floor, "mark floor"), (estimate.reference, "mark")):
        if value is not None:
            svg.line(root, css, (x(value), middle - 8), (x(value), middle + 8))
    if estimate.low is not None and estimate.high is not None:
        svg.line(root, "interval", (x(estimate.low), middle), (x(estimate.high), middle))
    svg.add(root, "circle", "dot", cx=x(estimate.value), cy=middle, r=4)
    for end, at, anchor in ((worse, 0.0, "start"), (better, STRIP_WIDTH, "end")) if numbered else ():
        svg.words(root, "tick tiny", (at, STRIP_HEIGHT - 3), compact(float(f"{end:.3g}")), anchor)
    return svg.rendered(root)


WIDTH, LEFT, RIGHT = 320.0, 8.0, 306.0
MODEL_PITCH, COLUMN_PITCH = 62.0, 36.0  # Between the lines of two models, and of two columns


def dumbbell(figure: Mapping[str, Any], extent: tuple[float, float]) -> Markup:
    models = figure["models"]
    root = svg.canvas(
        WIDTH, len(models) * MODEL_PITCH + 22, f"Scores of {len(models)} models, trained on synthetic and on real rows"
    )
    low, high = extent

    def x(value: object) -> float:
        return LEFT + (min(max(finite(value), low), high) - low) / max(high - low, 1e-9) * (RIGHT - LEFT)

    for i, model in enumerate(models):
        y = i * MODEL_PITCH + 40
        lost, least, most = alike(*(finite(model[key]) for key in ("gap", "low", "high")))
        svg.words(root, "name", (LEFT, y - 22), plain(model["model"]))
        svg.words(root, "tick num", (RIGHT, y - 22), f"gap {lost} [{least}, {most}]", "end")
        svg.line(root, "grid", (LEFT, y), (RIGHT, y))
        for key, css, words in (("floor", "mark floor", "columns shuffled"), ("fresh", "mark", "fresh real sample")):
            if model.get(key) is not None:
                svg.hint(svg.line(root, css, (x(model[key]), y - 8), (x(model[key]), y + 8)), words)
        svg.line(root, "stem", (x(model["tstr"]), y), (x(model["trtr"]), y))
        for key, css, words in (("trtr", "dot hollow", "real"), ("tstr", "dot", "synthetic")):
            dot = svg.add(root, "circle", css, cx=x(model[key]), cy=y, r=5)
            svg.hint(dot, f"{words}: {number(finite(model[key]))}")
    base = len(models) * MODEL_PITCH + 2
    for value, anchor in ((low, "start"), ((low + high) / 2, "middle"), (high, "end")):
        svg.words(root, "tick num", (x(value), base + 14), compact(round(value, 3)), anchor)
    return svg.rendered(root)


LONGEST_NAME = 24  # Characters of a name that stand beside its number


def inferred(columns: Sequence[Rates]) -> Markup:
    label = f"How often the values of {len(columns)} columns are found, of members and others"
    root = svg.canvas(WIDTH, len(columns) * COLUMN_PITCH + 22, label)
    for i, each in enumerate(columns):
        y = i * COLUMN_PITCH + 28
        value, low, high = alike(*each.advantage)
        svg.words(root, "name", (LEFT, y - 12), short(each.column, LONGEST_NAME))
        css = "tick num hot" if each.alarms else "tick num"
        svg.words(root, css, (RIGHT, y - 12), f"{value} [{low}, {high}]", "end")
        svg.line(root, "grid", (LEFT, y), (RIGHT, y))
        if each.own is not None:
            tick = svg.line(root, "mark", (_x(each.own), y - 6), (_x(each.own), y + 6))
            svg.hint(tick, f"by the attacker's own sample: {percent(each.own)}")
        svg.line(root, "stem", (_x(each.members), y), (_x(each.controls), y))
        for share, css, words in ((each.controls, "dot hollow", "others"), (each.members, "dot", "members")):
            svg.hint(svg.add(root, "circle", css, cx=_x(share), cy=y, r=4.5), f"{words}: {percent(share)}")
    for share, anchor in ((1.0, "start"), (0.5, "middle"), (0.0, "end")):
        svg.words(root, "tick num", (_x(share), len(columns) * COLUMN_PITCH + 18), percent(share), anchor)
    return svg.rendered(root)


def _x(share: float) -> float:
    """The less is found, the further right, where better is in every picture."""
    return RIGHT - min(max(share, 0.0), 1.0) * (RIGHT - LEFT)
