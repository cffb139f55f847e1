"""Curves of attacks: the ROC on logarithmic axes, and nearest distances by quantile beside the holdout's."""

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from evaluate.text import compact, finite, percent
from reports.charts import svg

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


def percent_exact(rate: float) -> str:
    """A round rate as a percentage.

    >>> percent_exact(0.001), percent_exact(0.1)
    ('0.1%', '10%')
    """
    return f"{100 * rate:g}%"
