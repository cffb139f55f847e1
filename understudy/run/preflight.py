"""Preflight checks of a job, before any row of its table is read: refusals and cautions.

A caution is said of a job in which nothing is wrong: each is a choice.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluate.provenance import ComposedClaim
from evaluate.text import typed_loss
from reports.exports import runs
from synth.dp.events import GaussianEvent, RandomizedResponseEvent
from synth.dp.renyi_curve import RdpCurve
from synth.dp.schedule import Schedule, resolve_delta
from synth.generators.base import Generator, PrivateGenerator
from synth.generators.wrapper import cautions as warned
from synth.schema import Schema
from understudy.budget.account import LEDGER_VARIABLE, Fund
from understudy.job.sweep import composed

WEAK_EPSILON = 10.0
"""An epsilon above this is called weak."""
FEW_UNITS = 5000
"""Fewer units than this are called few."""
DROWNED_SHARE = 0.05
"""Noise whose standard deviation is beyond this share of the units is called large."""


@dataclass(frozen=True)
class Intent:
    generators: Mapping[str, Generator]
    schedules: Mapping[str, Schedule]
    schema: Schema
    fund: Fund | None
    outside: str
    swept: "Swept | None" = None


@dataclass(frozen=True)
class Swept:
    composed: ComposedClaim | None
    unpaid: bool
    schedules: Mapping[str, Schedule]


def cautions(intent: Intent) -> tuple[str, ...]:
    """Sentences without a final stop, each with its reason; empty where there is nothing to say."""
    sentences = [*_without_promise(intent), *_of_settings(intent), *_of_formulas(intent.schema)]
    if intent.schedules:
        for label in intent.schedules:
            sentences += _of_budget(intent, label)
        sentences += _of_units(intent)
        sentences += _of_all(intent)
    return tuple(sentences)


def of_publication(release: str, together: ComposedClaim) -> str:
    return (
        f"released_numbers: whoever gets the table of generators.{release} and the numbers about it has both: "
        f"together they come to epsilon={typed_loss(together.epsilon)} at delta={typed_loss(together.delta)}"
    )


def _without_promise(intent: Intent) -> Iterator[str]:
    plain = [label for label, chosen in intent.generators.items() if not chosen.promises]
    if plain:
        yield (
            f"no formal guarantee for {_listed(intent, plain)}: a synthetic table without an epsilon is not private by "
            "itself, and may repeat what single rows say"
        )


def _of_settings(intent: Intent) -> Iterator[str]:
    for label, chosen in intent.generators.items():
        yield from (f"{_listed(intent, [label])}: {sentence}" for sentence in warned(chosen, intent.schema))


def _of_formulas(schema: Schema) -> Iterator[str]:
    """A caution on texts of the schema that a spreadsheet runs; the texts themselves are not shown."""
    categories = {name: getattr(schema.columns[name], "categories", ()) for name in schema.learned}
    named = [name for name, texts in categories.items() if any(isinstance(text, str) and runs(text) for text in texts)]
    if named:
        yield (
            f"categories of {', '.join(map(repr, named))} begin like formulas, which a spreadsheet runs when it opens "
            "the synthetic CSV file; declare other texts, write Parquet, or tell whoever gets the table"
        )


def _of_budget(intent: Intent, label: str) -> Iterator[str]:
    chosen = intent.generators[label]
    if not isinstance(chosen, PrivateGenerator) or chosen.epsilon is None:
        return
    if chosen.epsilon > WEAK_EPSILON:
        yield (
            f"epsilon={chosen.epsilon:g} of {_listed(intent, [label])} is weak: it lets what comes out be "
            f"e^{chosen.epsilon:g}, about {math.exp(chosen.epsilon):.2g}, times as likely with one unit as without it, "
            "plus delta"
        )
    automatic = resolve_delta("auto", intent.schema)
    if chosen.delta != "auto" and chosen.delta > automatic:
        yield (
            f'delta={chosen.delta:g} of {_listed(intent, [label])} is larger than the {automatic:.2g} of "auto": it '
            "alone would allow every row to be given away whole with that probability"
        )


def _of_units(intent: Intent) -> Iterator[str]:
    n_units, k = intent.schema.n_units or 0, intent.schema.max_rows_per_unit
    drawn = [event for schedule in intent.schedules.values() for event in schedule.events]
    curated = not all(isinstance(event, RandomizedResponseEvent) for event in drawn)
    if curated and n_units < FEW_UNITS:
        yield (
            f"n_units={n_units} is few for a private fit: its noise does not shrink with the table, so that little but "
            "the most frequent values and the strongest relations will stand out from it"
        )
    events = [event for event in drawn if isinstance(event, GaussianEvent)]
    sigma = max((event.sigma for event in events if event.sensitivity == k), default=0.0)
    if k > 1 and sigma > DROWNED_SHARE * n_units:
        yield (
            f"max_rows_per_unit={k} makes the noise {k} times as large as one row per unit would: counts get a "
            f"standard deviation of up to {sigma:.3g}, at n_units={n_units}; a lower one uses fewer rows of each unit "
            "and adds less noise"
        )


def _of_all(intent: Intent) -> Iterator[str]:
    schedules = intent.schedules if intent.swept is None else intent.swept.schedules
    together = composed(schedules) if intent.swept is None else intent.swept.composed
    if len(schedules) > 1 and together is not None:
        yield _together(intent, schedules, together)
    if intent.swept is not None and intent.swept.unpaid:
        yield (
            "NOTHING OF THIS SWEEP MAY BE RELEASED: no ledger pays for its private fits, so its synthetic tables and "
            "models are not kept, and every verdict is FAIL; to release one of its points, name a ledger, which "
            "reserves the sum of all of them"
        )
    elif intent.fund is None:
        yield (
            "a private fit outside a ledger is not added to earlier releases of the same table; name a ledger in the "
            f"job ([ledger] url), with a fit's --ledger, or in {LEDGER_VARIABLE}"
        )
    elif intent.fund.holding.n_units != intent.schema.n_units:
        yield (
            f"n_units={intent.schema.n_units} of the schema is not the n_units={intent.fund.holding.n_units} that the "
            "ledger's total was opened with; both should be the public number of units"
        )
    if intent.outside == "refuse":
        yield (
            'values outside the schema stop a private fit (outside = "refuse"), and whether it stops depends on the '
            'rows, which the guarantee does not cover; clamping them (outside = "clamp" in a job, --clamp of a fit) is '
            "inside it"
        )


def _together(intent: Intent, schedules: Mapping[str, Schedule], together: ComposedClaim) -> str:
    """The claim of several private fits of one table: whoever picks the best of them has looked at all."""
    in_ledger = ""
    if intent.fund is not None:
        curve = RdpCurve.total(schedule.curve for schedule in schedules.values())
        in_ledger = f" ({typed_loss(intent.fund.filter.spent(curve))} in the ledger, which adds up by RDP)"
    named = _listed(intent, list(intent.schedules)) if intent.swept is None else "all points of the sweep"
    return (
        f"{len(schedules)} private fits of one table compose, {named}: together they come to "
        f"epsilon={typed_loss(together.epsilon)} at delta={typed_loss(together.delta)}{in_ledger}, "
        "which is the price of choosing the best of them too"
    )


def _listed(intent: Intent, labels: list[str]) -> str:
    return ", ".join(f"generators.{label}" if label else intent.generators[label].name for label in labels)
