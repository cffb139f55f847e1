"""Charts as inline SVG: drawn with ElementTree, which escapes every text, and colored by the report's stylesheet."""

from reports.charts.curves import distance_curve, roc_curve
from reports.charts.dumbbell import dumbbell
from reports.charts.heatmap import association_legend, association_map
from reports.charts.inferred import inferred
from reports.charts.limit import limit_curve
from reports.charts.overlay import overlay
from reports.charts.pareto import pareto
from reports.charts.strip import Extent, extent_of, strip
from reports.charts.tradeoff import tradeoff

__all__ = [
    "Extent",
    "association_legend",
    "association_map",
    "distance_curve",
    "dumbbell",
    "extent_of",
    "inferred",
    "limit_curve",
    "overlay",
    "pareto",
    "roc_curve",
    "strip",
    "tradeoff",
]
