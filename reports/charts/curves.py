"""Curves of attacks: the ROC on logarithmic axes, the limit that a privacy claim sets to it, and nearest distances.

The limit is a trade-off curve: detections that no test exceeds at each rate of false alarms. What attacks reached is
drawn below it. Nearest distances go by quantile, the synthetic rows' beside the holdout's.
"""

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from evaluate.text import at_most, compact, finite, percent
from reports.charts import svg
from reports.glossary import entry
from reports.sections.attacks import Reached
from synth.dp.tradeoff import FALSE_ALARMS, TradeOff

WIDTH, LEFT, RIGHT = 320.0, 44.0, 312.0


def roc_curve(figure: Mapping[str, Any]) -> Markup:
    """The attacker's true against false alarms, both logarithmic: what counts is the far left."""
    floor = max(min(finite(figure.get("floor_fpr"), 1e-3), 0.1), 1e-6)
    top, base = 24.0, 264.0
    label = f"Membership attack: true against false positive rate, area under the curve {finite(figure.get('auc')):.3f}"
    root = svg.canvas(WIDTH, 304, label)

    def at(fpr: float, tpr: float) -> svg.Point:
        x, y = (1 - math.log10(max(rate, floor)) / math.log10(floor) for rate in (fpr, tpr))
        return LEFT + x * (RIGHT - LEFT), base - y * (base - top)

    for power in range(0, math.floor(-math.log10(floor) + 1e-9) + 1):
        rate = 10.0**-power
        name = percent_exact(rate)
        (x, y) = at(rate, rate)
        svg.line(root, "grid", (x, top), (x, base))
        svg.line(root, "grid", (LEFT, y), (RIGHT, y))
        svg.words(root, "tick num", (x, base + 16), name, "end" if power == 0 else "middle")
        svg.words(root, "tick num", (LEFT - 6, y + 4), name, "end")
    svg.line(root, "chance", at(floor, floor), at(1, 1))
    rates = [(finite(f), finite(t)) for f, t in zip(figure["fpr"], figure["tpr"], strict=True) if finite(f) >= floor]
    if len(rates) > 1:
        svg.path(root, "line", [at(*rate) for rate in rates])
    for f, t in _decades(rates):
        accused = compact(float(f"{100 * f:.2g}"))
        _probe(root, at(f, t), f"at {accused}% outsiders accused, {percent(t)} of members found")
    svg.words(root, "tick", ((LEFT + RIGHT) / 2, 300), "outsiders accused", "middle")
    svg.words(root, "tick", (0, 12), "members found")
    return svg.rendered(root)


def distance_curve(quantiles: Sequence[float], pair: Mapping[str, Sequence[float]], label: str, axis: str) -> Markup:
    """Distances by quantile: the synthetic rows' as a colored line, the holdout's in gray."""
    top, base = 10.0, 142.0
    synthetic, holdout = ([finite(v) for v in pair[name]] for name in ("synthetic", "holdout"))
    most = max([*synthetic, *holdout, 1e-9])
    root = svg.canvas(WIDTH, 180, label)

    def at(share: float, value: float) -> svg.Point:
        return LEFT + share * (RIGHT - LEFT), base - value / most * (base - top)

    for share in (0.0, 0.5, 1.0):
        x, y = at(share, share * most)
        svg.line(root, "grid", (LEFT, y), (RIGHT, y))
        svg.words(root, "tick num", (x, base + 16), f"{100 * share:.0f}%", "end" if share == 1 else "middle")
        svg.words(root, "tick num", (LEFT - 6, y + 4), compact(float(f"{share * most:.2g}")), "end")
    svg.path(root, "line faint", [at(finite(q), v) for q, v in zip(quantiles, holdout, strict=True)])
    svg.path(root, "line", [at(finite(q), v) for q, v in zip(quantiles, synthetic, strict=True)])
    for i in range(0, len(quantiles), max(len(quantiles) // 10, 1)):
        share, ours, theirs = finite(quantiles[i]), compact(synthetic[i]), compact(holdout[i])
        _probe(root, at(share, synthetic[i]), f"{100 * share:.0f}% of rows: synthetic {ours}, holdout {theirs}")
    svg.words(root, "tick", ((LEFT + RIGHT) / 2, 176), axis, "middle")
    return svg.rendered(root)


def _decades(rates: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A few points of a curve, about three in each power of ten of the false positive rate."""
    steps = {round(3 * math.log10(f)): (f, t) for f, t in rates if f > 0}
    return list(steps.values())


def _probe(root: ET.Element, at: svg.Point, content: str) -> None:
    """A place of a line that tells its value, and is not seen."""
    svg.hint(svg.add(root, "circle", "probe", cx=at[0], cy=at[1], r=7), content)


LIMIT_RIGHT, LIMIT_TOP, LIMIT_BASE, LIMIT_HEIGHT = 308.0, 26.0, 250.0, 292.0
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
    root = svg.canvas(WIDTH, LIMIT_HEIGHT, _spoken(limit, reached))
    edge = [_at(rate, high) for rate, high in zip(rates.tolist(), most.tolist(), strict=True)]
    corners = [(LEFT, LIMIT_TOP), *edge]
    svg.add(root, "path", "beyond", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "Z")
    _axes(root)
    svg.line(root, "chance", _at(FLOOR, FLOOR), _at(1, 1))
    svg.path(root, "limit", edge)
    if edge[0][1] - LIMIT_TOP > ROOM * (LIMIT_BASE - LIMIT_TOP):
        svg.words(root, "tick", (LEFT + 8, LIMIT_TOP + 18), "no test gets here")
    elif most[0] > NONE:
        svg.words(root, "tick", (LEFT + 8, LIMIT_TOP + 18), "no limit at these rates")
    for rate in FALSE_ALARMS:
        high = limit.detections(rate)
        told = f"at {percent_exact(rate)} false alarms no test finds more than {at_most(high)}"
        _probe(root, _at(rate, high), told)
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
    return LEFT + x * (LIMIT_RIGHT - LEFT), LIMIT_BASE - y * (LIMIT_BASE - LIMIT_TOP)


def _axes(root: ET.Element) -> None:
    for rate in (0.001, 0.01, 0.1, 1.0):
        x, y = _at(rate, rate)
        svg.line(root, "grid", (x, LIMIT_TOP), (x, LIMIT_BASE))
        svg.line(root, "grid", (LEFT, y), (LIMIT_RIGHT, y))
        svg.words(root, "tick num", (x, LIMIT_BASE + 16), percent_exact(rate), "end" if rate == 1 else "middle")
        svg.words(root, "tick num", (LEFT - 6, y + 4), percent_exact(rate), "end")
    svg.words(
        root,
        "tick",
        ((LEFT + LIMIT_RIGHT) / 2, LIMIT_BASE + 36),
        "false alarms, of those not in the table",
        "middle",
    )
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
