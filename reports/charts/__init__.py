"""Charts as inline SVG: drawn with ElementTree, which escapes every text, and colored by the report's stylesheet."""

from reports.charts.associations import association_legend, association_map, joint_shares
from reports.charts.columns import overlay, thumbnail
from reports.charts.curves import distance_curve, roc_curve
from reports.charts.dumbbells import Extent, dumbbell, extent_of, inferred, strip
from reports.charts.pareto import pareto
from reports.charts.scatter import scatter
from reports.charts.tradeoff import tradeoff

__all__ = [
    "Extent",
    "association_legend",
    "association_map",
    "distance_curve",
    "dumbbell",
    "extent_of",
    "inferred",
    "joint_shares",
    "overlay",
    "pareto",
    "roc_curve",
    "scatter",
    "strip",
    "thumbnail",
    "tradeoff",
]
