"""Numbers and times as the search sees them: positions on a line, on a sample of the rows and on all of them."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from synth.constraints.expression import Unit, evaluate, names, parse
from synth.constraints.kinds import numbers_of
from synth.row_order import histories_of
from synth.schema import Schema
from synth.schema.kinds import Column

ROWS = 3_000  # that are looked at; what is claimed of all rows is checked on all
SECONDS: dict[Unit, float] = {"week": 604_800.0, "day": 86_400.0, "hour": 3_600.0, "minute": 60.0, "second": 1.0}
LARGEST = 1e100  # columns beyond it are left aside: their squares and products overflow
FINE = 1e-4  # of the standard deviation of a continuous column: what bits are counted in
DAY, WEEK = SECONDS["day"], SECONDS["week"]
MONDAY = 4 * DAY  # the first one after 1970 began, in seconds


@dataclass(frozen=True, eq=False)
class Lines:
    """*Sensitive*. Columns with positions: numbers, categories that stand for some, times in seconds since 1970."""

    schema: Schema
    positions: dict[str, np.ndarray]
    rows: np.ndarray  # that are sampled, in a random order, shape (n,)
    codes: dict[str, np.ndarray]  # categories of the sampled rows, -1 where missing
    units: np.ndarray
    previous: np.ndarray | None

    @classmethod
    def of(cls, frame: pd.DataFrame, schema: Schema, among: Collection[str] | None = None, seed: int = 0) -> "Lines":
        columns = {name: schema.columns[name] for name in schema.learned if among is None or name in among}
        positions = {}
        for name, column in columns.items():
            if column.is_line:
                values = column.ordinary(frame[name])
                if not np.any(np.abs(values) > LARGEST):
                    positions[name] = values * column.per_position / 1e6 if column.is_time else values
            elif column.is_categorical and (numbers := numbers_of(column.levels)) is not None:
                positions[name] = frame[name].map(numbers).to_numpy(dtype=np.float64, na_value=np.nan)
        rng, previous = np.random.default_rng(seed), None
        if schema.entity is None:
            units = np.arange(len(frame))
            rows = rng.permutation(len(frame))[:ROWS]
        else:
            units = pd.factorize(frame[schema.entity])[0]
            order = rng.permutation(int(units.max(initial=0)) + 1)[units]
            # Whole entities, in a random order.
            rows = np.argsort(order, kind="stable")[:ROWS]
        if schema.entity is not None and schema.order is not None:
            after, before = histories_of(frame, schema).pairs
            previous = np.full(len(frame), -1)
            previous[after] = before
        codes = {
            name: pd.factorize(frame[name].iloc[rows], sort=True)[0]
            for name, column in columns.items()
            if column.is_categorical
        }
        return cls(schema, positions, rows, codes, units, previous)

    @cached_property
    def sample(self) -> dict[str, np.ndarray]:
        return {name: values[self.rows] for name, values in self.positions.items()}

    @cached_property
    def computable(self) -> list[str]:
        """Those that an expression may give, rather than be about."""
        return [name for name in self.positions if self.column(name).is_line and not self.column(name).is_weight]

    @cached_property
    def n_units(self) -> int:
        """Units in the sample: rows of one entity are alike."""
        return len(np.unique(self.units[self.rows]))

    @cached_property
    def n_all_units(self) -> int:
        return len(np.unique(self.units))

    def comparable(self, first: str, other: str) -> bool:
        """True of two numbers, and of two times on one line: both with a zone or without, or a day beside UTC."""
        if self.is_time(first) != self.is_time(other):
            return False
        zones = [self.column(name).zone for name in (first, other)]
        has_days = any(self.column(name).is_date for name in (first, other))
        return (zones[0] is None) == (zones[1] is None) or (has_days and set(zones) == {None, "UTC"})

    def column(self, name: str) -> Column:
        return self.schema.columns[name]

    def is_time(self, name: str) -> bool:
        return self.column(name).is_time

    def step(self, name: str) -> float:
        """Distance between neighboring values; 0 for a continuous column."""
        column: Any = self.column(name)
        return column.micros / 1e6 if column.is_time else column.unit or 0.0 if column.is_line else 1.0

    def lattice(self, name: str) -> float:
        """Distance between nearly all values; of a continuous column, one that is fine enough to compare bits."""
        column: Any = self.column(name)
        fine = FINE * float(np.nanstd(self.sample[name]))
        return self.step(name) if column.is_time else column.spacing or fine or 1.0

    def before(self, name: str) -> np.ndarray:
        """The value of the row before in the same entity, of all rows; NaN in its first one."""
        assert self.previous is not None
        return np.where(self.previous >= 0, self.positions[name][self.previous], np.nan)

    def evaluate(
        self, expression: str, unit: Unit | None, name: str | None = None, rows: Any = slice(None)
    ) -> np.ndarray:
        """The values of an expression in some rows; if it gives a column that is a time, in seconds."""
        parsed, per_unit = parse(expression), SECONDS[unit] if unit else 1.0

        def scaled(other: str, values: np.ndarray) -> np.ndarray:
            return np.asarray(values[rows] / (per_unit if self.is_time(other) else 1.0))

        now = {other: scaled(other, self.positions[other]) for other in names(parsed)}
        earlier = {other: scaled(other, self.before(other)) for other in names(parsed, before=True)}
        values = np.broadcast_to(evaluate(parsed, now, earlier, unit), len(self.units[rows]))
        return values * per_unit if name is not None and self.is_time(name) else np.asarray(values)


def tolerance(values: np.ndarray, step: float) -> Any:
    """How far a rounded value may be from the exact one."""
    if step:
        return step / 2 * (1 + 1e-6) + 4 * np.spacing(np.abs(values)) + 1e-12 * np.abs(values)
    peak = float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 1.0
    return 1e-9 * np.maximum(min(1.0, peak), np.abs(values))
