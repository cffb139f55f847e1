"""Associations of all pairs of columns as a triangle: each column is named where its row meets the diagonal."""

from collections.abc import Sequence
from typing import Literal

from markupsafe import Markup

from evaluate.text import compact, finite, short
from reports.charts import svg

Scale = Literal["signed", "difference"]
LEVELS = 8  # Shades on either side of zero; cells of one shade are one path, which keeps the report small
SIDE = 232.0
WIDTH = 320.0


def association_map(
    columns: Sequence[str], values: Sequence[Sequence[float | None]], label: str, scale: Scale, top: float = 1.0
) -> Markup:
    """The triangle of one table, or of the difference between two. `values`: symmetric, shape (d, d), in [-top, top];
    `None` where there is no association to speak of.
    """
    d = max(len(columns), 1)
    cell = SIDE / d
    root = svg.canvas(WIDTH, SIDE + 4, label, "chart map")
    cells = (values[i][j] for i in range(d) for j in range(i))
    root.set("data-cells", ",".join("" if v is None else str(round(100 * finite(v))) for v in cells))
    root.set("data-side", f"{cell:.3f}")
    shades: dict[str, list[str]] = {}
    for i in range(d):
        for j in range(i):
            shade = _shade(values[i][j], scale, top)
            square = f"M{j * cell:.1f} {i * cell:.1f}h{cell - 0.6:.1f}v{cell - 0.6:.1f}h-{cell - 0.6:.1f}z"
            shades.setdefault(shade, []).append(square)
    for shade in sorted(shades):
        svg.add(root, "path", shade, d="".join(shades[shade]))
    size = "tick" if d <= 18 else "tick tiny"
    for i, name in enumerate(columns):
        text = svg.words(root, size, (i * cell + 4, i * cell + cell / 2 + 3.5), short(name, _room(i, d)))
        svg.hint(text, name)
    return svg.rendered(root)


def association_legend(scale: Scale, top: float = 1.0) -> Markup:
    start = f"minus {compact(top)}" if scale == "signed" else "zero"
    root = svg.canvas(200, 26, f"Shades from {start} to {compact(top)}", "chart legend")
    shades = [f"d{i}" for i in range(LEVELS + 1)]
    if scale == "signed":
        shades = [f"n{i}" for i in range(LEVELS, 0, -1)] + [f"p{i}" for i in range(LEVELS + 1)]
    width = 200 / len(shades)
    for i, shade in enumerate(shades):
        svg.add(root, "rect", shade, x=i * width, y=0, width=width + 0.2, height=9)
    low = f"\u2212{compact(top)}" if scale == "signed" else "0"
    svg.words(root, "tick num", (0, 23), low)
    if scale == "signed":
        svg.words(root, "tick num", (100, 23), "0", "middle")
    svg.words(root, "tick num", (200, 23), compact(top), "end")
    return svg.rendered(root)


def _shade(value: float | None, scale: Scale, top: float) -> str:
    if value is None:
        return "none"
    level = min(round(abs(finite(value)) / max(top, 1e-9) * LEVELS), LEVELS)
    if scale == "difference":
        return f"d{level}"
    return f"{'n' if value < 0 and level else 'p'}{level}"


def _room(i: int, d: int) -> int:
    """Characters that fit between the diagonal and the right edge."""
    return max(10, int((WIDTH - i * SIDE / d - 8) / 6.4))
