"""Cells as days and times, on the wall clock or in a zone."""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from synth.columns import DateColumn, DatetimeColumn
from synth.table import moments
from synth.table.cells import Faults, Read, each, none
from synth.table.faults import Fault
from synth.table.given import Given


def times(given: Given, column: DateColumn | DatetimeColumn, clamp: bool) -> Read:
    """Cells as days or times in the form that the column's zone asks for."""
    wall, ahead, missing, faults = _stamps(given, column)
    zoned = isinstance(column, DatetimeColumn) and column.timezone is not None
    line = wall - ahead if zoned else wall
    unit = moments.DAY if isinstance(column, DateColumn) else moments.MICROSECONDS[column.precision]
    fine = ~missing & (line % unit != 0)
    faults[Fault.CLOCK if isinstance(column, DateColumn) else Fault.PRECISION] = fine | faults.get(
        Fault.PRECISION, none(given)
    )
    line = np.where(missing, 0, line - line % unit)
    low, high = (np.datetime64(bound, "us").astype(np.int64) for bound in column.bounds)
    faults[Fault.BOUNDS] = ~missing & ((line < low) | (line > high))
    if clamp:
        line = np.clip(line, low, high)
    return Read(_canonical_times(line, ahead, missing, column), faults)


def _canonical_times(line: np.ndarray, ahead: np.ndarray, missing: np.ndarray, column: Any) -> Any:
    zone = column.timezone if isinstance(column, DatetimeColumn) else None
    if zone == "mixed":
        return moments.with_offsets(line, ahead, missing)
    stamps = line.astype("datetime64[us]")
    stamps[missing] = np.datetime64("NaT")
    if zone is None:
        return stamps
    return pd.DatetimeIndex(stamps).tz_localize("UTC").tz_convert(zone).array


def _stamps(given: Given, column: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, Faults]:
    """Wall clock and offset in microseconds, what is missing, and faults, for every cell."""
    zone = column.timezone if isinstance(column, DatetimeColumn) else None
    if given.form == "time" and (zone != "mixed" and (given.zone is None or zone is not None)):
        return _stamps_of_times(given, zone)
    if given.form == "time":
        results, faults = each(replace(given, cells=_moments(given)), _in_range)
    elif given.form in ("text", "mixed"):
        results, faults = each(given, _reader(column))
    else:
        results, faults = [None] * len(given.cells), {Fault.TIME: ~given.missing}
    return _stamps_of_objects(results, faults, zone)


def _moments(given: Given) -> np.ndarray:
    """Times of a datetime dtype as Python datetimes, numbers where they lie outside the years that those reach."""
    moments_of = given.cells.astype("datetime64[us]").tolist()
    if given.zone is not None:
        moments_of = [moments.in_zone(m, given.zone) if isinstance(m, dt.datetime) else m for m in moments_of]
    made = np.empty(len(moments_of), dtype=object)
    made[:] = moments_of
    return made


def _in_range(moment: Any) -> Any:
    return moment if isinstance(moment, dt.datetime) else Fault.TIME


def _reader(column: Any) -> Callable[[Any], Any]:
    parse = moments.parser(column)

    def one(cell: Any) -> Any:
        if isinstance(cell, str):
            moment = parse(cell)
            return Fault.TIME if moment is None else moment
        return moments.plain(cell)

    return one


def _stamps_of_times(given: Given, zone: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, Faults]:
    """Times of a datetime dtype that fit the declared zone or its absence."""
    stamps = given.cells.astype("datetime64[us]")
    faults = {Fault.PRECISION: ~given.missing & (stamps.astype(given.cells.dtype) != given.cells)}
    if zone is not None and given.zone is None:
        index = pd.DatetimeIndex(stamps)
        local = index.tz_localize(zone, ambiguous=np.ones(len(index), dtype=bool), nonexistent="shift_forward")
        stamps = local.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[us]")
    line = np.where(given.missing, 0, stamps.astype(np.int64))
    return line, np.zeros_like(line), given.missing.copy(), faults


def _stamps_of_objects(
    results: list[Any], faults: Faults, zone: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Faults]:
    if zone not in (None, "mixed"):
        results = moments.localized(results, str(zone))
    aware = np.array([r is not None and r.tzinfo is not None for r in results], dtype=bool)
    missing = np.array([r is None for r in results], dtype=bool)
    wrong = aware if zone is None else ~missing & ~aware
    faults[Fault.ZONE] = wrong
    missing = missing | wrong
    wall = np.where(missing, 0, moments.micros(results))
    return wall, np.where(missing, 0, moments.offsets(results)), missing, faults
