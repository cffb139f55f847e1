"""Real and synthetic rows as points on two axes, synthetic ones that lie next to a training row in rings."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from evaluate.text import finite, percent
from reports.charts import svg

WIDTH, HEIGHT, EDGE = 400.0, 300.0, 20.0
BULK = 0.005  # Share of the points at either end of an axis that may be drawn at its edge


def scatter(figure: Mapping[str, Any]) -> Markup:
    sides = {name: [(finite(x), finite(y)) for x, y in figure[name]] for name in ("real", "synthetic")}
    everything = [*sides["real"], *sides["synthetic"]]
    ends = [_ends([point[axis] for point in everything]) for axis in (0, 1)]

    def at(point: svg.Point) -> svg.Point:
        x, y = (
            min(max((value - low) / max(high - low, 1e-9), 0.0), 1.0)
            for value, (low, high) in zip(point, ends, strict=True)
        )
        return EDGE + x * (WIDTH - 2 * EDGE), HEIGHT - EDGE - y * (HEIGHT - 2 * EDGE)

    words = [f"{'first' if axis == 0 else 'second'} axis: {percent(finite(share))} of the variance"
             for axis, share in enumerate(figure["variance"])]  # fmt: skip
    counts = f"{len(sides['real'])} real and {len(sides['synthetic'])} synthetic rows"
    root = svg.canvas(WIDTH, HEIGHT, f"{counts}; {'; '.join(words)}", "chart scatter")
    svg.line(root, "axis", (EDGE, HEIGHT - EDGE), (WIDTH - EDGE, HEIGHT - EDGE))
    svg.line(root, "axis", (EDGE, EDGE), (EDGE, HEIGHT - EDGE))
    for name in ("real", "synthetic"):  # a path each: round caps make points of lines without a length
        svg.add(root, "path", f"points {name}", d="".join(f"M{x:.0f} {y:.0f}h0" for x, y in map(at, sides[name])))
    for i in figure.get("near") or ():
        if i < len(sides["synthetic"]):
            x, y = at(sides["synthetic"][i])
            ring = svg.add(root, "circle", "near", cx=x, cy=y, r=4.5)
            svg.hint(ring, f"synthetic row {i + 1} of the map, next to a training row")
    svg.words(root, "tick", (WIDTH - EDGE, HEIGHT - 6), words[0], "end")
    svg.words(root, "tick", (EDGE, 14), words[1])
    return svg.rendered(root)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    ranked = sorted(values)
    cut = int(BULK * len(ranked))
    return (ranked[cut], ranked[-1 - cut]) if ranked else (0.0, 1.0)
