"""Charts as inline SVG: drawn with ElementTree, which escapes every text, and colored by the report's stylesheet."""

from reports.charts.columns import association_legend, association_map, joint_shares, overlay, own_shares, thumbnail
from reports.charts.estimates import Extent, distance_curve, dumbbell, extent_of, inferred, roc_curve, scatter, strip
from reports.charts.frontier import pareto, tradeoff

__all__ = [
    "Extent", "association_legend", "association_map", "distance_curve", "dumbbell", "extent_of", "inferred",
    "joint_shares", "overlay", "own_shares", "pareto", "roc_curve", "scatter", "strip", "thumbnail", "tradeoff",
]  # fmt: skip
