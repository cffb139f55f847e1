"""An estimate between its landmarks: a dot with its interval, ticks for a fresh real sample and shuffled columns."""

from collections.abc import Iterable

from markupsafe import Markup

from evaluate.result import Estimate
from evaluate.text import alike, number
from reports.charts import svg

WIDTH, HEIGHT, MARGIN = 150.0, 22.0, 6.0
Extent = tuple[float, float]


def extent_of(estimates: Iterable[Estimate]) -> Extent:
    """The ends of an axis that holds the estimates, their intervals and their landmarks."""
    values = [
        value for e in estimates for value in (e.value, e.low, e.high, e.reference, e.floor) if value is not None
    ]  # fmt: skip
    low, high = min(values, default=0.0), max(values, default=1.0)
    spread = max(abs(low), abs(high), 1e-3) / 50
    return (low, high) if high - low > spread else (low - spread, high + spread)


def strip(estimate: Estimate, extent: Extent) -> Markup:
    """The picture of one estimate; `extent` is shared by the strips that are to be compared."""
    low, high = extent
    middle = HEIGHT / 2

    def x(value: float) -> float:
        return MARGIN + (value - low) / (high - low) * (WIDTH - 2 * MARGIN)

    root = svg.canvas(WIDTH, HEIGHT, _spoken(estimate), "strip")
    svg.hint(root, _spoken(estimate))
    svg.line(root, "grid", (MARGIN, middle), (WIDTH - MARGIN, middle))
    for value, css in ((estimate.floor, "mark floor"), (estimate.reference, "mark")):
        if value is not None:
            svg.line(root, css, (x(value), middle - 8), (x(value), middle + 8))
    if estimate.low is not None and estimate.high is not None:
        svg.line(root, "interval", (x(estimate.low), middle), (x(estimate.high), middle))
    svg.add(root, "circle", "dot", cx=x(estimate.value), cy=middle, r=4)
    return svg.rendered(root)


def _spoken(estimate: Estimate) -> str:
    value, low, high = alike(estimate.value, estimate.low, estimate.high)
    parts = [value]
    if estimate.low is not None:
        parts.append(f"95% interval {low} to {high}")
    if estimate.reference is not None:
        parts.append(f"fresh real sample {number(estimate.reference)}")
    if estimate.floor is not None:
        parts.append(f"shuffled columns {number(estimate.floor)}")
    return "; ".join(parts)
