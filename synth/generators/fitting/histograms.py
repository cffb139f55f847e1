"""One-way histograms: one fine noisy histogram per column on public cells, its cells merged by noisy mass.

The histogram is the only look at a column on its own, paid once. It gives the codes of the marginals, their one-way
measurement, and the decoder of values within a code; all of that is post-processing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from synth.domain.constraint_checks import determined
from synth.domain.density import expected_counts, posterior_means
from synth.domain.discretizer import OTHER, Attribute, Discretizer, regroup
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent
from synth.generators.fitting.training_data import TrainingTable
from synth.marginals import Measurement
from synth.schema import Schema

COLUMNS = "one-way histograms of the columns"
"""Their name in a statement."""
RARE = 3.0
"""A category whose noisy count is below this many standard deviations of its noise is merged with others."""
SINGLE = 1.0
"""Standard deviation that counts without noise are denoised as if they had: single rows give a code no shape."""
PULL = 0.5
"""Share of the pull of James and Stein with which sums of codes are drawn to the density of their column."""
IMPOSSIBLE_SIGMA = 0.1
"""Certainty, in units of the noise, with which a code that cannot occur is held at zero."""


@dataclass(frozen=True)
class Merging:
    """The merging of the cells of a number or time into codes."""

    n_bins: int
    spikes_apart: bool = False
    kept_apart: frozenset[str] = frozenset()


def measure_columns(
    train: TrainingTable,
    schema: Schema,
    event: GaussianEvent,
    budget: Budget,
    merging: Merging,
    tell: Callable[[float], None],
    *,
    exact: bool = False,
) -> tuple[Discretizer, tuple[Measurement, ...]]:
    """Codes for every modeled column, and the one-way measurements on them.
    `train`: *Sensitive*. Contributions bounded.
    """
    merging = replace(merging, kept_apart=frozenset(name for name in (schema.target, *schema.sensitive) if name))
    public = Discretizer.by_schema(schema)
    counted = train.cell_counts(public.attributes)
    histograms = budget.release_each(list(counted), event)
    sizes = np.array([len(noisy) for noisy in histograms])
    total = float(np.average([noisy.sum() for noisy in histograms], weights=1 / sizes)) if histograms else 0.0
    attributes: dict[str, Attribute] = {}
    measurements: dict[str, Measurement] = {}
    released = dict(zip(public.columns, zip(public.attributes, histograms, strict=True), strict=True))
    dependents = dict.fromkeys(d.dependent for d in reversed(schema.dependencies) if d.dependent in public.columns)
    for name in dependents | dict.fromkeys(public.columns):  # each after those that it determines
        attribute, noisy = released[name]
        alike = _alike(attribute, attributes, schema) if attribute.edges is None else None
        attributes[name], totals = _codes(attribute, noisy, event.sigma, merging, total, alike, exact=exact)
        measurements[name] = _measurement(attributes[name], totals, event.sigma)
        tell(len(attributes) / len(public.attributes))
    return Discretizer(tuple(attributes[n] for n in public.columns)), tuple(measurements[n] for n in public.columns)


def _codes(
    attribute: Attribute,
    noisy: np.ndarray,
    sigma: float,
    merging: Merging,
    total: float,
    alike: np.ndarray | None,
    *,
    exact: bool,
) -> tuple[Attribute, np.ndarray]:
    """The attribute with its cells merged by mass, and the counts of cells that its one-way measurement sums."""
    counts, ends = noisy[:OTHER].astype(np.float64), noisy[OTHER:].astype(np.float64)
    if alike is not None:
        merged = _merge_categories(attribute, counts, sigma, merging, alike)
        return _shaped(merged, noisy) if exact else _with_mass(merged, posterior_means(counts, sigma), ends), noisy
    if exact:
        return _shaped(_merge(attribute, counts, sigma, merging), noisy), noisy
    edges, column = attribute.line
    expected = expected_counts(counts, sigma, edges, column, total - float(ends.sum()))
    merged = _with_mass(_merge(attribute, expected, sigma, merging), expected, ends)
    return merged, np.concatenate([_toward(expected, counts, merged, sigma), ends])


def _merge_categories(
    attribute: Attribute, counts: np.ndarray, sigma: float, merging: Merging, alike: np.ndarray
) -> Attribute:
    """Categories with rare ones merged: with those that determine alike, else into `other`; in an order with neighbors.

    Levels in an order are merged as numbers are, by even mass; those of a column that matters most only where noise
    hides them.
    """
    rare = counts < RARE * sigma
    if not getattr(attribute.column, "ordered", False):
        merged = np.where(alike < 0, -1, len(counts) + alike)
        return regroup(attribute, np.where(rare, merged, np.arange(len(counts))))
    if attribute.name in merging.kept_apart:
        return regroup(attribute, np.cumsum(~rare | ~np.concatenate([[False], rare[:-1]])))
    return regroup(attribute, even_mass_groups(counts, sigma, merging.n_bins))


def _alike(attribute: Attribute, made: Mapping[str, Attribute], schema: Schema) -> np.ndarray:
    """A number for each category, equal where other columns' codes are determined alike, -1 where they are not told."""
    known = pd.Series(attribute.column.levels, dtype=object)
    codes = [np.zeros(len(known), dtype=np.int64)]
    for dependency in schema.dependencies:
        if dependency.determinant == attribute.name and dependency.dependent in made:
            dependent = made[dependency.dependent]
            values, unlisted = determined(known, dependency, schema.columns)
            told = dependent.codes(values)
            codes.append(np.where(unlisted | np.isin(told, dependent.group[OTHER:]), -1, told))
    if len(codes) == 1:
        return codes[0] - 1
    _, numbers = np.unique(np.stack(codes), axis=1, return_inverse=True)
    return np.where((np.stack(codes) < 0).any(axis=0), -1, numbers.ravel())


def _merge(attribute: Attribute, counts: np.ndarray, sigma: float, merging: Merging) -> Attribute:
    """A number or a time with its cells merged by their counts, unless bins are declared."""
    declared = bool(getattr(attribute.column, "bins", ()))
    groups = attribute.group[:OTHER] if declared else even_mass_groups(counts, sigma, merging.n_bins)
    return regroup(attribute, _spikes_apart(groups, attribute) if merging.spikes_apart else groups)


def _spikes_apart(groups: np.ndarray, attribute: Attribute) -> np.ndarray:
    """Groups of adjacent cells, split around the cells of declared spikes; shape (n_cells,)."""
    cells = attribute.cells_at(np.array(getattr(attribute.column, "spikes", ()), dtype=np.float64))
    starts = np.diff(groups, prepend=groups[0]) != 0
    starts[cells] = True
    starts[cells[cells + 1 < len(groups)] + 1] = True
    starts[0] = False
    return np.cumsum(starts)


def _toward(expected: np.ndarray, noisy: np.ndarray, attribute: Attribute, sigma: float) -> np.ndarray:
    """Counts of cells whose sums by code lie between the noisy ones and those that a smooth density expects.

    DEVIATES: the sum is pulled half as far as in James & Stein 1961, since the density was fitted to the same counts.
    """
    _, group = np.unique(attribute.group[:OTHER], return_inverse=True)
    sizes = np.bincount(group)
    gaps = np.bincount(group, weights=noisy - expected)
    surprise = float((gaps**2 / sizes).sum()) / sigma**2
    kept = max(1 - PULL * max(len(sizes) - 2, 0) / max(surprise, 1e-12), 0.0)
    return np.asarray(expected + kept * (gaps / sizes)[group])


def _with_mass(attribute: Attribute, expected: np.ndarray, ends: np.ndarray) -> Attribute:
    """The attribute with expected counts as masses of its cells; even ones in a code of which none is expected."""
    mass = np.concatenate([expected, np.maximum(ends, 0.0)])
    empty = np.bincount(attribute.group, weights=mass) <= 0
    return regroup(attribute, _open(attribute.group), np.where(empty[attribute.group], 1.0, mass))


def _shaped(attribute: Attribute, counts: np.ndarray) -> Attribute:
    """The attribute with masses of exact counts, in which single rows give a code no shape."""
    return regroup(attribute, _open(attribute.group), _denoised(attribute.group, counts.astype(np.float64), SINGLE))


def _open(group: np.ndarray) -> np.ndarray:
    """The groups of all cells but the last two, -1 for those in `other`."""
    return np.where(group[:OTHER] == group[OTHER], -1, group[:OTHER])


def even_mass_groups(counts: np.ndarray, sigma: float, n_bins: int) -> np.ndarray:
    """Adjacent cells merged into about `n_bins` groups of even noisy mass, frequent cells alone; shape (n_cells,).
    `counts`: noisy counts of the cells in order, shape (n_cells,).
    """
    # Cumulated noise grows with the root of the cells while clipping each cell at zero would grow with their number.
    cumulated = np.maximum.accumulate(np.maximum(np.cumsum(counts), 0.0))
    target = max(cumulated[-1] / n_bins, 2 * sigma, 1.0)
    before = np.concatenate([[0.0], cumulated[:-1]])
    level = np.floor(before / target)
    frequent = counts >= max(target, 4 * sigma)
    starts = np.ones(len(counts), dtype=bool)
    starts[1:] = (np.diff(level) > 0) | frequent[1:] | frequent[:-1]
    return np.cumsum(starts) - 1


def _denoised(group: np.ndarray, noisy: np.ndarray, sigma: float) -> np.ndarray:
    """Non-negative masses, shrunk toward even ones within each code as far as noise explains their differences.

    Source: James & Stein 1961, positive part.
    """
    sizes = np.bincount(group)
    means = np.maximum(np.bincount(group, weights=noisy) / sizes, 0.0)
    spread = np.bincount(group, weights=(noisy - means[group]) ** 2)
    kept = np.clip(1 - sigma**2 * (sizes - 1) / np.maximum(spread, 1e-12), 0.0, 1.0)
    mass = np.maximum(means[group] + kept[group] * (noisy - means[group]), 0.0)
    empty = np.bincount(group, weights=mass) <= 0
    return np.where(empty[group], 1.0, mass)


def _measurement(attribute: Attribute, noisy: np.ndarray, sigma: float) -> Measurement:
    """The one-way measurement on codes: sums of noisy cells, codes that cannot occur held at zero."""
    values = np.bincount(attribute.group, weights=noisy).astype(np.float64)
    sigmas = sigma * np.sqrt(np.bincount(attribute.group).astype(np.float64))
    values[attribute.impossible], sigmas[attribute.impossible] = 0.0, IMPOSSIBLE_SIGMA * sigma
    return Measurement((attribute.name,), values, sigmas)
