"""Private histories: one fit of first rows and one of later rows, whose events are planned and paid together.

A unit has one first row and at most k - 1 later ones, its first k rows in their order. So counts of first rows have
sensitivity 1, and counts of pairs of a row and the row before it k - 1. What is known before a later row has no
histograms of its own: its codes are those of the same column elsewhere, or come from histories that are simulated from
released numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from synth.domain import Discretizer
from synth.domain.discretizer import OTHER, Attribute, regroup
from synth.dp.events import PlannedEvents
from synth.dp.schedule import approximate_rho, resolve_delta
from synth.generators.base import Generator
from synth.generators.fitting.histograms import even_mass_groups
from synth.marginals import Factor, Measurement
from synth.row_order import Histories
from synth.schema import Schema
from understudy.extras.histories.layout import HistoryLayout, has_histories, whole_numbers

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
    if schema.n_units is None or schema.status != "declared" or schema.max_rows_per_unit < 2:
        return False  # a private fit is refused, or no row has one before it
    rho = LATER_SHARE * approximate_rho(epsilon, resolve_delta(getattr(generator, "delta", "auto"), schema))
    noise = max(schema.max_rows_per_unit - 1, 1) * math.sqrt(len(schema.modeled) / (2 * rho))
    return schema.n_units / noise >= LEAST_SIGNAL


@dataclass(frozen=True)
class HistoryEvents(PlannedEvents):
    """The events of both fits; later rows have none where an entity has one row at most."""

    first: PlannedEvents
    later: PlannedEvents | None


def named(events: PlannedEvents, rows: str) -> PlannedEvents:
    """The events with a name that says of which rows they are."""
    return events.of([replace(event, what=f"{event.what}, {rows}") for event in events])


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
        for attribute in (each for each in codes.attributes if each.name in self.layout.known):
            held = np.bincount(attribute.codes(rows[attribute.name]), minlength=attribute.size) + 0.5
            factors.append(Factor((attribute.name,), np.log(held / held.sum())))
        return codes, tuple(factors)

    def _simulated(self, drawn: Discretizer, measured: Sequence[Measurement]) -> pd.DataFrame:
        """Known columns of histories whose later rows are drawn column by column."""
        layout, first_rows, rng = self.layout, self.first_rows, self.rng
        lengths = first_rows[layout.n_rows].to_numpy(dtype=np.int64)
        histories = Histories(np.arange(int(lengths.sum())), np.cumsum(lengths) - lengths)
        places, owners, (now, before) = histories.places, histories.owners, histories.pairs
        made: dict[str, Any] = {}
        for attribute, counts in zip(drawn.attributes, measured, strict=True):
            shares = np.maximum(np.delete(counts.values, attribute.impossible), 0.0)
            codes = np.delete(np.arange(attribute.size), attribute.impossible)
            shares = shares if shares.sum() > 0 else np.ones(len(codes))
            made[attribute.name] = attribute.values(rng.choice(codes, len(places), p=shares / shares.sum()), rng)
        rows: dict[str, Any] = {name: first_rows[name].take(owners[before]) for name in layout.constant}
        rows[layout.left] = whole_numbers((lengths[owners] - places)[now])
        rows[layout.place] = whole_numbers(places[now])
        for name in layout.varying:
            start = first_rows[name].take(owners).reset_index(drop=True)
            if name in layout.schema.growing:
                gains = np.where(places > 1, made[layout.gain(name)].to_numpy(dtype=np.float64), 0.0)
                sums = np.cumsum(gains)
                grown = pd.Series(sums - np.repeat(sums[histories.starts], lengths))
                values = layout.grown(name, start, grown)[0]
            else:
                values = made[name].where(places > 1, start)
            rows[layout.before(name)] = values.take(before)
        chosen = np.arange(len(now)) if len(now) <= PILOT_ROWS else rng.choice(len(now), PILOT_ROWS, replace=False)
        return pd.DataFrame({name: rows[name].take(chosen).reset_index(drop=True) for name in layout.known})

    def _codes(self, drawn: Discretizer, rows: pd.DataFrame) -> Discretizer:
        """The codes of all columns of later rows; those that never fall have some of even mass."""
        layout = self.layout
        of_drawn, of_first = ({each.name: each for each in codes.attributes} for codes in (drawn, self.first))
        public = {each.name: each for each in Discretizer.by_schema(layout.later_rows).attributes}
        made: dict[str, Attribute] = {**of_drawn, **{name: of_first[name] for name in layout.constant}}
        even = {layout.left: MOST_PLACES, layout.place: MOST_PLACES}
        for name in layout.varying:
            if name in layout.schema.growing:
                even[layout.before(name)] = self.n_bins
            else:
                made[layout.before(name)] = replace(of_drawn[name], name=layout.before(name))
        for name, n_bins in even.items():
            counts = np.bincount(public[name].cells(rows[name]), minlength=public[name].n_cells)[:OTHER]
            made[name] = regroup(public[name], even_mass_groups(counts.astype(np.float64), 0.0, n_bins))
        return Discretizer(tuple(made[name] for name in layout.later_rows.modeled))


def length_shares(codes: Discretizer, measured: Sequence[Measurement], layout: HistoryLayout) -> tuple[float, ...]:
    """The share of entities with 1, 2, ..., k rows, as first rows were released."""
    position = codes.columns.index(layout.n_rows)
    attribute, counts = codes.attributes[position], np.maximum(measured[position].values, 0.0)
    held = np.bincount(attribute.group, weights=attribute.mass, minlength=attribute.size)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = (attribute.mass * (counts / np.where(held > 0, held, 1.0))[attribute.group])[:OTHER]
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
