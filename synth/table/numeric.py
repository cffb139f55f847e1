"""Cells as numbers: whole ones within 64 bits, and reals of a declared precision."""

import re
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from synth.columns import CategoricalColumn, IdentifierColumn, IntegerColumn, RealColumn, WeightColumn
from synth.table.cells import Faults, Read, each, none
from synth.table.faults import Fault
from synth.table.given import INT64_MAX, Given

NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,9})?", re.ASCII)
WHOLE = re.compile(r"[+-]?\d{1,40}", re.ASCII)
INFINITY = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_FLOAT_BELOW_INT64 = 2.0**63 - 1024


def integers(given: Given, column: Any, clamp: bool) -> Read:
    """Cells as whole numbers: of an integer column, of integer categories, or of integer identifiers."""
    values, missing, faults = _whole(given)
    unlisted = isinstance(column, CategoricalColumn) and column.measure
    if clamp and (isinstance(column, IdentifierColumn) or unlisted):
        # A name that is no whole number of 64 bits is nobody's: rounded or cut off, it would be somebody else's.
        missing |= faults.get(Fault.FRACTION, none(given)) | faults.get(Fault.BOUNDS, none(given))
    if isinstance(column, CategoricalColumn):
        low, high = column.limits
        listed = np.array(column.categories, dtype=np.int64)
        known = (values >= low) & (values <= high) if unlisted else np.isin(values, listed)
        faults[Fault.CATEGORY] = ~missing & (~known | faults.pop(Fault.BOUNDS, none(given)))
        missing |= faults[Fault.CATEGORY] & (clamp and unlisted)
        return Read(pd.arrays.IntegerArray(values, missing), faults)
    low, high = (min(max(bound, -INT64_MAX - 1), INT64_MAX) for bound in column.bounds)
    outside = ~missing & ((values < low) | (values > high))
    faults[Fault.BOUNDS] = faults.get(Fault.BOUNDS, none(given)) | outside
    if clamp and isinstance(column, IntegerColumn):
        values = np.clip(values, low, high)
    return Read(pd.arrays.IntegerArray(values, missing), faults)


def _whole(given: Given) -> tuple[np.ndarray, np.ndarray, Faults]:
    """Cells as int64, which of them are missing, and faults."""
    if given.form in ("integer", "boolean"):
        return given.cells.astype(np.int64), given.missing.copy(), {}
    if given.form == "time":
        return np.zeros(len(given.cells), dtype=np.int64), np.ones_like(given.missing), {Fault.NUMBER: ~given.missing}
    if given.form == "real":
        return _whole_of_reals(given.cells, given.missing)
    results, faults = each(given, _number)
    reals = [isinstance(r, float) for r in results]
    missing = np.array([r is None for r in results], dtype=bool)
    wide = np.array([isinstance(r, int) and not -INT64_MAX - 1 <= r <= INT64_MAX for r in results], dtype=bool)
    clipped = [min(max(r, -INT64_MAX - 1), INT64_MAX) if isinstance(r, int) else 0 for r in results]
    values = np.array(clipped, dtype=np.int64)
    faults[Fault.BOUNDS] = wide
    if any(reals):
        where = np.array(reals)
        floats = np.array([r for r in results if isinstance(r, float)])
        values[where], missing[where], more = _whole_of_reals(floats, np.isnan(floats))
        for fault, flags in more.items():
            faults.setdefault(fault, none(given))[where] |= flags
    return values, missing, faults


def _whole_of_reals(reals: np.ndarray, missing: np.ndarray) -> tuple[np.ndarray, np.ndarray, Faults]:
    infinite = np.isinf(reals)
    safe = np.where(missing | infinite, 0.0, reals)
    rounded = np.rint(safe)
    faults = {Fault.INFINITE: infinite, Fault.FRACTION: rounded != safe, Fault.BOUNDS: np.abs(rounded) >= 2.0**63}
    return np.clip(rounded, -(2.0**63), _FLOAT_BELOW_INT64).astype(np.int64), missing | infinite, faults


def reals_of(given: Given, column: RealColumn | WeightColumn, clamp: bool) -> Read:
    """Cells as float64 of the declared precision, NaN where missing or unreadable."""
    values, faults = _floats(given)
    infinite = np.isinf(values)
    faults[Fault.INFINITE] = infinite
    values = np.where(infinite, np.nan, values)
    if column.decimals is not None:
        values, faults[Fault.PRECISION] = rounded(values, column.decimals, given.digits)
    low, high = column.bounds
    faults[Fault.BOUNDS] = faults.get(Fault.BOUNDS, none(given)) | (values < low) | (values > high)
    return Read(np.clip(values, low, high) if clamp else values, faults)


def _floats(given: Given) -> tuple[np.ndarray, Faults]:
    """Cells as float64, NaN where missing or unreadable."""
    if given.form in ("real", "integer", "boolean"):
        return np.where(given.missing, np.nan, given.cells.astype(np.float64)), {}
    if given.form == "time":
        return np.full(len(given.cells), np.nan), {Fault.NUMBER: ~given.missing}
    results, faults = each(given, _real)
    return np.array([np.nan if r is None else r for r in results], dtype=np.float64), faults


def _real(value: Any) -> float | Fault:
    """A Python object as a float; the sign of a zero stays."""
    if isinstance(value, str):
        return float(value) if NUMBER.fullmatch(value) or INFINITY.fullmatch(value) else Fault.NUMBER
    number = _number(value)
    if isinstance(number, int) and abs(number) >= 2**1023:
        return Fault.BOUNDS
    return number if isinstance(number, Fault) else float(number)


def rounded(reals: np.ndarray, decimals: int, digits: int = 15) -> tuple[np.ndarray, np.ndarray]:
    """Reals rounded to a precision, and which of them had more digits than that.

    Args:
        reals: shape (n,), NaN where missing.
        decimals: digits after the point.
        digits: significant digits that the source holds; noise beyond them is none of the value.
    """
    scale = 10.0**decimals
    with np.errstate(over="ignore"):
        exact = np.abs(reals) * scale < 2.0**52
    near = np.where(exact, np.rint(np.where(exact, reals, 0.0) * scale) / scale, reals)
    tolerance = np.abs(reals) * (1e-12 if digits >= 15 else 3e-7)
    return near, np.abs(near - reals) > tolerance


def _number(value: Any) -> int | float | Fault:
    """A Python object as a number; booleans are not numbers among others."""
    if isinstance(value, str):
        if WHOLE.fullmatch(value):
            return int(value)
        return float(value) if NUMBER.fullmatch(value) or INFINITY.fullmatch(value) else Fault.NUMBER
    if isinstance(value, bool | np.bool_):
        return Fault.NUMBER
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    return float(value) if isinstance(value, float | np.floating | Decimal) else Fault.NUMBER
