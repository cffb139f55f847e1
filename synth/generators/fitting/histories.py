"""Private histories: one fit of first rows and one of later rows, whose events are planned and paid together.

A unit has one first row and at most k - 1 later ones, its first k rows in their order. So counts of first rows have
sensitivity 1, and counts of pairs of a row and the row before it k - 1. What is known before a later row has no
histograms of its own: its codes are those of the same column elsewhere.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.domain import Discretizer
from synth.domain.discretizer import OTHER, Attribute, regroup
from synth.dp.events import Event, PlannedEvents
from synth.dp.schedule import approximate_rho, resolve_delta
from synth.histories.layout import HistoryLayout
from synth.marginals import Measurement
from synth.marginals.measurement import estimate_total
from synth.schema import Schema

LATER_SHARE = 0.5
"""Share of the cost for later rows."""
PILOT_ROWS = 20_000
"""First rows that are drawn from their model, to tell how often what is known before a later row occurs."""
MOST_PLACES = 12
"""Places of a history, and rows left, that are told apart one by one; more are in codes of even width in logarithms."""
PILOT_NOISE = 2.0
"""Noise of a count that was told by first rows, in standard deviations of the noise of a later row's histogram."""
LEAST_SIGNAL = 5.0
"""Units in standard deviations of the noise of a pair of columns, below which pairs of rows are noise."""


def tells_pairs(schema: Schema, epsilon: float | None, delta: float | Literal["auto"]) -> bool:
    """True if the schema names an order, and the budget tells pairs of a row and the row before it; public.

    Args:
        schema: names the order, the number of units and the rows of one.
        epsilon: of the fit; `None`: there is no noise.
        delta: of the fit.
    """
    if schema.order is None or epsilon is None:
        return schema.order is not None
    if schema.n_units is None or schema.status != "declared":
        return False  # a private fit is refused
    rho = LATER_SHARE * approximate_rho(epsilon, resolve_delta(delta, schema))
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
    """The plan of both fits, as a function of their cost rho.

    Args:
        first: the plan of first rows.
        later: that of later rows; `None`: there are none.
    """
    if later is None:
        return lambda rho: HistoryEvents(_named(first(rho), "first rows"), None)
    return lambda rho: HistoryEvents(
        _named(first((1 - LATER_SHARE) * rho), "first rows"), _named(later(LATER_SHARE * rho), "later rows")
    )


def _named(events: PlannedEvents, rows: str) -> PlannedEvents:
    named: list[Event] = [replace(event, what=f"{event.what}, {rows}") for event in events]
    return events.of(named)


def with_known(layout: HistoryLayout, drawn: Discretizer, first: Discretizer) -> Discretizer:
    """The codes of all columns of later rows.

    Args:
        layout: names the columns.
        drawn: codes of the columns that are drawn.
        first: codes of first rows.
    """
    of_drawn, of_first = ({each.name: each for each in one.attributes} for one in (drawn, first))
    made: dict[str, Attribute] = {**of_drawn, **{name: of_first[name] for name in layout.constant}}
    for name in layout.varying:
        source = of_first[name] if name in layout.schema.growing else of_drawn[name]
        made[layout.before(name)] = replace(source, name=layout.before(name))
    public = {each.name: each for each in Discretizer.by_schema(layout.places_alone).attributes}
    made |= {name: _few_codes(each) for name, each in public.items()}
    return Discretizer(tuple(made[name] for name in layout.later_rows.modeled))


def _few_codes(attribute: Attribute) -> Attribute:
    edges, _ = attribute.line
    if len(edges) - 1 <= MOST_PLACES:
        return attribute
    return regroup(attribute, np.floor(4 * np.log2(1 + np.maximum(edges[1:] - 0.5, 0.0))).astype(np.int64))


def known_measurements(
    layout: HistoryLayout,
    codes: Discretizer,
    first_rows: pd.DataFrame,
    drawn: Sequence[Measurement],
) -> list[Measurement]:
    """About how often the codes of what is known before a later row occur: told by released numbers alone.

    Args:
        layout: names the columns.
        codes: of all columns of later rows.
        first_rows: drawn from their released model.
        drawn: one-way measurements of the columns that are drawn.
    """
    later = first_rows[layout.n_rows].to_numpy(dtype=np.int64) - 1
    n_later = int(later.sum())
    if n_later == 0:
        return []
    total = estimate_total(drawn)
    sigma = PILOT_NOISE * float(np.median([np.median(np.asarray(each.sigma)) for each in drawn]))
    attributes = {each.name: each for each in codes.attributes}
    place = np.concatenate([np.arange(2, n + 2) for n in later.tolist()])
    left = np.repeat(later + 1, later) - place
    second = later > 0
    found: dict[str, NDArray[np.float64]] = {}
    for name, values in ((layout.place, place), (layout.left, left)):
        found[name] = _counted(attributes[name], pd.Series(values, dtype="Int64"), np.ones(n_later))
    for name in layout.constant:
        found[name] = _counted(attributes[name], first_rows[name], later.astype(np.float64))
    measured = {each.clique[0]: np.maximum(each.values, 0.0) for each in drawn}
    share = second.sum() / n_later
    for name in layout.varying:
        before = layout.before(name)
        of_first = _counted(attributes[before], first_rows[name], second.astype(np.float64))
        of_later = measured.get(name, of_first)
        found[before] = share * _normal(of_first) + (1 - share) * _normal(of_later)
    return [Measurement((name,), total * _normal(counts), sigma) for name, counts in found.items()]


def _counted(attribute: Attribute, values: pd.Series, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.bincount(attribute.codes(values), weights=weights, minlength=attribute.size).astype(np.float64)


def _normal(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return counts / max(float(counts.sum()), 1e-300)


def length_shares(codes: Discretizer, measured: Sequence[Measurement], layout: HistoryLayout) -> tuple[float, ...]:
    """The share of entities with 1, 2, ..., k rows, as first rows were released.

    Args:
        codes: of first rows.
        measured: their one-way measurements.
        layout: names the column.
    """
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
