"""A page of small pictures: every column's values, real and synthetic, one row of pictures for each column."""

import html
import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from reports.charts import svg

N_BINS, MOST_BARS = 40, 12
WIDTH, HEIGHT = 176.0, 64.0
STYLE = """
body { margin: 2rem auto; max-width: 90rem; padding: 0 1rem; background: #fdfcfa; color: #1d1c1a;
  font: 14px -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
p { color: #5d5a54; max-width: 60ch; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: .25rem .75rem .25rem 0; vertical-align: bottom; text-align: left; }
th { font-weight: 600; font-size: 12px; overflow-wrap: anywhere; } tbody th { width: 9rem; vertical-align: middle; }
svg { display: block; width: 11rem; height: 4rem; }
.real { fill: #cfcabf; } .line { fill: none; stroke: #2747b8; stroke-width: 1.5; } .dot { fill: #2747b8; }
.base { stroke: #dedad2; }
"""


def pictures(real: pd.DataFrame, synthetic: pd.DataFrame) -> dict[str, dict[str, list[float]]]:
    """By column, shares of real and synthetic rows in the same bins, or in the same most frequent values."""
    rows = {}
    for name in real.columns:
        sides = [real[name], synthetic[name]]
        numbers = [pd.to_numeric(side, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan) for side in sides]
        inside = numbers[0][~np.isnan(numbers[0])]
        if len(np.unique(inside)) > MOST_BARS:
            edges = np.linspace(*np.quantile(inside, [0.005, 0.995]), N_BINS + 1)
            shares = [np.histogram(np.clip(side, edges[0], edges[-1]), edges)[0] / len(side) for side in numbers]
        else:
            frequent = sides[0].astype(str).value_counts().index[:MOST_BARS]
            shares = [side.astype(str).value_counts(normalize=True).reindex(frequent, fill_value=0.0) for side in sides]
        rows[str(name)] = {
            "real": [round(float(share), 5) for share in shares[0]],
            "synthetic": [round(float(share), 5) for share in shares[1]],
            "bars": [float(len(np.unique(inside)) <= MOST_BARS)],
        }
    return rows


def page(tables: Mapping[str, Any]) -> str:
    """The page of all tables whose pictures are there."""
    parts = [
        "<!doctype html>", '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Columns, real and synthetic</title><style>{STYLE}</style></head><body>",
        "<h1>Columns, real and synthetic</h1>",
        "<p>Gray: real rows. Blue: synthetic rows. Numbers lie between their .5% and 99.5% quantiles; what lies "
        "further out stands in the outer bins. Of other columns the most frequent values are shown.</p>",
    ]  # fmt: skip
    for table, fits in tables.items():
        drawn = {fit: runs["0"]["pictures"] for fit, runs in fits.items() if "pictures" in runs.get("0", {})}
        if drawn:
            parts += [f"<h2>{html.escape(table)}</h2>", '<div class="scroll">', _table(drawn), "</div>"]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _table(drawn: Mapping[str, Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for columns in drawn.values() for name in columns))
    head = "".join(f'<th scope="col">{html.escape(fit)}</th>' for fit in drawn)
    rows = [
        f'<tr><th scope="row">{html.escape(name)}</th>'
        + "".join(
            f"<td>{_picture(columns[name], f'{name}, {fit}') if name in columns else ''}</td>"
            for fit, columns in drawn.items()
        )
        + "</tr>"
        for name in names
    ]
    return f'<table><thead><tr><th scope="col">column</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _picture(shares: Mapping[str, Sequence[float]], label: str) -> str:
    real, synthetic = shares["real"], shares["synthetic"]
    top = max([*real, *synthetic, 1e-9])
    root, pitch = svg.canvas(WIDTH, HEIGHT, f"{label}: shares of real and synthetic rows"), WIDTH / max(len(real), 1)
    points = []
    for position, (first, other) in enumerate(zip(real, synthetic, strict=True)):
        # Roots, so that rare values are seen.
        tall, dot = (math.sqrt(share / top) * (HEIGHT - 6) for share in (first, other))
        svg.add(root, "rect", "real", x=position * pitch, y=HEIGHT - 1 - tall, width=max(pitch - 1, 1), height=tall)
        points.append((position * pitch + pitch / 2, HEIGHT - 1 - dot))
    svg.line(root, "base", (0, HEIGHT - 0.5), (WIDTH, HEIGHT - 0.5))
    if shares["bars"][0]:
        for x, y in points:
            svg.add(root, "circle", "dot", cx=x, cy=y, r=2.5)
    elif points:
        svg.path(root, "line", points)
    return ET.tostring(root, encoding="unicode")
