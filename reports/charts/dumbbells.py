"""Dots on a line with their landmarks: one estimate, scores of models, attribute inference by column.

A strip shows an estimate with its interval between a fresh real sample and shuffled columns. A dumbbell has two dots:
models trained on synthetic rows and on real ones, or an attacker's success on members and on everybody else.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from markupsafe import Markup

from evaluate.result import Estimate
from evaluate.text import alike, compact, finite, number, percent, plain
from reports.charts import svg
from reports.glossary import spoken

STRIP_WIDTH, STRIP_HEIGHT, STRIP_MARGIN = 150.0, 22.0, 6.0
Extent = tuple[float, float]


def extent_of(estimates: Iterable[Estimate], around: Iterable[float] = ()) -> Extent:
    """The ends of an axis that holds estimates, intervals and landmarks, and values around them; the worse first."""
    several = tuple(estimates)
    ends = [value for e in several for value in (e.value, e.low, e.high, e.reference, e.floor)]
    values = [value for value in (*ends, *around) if value is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    spread = max(abs(low), abs(high), 1e-3) / 50
    low, high = (low, high) if high - low > spread else (low - spread, high + spread)
    return (high, low) if several and several[0].direction == "lower" else (low, high)


def strip(estimate: Estimate, extent: Extent, told: str = "") -> Markup:
    worse, better = extent
    middle = STRIP_HEIGHT / 2

    def x(value: float) -> float:
        return STRIP_MARGIN + (value - worse) / (better - worse) * (STRIP_WIDTH - 2 * STRIP_MARGIN)

    told = told or spoken(estimate)
    root = svg.canvas(STRIP_WIDTH, STRIP_HEIGHT + 12, told, "strip")
    svg.hint(root, told)
    svg.line(root, "grid", (STRIP_MARGIN, middle), (STRIP_WIDTH - STRIP_MARGIN, middle))
    for value, css in ((estimate.floor, "mark floor"), (estimate.reference, "mark")):
        if value is not None:
            svg.line(root, css, (x(value), middle - 8), (x(value), middle + 8))
    if estimate.low is not None and estimate.high is not None:
        svg.line(root, "interval", (x(estimate.low), middle), (x(estimate.high), middle))
    svg.add(root, "circle", "dot", cx=x(estimate.value), cy=middle, r=4)
    for value, anchor in ((worse, "start"), (better, "end")):
        at = STRIP_MARGIN if anchor == "start" else STRIP_WIDTH - STRIP_MARGIN
        svg.words(root, "tick num tiny", (at, STRIP_HEIGHT + 9), compact(round(value, 3)), anchor)
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
        svg.words(root, "name", (LEFT, y - 22), plain(model["model"]))
        lost, least, most = alike(*(finite(model[key]) for key in ("gap", "low", "high")))
        gap = f"gap {lost} [{least}, {most}]"
        svg.words(root, "tick num", (RIGHT, y - 22), gap, "end")
        svg.line(root, "grid", (LEFT, y), (RIGHT, y))
        if model.get("floor") is not None:
            svg.hint(
                svg.line(root, "mark floor", (x(model["floor"]), y - 8), (x(model["floor"]), y + 8)), "columns shuffled"
            )
        if model.get("fresh") is not None:
            svg.hint(
                svg.line(root, "mark", (x(model["fresh"]), y - 8), (x(model["fresh"]), y + 8)), "fresh real sample"
            )
        svg.line(root, "stem", (x(model["tstr"]), y), (x(model["trtr"]), y))
        svg.hint(
            svg.add(root, "circle", "dot hollow", cx=x(model["trtr"]), cy=y, r=5),
            f"real: {number(finite(model['trtr']))}",
        )
        svg.hint(
            svg.add(root, "circle", "dot", cx=x(model["tstr"]), cy=y, r=5),
            f"synthetic: {number(finite(model['tstr']))}",
        )
    base = len(models) * MODEL_PITCH + 2
    for value, anchor in ((low, "start"), ((low + high) / 2, "middle"), (high, "end")):
        svg.words(root, "tick num", (x(value), base + 14), compact(round(value, 3)), anchor)
    return svg.rendered(root)


class Rates(Protocol):
    """The rates of one column for the chart, in [0, 1]."""

    @property
    def column(self) -> str:
        """Its name."""

    @property
    def members(self) -> float:
        """Success on members."""

    @property
    def controls(self) -> float:
        """Success on others."""

    @property
    def own(self) -> float | None:
        """Success on members by the attacker's own sample; `None` where there is no such number."""

    @property
    def advantage(self) -> tuple[float, float, float]:
        """Members less others, with its interval."""

    @property
    def alarms(self) -> bool:
        """True where that lies above none."""


def inferred(columns: Sequence[Rates]) -> Markup:
    root = svg.canvas(
        WIDTH,
        len(columns) * COLUMN_PITCH + 22,
        f"How often the values of {len(columns)} columns are found, of members and others",
    )
    for i, one in enumerate(columns):
        y = i * COLUMN_PITCH + 28
        svg.words(
            root,
            "name",
            (LEFT, y - 12),
            one.column if len(one.column) <= LONGEST_NAME else f"{one.column[: LONGEST_NAME - 1]}…",
        )
        value, low, high = alike(*one.advantage)
        svg.words(
            root, "tick num hot" if one.alarms else "tick num", (RIGHT, y - 12), f"{value} [{low}, {high}]", "end"
        )
        svg.line(root, "grid", (LEFT, y), (RIGHT, y))
        if one.own is not None:
            tick = svg.line(root, "mark", (_x(one.own), y - 6), (_x(one.own), y + 6))
            svg.hint(tick, f"by the attacker's own sample: {percent(one.own)}")
        svg.line(root, "stem", (_x(one.members), y), (_x(one.controls), y))
        others = svg.add(root, "circle", "dot hollow", cx=_x(one.controls), cy=y, r=4.5)
        svg.hint(others, f"others: {percent(one.controls)}")
        members = svg.add(root, "circle", "dot", cx=_x(one.members), cy=y, r=4.5)
        svg.hint(members, f"members: {percent(one.members)}")
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        svg.words(root, "tick num", (_x(share), len(columns) * COLUMN_PITCH + 18), percent(share), anchor)
    return svg.rendered(root)


LONGEST_NAME = 24  # Characters of a name that stand beside its number


def _x(share: float) -> float:
    return LEFT + min(max(share, 0.0), 1.0) * (RIGHT - LEFT)
