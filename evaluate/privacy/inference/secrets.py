"""Whom attribute inference attacks, and what counts as finding the value of a secret column.

Numbers and times are found by a guess that is no further off than a twentieth of what most rows span, as
`evaluate.privacy.cells` has it, measured in the attacker's own sample. An error relative to the value, which Giomi et
al. allow, says nothing where zero is a value like any other (a temperature, a date); ranks would take all the incomes
of the few rich for the same. A column that is mostly one number has to be met exactly, like a category.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from evaluate.privacy.cells import Cells
from evaluate.sampling import drawn_order, learned_keys, one_per_entity
from evaluate.sides import SIDES
from evaluate.tables import Tables
from synth.columns import BooleanColumn, CategoricalColumn
from synth.domain import numeric_scale

N_TARGETS = 2_000
MAX_POOL = 50_000
FEW = 1_000
RARE = 0.1
"""Share of rows that hold the rarest values."""


@dataclass(frozen=True)
class Attacked:
    """Who is attacked, and what with. *Sensitive*.

    Attributes:
        members: positions in train, one row of each entity, in a seeded random order.
        controls: the same of control.
        pool: positions of synthetic rows, in a seeded random order.
        own: the same of the attacker's own sample, fresh.
    """

    members: np.ndarray
    controls: np.ndarray
    pool: np.ndarray
    own: np.ndarray

    @classmethod
    def of(cls, tables: Tables) -> "Attacked":
        """A seeded sample of each side; all rows of train and control where all are asked for."""
        seed = len(SIDES) * tables.seed + SIDES.index("holdout")
        own, order = (drawn_order(learned_keys(part, tables.schema), seed) for part in (tables.fresh, tables.control))
        members = one_per_entity(tables.order("train"), tables.train, tables.schema)
        controls = one_per_entity(order, tables.control, tables.schema)
        n_targets = None if tables.n_targets is None else min(tables.n_targets, N_TARGETS)
        return cls(members[:n_targets], controls[:n_targets], tables.order("synthetic")[:MAX_POOL], own[:MAX_POOL])


@dataclass(frozen=True)
class Secret:
    """One column's values as numbers: codes of categories, or places on a line; NaN where missing. *Sensitive*.

    Attributes:
        members: of attacked members, shape (n_members,).
        controls: of attacked controls, shape (n_controls,).
        pool: of the synthetic rows, shape (n_pool,).
        fresh: of the attacker's own sample, shape (n_fresh,).
        width: how far off a guess may be.
        is_line: whether these are numbers or times.
    """

    members: np.ndarray
    controls: np.ndarray
    pool: np.ndarray
    fresh: np.ndarray
    width: float
    is_line: bool

    def found(self, guesses: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Which guesses are right, boolean: a missing value is one to be guessed like any other."""
        return np.asarray((np.abs(guesses - truth) <= self.width) | (np.isnan(guesses) & np.isnan(truth)))

    @property
    def usual(self) -> float:
        """The value of most synthetic rows, or the median among numbers and times."""
        known = self.pool[~np.isnan(self.pool)]
        if self.is_line:
            return float(np.median(known)) if 2 * len(known) >= len(self.pool) else np.nan
        counts = np.bincount(known.astype(np.int64), minlength=1)
        return float(counts.argmax()) if counts.max() >= len(self.pool) - len(known) else np.nan

    def is_rare(self, values: np.ndarray) -> np.ndarray:
        """Which values are among the rarest tenth in the attacker's own sample: the outermost ones, of numbers."""
        if self.is_line:
            known = self.fresh[~np.isnan(self.fresh)]
            low, high = np.quantile(known, [RARE / 2, 1 - RARE / 2]) if len(known) else (np.nan, np.nan)
            return np.asarray((values < low) | (values > high))
        codes, own = (np.where(np.isnan(part), -1, part).astype(np.int64) + 1 for part in (values, self.fresh))
        counts = np.bincount(own, minlength=int(codes.max(initial=0)) + 1)
        order = np.argsort(counts, kind="stable")
        rare = np.zeros(len(counts), dtype=bool)
        rare[order[np.cumsum(counts[order]) <= RARE * len(own)]] = True
        return np.asarray(rare[codes])


def secret_of(name: str, tables: Tables, attacked: Attacked) -> Secret:
    """The values of a learned column.

    Args:
        name: of the column.
        tables: *Sensitive*.
        attacked: who is attacked.
    """
    frames = (tables.train, tables.control, tables.synthetic, tables.fresh)
    positions = (attacked.members, attacked.controls, attacked.pool, attacked.own)
    parts = [frame[name].iloc[at] for frame, at in zip(frames, positions, strict=True)]
    column = tables.schema.columns[name]
    if isinstance(column, CategoricalColumn | BooleanColumn):
        codes = pd.factorize(pd.concat([part.astype(object) for part in parts]))[0].astype(np.float64)
        codes[codes < 0] = np.nan
        ends = np.cumsum([len(part) for part in parts])[:-1]
        members, controls, pool, fresh = np.split(codes, ends)
        return Secret(members, controls, pool, fresh, width=0.0, is_line=False)
    members, controls, pool, fresh = (numeric_scale.positions(part, column) for part in parts)  # type: ignore[arg-type]
    return Secret(members, controls, pool, fresh, width=_widths(tables)[name], is_line=True)


def _widths(tables: Tables) -> dict[str, float]:
    if "widths" not in tables.kept_of_real:
        tables.kept_of_real["widths"] = dict(Cells.of(tables.fresh, tables.schema).widths)
    found: dict[str, float] = tables.kept_of_real["widths"]
    return found


def secrets_among(tables: Tables) -> list[str]:
    """The learned columns that hold more than one value in the real rows: what never varies is no secret."""
    return [name for name in sorted(tables.schema.learned) if _varies(tables.train[name], tables.control[name])]


def _varies(*parts: pd.Series) -> bool:
    """Whether the parts hold two values together; the first few rows mostly settle it."""
    for n in (FEW, None):
        series = pd.concat([part.iloc[:n].astype(object) for part in parts])
        if series.nunique() + int(series.hasnans) > 1:
            return True
    return False
