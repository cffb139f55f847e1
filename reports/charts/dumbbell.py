"""Models trained on synthetic rows against models trained on real ones, both tested on the same real rows."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from evaluate.text import alike, compact, finite, number, plain
from reports.charts import svg

WIDTH, LEFT, RIGHT, PITCH = 320.0, 8.0, 306.0, 62.0


def dumbbell(figure: Mapping[str, Any], extent: tuple[float, float]) -> Markup:
    """The chart of one synthetic table.

    Args:
        figure: the figure "utility".
        extent: ends of the axis; the same for all charts that stand side by side.
    """
    models = figure["models"]
    root = svg.canvas(
        WIDTH, len(models) * PITCH + 22, f"Scores of {len(models)} models, trained on synthetic and on real rows"
    )
    low, high = extent

    def x(value: object) -> float:
        return LEFT + (min(max(finite(value), low), high) - low) / max(high - low, 1e-9) * (RIGHT - LEFT)

    for i, model in enumerate(models):
        y = i * PITCH + 40
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
    base = len(models) * PITCH + 2
    for value, anchor in ((low, "start"), ((low + high) / 2, "middle"), (high, "end")):
        svg.words(root, "tick num", (x(value), base + 14), compact(round(value, 3)), anchor)
    return svg.rendered(root)
