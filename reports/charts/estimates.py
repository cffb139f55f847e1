"""Numbers with their landmarks: estimates, scores of models, inference by column, curves of attacks, rows on a map.

A strip shows an estimate with its interval between a fresh real sample and shuffled columns. A dumbbell has two dots:
models trained on synthetic rows and on real ones, or an attacker's success on members and on everybody else.
"""

import math
import xml.etree.ElementTree as ET
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

    height = STRIP_HEIGHT if numbered else 2 * STRIP_MIDDLE
    root = svg.canvas(STRIP_WIDTH, height, told or spoken(estimate), "strip")
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
    models, (low, high) = figure["models"], extent
    label = f"Scores of {len(models)} models, trained on synthetic and on real rows"
    root = svg.canvas(WIDTH, len(models) * MODEL_PITCH + 22, label)

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


CURVE_LEFT, CURVE_RIGHT = 44.0, 312.0


def roc_curve(figure: Mapping[str, Any]) -> Markup:
    """The attacker's true against false alarms, both logarithmic: what counts is the far left."""
    floor = max(min(finite(figure.get("floor_fpr"), 1e-3), 0.1), 1e-6)
    top, base = 24.0, 264.0
    label = f"Membership attack: true against false positive rate, area under the curve {finite(figure.get('auc')):.3f}"
    root = svg.canvas(WIDTH, 304, label)

    def at(fpr: float, tpr: float) -> svg.Point:
        x, y = (1 - math.log10(max(rate, floor)) / math.log10(floor) for rate in (fpr, tpr))
        return CURVE_LEFT + x * (CURVE_RIGHT - CURVE_LEFT), base - y * (base - top)

    for power in range(0, math.floor(-math.log10(floor) + 1e-9) + 1):
        rate = 10.0**-power
        name = f"{100 * rate:g}%"
        (x, y) = at(rate, rate)
        svg.line(root, "grid", (x, top), (x, base))
        svg.line(root, "grid", (CURVE_LEFT, y), (CURVE_RIGHT, y))
        svg.words(root, "tick num", (x, base + 16), name, "end" if power == 0 else "middle")
        svg.words(root, "tick num", (CURVE_LEFT - 6, y + 4), name, "end")
    svg.line(root, "chance", at(floor, floor), at(1, 1))
    rates = [(finite(f), finite(t)) for f, t in zip(figure["fpr"], figure["tpr"], strict=True) if finite(f) >= floor]
    if len(rates) > 1:
        svg.path(root, "line", [at(*rate) for rate in rates])
    decades = {round(3 * math.log10(f)): (f, t) for f, t in rates if f > 0}  # a few points, about three in each
    for f, t in decades.values():
        accused = compact(float(f"{100 * f:.2g}"))
        _probe(root, at(f, t), f"at {accused}% outsiders accused, {percent(t)} of members found")
    svg.words(root, "tick", ((CURVE_LEFT + CURVE_RIGHT) / 2, 300), "outsiders accused", "middle")
    svg.words(root, "tick", (0, 12), "members found")
    return svg.rendered(root)


def distance_curve(quantiles: Sequence[float], pair: Mapping[str, Sequence[float]], label: str, axis: str) -> Markup:
    """Distances by quantile: the synthetic rows' as a colored line, the holdout's in gray."""
    top, base = 10.0, 142.0
    synthetic, holdout = ([finite(v) for v in pair[name]] for name in ("synthetic", "holdout"))
    most = max([*synthetic, *holdout, 1e-9])
    root = svg.canvas(WIDTH, 180, label)

    def at(share: float, value: float) -> svg.Point:
        return CURVE_LEFT + share * (CURVE_RIGHT - CURVE_LEFT), base - value / most * (base - top)

    for share in (0.0, 0.5, 1.0):
        x, y = at(share, share * most)
        svg.line(root, "grid", (CURVE_LEFT, y), (CURVE_RIGHT, y))
        svg.words(root, "tick num", (x, base + 16), f"{100 * share:.0f}%", "end" if share == 1 else "middle")
        svg.words(root, "tick num", (CURVE_LEFT - 6, y + 4), compact(float(f"{share * most:.2g}")), "end")
    svg.path(root, "line faint", [at(finite(q), v) for q, v in zip(quantiles, holdout, strict=True)])
    svg.path(root, "line", [at(finite(q), v) for q, v in zip(quantiles, synthetic, strict=True)])
    for i in range(0, len(quantiles), max(len(quantiles) // 10, 1)):
        share, ours, theirs = finite(quantiles[i]), compact(synthetic[i]), compact(holdout[i])
        _probe(root, at(share, synthetic[i]), f"{100 * share:.0f}% of rows: synthetic {ours}, holdout {theirs}")
    svg.words(root, "tick", ((CURVE_LEFT + CURVE_RIGHT) / 2, 176), axis, "middle")
    return svg.rendered(root)


def _probe(root: ET.Element, at: svg.Point, content: str) -> None:
    """A place of a line that tells its value, and is not seen."""
    svg.hint(svg.add(root, "circle", "probe", cx=at[0], cy=at[1], r=7), content)


MAP_WIDTH, MAP_HEIGHT, EDGE = 400.0, 300.0, 20.0
BULK = 0.005  # Share of the points at either end of an axis that may be drawn at its edge


def scatter(figure: Mapping[str, Any]) -> Markup:
    sides = {name: [(finite(x), finite(y)) for x, y in figure[name]] for name in ("real", "synthetic")}
    everything = [*sides["real"], *sides["synthetic"]]
    ends = [_bulk([point[axis] for point in everything]) for axis in (0, 1)]

    def at(point: svg.Point) -> svg.Point:
        x, y = (
            min(max((value - low) / max(high - low, 1e-9), 0.0), 1.0)
            for value, (low, high) in zip(point, ends, strict=True)
        )
        return EDGE + x * (MAP_WIDTH - 2 * EDGE), MAP_HEIGHT - EDGE - y * (MAP_HEIGHT - 2 * EDGE)

    words = [f"{'first' if axis == 0 else 'second'} axis: {percent(finite(share))} of the variance"
             for axis, share in enumerate(figure["variance"])]  # fmt: skip
    counts = f"{len(sides['real'])} real and {len(sides['synthetic'])} synthetic rows"
    root = svg.canvas(MAP_WIDTH, MAP_HEIGHT, f"{counts}; {'; '.join(words)}", "chart scatter")
    svg.line(root, "axis", (EDGE, MAP_HEIGHT - EDGE), (MAP_WIDTH - EDGE, MAP_HEIGHT - EDGE))
    svg.line(root, "axis", (EDGE, EDGE), (EDGE, MAP_HEIGHT - EDGE))
    for name in ("real", "synthetic"):  # a path each: round caps make points of lines without a length
        svg.add(root, "path", f"points {name}", d="".join(f"M{x:.0f} {y:.0f}h0" for x, y in map(at, sides[name])))
    for i in figure.get("near") or ():
        if i < len(sides["synthetic"]):
            x, y = at(sides["synthetic"][i])
            ring = svg.add(root, "circle", "near", cx=x, cy=y, r=4.5)
            svg.hint(ring, f"synthetic row {i + 1} of the map, next to a training row")
    svg.words(root, "tick", (MAP_WIDTH - EDGE, MAP_HEIGHT - 6), words[0], "end")
    svg.words(root, "tick", (EDGE, 14), words[1])
    return svg.rendered(root)


def _bulk(values: Sequence[float]) -> tuple[float, float]:
    ranked = sorted(values)
    cut = int(BULK * len(ranked))
    return (ranked[cut], ranked[-1 - cut]) if ranked else (0.0, 1.0)
