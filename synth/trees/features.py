"""A column as later ones see it: its codes and the places within them; of a time also hour, weekday and season."""

import numpy as np

from synth.domain.discretizer import MISSING, OTHER, Array, Attribute, Codes
from synth.schema.kinds.moments import DAY

NEVER = -1.0  # a feature of what is missing
HOURS, DAYS, SEASONS = 1 / 12, 1.0, 31.0
"""Days that the middle cell of a time lasts at most, else its hour, weekday or season is not to be seen."""
YEAR = 365.25


def is_unordered(attribute: Attribute) -> bool:
    """True if a column's codes are categories in no order, of which there are more than two."""
    column = attribute.column
    return attribute.size > 2 and column.is_categorical and not (column.is_boolean or column.is_ordered)


def n_features(attribute: Attribute) -> int:
    return 1 + int(_calendar(attribute).shape[1])


def compute_features(attribute: Attribute, codes: Codes, ranks: Array | None) -> Array:
    """Codes, of numbers with the middle rank of the cell, and the calendar of a time; shape (n, n_features)."""
    values = codes.astype(np.float64)
    if is_unordered(attribute):
        return values[:, np.newaxis]
    cells = attribute.ranked(codes, np.full(len(codes), 0.5) if ranks is None else ranks)
    if attribute.is_refined and ranks is not None:
        values += attribute.middle_ranks[cells]
    parts = np.column_stack([values, _calendar(attribute)[cells]])
    parts[codes == attribute.size + MISSING] = NEVER
    return parts


def _calendar(attribute: Attribute) -> Array:
    """Hour, weekday and day of the year of every cell, as far as cells are that short; shape (n_cells, 0 to 3)."""
    parts = np.full((attribute.n_cells, 3), NEVER)
    if attribute.edges is None or not attribute.column.is_time:
        return parts[:, :0]
    days = attribute.edges * (attribute.column.per_position / DAY)
    middles, mass = (days[:-1] + days[1:]) / 2, attribute.mass[:OTHER]
    order = np.argsort(np.diff(days))
    width = np.diff(days)[order][np.searchsorted(np.cumsum(mass[order]), mass.sum() / 2)]
    span = np.ptp(middles[mass > 0]) if mass.any() else 0.0
    weekdays = (np.floor(middles) + 3) % 7  # the first of January 1970 was a Thursday
    parts[:OTHER] = np.column_stack([middles % 1 * 24, weekdays, middles % YEAR])
    return parts[:, [width <= HOURS and span > 1, width <= DAYS and span > DAYS, width <= SEASONS and span > YEAR]]
