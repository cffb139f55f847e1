"""Private histories: one fit of first rows and one of later rows, whose events are planned and paid together.

A unit has one first row and at most k - 1 later ones, its first k rows in their order. So counts of first rows have
sensitivity 1, and counts of pairs of a row and the row before it k - 1. What is known before a later row has no
histograms of its own: its codes are those of the same column elsewhere, or come from histories that are simulated from
released numbers.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Discretizer
from synth.domain.discretizer import OTHER, Attribute, regroup
from synth.dp.events import Event, PlannedEvents
from synth.dp.schedule import approximate_rho, resolve_delta
from synth.generators.base import Generator
from synth.generators.fitting.histograms import even_mass_groups
from synth.marginals import Factor, MarkovRandomField, Measurement
from synth.row_order import FIRST_ROWS, LATER_ROWS, Histories
from synth.schema import Schema
from understudy.extras.histories.layout import HistoryLayout, has_histories

LATER_SHARE = 0.5
"""Share of the cost for later rows."""
PILOT_ROWS = 20_000
"""Later rows that are simulated from released numbers, for about how frequent the codes of known columns are."""
MOST_PLACES = 12
"""Codes of the place of a row in its history, and of the rows that are left, about."""
LEAST_SIGNAL = 1.0
"""Units in standard deviations of the noise of a pair of columns, below which pairs of rows are noise.

A judgment, tried by hand on made-up tables of 300 to 3,000 entities: pairs of rows helped wherever they were told."""
LEAST_ASSOCIATION = 0.1
"""Cramer's V of a column and the row before it in a released model, below which that dependence counts as lost."""


def tells_pairs(schema: Schema, generator: Generator) -> bool:
    """True if the schema names an order, and the budget tells pairs of a row and the row before it; public."""
    epsilon = getattr(generator, "epsilon", None)
    if not has_histories(schema) or epsilon is None:
        return has_histories(schema)
    if schema.n_units is None or schema.status != "declared":
        return False  # a private fit is refused
    if schema.max_rows_per_unit < 2:
        return False  # no row has one before it
    rho = LATER_SHARE * approximate_rho(epsilon, resolve_delta(getattr(generator, "delta", "auto"), schema))
    noise = max(schema.max_rows_per_unit - 1, 1) * math.sqrt(len(schema.modeled) / (2 * rho))
    return schema.n_units / noise >= LEAST_SIGNAL


@dataclass(frozen=True)
class HistoryEvents(PlannedEvents):
    """The events of both fits; later rows have none where an entity has one row at most."""

    first: PlannedEvents
    later: PlannedEvents | None


def history_plan(
    first: Callable[[float], PlannedEvents], later: Callable[[float], PlannedEvents] | None
) -> Callable[[float], HistoryEvents]:
    """The plan of both fits, as a function of their cost rho."""
    if later is None:
        return lambda rho: HistoryEvents(_named(first(rho), FIRST_ROWS), None)
    return lambda rho: HistoryEvents(
        _named(first((1 - LATER_SHARE) * rho), FIRST_ROWS), _named(later(LATER_SHARE * rho), LATER_ROWS)
    )


def _named(events: PlannedEvents, rows: str) -> PlannedEvents:
    named: list[Event] = [replace(event, what=f"{event.what}, {rows}") for event in events]
    return events.of(named)


@dataclass(frozen=True)
class ToldColumns:
    """The columns that are known before a later row is drawn: about how they are is told by released numbers alone.
    `first_rows`: drawn from the released model of first rows. `first`: their codes.
    """

    layout: HistoryLayout
    first_rows: pd.DataFrame
    first: Discretizer
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
        for attribute in codes.attributes:
            if attribute.name in self.layout.known:
                held = np.bincount(attribute.codes(rows[attribute.name]), minlength=attribute.size) + 0.5
                factors.append(Factor((attribute.name,), np.log(held / held.sum())))
        return codes, tuple(factors)

    def _simulated(self, drawn: Discretizer, measured: Sequence[Measurement]) -> pd.DataFrame:
        """Known columns of histories whose later rows are drawn column by column."""
        layout, first_rows, rng = self.layout, self.first_rows, self.rng
        lengths = first_rows[layout.n_rows].to_numpy(dtype=np.int64)
        histories = Histories(np.arange(int(lengths.sum())), np.cumsum(lengths) - lengths)
        places, firsts = histories.places, histories.owners
        n = len(places)
        made: dict[str, Any] = {}
        later = places > 1
        for attribute, counts in zip(drawn.attributes, measured, strict=True):
            shares = np.maximum(np.delete(counts.values, attribute.impossible), 0.0)
            codes = np.delete(np.arange(attribute.size), attribute.impossible)
            shares = shares if shares.sum() > 0 else np.ones(len(codes))
            made[attribute.name] = attribute.values(rng.choice(codes, n, p=shares / shares.sum()), rng)
        columns: dict[str, Any] = {name: first_rows[name].take(firsts) for name in layout.constant}
        columns[layout.left] = lengths[firsts] - places
        columns[layout.place] = places
        for name in layout.varying:
            start = first_rows[name].take(firsts).reset_index(drop=True)
            if name in layout.schema.growing:
                gains = np.where(later, made[layout.gain(name)].to_numpy(dtype=np.float64), 0.0)
                sums = np.cumsum(gains)
                grown = pd.Series(sums - np.repeat(sums[histories.starts], lengths))
                columns[layout.before(name)] = layout.grown(name, start, grown)[0]
            else:
                columns[layout.before(name)] = made[name].where(later, start)
        now, before = histories.pairs
        rows = {
            name: _plain(values).take(before if name not in (layout.left, layout.place) else now)
            for name, values in columns.items()
        }
        chosen = np.arange(len(now)) if len(now) <= PILOT_ROWS else rng.choice(len(now), PILOT_ROWS, replace=False)
        frame = {name: rows[name].reset_index(drop=True).take(chosen) for name in layout.known}
        return pd.DataFrame(frame).reset_index(drop=True)

    def _codes(self, drawn: Discretizer, rows: pd.DataFrame) -> Discretizer:
        """The codes of all columns of later rows; those that never fall have some of even mass."""
        layout = self.layout
        of_drawn, of_first = ({each.name: each for each in one.attributes} for one in (drawn, self.first))
        public = {each.name: each for each in Discretizer.by_schema(layout.later_rows).attributes}

        def even(attribute: Attribute, n_bins: int) -> Attribute:
            counts = np.bincount(attribute.cells(rows[attribute.name]), minlength=attribute.n_cells)[:OTHER]
            return regroup(attribute, even_mass_groups(counts.astype(np.float64), 0.0, n_bins))

        made: dict[str, Attribute] = {**of_drawn, **{name: of_first[name] for name in layout.constant}}
        made |= {name: even(public[name], MOST_PLACES) for name in (layout.left, layout.place)}
        for name in layout.varying:
            before = layout.before(name)
            if name in layout.schema.growing:
                made[before] = even(public[before], self.n_bins)
            else:
                made[before] = replace(of_drawn[name], name=before)
        return Discretizer(tuple(made[name] for name in layout.later_rows.modeled))


def _plain(values: pd.Series | NDArray[np.int64]) -> pd.Series:
    return values if isinstance(values, pd.Series) else pd.Series(values, dtype="Int64")


def length_shares(codes: Discretizer, measured: Sequence[Measurement], layout: HistoryLayout) -> tuple[float, ...]:
    """The share of entities with 1, 2, ..., k rows, as first rows were released."""
    place = codes.columns.index(layout.n_rows)
    attribute, counts = codes.attributes[place], np.maximum(measured[place].values, 0.0)
    held = np.bincount(attribute.group, weights=attribute.mass, minlength=attribute.size)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = (attribute.mass * (counts / np.where(held > 0, held, 1.0))[attribute.group])[:OTHER]
    sizes = np.zeros(layout.longest)
    edges, _ = attribute.line
    whole = np.clip(np.floor(edges[1:] - 1e-9), 1, layout.longest).astype(np.int64)
    np.add.at(sizes, whole - 1, shares)
    return tuple((sizes / sizes.sum()).tolist()) if sizes.sum() > 0 else (1.0,)


def lost_columns(model: MarkovRandomField, layout: HistoryLayout) -> list[str]:
    """The columns that a released model draws with next to no regard to the row before; free of any budget."""
    return [
        name
        for name in layout.varying
        if name not in layout.schema.growing
        and _association(model.marginal((layout.before(name), name))) < LEAST_ASSOCIATION
    ]


def _association(counts: NDArray[np.float64]) -> float:
    """Cramer's V of two columns of codes."""
    shares = counts / counts.sum()
    expected = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0)
    off = np.divide((shares - expected) ** 2, expected, out=np.zeros_like(expected), where=expected > 0)
    return math.sqrt(max(float(off.sum()), 0.0) / max(min(shares.shape) - 1, 1))
