"""The shadow-model attack: who was in the training table, by an attacker who can fit the generator at will.

They fit shadow models on their own rows and half of the targets at a time, and learn for every target how its score
differs with it in and with it out: how near its nearest row is (rows that are repeated), and how likely it is by each
column alone (a rare value that moves a marginal). A target's likelihood ratio on the real synthetic table is how sure
they are of it.

Shadow models (`refits`) are fitted on real rows, a private generator's with noise from the operating system, so that
their noise has no seed. They are evaluation, and outside any guarantee as all evaluation is: none is saved or released,
and no ledger hears of them.

Source: Carlini et al. 2022 (2112.03570), algorithm 1 (likelihood ratios); Stadler, Oprisanu, Troncoso 2022 (2011.07018)
and Meeus et al. 2023 (2306.10308) (shadow models of generators of tables).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from evaluate.metrics import Metric
from evaluate.neighbors import SpaceRows, embed, nearest
from evaluate.privacy.attribute_inference import widths_of
from evaluate.privacy.experiment import not_measured, too_few
from evaluate.privacy.membership import Scores, area_estimate
from evaluate.privacy.membership_attacks import contrasts
from evaluate.sampling import one_per_entity
from evaluate.tables import MetricResult, Tables
from synth.dp.budget import Budget
from synth.generators.base import Generator, PrivateGenerator
from synth.generators.models.model import Model
from synth.progress import Progress, quiet
from synth.row_hash import content_hashes
from synth.schema import Schema

METRICS = (
    Metric("privacy.shadow.auc", "lower", "Membership by shadow models, AUC",
           "The membership attack by an attacker who trained the generator many times.", attack="on request",
           describes="it is run only where somebody asks for it; name 'privacy.membership.auc'"),
)  # fmt: skip


AUC = "privacy.shadow.auc"
N_TARGETS = 500  # Members, and as many non-members at most
MANY_MODELS = 64  # From so many on, a target's own spread is estimated; below, all targets share one
MOST_ROWS = 10_000  # Synthetic rows that a table is scored by
LEAST_SPREAD = 1e-3  # Of a score: where all shadow tables agree, a table that does not is no proof


@dataclass(frozen=True)
class Targets:
    """Whom the attacker asks about; *Sensitive*."""

    records: pd.DataFrame
    units: tuple[pd.DataFrame, ...]
    n_members: int

    @classmethod
    def of(cls, tables: Tables) -> "Targets":
        """A seeded sample of training rows and of control rows, one row of each entity."""
        records, units, counts = [], list[pd.DataFrame](), []
        for frame in (tables.train, tables.control):
            order = one_per_entity(tables.drawn(frame), frame, tables.schema)
            records.append(frame.iloc[order[:N_TARGETS]])
            units += _units(frame, records[-1], tables.schema.entity)
            counts.append(len(records[-1]))
        return cls(pd.concat(records, ignore_index=True), tuple(units), counts[0])


def measure(tables: Tables, generator: Generator, n_models: int, progress: Progress = quiet) -> MetricResult:
    """AUC of the shadow-model attack: the estimate `privacy.shadow.auc`."""
    targets = Targets.of(tables)
    if why := too_few(targets.n_members, len(targets.records) - targets.n_members):
        return not_measured(why, AUC)
    scores = attack(tables, targets, generator, n_models, progress)
    note = (
        f"how often a training row looks more like one than a row that was not used does, by {n_models} shadow models; "
        "0.5 tells nothing"
    )
    return MetricResult((area_estimate(AUC, [scores], note=note),))


def refits(generator: Generator, schema: Schema) -> Callable[[pd.DataFrame, int], Model]:
    """Fits of a table by a seed, each private one with a budget of its own outside any ledger."""
    schedule = generator.schedule(schema) if isinstance(generator, PrivateGenerator) else None
    if schedule is None:
        generator.check(schema)

    def fit(table: pd.DataFrame, seed: int) -> Model:
        if isinstance(generator, PrivateGenerator) and schedule is not None:
            return generator.fit(table, schema, seed=seed, budget=Budget(schedule))
        return generator.fit(table, schema, seed=seed)

    return fit


def attack(
    tables: Tables, targets: Targets, generator: Generator, n_models: int, progress: Progress = quiet
) -> Scores:  # fmt: skip
    """The log-likelihood ratio of each target."""
    rng = np.random.default_rng([tables.seed, n_models])
    # DEVIATES: each target is in half of the shadow tables exactly, not with probability 1/2: none is in all of them.
    inside = rng.permuted(np.tile(np.arange(n_models) % 2 == 0, (len(targets.records), 1)), axis=1)
    judged = tables.synthetic.iloc[tables.order("synthetic")[:MOST_ROWS]]
    known = targets.records, widths_of(tables.fresh, tables.schema), tables
    fit, shadows = refits(generator, tables.declared), []
    for index in range(n_models):
        progress(f"shadow models of {generator.name}", index / n_models)
        joined = [unit for unit, there in zip(targets.units, inside[:, index], strict=True) if there]
        train = pd.concat([tables.fresh, *joined], ignore_index=True)
        fit_seed, sample_seed = (int(number) for number in rng.integers(0, 2**31, 2))
        shadows.append(_scores(fit(train, fit_seed).sample(len(judged), seed=sample_seed), *known))
    ratios = likelihood_ratios(np.stack(shadows, axis=1), inside, _scores(judged, *known))
    return Scores.of(ratios[: targets.n_members], ratios[targets.n_members :])


def likelihood_ratios(shadows: np.ndarray, inside: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Log-likelihood ratio of each target's `observed` scores with it in over with it out; shape (n_targets,)."""
    # DEVIATES: the scores are taken as independent given the target; Carlini et al. join theirs in one Gaussian.
    logs = []
    for side in (inside, ~inside):
        weight = side[:, :, None] / side.sum(axis=1)[:, None, None]
        means = (shadows * weight).sum(axis=1)
        own = ((shadows - means[:, None, :]) ** 2 * weight).sum(axis=1)
        few = inside.shape[1] < MANY_MODELS
        spread = np.maximum(own.mean(axis=0, keepdims=True) if few else own, LEAST_SPREAD**2)
        logs.append(-0.5 * (np.log(spread) + (observed - means) ** 2 / spread).sum(axis=1))
    return np.asarray(logs[0] - logs[1])


def _scores(table: pd.DataFrame, records: pd.DataFrame, widths: Mapping[str, float], tables: Tables) -> np.ndarray:
    """Scores of a table, shape (n_targets, 2): nearness of a row, and likelihood of each target by columns."""
    frames, schema = [tables.fresh, records, table], tables.schema
    points = zip(frames, embed(frames, schema), strict=True)
    fresh, targets, pool = (SpaceRows(content_hashes(frame, schema), coordinates, {}) for frame, coordinates in points)
    contrast = contrasts(nearest(targets, pool)[:, 0], nearest(targets, fresh)[:, 0])
    likely = np.log((match_counts(table, records, schema, widths) + 0.5) / (len(table) + 1)).sum(axis=1)
    return np.column_stack([contrast, likely])


def match_counts(
    table: pd.DataFrame, targets: pd.DataFrame, schema: Schema, widths: Mapping[str, float]
) -> np.ndarray:  # fmt: skip
    """Counts of a table's rows that match each record, by column; shape (len(targets), d_learned). Values match where
    both are missing, of one category, or numbers and times not further apart than the width of their column.
    """
    counts = []
    for name in schema.learned:
        if name in widths:
            values, centers = (schema.columns[name].positions(frame[name]) for frame in (table, targets))
            missing = np.isnan(values)
            known, width = np.sort(values[~missing]), widths[name]
            low, high = known.searchsorted(centers - width, "left"), known.searchsorted(centers + width, "right")
            counts.append(np.where(np.isnan(centers), missing.sum(), high - low))
        else:
            both = pd.concat([frame[name].astype(object) for frame in (table, targets)])
            codes = pd.factorize(both.where(both.notna(), None))[0] + 1  # missing ones alike
            counts.append(np.bincount(codes[: len(table)], minlength=codes.max(initial=0) + 1)[codes[len(table) :]])
    return np.column_stack(counts)


def _units(frame: pd.DataFrame, records: pd.DataFrame, entity: str | None) -> list[pd.DataFrame]:
    if entity is None:
        return [frame.loc[[label]] for label in records.index]
    rows = frame.groupby(entity, sort=False).indices
    return [frame.iloc[rows[who]] for who in records[entity]]
