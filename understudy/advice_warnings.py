"""What to mind about a schema and a budget before a fit: every remedy that is named is worked out, not guessed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from synth.columns import CategoricalColumn, IdentifierColumn, IntegerColumn, PersonalColumn, RealColumn, WeightColumn
from synth.domain.grid import EVEN_CELLS
from synth.domain.numeric_scale import step
from synth.dp.events import StabilityEvent
from synth.dp.schedule import Schedule
from synth.generators.fitting.fixed_costs import domain_event_name, domain_shares, spikes_event_name
from synth.generators.fitting.histograms import RARE
from synth.generators.forecast import ASSUMED_CATEGORIES, Outlook, Planned, assumed, outlook
from synth.schema import Schema
from understudy.cautions import WEAK_EPSILON

LARGE_COLUMN_ERROR = 0.1
"""Noise in a column beyond this share of the rows calls for more units or a larger epsilon."""
MANY_CATEGORIES = 50
"""More categories than this are called many."""
COARSE_CELL = 1000
"""An even cell that holds more values than this hides what lies near zero."""
SHOWN = 3
"""Columns that one sentence names at most."""


@dataclass(frozen=True)
class Facts:
    """What is recommended, and what it rests on; all of it public."""

    schema: Schema
    epsilon: float
    generator: Planned
    outlook: Outlook
    train_share: float
    schedule: Schedule

    def under(self, schema: Schema) -> Outlook:
        """What to expect under another schema, all else alike."""
        return outlook(self.generator, schema, train_share=self.train_share)


def warnings_of(facts: Facts) -> Iterator[str]:
    """Sentences without a final stop, each with its reason and what would help."""
    yield from _of_epsilon(facts)
    yield from _of_units(facts)
    yield from _of_entity(facts)
    yield from _of_measured(facts)
    yield from _of_categories(facts)
    yield from _of_bounds(facts)
    yield from _of_identifiers(facts)


def _of_epsilon(facts: Facts) -> Iterator[str]:
    if facts.epsilon > WEAK_EPSILON:
        yield (
            f"epsilon={facts.epsilon:g} is weak: it lets what comes out be e^{facts.epsilon:g}, about "
            f"{_about(math.exp(facts.epsilon))}, times as likely with one unit as without it, plus delta; "
            f"{WEAK_EPSILON:g} or less is stronger"
        )


def _of_units(facts: Facts) -> Iterator[str]:
    error, n_units = facts.outlook.column, facts.schema.n_units
    assert n_units is not None
    if error > LARGE_COLUMN_ERROR:
        wanted = n_units * error / LARGE_COLUMN_ERROR
        yield (
            f"n_units={n_units} is small for epsilon={facts.epsilon:g}: noise alone moves {error:.2g} of a column on "
            f"average; {LARGE_COLUMN_ERROR:g} takes more than {_about(wanted)} units, or a larger epsilon"
        )


def _of_entity(facts: Facts) -> Iterator[str]:
    k = facts.schema.max_rows_per_unit
    if k > 1:
        halved = facts.schema.model_copy(update={"max_rows_per_unit": max(k // 2, 1)})
        less = facts.under(halved)
        yield (
            f"max_rows_per_unit={k} makes noise {k} times as large as one row per entity would: a column has an "
            f"expected total variation of {facts.outlook.column:.2g}, and {less.column:.2g} at {max(k // 2, 1)}, "
            "which uses fewer rows of each entity; errors are shares of the rows that there are if each entity has one"
        )


def _of_measured(facts: Facts) -> Iterator[str]:
    schema = facts.schema
    measured, shares = schema.measured, domain_shares(schema)
    if schema.spikes_measured:
        events = [spikes_event_name(name) for name in schema.spikes_measured]
        planned = map(facts.schedule.event, events)
        thresholds = [event.threshold for event in planned if isinstance(event, StabilityEvent)]
        yield (
            f"{_listed(schema.spikes_measured)}: frequent values are to be measured, which takes "
            f"{sum(shares[what] for what in events):.0%} of the budget and names those that about {max(thresholds):,} "
            "rows or more hold; declared as spikes they are free"
        )
    if not measured:
        return
    share = sum(shares[domain_event_name(schema, name)] for name in measured)
    declared = facts.under(assumed(facts.schema))
    yield (
        f"{_listed(measured)}: bounds or categories are to be measured, which takes {share:.0%} of the budget; "
        f"declared, a column's expected total variation would fall from {facts.outlook.column:.3g} to "
        f"{declared.column:.3g}; a list of categories is taken to have {ASSUMED_CATEGORIES} here"
    )


def _of_categories(facts: Facts) -> Iterator[str]:
    schema, found = facts.schema, facts.outlook
    many = [
        name
        for name in found.sizes
        if isinstance(schema.columns[name], CategoricalColumn) and found.sizes[name] - 2 > MANY_CATEGORIES
    ]
    if many:
        worst = max(many, key=lambda name: found.columns[name])
        yield (
            f"{_listed(many)}: more than {MANY_CATEGORIES} categories; of column={worst!r}, with "
            f"{found.sizes[worst] - 2}, noise alone moves {found.columns[worst]:.2g}, and those with a noisy count "
            f"below {RARE:g} sigma are merged into one; grouping them by public knowledge keeps more"
        )


def _of_bounds(facts: Facts) -> Iterator[str]:
    numbers = (IntegerColumn, RealColumn, WeightColumn)
    for name in facts.schema.modeled:
        column = facts.schema.columns[name]
        if not isinstance(column, numbers) or column.measure or column.bins or column.scale == "log":
            continue
        unit, width = step(column), (column.bounds[1] - column.bounds[0]) / EVEN_CELLS
        if unit is not None and width > COARSE_CELL * unit:
            yield (
                f"column={name!r} has wide bounds on a linear scale: a cell of its grid is {width:.3g} wide, and what "
                'is smaller is not told apart; set scale = "log", or narrower bounds, where most values are small'
            )


def _of_identifiers(facts: Facts) -> Iterator[str]:
    names = [name for name in facts.schema.kept if isinstance(facts.schema.columns[name], IdentifierColumn)]
    if names:
        yield f"{_listed(names)}: identifiers are made anew in the same format; nothing about them is learned"
    names = [name for name in facts.schema.kept if isinstance(facts.schema.columns[name], PersonalColumn)]
    if names:
        yield f"{_listed(names)}: personal data is written anew by Faker; nothing about it is learned"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(f"column={name!r}" for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


def _about(number: float) -> str:
    """Two digits, and as many zeros as it takes."""
    return f"{float(f'{number:.2g}'):,.0f}"
