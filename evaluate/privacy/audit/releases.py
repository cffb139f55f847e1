"""Audits of what a fit draws, by rehearsals: every release of a generator, and the domain that it measures.

The releases of a fit are rehearsed on the stand-in of the attack, with one canary and without. Bounds and categories
that a schema leaves to be measured are rehearsed on made-up rows of that very schema, with a unit that is alone in each
of its columns, and without it: the domain that comes out must be the same one where the same numbers were published and
a value of that unit alone came out below the threshold.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from evaluate.audit_result import AuditCheck
from evaluate.privacy.audit.bounds import epsilon_of_less
from evaluate.privacy.audit.neighboring_tables import Worlds
from evaluate.privacy.audit.rehearsal import Script, faults_between, rehearse, schedule_like
from evaluate.privacy.audit.stand_in import StandIn
from synth.dp.accounting import epsilon_pld
from synth.dp.events import StabilityEvent
from synth.dp.schedule import Schedule
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.fixed_costs import domain_event_name, domain_shares, spikes_event_name
from synth.generators.fitting.private_fit import start
from synth.progress import quiet
from synth.schema import Schema

RELEASES, DOMAIN = "exact numbers behind every draw", "measured bounds, categories and frequent values"
CERTAIN = 40.0
"""The least epsilon that is proved where no epsilon would do."""
_SEED = 0
"""Of made-up rows."""


def audit_releases(generator: PrivateGenerator, schedule: Schedule, stand_in: StandIn) -> tuple[AuditCheck, set[str]]:
    """The check of everything that a fit draws before its first step of DP-SGD, and the events that it saw.

    Args:
        generator: whose schedule it is.
        schedule: under the stand-in's schema.
        stand_in: public.
    """
    present = np.arange(stand_in.n_codes) == stand_in.n_codes // 2

    def rehearsed(one: bool, follows: Script | None = None) -> Script:
        frame = stand_in.table(present & one)
        return rehearse(lambda budget: generator.fit(frame, stand_in.schema, budget=budget), schedule, follows)

    with_unit = rehearsed(one=True)
    without = rehearsed(one=False, follows=with_unit)
    faults = faults_between(with_unit, without)
    check = AuditCheck(
        RELEASES,
        f"{len(with_unit.draws):,} draws of a fit on a public stand-in with one canary, and of the same fit without",
        "any canary that moves a release by more than is stated, and any draw that asks for less noise, or for none",
    )
    if faults:
        what, (said, left) = min(faults.items(), key=lambda fault: fault[1][1])
        check = replace(check, fault=said, bound=_of_less(schedule, what, left, schedule))
    return check, {draw.event.what for draw in with_unit.draws}


def audit_domain(generator: PrivateGenerator, schema: Schema, claimed: Schedule) -> tuple[AuditCheck, set[str]] | None:
    """The check of what a schema leaves to be measured of its columns, and their events; `None` where nothing is.

    Args:
        generator: with its epsilon and delta.
        schema: names the columns, the unit, k and n_units.
        claimed: what is claimed, under this schema or another.
    """
    if not domain_shares(schema):
        return None
    worlds = Worlds.stand_in(schema, seed=_SEED)
    schedule = schedule_like(generator, worlds.schema, claimed)
    found: list[Schema] = []
    events = set(domain_shares(worlds.schema))
    n_columns = len({*schema.measured, *schema.spikes_measured})

    def rehearsed(present: bool, follows: Script | None = None, below: int = 1) -> Script:
        def measure(budget: Any) -> None:
            found.append(start(generator, worlds.table(present), worlds.schema, budget, quiet).schema)

        return rehearse(measure, schedule, follows, below=below)

    def shows(what: str, below: int = 1) -> bool:
        rehearsed(True, without, below)
        return what in _changed(found[0], found[-1], worlds.schema)

    without = rehearsed(present=False)
    with_unit = rehearsed(present=True, follows=without)
    faults = faults_between(with_unit, without)
    changed = _changed(found[0], found[1], worlds.schema)
    check = AuditCheck(
        DOMAIN,
        f"{len(with_unit.draws):,} draws for {n_columns:,} column{'s' if n_columns > 1 else ''} of made-up rows, "
        "with a unit of values of its own and without",
        "any unit that moves a histogram by more than is stated, any domain that shows it although the same numbers "
        "were published, and any value of one unit that is named below its threshold",
    )
    if changed:
        event = schedule.event(changed[0])
        said = f"{changed[0]}: a unit shows in the domain where the same numbers are published"
        bound = _certain(claimed)
        if isinstance(event, StabilityEvent):
            bound = _of_threshold(schedule, event, lambda below: shows(changed[0], below), claimed)
        return replace(check, fault=said, bound=bound), events
    if faults:
        what, (said, left) = min(faults.items(), key=lambda fault: fault[1][1])
        check = replace(check, fault=said, bound=_of_less(schedule, what, left, claimed))
    return check, events


def _changed(one: Schema, other: Schema, schema: Schema) -> list[str]:
    """The events of a schema by whose numbers two measured ones differ: bounds and categories, then frequent values."""
    pairs = {name: (dict(one.columns[name]), dict(other.columns[name])) for name in schema.modeled}
    spikes = {name: [column.pop("spikes", ()) for column in pair] for name, pair in pairs.items()}
    changed = [domain_event_name(schema, name) for name in schema.measured if pairs[name][0] != pairs[name][1]]
    return changed + [spikes_event_name(name) for name in schema.spikes_measured if spikes[name][0] != spikes[name][1]]


def _of_less(schedule: Schedule, what: str, left: float, claimed: Schedule) -> float:
    """Epsilon of a schedule where an event has so much of its noise left, above the claim."""
    return _certain(claimed) if left == 0 else _above(epsilon_of_less(schedule, what, left), claimed)


def _of_threshold(schedule: Schedule, event: StabilityEvent, shows: Callable[[int], bool], claimed: Schedule) -> float:
    """Epsilon of a schedule where values are named below their threshold, above the claim.

    Args:
        schedule: as stated.
        event: of it.
        shows: whether a value of one unit is named that comes out so far below the threshold.
        claimed: what is claimed.
    """
    named, hidden = 1, event.threshold
    while hidden - named > 1:
        middle = (named + hidden) // 2
        named, hidden = (middle, hidden) if shows(middle) else (named, middle)
    threshold = event.threshold - named
    if threshold <= event.sensitivity:
        return _certain(claimed)
    events = [replace(event, threshold=threshold) if one == event else one for one in schedule.events]
    return _above(epsilon_pld(events, schedule.delta), claimed)


def _above(epsilon: float, claimed: Schedule) -> float:
    """An epsilon that a fault proves, finite: the schedule of a check may cost less than the one that is claimed."""
    return max(epsilon, math.nextafter(claimed.epsilon, math.inf)) if math.isfinite(epsilon) else _certain(claimed)


def _certain(claimed: Schedule) -> float:
    """Epsilon that is proved at least where a unit is seen with certainty: none would do."""
    return max(CERTAIN, 2 * claimed.epsilon)
