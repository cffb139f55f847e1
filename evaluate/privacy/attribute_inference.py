"""Attribute inference: who learns a person's secret from the synthetic table?

The attacker knows of each target all columns but one, or the schema's quasi-identifiers, and takes that one from the
nearest synthetic row. Numbers and times are found by a guess that is no further off than a twentieth of what most rows
span: an error relative to the value says nothing where zero is a value like any other, and ranks would take all the
incomes of the few rich for the same. A column that is mostly one number has to be met exactly.

Source: Giomi et al. 2023, "A Unified Framework for Quantifying Privacy Risk in Synthetic Data", arXiv:2211.10459.
DEVIATES: the attacker knows all other columns, the most that anybody can, not a few that are chosen; the distance is
Gower's by ranks, not by ranges, which one outlier stretches; and a missing value is a value to be found.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from evaluate.metrics import PEOPLE, Metric
from evaluate.neighbors import gower_nearest, gower_without_each, space_of
from evaluate.privacy.experiment import Experiment, largest, not_measured, too_few
from evaluate.sampling import SIDES, one_per_entity
from evaluate.tables import MetricResult, Tables
from synth.schema import Schema

METRICS = (
    Metric("privacy.inference", "lower", "Inferring a secret value", "How much more often a member's value is found by "
           "the nearest synthetic row than another person's is, in the column where that is worst.", counted=PEOPLE,
           key=True, attack="always", criteria=("inference",)),
)  # fmt: skip

N_TARGETS = 2_000
MAX_POOL = 50_000
RARE = 0.1  # Share of rows that hold the rarest values
NEAR = 0.05  # Of the span of most rows, either way
MOST = (0.05, 0.95)  # Quantiles between which most rows lie


@dataclass(frozen=True)
class Attacked:
    """The targets of an attack and the attacker's knowledge. *Sensitive*."""

    members: np.ndarray
    controls: np.ndarray
    pool: np.ndarray
    own: np.ndarray

    @classmethod
    def of(cls, tables: Tables) -> "Attacked":
        """A seeded sample of each side; all rows of train and control where all are asked for."""
        seed = len(SIDES) * tables.seed + SIDES.index("holdout")
        own, order = (tables.drawn(part, seed) for part in (tables.fresh, tables.control))
        members = one_per_entity(tables.order("train"), tables.train, tables.schema)
        controls = one_per_entity(order, tables.control, tables.schema)
        n_targets = None if tables.n_targets is None else min(tables.n_targets, N_TARGETS)
        return cls(members[:n_targets], controls[:n_targets], tables.order("synthetic")[:MAX_POOL], own[:MAX_POOL])


@dataclass(frozen=True)
class Secret:
    """One column's values as numbers: codes of categories, or places on a line; NaN where missing. *Sensitive*."""

    members: np.ndarray  # of attacked members, shape (n_members,)
    controls: np.ndarray  # of attacked controls, shape (n_controls,)
    pool: np.ndarray  # of the synthetic rows, shape (n_pool,)
    fresh: np.ndarray  # of the attacker's own sample, shape (n_fresh,)
    width: float
    is_line: bool

    def found(self, guesses: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Mask of the right guesses: a missing value is guessed like any other."""
        return np.asarray((np.abs(guesses - truth) <= self.width) | (np.isnan(guesses) & np.isnan(truth)))

    def tried(self, guesses: np.ndarray, baseline: float | None = None) -> Experiment:
        n = len(self.members)
        return Experiment(self.found(guesses[:n], self.members), self.found(guesses[n:], self.controls), baseline)

    @property
    def usual(self) -> float:
        """The value of most synthetic rows, or the median among numbers and times."""
        known = self.pool[~np.isnan(self.pool)]
        if self.is_line:
            return float(np.median(known)) if 2 * len(known) >= len(self.pool) else np.nan
        counts = np.bincount(known.astype(np.int64), minlength=1)
        return float(counts.argmax()) if counts.max() >= len(self.pool) - len(known) else np.nan

    def is_rare(self, values: np.ndarray) -> np.ndarray:
        """Mask of values among the rarest tenth in the attacker's own sample: the outermost ones, of numbers."""
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
    """The values of a learned column. `tables`: *Sensitive*."""
    frames = (tables.train, tables.control, tables.synthetic, tables.fresh)
    positions = (attacked.members, attacked.controls, attacked.pool, attacked.own)
    parts = [frame[name].iloc[at] for frame, at in zip(frames, positions, strict=True)]
    column = tables.schema.columns[name]
    if column.is_categorical:
        codes = pd.factorize(pd.concat([part.astype(object) for part in parts]))[0].astype(np.float64)
        codes[codes < 0] = np.nan
        ends = np.cumsum([len(part) for part in parts])[:-1]
        members, controls, pool, fresh = np.split(codes, ends)
        return Secret(members, controls, pool, fresh, width=0.0, is_line=False)
    widths = tables.kept_of_real.once("widths", lambda: widths_of(tables.fresh, tables.schema))
    members, controls, pool, fresh = (column.positions(part) for part in parts)
    return Secret(members, controls, pool, fresh, width=widths[name], is_line=True)


def widths_of(reference: pd.DataFrame, schema: Schema) -> dict[str, float]:
    """How near numbers and times of each column have to lie, as a table that the attacker holds suggests."""
    widths = {}
    for name in (name for name in schema.learned if not schema.columns[name].is_categorical):
        positions = schema.columns[name].positions(reference[name])
        known = positions[~np.isnan(positions)]
        low, high = np.quantile(known, MOST) if len(known) else (0.0, 0.0)
        widths[name] = float(high - low) * NEAR
    return widths


def secrets_among(tables: Tables) -> list[str]:
    """The learned columns that hold more than one value in the real rows: what never varies is no secret."""
    columns = {name: pd.concat([tables.train[name], tables.control[name]]) for name in sorted(tables.schema.learned)}
    return [name for name, real in columns.items() if real.nunique() + real.hasnans > 1]


WORST = "privacy.inference"
MIN_RARE = 20  # Attempts on rare values, of members and of controls, that make a rate


def measure(tables: Tables) -> MetricResult:
    """The advantage of the attack on the column that stands out most: the estimate `privacy.inference`."""
    attacked, secrets = Attacked.of(tables), secrets_among(tables)
    why = too_few(len(attacked.members), len(attacked.controls))
    if len(tables.schema.learned) < 2:
        why = "the table has one column, so that an attacker knows nothing to infer it from"
    elif not secrets:
        why = "no column varies, so that there is no secret"
    if why:
        return not_measured(why, WORST)
    space = space_of(tables)
    targets = space.train.take(attacked.members).joined(space.control.take(attacked.controls))
    pool = space.synthetic.take(attacked.pool)
    by_all = gower_without_each(targets, pool, secrets)
    alone = gower_without_each(targets, space.fresh.take(attacked.own), secrets)
    known = [name for name in tables.schema.quasi_identifiers if name in tables.schema.learned]
    by_quasi = gower_nearest(targets, pool, known)[:, 0] if known else None
    n, tried, drawn = len(secrets), [], []
    for name in secrets:
        secret = secret_of(name, tables, attacked)
        blind = secret.tried(secret.fresh[alone[name]])
        tried.append(secret.tried(secret.pool[by_all[name]], baseline=float(blind.attack.mean())))
        quasi = None if by_quasi is None or name in known else secret.tried(secret.pool[by_quasi])
        rare = Experiment(
            tried[-1].attack[secret.is_rare(secret.members)], tried[-1].control[secret.is_rare(secret.controls)]
        )
        usual = secret.found(np.full(len(secret.members), secret.usual), secret.members)
        # Intervals of advantages allow for all columns, and rare values and others alike.
        drawn.append({
            "column": name, **tried[-1].figure(n), "majority": float(usual.mean()),
            "quasi_identifiers": None if quasi is None else quasi.figure(n),
            "rare": rare.figure(n) if min(len(rare.attack), len(rare.control)) >= MIN_RARE else None,
        })  # fmt: skip
    sampled = f"; the attacker looks at {MAX_POOL} of the synthetic rows" if len(pool) < len(tables.synthetic) else ""
    worst = largest(WORST, tried, lambda worst: (
        f"{secrets[worst]!r} stands out most of {n} columns: its value is found for {tried[worst].words}{sampled}"
    ))  # fmt: skip
    return MetricResult((worst,), figures={"inference": {"columns": drawn}})
