"""Rows as exact codes: equal where two values are equal to the last digit, in real and synthetic rows alike.

Distances take ranks, which cannot tell two values that lie close to each other. These codes can.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evaluate.sampling import entity_codes
from evaluate.tables import Tables
from synth.row_hash import Ruler

MISSING = -1  # The code of a missing value


@dataclass(frozen=True)
class RealCodes:
    """Rows of train and of the holdout as codes, in the order of their units; *Sensitive*."""

    codes: np.ndarray  # from 0, `MISSING` where missing, shape (d, n), int32
    units: np.ndarray  # codes of their units, those of train and of the holdout apart; shape (n,)
    in_train: np.ndarray  # which rows are of train, shape (n,)
    share: float = 1.0

    @property
    def n_units(self) -> int:
        """Units of train."""
        return len(np.unique(self.units[self.in_train]))

    def n_people(self, n_drawn: int) -> int:
        """Units of train that so many synthetic rows could copy: of these rows, the share whose units are here."""
        return max(1, min(self.n_units, round(self.share * n_drawn)))


@dataclass(frozen=True)
class Exact:
    """The four tables of an evaluation as codes; *Sensitive*."""

    names: tuple[str, ...]
    train: np.ndarray  # codes from 0, `MISSING` where missing; shape (d, n_train), int32
    fresh: np.ndarray
    control: np.ndarray
    synthetic: np.ndarray
    # for each column the codes that a person's own value may have: those of numbers and times that are not at a bound,
    # which is public; shape (n_codes,), boolean, `None` for categories.
    free: tuple[np.ndarray | None, ...]
    units: tuple[np.ndarray, np.ndarray, np.ndarray]

    def real(self, most: int | None = None) -> RealCodes:
        codes = (self.train, np.hstack([self.fresh, self.control]))
        units = (self.units[0], np.concatenate(self.units[1:]))
        share = 1.0 if most is None else min(1.0, most / max(map(len, units)))
        kept = [_first_units(side, share) for side in units]
        of_rows = np.concatenate([side[rows] for side, rows in zip(units, kept, strict=True)])
        order = np.argsort(of_rows, kind="stable")
        chosen = np.hstack([side[:, rows] for side, rows in zip(codes, kept, strict=True)])
        return RealCodes(chosen[:, order], of_rows[order], order < len(kept[0]), share)


def _first_units(units: np.ndarray, share: float) -> np.ndarray:
    """Positions of all rows of a share of the units: those that come first.

    >>> _first_units(np.array([7, 5, 7, 3]), 0.4).tolist()
    [0, 2]
    """
    turns = pd.factorize(units)[0]
    return np.flatnonzero(turns < round(share * (int(turns.max(initial=-1)) + 1)))


def exact_of(tables: Tables) -> Exact:
    """The codes of an evaluation, made once for the same tables."""
    return tables.kept.once("exact", lambda: _exact(tables))


def _exact(tables: Tables) -> Exact:
    frames = [tables.train, tables.fresh, tables.control, tables.synthetic]
    names, ends = tuple(sorted(tables.schema.learned)), np.cumsum([len(frame) for frame in frames])
    together = (pd.concat([frame[name] for frame in frames], ignore_index=True) for name in names)
    columns = [_codes(part, tables.schema.columns[name]) for name, part in zip(names, together, strict=True)]
    codes = np.array([part for part, _ in columns], dtype=np.int32).reshape(len(names), ends[-1])
    units, holdout = (entity_codes(frame, tables.schema) for frame in (tables.train, tables.holdout))
    # Units are all different between train and the holdout.
    fresh, control = np.split(holdout + int(units.max(initial=-1)) + 1, [len(tables.fresh)])
    sides = dict(zip(("train", "fresh", "control", "synthetic"), np.split(codes, ends[:-1], axis=1), strict=True))
    return Exact(names, **sides, free=tuple(free for _, free in columns), units=(units, fresh, control))


def _codes(values: pd.Series, column: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Codes of a column, and which of them are no bound; `None` for categories."""
    if column.is_categorical:
        return pd.factorize(values)[0], None
    places, ruler = column.positions(values), Ruler.of(column)
    bounds: np.ndarray = np.array(column.ends)
    if ruler.n_digits == 1:
        places, bounds = np.rint(places * ruler.factor), np.rint(bounds * ruler.factor)
    codes, distinct = pd.factorize(places)
    return codes, ~np.isin(distinct, bounds)
