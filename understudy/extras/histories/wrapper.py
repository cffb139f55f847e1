"""Histories beside any generator that learns columns given others: the rows of an entity are drawn one after another.

The base is fitted to first rows, and to later rows given what is known before each. With epsilon a unit has one first
row and at most k - 1 later ones, its first k rows in their order: counts of first rows have sensitivity 1, and counts
of pairs of a row and the row before it k - 1. What is known before a later row has no histograms of its own then: its
codes are those of the same column elsewhere, or come from histories that are simulated from released numbers.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from synth.domain import Discretizer
from synth.domain.discretizer import OTHER, Attribute, regroup
from synth.dp.budget import Budget
from synth.dp.events import NamedEvents
from synth.dp.schedule import EventsOfRho, approximate_rho, resolve_delta
from synth.errors import TableError, TableNote
from synth.generators import registry
from synth.generators.base import Generator, Wrapper, unwrapped
from synth.generators.fitting.private_fit import (
    PrivateFit,
    as_it_is,
    even_mass_groups,
    observed,
    start,
    with_schema_events,
)
from synth.generators.fitting.selection import NOISY_PAIRS, ROWS_ALONE
from synth.generators.fitting.training_data import TrainingTable, by_entity, counted_source, find_relations
from synth.generators.marginal_generator import MarginalGenerator
from synth.generators.models.fitted import FEWEST_MEMBERS
from synth.generators.models.model import Model
from synth.generators.trees import FEW_UNITS
from synth.marginals import Factor, MarkovRandomField, Measurement
from synth.marginals.factor import estimate_total
from synth.progress import Progress, quiet
from synth.row_order import FIRST_ROWS, LATER_ROWS, Histories, histories_of
from synth.schema import Schema
from synth.schema.residual_schema import in_rows_alone
from synth.table.rows import Rows
from understudy.extras.histories.layout import FIRST, LATER, HistoryLayout, has_histories, step_codes, whole_numbers
from understudy.extras.histories.model import HistoryModel

MOST_STEPS, PRIOR = 50_000, 0.1  # rows that steps are counted in at most, and what is added to each count
SURE = 2.0  # standard errors by which a step is drawn more often than it happens, where it happens
KEPT_ROWS = 0.9  # share of the rows that a table of as many entities has at least, else a fit says what was merged
LATER_SHARE = 0.5  # of the cost, for later rows
PILOT_ROWS = 20_000  # later rows that are simulated from released numbers, for about how frequent codes are
MOST_PLACES = 12  # codes of the place of a row in its history, and of the rows that are left, about
LEAST_SIGNAL = 1.0
"""Units in standard deviations of the noise of a pair of columns, below which pairs of rows are noise.

A judgment, tried by hand on made-up tables of 300 to 3,000 entities: pairs of rows helped wherever they were told."""
LEAST_ASSOCIATION = 0.1  # Cramer's V of a column and the row before it, below which that dependence counts as lost


@dataclass(frozen=True)
class HistoryEvents(NamedEvents):
    """The events of both fits; later rows have none where an entity has one row at most."""

    first: NamedEvents
    later: NamedEvents | None


class WithHistories(Wrapper):
    """A generator whose rows of an entity follow each other."""

    in_order: ClassVar[bool] = True

    @classmethod
    def wraps(cls, generator: Generator, schema: Schema) -> bool:
        return generator.conditional and tells_pairs(schema.counted, generator)

    @classmethod
    def unused(cls, generator: Generator, schema: Schema) -> tuple[str, ...]:
        if schema.order is None or generator.in_order:
            return ()
        return (
            f"generator={generator.name!r} draws the rows of an entity independently, and order={schema.order!r} "
            f"counts for nothing: {reason_against(generator, schema)}",
        )

    def chosen(self, schema: Schema) -> Generator:
        return self

    def check(self, schema: Schema) -> None:
        alone = in_rows_alone(schema)
        kept = tuple(each for each in alone.constraints if not each.looks_back)
        super().check(alone.model_copy(update={"order": None, "constraints": kept}))

    def check_counted(self, schema: Schema) -> None:
        self.check(schema)

    def counted(self, schema: Schema) -> Schema:
        return schema.counted

    def own_events(self, schema: Schema) -> Callable[[float], HistoryEvents]:
        assert isinstance(self.base, MarginalGenerator)
        layout = self._layout(schema, schema.max_rows_per_unit if self.promises else max(schema.max_rows_per_unit, 2))
        first = self.base.row_events(layout.first_rows)
        if layout.longest == 1:
            return lambda rho: HistoryEvents(named(first(rho), FIRST_ROWS), None)
        later = self.base.row_events(layout.later_rows, len(layout.known))
        return lambda rho: HistoryEvents(
            named(first((1 - LATER_SHARE) * rho), FIRST_ROWS), named(later(LATER_SHARE * rho), LATER_ROWS)
        )

    def all_events(self, schema: Schema, delta: float) -> EventsOfRho:
        return with_schema_events(self.own_events(schema), schema, delta, sizes=False)

    def _layout(self, schema: Schema, longest: int) -> HistoryLayout:
        by_counts = isinstance(self.base, MarginalGenerator)
        return HistoryLayout(schema, longest, reads_domains=not by_counts, averages=not by_counts)

    def fit(
        self, train: Any, schema: Schema | None = None, *, seed: int = 0, progress: Progress = quiet,
        budget: Budget | None = None, place: Path | None = None, known: tuple[str, ...] = (),
    ) -> Model:  # fmt: skip
        """A model of the histories of a table. `train`: *Sensitive*. Real rows."""
        schema = self.schema_of_fit(schema)
        if not self.promises:
            train, schema = find_relations(train, schema)
        counted = schema.counted
        if counted is not schema:
            if self.promises:  # before a row is read
                self.check(counted)
                budget = self.fit_budget(counted, budget, progress)
            train = counted_source(train, schema, promises=self.promises, mapped=False)
        if isinstance(self.base, MarginalGenerator):
            model = self._by_counts(self.base, start(self, train, counted, budget, progress, seed))
        else:
            self.check(schema)
            model = self._column_by_column(self.base, train, counted, seed, progress)
        return model if counted is schema else model.under(schema)

    def _by_counts(self, base: MarginalGenerator, fit: PrivateFit) -> HistoryModel:
        longest = fit.schema.max_rows_per_unit if fit.promises else len(fit.train.rows_per_entity())
        layout = self._layout(fit.schema, longest)
        first_rows, later_rows = taken_apart(fit.train, layout, checked=not fit.promises)
        events: HistoryEvents = fit.scheduled_events(self.own_events(fit.schema))
        first, one_way = base.fitted(replace(fit, train=first_rows, schema=layout.first_rows), events.first)
        shares = length_shares(first.discretizer, one_way, layout)
        n_rows = estimate_total(one_way) * float(np.average(np.arange(1, len(shares) + 1), weights=shares))
        later = None
        if events.later is not None and (fit.promises or len(later_rows)):
            firsts = first.learned_rows(PILOT_ROWS, fit.rng)
            told = ToldColumns(layout, firsts, first.discretizer, base.bins(layout.schema), fit.rng)
            later, _ = base.fitted(replace(fit, train=later_rows, schema=layout.later_rows), events.later, told)
            is_told = fit.promises and isinstance(later.distribution, MarkovRandomField)
            if is_told and (names := lost_columns(later.distribution, layout)):
                note = (
                    f"noise hides how {', '.join(map(repr, names))} follow the row before: synthetic rows of an entity "
                    "hardly depend on each other there; raise epsilon, lower max_rows_per_unit, or name what an entity "
                    "keeps in constant_in_entity"
                )
                warnings.warn(TableNote(note), stacklevel=2)
        return HistoryModel(
            self.name, fit.schema, fit.statement(), max(round(n_rows), 1), first, later, shares, layout.averages,
            self.parameters(),
        )  # fmt: skip

    def _column_by_column(self, base: Any, train: Any, schema: Schema, seed: int, progress: Progress) -> HistoryModel:
        """The same by a generator that learns columns one after another, without an epsilon."""
        table, schema = as_it_is(train, schema)
        if len(table) == 0:
            raise TableError("a fit needs rows, and the table has none; give it a larger one")
        n_entities, rng = table.rows_per_entity().astype(np.float64), np.random.default_rng(seed)
        shares = tuple((n_entities / n_entities.sum()).tolist()) if n_entities.sum() else (1.0,)
        layout = self._layout(schema, len(shares))
        first_rows, later_rows = taken_apart(table, layout, checked=True)

        def fitted(name: str, rows: TrainingTable, known: tuple[str, ...]) -> tuple[Any, TrainingTable]:
            def tell(label: str, share: float | None) -> None:
                progress(f"{name} rows: {label}", None if share is None else (share + (name == LATER)) / 2)

            rows, seen = observed(rows)
            return base.fitted(rows, seen, None, rng, tell, known=known, pairs=layout.pairs(name)), rows

        (first, _), later, chances = fitted(FIRST, first_rows, ()), None, {}
        if len(later_rows):
            later, later_rows = fitted(LATER, later_rows, layout.known)
            chances = step_chances(later, later_rows, layout, rng)
        n_rows = self._n_rows(first, layout, len(table), int(n_entities.sum()))
        return HistoryModel(
            self.name, schema, None, n_rows, first, later, shares, layout.averages, self.parameters(), chances
        )

    def _n_rows(self, first: Any, layout: HistoryLayout, n_rows: int, n_entities: int) -> int:
        """The rows of as many entities as the table has: fewer than its own where long histories are not learned."""
        lengths = first.learned_rows(PILOT_ROWS, np.random.default_rng(0))[layout.n_rows].to_numpy(dtype=np.int64)
        n_learned = round(n_entities * float(lengths.mean()))
        if n_learned >= KEPT_ROWS * n_rows:
            return n_rows
        note = (
            f"too few entities have the longest histories for these to be learned: synthetic ones have up to "
            f"{int(lengths.max()):,} rows, and a table of as many entities about {n_learned / n_rows:.0%} of the rows; "
            "split such entities, or take them out"
        )
        warnings.warn(TableNote(note), stacklevel=2)
        return max(n_learned, 1)

    @classmethod
    def load(
        cls, base: Model, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], schema: Schema,
        elsewhere: Mapping[str, str],
    ) -> HistoryModel:  # fmt: skip
        return HistoryModel.loaded(base, content, arrays, schema)


def reason_against(generator: Generator, schema: Schema) -> str:
    base = unwrapped(generator)
    if getattr(base, "choices", None) == NOISY_PAIRS:
        return ROWS_ALONE
    if base.promises and base.conditional and has_histories(schema.counted):
        return "noise would hide how they follow each other; raise epsilon or lower max_rows_per_unit"
    usual = Generator.conditional
    names = [name for name in registry.names() if registry.generator_class(name).conditional is not usual]
    return f"choose {' or '.join(names)} for rows that follow each other"


def taken_apart(train: TrainingTable, layout: HistoryLayout, *, checked: bool) -> tuple[TrainingTable, TrainingTable]:
    rows = train.rows
    first, later = (Rows.from_frames((), schema, rows.folder) for schema in (layout.first_rows, layout.later_rows))
    for frame in by_entity(rows, layout.schema):
        histories = histories_of(frame, layout.schema).first(layout.longest)
        if checked:
            layout.check(frame, histories)
        of_first, of_later = layout.taken_apart(frame, histories)
        first, later = first.plus(of_first), later.plus(of_later)
    return TrainingTable(first), TrainingTable(later)


def step_chances(later: Any, rows: TrainingTable, layout: HistoryLayout, rng: np.random.Generator) -> dict[str, Any]:
    """The chance that a drawn step of a category is kept: less than one where it is drawn more often than it happens.

    Steps of fewer than `FEW_UNITS` entities count as none. So what hardly happens hardly is drawn: who is dead stays
    so, and what nearly all entities keep is kept. `rows`: *Sensitive*. Later rows; a unit weighs one.
    """
    n = len(rows)
    chosen = np.arange(n) if n <= MOST_STEPS else np.sort(rng.choice(n, MOST_STEPS, replace=False))
    frame = rows.rows.take(chosen)
    drawn = later.drawn_given(frame[list(layout.known)], rng)
    owners = pd.factorize(frame[layout.schema.entity])[0]
    weights = 1.0 / np.bincount(owners)[owners]
    chances = {}
    for name in (each for each in layout.varying if layout.schema.columns[each].is_categorical):
        levels = layout.schema.columns[name].levels
        counts = []
        for now in (frame[name], drawn[name]):
            steps = step_codes(frame[layout.before(name)], now, levels)
            counts.append(np.bincount(steps, weights, (len(levels) + 1) ** 2))
        happened, was_drawn = np.where(counts[0] < FEW_UNITS, 0.0, counts[0]), counts[1]
        kept = np.minimum((happened + PRIOR) / (was_drawn + PRIOR), 1.0)
        by_chance = was_drawn - happened <= SURE * np.sqrt(was_drawn + happened)
        kept = np.where((happened > 0) & by_chance, 1.0, kept).reshape(len(levels) + 1, -1)
        kept[counts[0].reshape(kept.shape).sum(axis=1) < FEWEST_MEMBERS] = 1.0
        chances[name] = kept.astype(np.float32)
    return chances


def tells_pairs(schema: Schema, generator: Generator) -> bool:
    """True if the schema names an order, and the budget tells pairs of a row and the row before it; public."""
    epsilon = getattr(generator, "epsilon", None)
    if not has_histories(schema) or epsilon is None:
        return has_histories(schema)
    if schema.n_units is None or schema.status != "declared" or schema.max_rows_per_unit < 2:
        return False  # a private fit is refused, or no row has one before it
    rho = LATER_SHARE * approximate_rho(epsilon, resolve_delta(getattr(generator, "delta", "auto"), schema))
    noise = max(schema.max_rows_per_unit - 1, 1) * math.sqrt(len(schema.modeled) / (2 * rho))
    return schema.n_units / noise >= LEAST_SIGNAL


def named(events: NamedEvents, rows: str) -> NamedEvents:
    return events.of([replace(event, what=f"{event.what}, {rows}") for event in events])


@dataclass(frozen=True)
class ToldColumns:
    """The columns that are known before a later row is drawn: about how they are is told by released numbers alone."""

    layout: HistoryLayout
    first_rows: pd.DataFrame  # drawn from the released model of first rows
    first: Discretizer  # their codes
    n_bins: int
    rng: np.random.Generator

    @property
    def alone(self) -> Schema:
        return self.layout.drawn_alone

    def complete(self, drawn: Discretizer, measured: Sequence[Measurement]) -> tuple[Discretizer, tuple[Factor, ...]]:
        """The codes of all columns of later rows, and the log shares of those of known ones, none of them zero."""
        rows = self._simulated(drawn, measured)
        codes = self._codes(drawn, rows)
        factors = []
        for attribute in (each for each in codes.attributes if each.name in self.layout.known):
            counts = np.bincount(attribute.codes(rows[attribute.name]), minlength=attribute.size) + 0.5
            factors.append(Factor((attribute.name,), np.log(counts / counts.sum())))
        return codes, tuple(factors)

    def _simulated(self, drawn: Discretizer, measured: Sequence[Measurement]) -> pd.DataFrame:
        layout, first_rows, rng = self.layout, self.first_rows, self.rng
        lengths = first_rows[layout.n_rows].to_numpy(dtype=np.int64)
        histories = Histories(np.arange(int(lengths.sum())), np.cumsum(lengths) - lengths)
        places, owners, (now, before) = histories.places, histories.owners, histories.pairs
        columns: dict[str, Any] = {}
        for attribute, counts in zip(drawn.attributes, measured, strict=True):
            shares = np.maximum(np.delete(counts.values, attribute.impossible), 0.0)
            codes = np.delete(np.arange(attribute.size), attribute.impossible)
            shares = shares if shares.sum() > 0 else np.ones(len(codes))
            columns[attribute.name] = attribute.values(rng.choice(codes, len(places), p=shares / shares.sum()), rng)
        rows: dict[str, Any] = {name: first_rows[name].take(owners[before]) for name in layout.constant}
        rows[layout.left] = whole_numbers((lengths[owners] - places)[now])
        rows[layout.place] = whole_numbers(places[now])
        for name in layout.varying:
            start = first_rows[name].take(owners).reset_index(drop=True)
            if name in layout.schema.growing:
                gains = np.where(places > 1, columns[layout.gain(name)].to_numpy(dtype=np.float64), 0.0)
                sums = np.cumsum(gains)
                grown = pd.Series(sums - np.repeat(sums[histories.starts], lengths))
                values = layout.grown(name, start, grown)[0]
            else:
                values = columns[name].where(places > 1, start)
            rows[layout.before(name)] = values.take(before)
        chosen = np.arange(len(now)) if len(now) <= PILOT_ROWS else rng.choice(len(now), PILOT_ROWS, replace=False)
        return pd.DataFrame({name: rows[name].take(chosen).reset_index(drop=True) for name in layout.known})

    def _codes(self, drawn: Discretizer, rows: pd.DataFrame) -> Discretizer:
        """The codes of all columns of later rows; those that never fall have some of even mass."""
        layout = self.layout
        of_drawn, of_first = ({each.name: each for each in codes.attributes} for codes in (drawn, self.first))
        public = {each.name: each for each in Discretizer.by_schema(layout.later_rows).attributes}
        attributes: dict[str, Attribute] = {**of_drawn, **{name: of_first[name] for name in layout.constant}}
        even = {layout.left: MOST_PLACES, layout.place: MOST_PLACES}
        for name in layout.varying:
            if name in layout.schema.growing:
                even[layout.before(name)] = self.n_bins
            else:
                attributes[layout.before(name)] = replace(of_drawn[name], name=layout.before(name))
        for name, n_bins in even.items():
            counts = np.bincount(public[name].cells(rows[name]), minlength=public[name].n_cells)[:OTHER]
            attributes[name] = regroup(public[name], even_mass_groups(counts.astype(np.float64), 0.0, n_bins))
        return Discretizer(tuple(attributes[name] for name in layout.later_rows.modeled))


def length_shares(codes: Discretizer, measured: Sequence[Measurement], layout: HistoryLayout) -> tuple[float, ...]:
    position = codes.columns.index(layout.n_rows)
    attribute, counts = codes.attributes[position], np.maximum(measured[position].values, 0.0)
    mass = np.bincount(attribute.group, weights=attribute.mass, minlength=attribute.size)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = (attribute.mass * (counts / np.where(mass > 0, mass, 1.0))[attribute.group])[:OTHER]
    whole = np.clip(np.floor(attribute.line[0][1:] - 1e-9), 1, layout.longest).astype(np.int64)
    sizes = np.bincount(whole - 1, shares, minlength=layout.longest)
    return tuple((sizes / sizes.sum()).tolist()) if sizes.sum() > 0 else (1.0,)


def lost_columns(model: Any, layout: HistoryLayout) -> list[str]:
    """The columns that a released model draws with next to no regard to the row before; free of any budget."""
    lost = []
    for name in (each for each in layout.varying if each not in layout.schema.growing):
        shares = model.marginal((layout.before(name), name))
        shares = shares / shares.sum()
        expected = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0)
        off = np.divide((shares - expected) ** 2, expected, out=np.zeros_like(expected), where=expected > 0)
        if math.sqrt(max(float(off.sum()), 0.0) / max(min(shares.shape) - 1, 1)) < LEAST_ASSOCIATION:  # Cramer's V
            lost.append(name)
    return lost
