"""The fit that private generators share: a plan calibrated, rows prepared, the domain and single columns measured.

Bounds come from one noisy histogram over magnitudes or the calendar, categories and frequent values from stability
histograms; what comes of them is a schema in which nothing is left to measure. Then one fine noisy histogram on public
cells is the only look at a column on its own: cells merged by its noisy mass give the codes of the marginals, their
one-way measurement, and the decoder of values within a code. All of that is post-processing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from synth.domain import Discretizer, dp_bounds
from synth.domain.density import expected_counts, posterior_means
from synth.domain.discretizer import OTHER, Attribute, regroup, with_cells
from synth.domain.relations import determined
from synth.dp.budget import Budget
from synth.dp.events import (
    Event,
    GaussianEvent,
    NamedEvents,
    StabilityEvent,
    gaussian_of_rho,
)
from synth.dp.mechanisms import NoNoise
from synth.dp.schedule import EventsOfRho, Schedule, require_declared
from synth.dp.statement import PrivacyStatement
from synth.errors import TableError
from synth.generators.fitting.training_data import MappedTable, RowsElsewhere, TrainingTable, bound_contributions
from synth.infer.numeric import frequent_values
from synth.marginals import Factor, MarkovRandomField, Measurement
from synth.progress import Progress, quiet
from synth.schema import Schema
from synth.schema.kinds.number import MOST_SPIKES
from synth.table.rows import Rows, observe

if TYPE_CHECKING:
    from synth.generators.base import PrivateGenerator


SIZES, COLUMNS = "rows per entity", "one-way histograms of the columns"  # their names in a statement
SIZES_SHARE = 0.05  # share of rho for the histogram of rows per entity
BOUNDS_SHARE, FEW_UNITS = 0.25, 400
"""Share of rho for each column whose bounds are not declared, and the units of one row each for which it is meant.

With more units it falls with the power 2/3 of their number. What they stand out by then still grows, with the power
2/3, too, and the rest goes to the model."""
CATEGORIES_SHARE = 0.03
"""Share of rho for each column whose categories are not declared: less noise names rarer ones at any number of units.
"""
STEPS_SHARE, RANGE_SHARE = 0.1, 0.1
"""Cost of the steps that its values keep, and of a range within wide bounds, as shares of what a column's bounds cost.
"""
SPIKES_SHARE, FEW_SPIKE_UNITS = 0.03, 5_000
"""Share of rho for each column whose frequent values are not declared, and the units of one row each up to which.

With more units it falls with the power 2/3 of their number. So does the share of the rows from which on a value is
named, and the rest goes to the model."""
MOST_DOMAIN_SHARE = 0.3  # share of rho for bounds, categories and frequent values of all columns at most
DOMAIN_DELTA_SHARE = 0.02  # share of delta for all columns whose categories or frequent values are not declared
NAMED = ("categories", "frequent values")  # what stability histograms name: how their events begin
RARE = 3.0  # A category whose noisy count is below this many standard deviations of its noise is merged with others
SINGLE = 1.0
"""Standard deviation that counts without noise are denoised as if they had: single rows give a code no shape."""
PULL = 0.5  # share of the pull of James and Stein with which sums of codes are drawn to the density of their column
CELLS_A_SIGNAL, FEWEST_CELLS = 1.6, 16
"""Most cells of a column: so many times the units in standard deviations of the noise, and at least `FEWEST_CELLS`.

Of few units, wider cells tell more: the noise of a stretch grows with the root of its number of cells."""
IMPOSSIBLE_SIGMA = 0.1  # Certainty, in units of the noise, with which a code that cannot occur is held at zero


def with_schema_events(own: EventsOfRho, schema: Schema, delta: float, *, sizes: bool = True) -> EventsOfRho:
    """A generator's own events, after those that the schema makes necessary, each at its share of rho.

    Of `mst` with entities and much to measure: rows per entity 5%, domains 36%, and of the 59% that are left 20% for
    columns, 10% for choices and 70% for pairs.
    """
    sizes_share = SIZES_SHARE if sizes and schema.entity is not None else 0.0
    left = 1 - sizes_share - sum(domain_shares(schema).values())

    def every(rho: float) -> Sequence[Event]:
        of_sizes = [gaussian_of_rho(SIZES, sizes_share * rho, count=1, sensitivity=1)] if sizes_share else []
        return [*of_sizes, *domain_events(schema, rho, DOMAIN_DELTA_SHARE * delta), *own(left * rho)]

    return every


def domain_shares(schema: Schema) -> dict[str, float]:
    """Shares of rho for what is not declared of the columns, by event; a function of public facts alone."""
    n_units = (schema.n_units or FEW_UNITS) / schema.max_rows_per_unit
    bounds = BOUNDS_SHARE * min(FEW_UNITS / n_units, 1.0) ** (2 / 3)
    spikes = SPIKES_SHARE * min(FEW_SPIKE_UNITS / n_units, 1.0) ** (2 / 3)
    shares = {
        domain_event(schema, name): CATEGORIES_SHARE if schema.columns[name].domain == "categories" else bounds
        for name in schema.measured
    }
    shares |= {_spikes_event(name): spikes for name in schema.spikes_measured}
    scale = min(1.0, MOST_DOMAIN_SHARE / max(sum(shares.values()), MOST_DOMAIN_SHARE))
    # Beside them, so that bounds of few rows are no worse.
    shares |= {_range_event(name): RANGE_SHARE * bounds for name in schema.measured if _is_line(schema, name)}
    shares |= {_steps_event(name): STEPS_SHARE * bounds for name in schema.measured if _has_steps(schema, name)}
    return {what: scale * share for what, share in shares.items()}


def domain_events(schema: Schema, rho: float, delta: float) -> list[Event]:
    """Events for what is measured of columns: bounds, the range within them, steps, categories, frequent values."""
    k, shares = schema.max_rows_per_unit, domain_shares(schema)
    n_named = sum(what.startswith(NAMED) for what in shares)
    return [
        StabilityEvent.of_rho(what, share * rho, delta / n_named, k)
        if what.startswith(NAMED)
        else gaussian_of_rho(what, share * rho, count=1, sensitivity=k)
        for what, share in shares.items()
    ]


def domain_event(schema: Schema, name: str) -> str:
    return f"{schema.columns[name].domain} of column {name!r}"


def _is_line(schema: Schema, name: str) -> bool:
    return schema.columns[name].domain == "bounds"


def _range_event(name: str) -> str:
    return f"range within the bounds of column {name!r}"


def _has_steps(schema: Schema, name: str) -> bool:
    return _is_line(schema, name) and bool(dp_bounds.step_sizes(schema.columns[name]))


def _steps_event(name: str) -> str:
    return f"steps of column {name!r}"


def _spikes_event(name: str) -> str:
    return f"frequent values of column {name!r}"


def measure_domain(train: TrainingTable, schema: Schema, budget: Budget) -> Schema:
    """The schema with noisy bounds, categories and frequent values. `train`: *Sensitive*, contributions bounded."""
    measured = {name: _measure(train, schema, name, budget) for name in schema.measured}
    bounded = schema.model_copy(update={"columns": {**schema.columns, **measured}})
    inside, spikes = train.under(bounded), dict[str, list[float]]()
    for name in bounded.spikes_measured:
        event = budget.schedule.required(_spikes_event(name), StabilityEvent)
        spikes[name] = budget.name_stable(inside.value_counts(name), event)
    return _with_spikes(bounded, spikes)


def _measure(train: TrainingTable, schema: Schema, name: str, budget: Budget) -> Any:
    column: Any = schema.columns[name]
    what = domain_event(schema, name)
    if column.domain == "categories":
        event = budget.schedule.required(what, StabilityEvent)
        named = tuple(sorted(budget.name_stable(train.category_counts(name), event)))
        nothing = 0 if column.holds_whole_numbers else "other"  # where no value reaches the threshold
        return column.model_copy(update={"categories": named or (nothing,), "measure": False, "whole_numbers": False})
    bounds = budget.schedule.required(what, GaussianEvent)
    inner = budget.schedule.required(_range_event(name), GaussianEvent)
    n_units, histogram = require_declared(schema), dp_bounds.histogram
    edges = dp_bounds.public_edges(column, n_units / bounds.sigma)
    noisy = budget.release(train.place_counts(name, column, partial(histogram, edges=edges)), bounds)
    bounded = dp_bounds.bounded(column, edges, noisy, bounds.sigma)
    edges = dp_bounds.range_edges(bounded, n_units / inner.sigma)
    noisy = budget.release(train.place_counts(name, column, partial(histogram, edges=edges)), inner)
    bounded = dp_bounds.narrowed(bounded, edges, noisy, inner.sigma)
    if not (sizes := dp_bounds.step_sizes(column)):
        return bounded
    steps = budget.schedule.required(_steps_event(name), GaussianEvent)
    counted = train.place_counts(name, column, partial(dp_bounds.step_counts, sizes=sizes, unit=column.unit))
    return dp_bounds.with_steps(bounded, sizes, budget.release(counted, steps), steps.sigma)


def observe_spikes(train: TrainingTable, schema: Schema) -> Schema:
    """The schema with frequent values read off the rows, as `infer` proposes them: for fits that promise nothing."""
    spikes: dict[str, tuple[float, ...]] = {}
    for name in schema.spikes_measured:
        counted = sorted(train.value_counts(name).items())
        distinct, counts = (np.array([pair[at] for pair in counted], dtype=np.float64) for at in (0, 1))
        spikes[name] = frequent_values(distinct, counts, schema.columns[name])  # type: ignore[arg-type]
    return _with_spikes(schema, spikes)


def _with_spikes(schema: Schema, spikes: Mapping[str, Iterable[float]]) -> Schema:
    """The schema with these frequent values, the first of them where a column may not have so many."""
    columns: dict[str, Any] = dict(schema.columns)
    for name, values in spikes.items():
        column = columns[name]
        kind = int if column.is_whole else float
        # A bound that is off the column's precision is where values beyond it are clamped to, and no value of its own.
        kept = [kind(value) for value in (*column.spikes, *values) if column.tells_apart(value)][:MOST_SPIKES]
        columns[name] = column.model_copy(update={"spikes": tuple(sorted(set(kept))), "measure_spikes": False})
    return schema.model_copy(update={"columns": columns})


@dataclass(frozen=True)
class Merging:
    n_bins: int
    spikes_apart: bool = False


def measure_columns(
    fit: "PrivateFit", event: GaussianEvent, merging: Merging
) -> tuple[Discretizer, tuple[Measurement, ...]]:
    """Codes for every modeled column, and the one-way measurements on them, paid by that event."""
    schema, exact = fit.schema, not fit.promises
    public = Discretizer.by_schema(schema)
    if not exact:
        most = max(CELLS_A_SIGNAL * require_declared(schema) / event.sigma, FEWEST_CELLS)
        public = Discretizer(tuple(with_cells(attribute, most) for attribute in public.attributes))
    histograms = fit.budget.release_each(list(fit.train.cell_counts(public.attributes)), event)
    sizes = np.array([len(noisy) for noisy in histograms])
    total = float(np.average([noisy.sum() for noisy in histograms], weights=1 / sizes)) if histograms else 0.0
    attributes: dict[str, Attribute] = {}
    measurements: dict[str, Measurement] = {}
    released = dict(zip(public.columns, zip(public.attributes, histograms, strict=True), strict=True))
    dependents = dict.fromkeys(d.dependent for d in reversed(schema.dependencies) if d.dependent in public.columns)
    for name in dependents | dict.fromkeys(public.columns):  # each after those that it determines
        attribute, noisy = released[name]
        counts, ends = noisy[:OTHER].astype(np.float64), noisy[OTHER:].astype(np.float64)
        totals = noisy
        if attribute.edges is None:
            merged = _merge_categories(attribute, counts, event.sigma, merging.n_bins, attributes, schema)
            expected = counts if exact else posterior_means(counts, event.sigma)
        elif exact:
            merged, expected = _merge(attribute, counts, event.sigma, merging), counts
        else:
            edges, column = attribute.line
            expected = expected_counts(counts, event.sigma, edges, column, total - float(ends.sum()))
            merged = _merge(attribute, expected, event.sigma, merging)
            totals = np.concatenate([_toward(expected, counts, merged, event.sigma), ends])
        mass = np.append(expected, np.maximum(ends, 0.0))
        attributes[name] = _with_mass(merged, _denoised(merged.group, mass, SINGLE) if exact else mass)
        measurements[name] = _measurement(attributes[name], totals, event.sigma)
        fit.progress("measuring columns", len(attributes) / len(public.attributes))
    return Discretizer(tuple(attributes[n] for n in public.columns)), tuple(measurements[n] for n in public.columns)


def _merge_categories(
    attribute: Attribute, counts: np.ndarray, sigma: float, n_bins: int, others: Mapping[str, Attribute], schema: Schema
) -> Attribute:
    """Rare categories are merged with those that determine alike, else into `other`; levels in an order by even mass,
    and those of a column that matters most only where noise hides them.
    """
    rare = counts < RARE * sigma
    if not getattr(attribute.column, "ordered", False):
        alike = _determined_alike(attribute, others, schema)
        return regroup(attribute, np.where(rare, np.where(alike < 0, -1, len(counts) + alike), np.arange(len(counts))))
    if attribute.name in (schema.target, *schema.sensitive):
        return regroup(attribute, np.cumsum(~rare | ~np.concatenate([[False], rare[:-1]])))
    return regroup(attribute, even_mass_groups(counts, sigma, n_bins))


def _determined_alike(attribute: Attribute, others: Mapping[str, Attribute], schema: Schema) -> np.ndarray:
    """A number for each category, equal where other columns' codes are determined alike, -1 where they are not told."""
    known = pd.Series(attribute.column.levels, dtype=object)
    codes = [np.zeros(len(known), dtype=np.int64)]
    for dependency in schema.dependencies:
        if dependency.determinant == attribute.name and dependency.dependent in others:
            dependent = others[dependency.dependent]
            values, unlisted = determined(known, dependency, schema.columns)
            told = dependent.codes(values)
            codes.append(np.where(unlisted | np.isin(told, dependent.group[OTHER:]), -1, told))
    if len(codes) == 1:
        return codes[0] - 1
    _, numbers = np.unique(np.stack(codes), axis=1, return_inverse=True)
    return np.where((np.stack(codes) < 0).any(axis=0), -1, numbers.ravel())


def _merge(attribute: Attribute, counts: np.ndarray, sigma: float, merging: Merging) -> Attribute:
    """A number or a time with its cells merged by their counts, unless bins are declared; declared spikes alone."""
    declared = bool(getattr(attribute.column, "bins", ()))
    groups = attribute.group[:OTHER] if declared else even_mass_groups(counts, sigma, merging.n_bins)
    if merging.spikes_apart:
        cells = attribute.cells_at(np.array(getattr(attribute.column, "spikes", ()), dtype=np.float64))
        starts = np.diff(groups, prepend=groups[0]) != 0
        starts[cells] = True
        starts[cells[cells + 1 < len(groups)] + 1] = True
        starts[0] = False
        groups = np.cumsum(starts)
    return regroup(attribute, groups)


def even_mass_groups(counts: np.ndarray, sigma: float, n_bins: int) -> np.ndarray:
    """Adjacent cells, shape (n_cells,), in about `n_bins` groups of even noisy mass, frequent cells alone."""
    # Cumulated noise grows with the root of the cells while clipping each cell at zero would grow with their number.
    cumulated = np.maximum.accumulate(np.maximum(np.cumsum(counts), 0.0))
    target = max(cumulated[-1] / n_bins, 2 * sigma, 1.0)
    before = np.concatenate([[0.0], cumulated[:-1]])
    level = np.floor(before / target)
    frequent = counts >= max(target, 4 * sigma)
    starts = np.ones(len(counts), dtype=bool)
    starts[1:] = (np.diff(level) > 0) | frequent[1:] | frequent[:-1]
    return np.cumsum(starts) - 1


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


def _with_mass(attribute: Attribute, mass: np.ndarray) -> Attribute:
    """The attribute with masses of its cells; even ones in a code that has none, -1 for cells in `other`."""
    empty = np.bincount(attribute.group, weights=mass) <= 0
    groups = np.where(attribute.group[:OTHER] == attribute.group[OTHER], -1, attribute.group[:OTHER])
    return regroup(attribute, groups, np.where(empty[attribute.group], 1.0, mass))


def _denoised(group: np.ndarray, noisy: np.ndarray, sigma: float) -> np.ndarray:
    """Non-negative masses, shrunk toward even ones within each code as far as noise explains their differences.

    Source: James & Stein 1961, positive part.
    """
    sizes = np.bincount(group)
    means = np.maximum(np.bincount(group, weights=noisy) / sizes, 0.0)
    spread = np.bincount(group, weights=(noisy - means[group]) ** 2)
    kept = np.clip(1 - sigma**2 * (sizes - 1) / np.maximum(spread, 1e-12), 0.0, 1.0)
    return np.asarray(np.maximum(means[group] + kept[group] * (noisy - means[group]), 0.0))


def _measurement(attribute: Attribute, noisy: np.ndarray, sigma: float) -> Measurement:
    """Sums of noisy cells by code; codes that cannot occur are held at zero."""
    values = np.bincount(attribute.group, weights=noisy).astype(np.float64)
    sigmas = sigma * np.sqrt(np.bincount(attribute.group).astype(np.float64))
    values[attribute.impossible], sigmas[attribute.impossible] = 0.0, IMPOSSIBLE_SIGMA * sigma
    return Measurement((attribute.name,), values, sigmas)


ANY_RHO = 1.0
"""A cost for events of which only the shape is asked: how many there are, of what. Nothing is claimed of such noise."""
EXACT_DELTA = 1e-6
OneWay = Sequence[Measurement]
Known = Sequence[Factor]  # log shares of columns that are known, and not counted
OwnEvents = TypeVar("OwnEvents", bound=NamedEvents)


@dataclass(frozen=True)
class PrivateFit:
    """A fit under way, to rows, *Sensitive*, whose contributions are bounded."""

    train: Any  # a `TrainingTable`, or what counts as it does elsewhere
    schema: Schema
    budget: Budget
    promises: bool
    progress: Progress = quiet
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def scheduled_events(self, own: Callable[[float], OwnEvents]) -> OwnEvents:
        """The generator's own events, by their names, with the noise that the budget holds."""
        shape = own(ANY_RHO)
        # What the schema adds comes first (see `with_schema_events`).
        scheduled = self.budget.schedule.events
        return shape.of(tuple(scheduled[len(scheduled) - len(shape) :]))

    def columns(self, event: GaussianEvent, merging: Merging) -> tuple[Discretizer, tuple[Measurement, ...]]:
        return measure_columns(self, event, merging)

    def entity_shares(self) -> tuple[tuple[float, ...] | None, int]:
        """Noisy shares of entities with 1, 2, ..., k rows (`None`: the unit is a row), and the public row count."""
        if self.schema.entity is None:
            return None, require_declared(self.schema) if self.promises else len(self.train)
        event = self.budget.schedule.required(SIZES, GaussianEvent)
        noisy = np.maximum(self.budget.release(self.train.rows_per_entity(), event), 0).astype(np.float64)
        if noisy.sum() == 0:
            noisy[0] = 1.0
        n_rows = int(noisy @ np.arange(1, len(noisy) + 1))
        return tuple((noisy / noisy.sum()).tolist()), max(n_rows, 1)

    def statement(self) -> PrivacyStatement | None:
        return self.budget.statement(self.schema) if self.promises else None


def start(
    generator: "PrivateGenerator", train: Any, schema: Schema, budget: Budget | None, progress: Progress, seed: int = 0
) -> PrivateFit:
    """Everything checked and calibrated, and the domain known; nothing else drawn yet. `train`: *Sensitive*."""
    rng = np.random.default_rng(seed)
    generator.check(schema)
    if not generator.promises:  # the same events, drawn without noise
        rows, schema = as_it_is(train, schema)
        events = generator.all_events(schema, EXACT_DELTA)(ANY_RHO)
        budget = Budget(Schedule(tuple(events), EXACT_DELTA), NoNoise())
        return PrivateFit(rows, schema, budget, False, progress, rng)
    budget = generator.fit_budget(schema, budget, progress)
    table = _training_table(generator, train, schema)
    measured = measure_domain(table, schema, budget)
    return PrivateFit(table.under(measured), measured, budget, True, progress, rng)


def _training_table(generator: "PrivateGenerator", train: Any, schema: Schema) -> Any:
    """The rows as a private fit counts them; it never refuses by what a row holds: values are clamped."""
    if isinstance(train, RowsElsewhere):  # never by its attributes: those of a DataFrame are columns
        return train.training(schema, in_order=generator.in_order)
    if generator.counts_alone and not generator.in_order:
        mapped = train if isinstance(train, MappedTable) else MappedTable.of(train, schema)
        if mapped is not None:
            return mapped.under(schema)
    return TrainingTable(bound_contributions(Rows.of(train, schema), schema, in_order=generator.in_order))


def known_names(known: Known) -> frozenset[str]:
    return frozenset(name for factor in known for name in factor.attributes)


def start_from(known: Known, domain: Mapping[str, int]) -> MarkovRandomField | None:
    """The model that an estimation starts from, where columns are known."""
    return MarkovRandomField(domain, known, 1.0) if known else None


def as_it_is(train: Any, schema: Schema) -> tuple[TrainingTable, Schema]:
    """All rows of a table that fits its schema, and the schema with domains read off them: for fits without epsilon."""
    return observed(TrainingTable(Rows.of(train, schema, outside="refuse")))


def rows_and_shares(train: Any, schema: Schema) -> tuple[TrainingTable, Schema, tuple[float, ...] | None]:
    """The same of a fit that needs rows, and the shares of entities with 1, 2, ..., k of them."""
    table, schema = as_it_is(train, schema)
    if len(table) == 0:
        raise TableError("a fit needs rows, and the table has none; give it a larger one")
    if schema.entity is None:
        return table, schema, None
    counts = table.rows_per_entity().astype(np.float64)
    return table, schema, tuple((counts / counts.sum()).tolist()) if counts.sum() else (1.0,)


def observed(rows: TrainingTable) -> tuple[TrainingTable, Schema]:
    """The rows under the schema with bounds, categories and frequent values read off them."""
    seen = observe(rows.schema, rows.rows)
    seen = observe_spikes(rows.under(seen), seen)
    return rows.under(seen), seen
