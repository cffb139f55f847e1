"""The limit that a privacy claim sets to any test: false alarms against detections, with what attacks reached."""

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from evaluate.text import at_most, finite, percent
from reports.attack_figures import Reached
from reports.charts import svg
from reports.glossary import entry
from synth.dp.tradeoff import FALSE_ALARMS, TradeOff

WIDTH, LEFT, RIGHT, TOP, BASE, HEIGHT = 320.0, 44.0, 308.0, 26.0, 250.0, 292.0
FLOOR = 1e-3
"""The smallest rate that is drawn."""
N_POINTS = 61
NONE = 0.99
"""A limit above this at the smallest rate is called none."""
APART = 10.0
"""Between attacks at one rate."""
ROOM = 0.12
"""Share of the height that a line of words above the limit needs."""


def limit_curve(limit: TradeOff, curve: Mapping[str, Any] | None = None, reached: Sequence[Reached] = ()) -> Markup:
    """Detections that no test exceeds, on logarithmic axes, above the line of those who guess.

    Args:
        limit: of the claim.
        curve: of the membership attack, `fpr` and `tpr`; `None`: nothing is drawn of it.
        reached: what other attacks reached.
    """
    rates = np.geomspace(FLOOR, 1.0, N_POINTS)
    most = limit.curve(rates)
    root = svg.canvas(WIDTH, HEIGHT, _spoken(limit, reached))
    edge = [_at(rate, high) for rate, high in zip(rates.tolist(), most.tolist(), strict=True)]
    corners = [(LEFT, TOP), *edge]
    svg.add(root, "path", "beyond", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "Z")
    _axes(root)
    svg.line(root, "chance", _at(FLOOR, FLOOR), _at(1, 1))
    svg.path(root, "limit", edge)
    if edge[0][1] - TOP > ROOM * (BASE - TOP):
        svg.words(root, "tick", (LEFT + 8, TOP + 18), "no test gets here")
    elif most[0] > NONE:
        svg.words(root, "tick", (LEFT + 8, TOP + 18), "no limit at these rates")
    for rate in FALSE_ALARMS:
        high = limit.detections(rate)
        probe = svg.add(root, "circle", "probe", cx=_at(rate, high)[0], cy=_at(rate, high)[1], r=7)
        svg.hint(probe, f"at {percent_exact(rate)} false alarms no test finds more than {at_most(high)}")
    _attacks(root, curve, reached)
    return svg.rendered(root)


def percent_exact(rate: float) -> str:
    """A round rate as a percentage.

    >>> percent_exact(0.001), percent_exact(0.1)
    ('0.1%', '10%')
    """
    return f"{100 * rate:g}%"


def _at(false_alarms: float, detections: float) -> svg.Point:
    x, y = (1 - math.log10(min(max(rate, FLOOR), 1.0)) / math.log10(FLOOR) for rate in (false_alarms, detections))
    return LEFT + x * (RIGHT - LEFT), BASE - y * (BASE - TOP)


def _axes(root: ET.Element) -> None:
    for rate in (0.001, 0.01, 0.1, 1.0):
        x, y = _at(rate, rate)
        svg.line(root, "grid", (x, TOP), (x, BASE))
        svg.line(root, "grid", (LEFT, y), (RIGHT, y))
        svg.words(root, "tick num", (x, BASE + 16), percent_exact(rate), "end" if rate == 1 else "middle")
        svg.words(root, "tick num", (LEFT - 6, y + 4), percent_exact(rate), "end")
    svg.words(root, "tick", ((LEFT + RIGHT) / 2, BASE + 36), "false alarms, of those not in the table", "middle")
    svg.words(root, "tick", (0, 12), "detections, of those in the table")


def _attacks(root: ET.Element, curve: Mapping[str, Any] | None, reached: Sequence[Reached]) -> None:
    if curve is not None:
        pairs = zip(curve.get("fpr", ()), curve.get("tpr", ()), strict=False)
        rates = [(finite(f), finite(t)) for f, t in pairs if finite(f) >= FLOOR]
        if len(rates) > 1:
            svg.path(root, "line", [_at(*rate) for rate in rates])
    for rate in sorted({one.false_alarms for one in reached}):
        beside = [one for one in reached if one.false_alarms == rate]
        for place, one in enumerate(beside):
            # Side by side, so that none hides another.
            x = _at(rate, rate)[0] + APART * (place - (len(beside) - 1) / 2)
            y, low, high = (_at(rate, share)[1] for share in one.value)
            svg.line(root, "interval", (x, low), (x, high))
            svg.hint(svg.add(root, "circle", "dot", cx=x, cy=y, r=4), _found(one))


def _spoken(limit: TradeOff, reached: Sequence[Reached]) -> str:
    most = "; ".join(f"{at_most(limit.detections(rate))} at {percent_exact(rate)}" for rate in FALSE_ALARMS)
    said = f"Detections of any test against its false alarms. At most {most} false alarms"
    return ". ".join([said, *(_found(one) for one in reached)])


def _found(one: Reached) -> str:
    return f"{entry(one.measure).title}: {percent(one.value[0])} found"
