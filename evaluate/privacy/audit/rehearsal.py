"""Rehearsals of a fit on two neighboring tables, and audits of its releases and of measured domains by them.

A rehearsal is the generator's own `fit` of a public table, with two stand-ins that change nothing of its code: a budget
that names the event of every draw, and a source of noise that draws none. It publishes what it is told to, and keeps
the exact numbers and the scale of noise that came to it. Where the table without the unit is rehearsed with the very
numbers that the one with it published, both fits are at the same place of the same path, and three things must hold
whatever was published:

- the exact numbers of a draw differ by no more than the event's sensitivity,
- the noise asked for is no less than the event states,
- the draws are the same ones, each event's drawn as noise and not passed by.

What differs more, or is asked for less, is a fault, however small epsilon is: no chance is in it.

Audits of what a fit draws, by rehearsals: every release of a generator, and the domain that it measures.

The releases of a fit are rehearsed on the stand-in of the attack, with one canary and without. Bounds and categories
that a schema leaves to be measured are rehearsed on made-up rows of that very schema, with a unit that is alone in each
of its columns, and without it: the domain that comes out must be the same one where the same numbers were published and
a value of that unit alone came out below the threshold.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evaluate.audit_result import AuditCheck, AuditError
from evaluate.privacy.audit.bounds import epsilon_of_less
from evaluate.privacy.audit.neighboring_tables import Worlds
from evaluate.privacy.audit.stand_in import LogComplete, StandIn
from synth.dp.accounting import epsilon_pld
from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent, LaplaceEvent, SelectionEvent, StabilityEvent, SubsampledGaussianEvent
from synth.dp.mechanisms import Value
from synth.dp.schedule import Schedule
from synth.errors import BudgetError
from synth.generators.base import PrivateGenerator
from synth.generators.fitting.fixed_costs import domain_event_name, domain_shares, spikes_event_name
from synth.generators.fitting.private_fit import start
from synth.progress import quiet
from synth.schema import Schema

RELEASES, DOMAIN = "exact numbers behind every draw", "measured bounds, categories and frequent values"
CERTAIN = 40.0  # The least epsilon that is proved where no epsilon would do
_SEED = 0  # Of made-up rows


def audit_releases(generator: PrivateGenerator, schedule: Schedule, stand_in: StandIn) -> tuple[AuditCheck, set[str]]:
    """The check of everything that a fit draws before its first step of DP-SGD, and the events that it saw."""
    present = np.arange(stand_in.n_codes) == stand_in.n_codes // 2

    def rehearsed(one: bool, follows: Script | None = None) -> Script:
        frame = stand_in.table(present & one)
        return rehearse(lambda budget: generator.fit(frame, stand_in.schema, budget=budget), schedule, follows)

    with_unit = rehearsed(one=True)
    without = rehearsed(one=False, follows=with_unit)
    faults = faults_between(with_unit, without)
    check = AuditCheck(
        RELEASES,
        f"{len(with_unit.draws):,} draws of a fit on {stand_in.name} with one canary, and of the same fit without",
        "any canary that moves a release by more than is stated, and any draw that asks for less noise, or for none",
    )
    if faults:
        what, (said, left) = min(faults.items(), key=lambda fault: fault[1][1])
        check = replace(check, fault=said, bound=_of_less(schedule, what, left, schedule))
    return check, {draw.event.what for draw in with_unit.draws}


def audit_domain(generator: PrivateGenerator, schema: Schema, claimed: Schedule) -> tuple[AuditCheck, set[str]] | None:
    """The check of what a schema leaves to be measured of its columns, and their events; `None` where nothing is."""
    if not domain_shares(schema):
        return None
    worlds = Worlds.stand_in(schema, seed=_SEED, histories=generator.in_order)
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
    """Epsilon of a schedule where values are named below their threshold, above the claim."""
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


ROUNDING = 1e-9  # Relative, of what floating point makes of sums
DISAGREEMENT = 0.25  # Of the scale of noise, by which published numbers contradict each other
NEARLY = 0.9
"""Of the cost of a schedule: other events at the same cost in rho come to another epsilon, but not by so much."""


@dataclass(frozen=True)
class Draw:
    event: Event
    values: np.ndarray
    scale: float
    labels: tuple[Any, ...]
    published: np.ndarray | int


@dataclass(frozen=True)
class ChoiceArguments:
    scores: np.ndarray
    score_sensitivity: float
    event: SelectionEvent


@dataclass
class Script:
    """A source of noise that publishes what it is told to, and keeps what came to it; it draws nothing."""

    n_planned: int
    until: str | None = None
    follows: Sequence[Draw] = ()
    below: int = 1
    draws: list[Draw] = field(default_factory=list)
    choices: list[ChoiceArguments] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)
    private: bool = False
    _now: tuple[Event, tuple[Any, ...]] | None = None

    @contextmanager
    def paid_by(self, event: Event, labels: tuple[Any, ...] = ()) -> Iterator[None]:
        """Draws are of this event; one must be made."""
        before, self._now = len(self.draws), (event, labels)
        yield
        if len(self.draws) != before + 1:
            self.faults[event.what] = f"{event.what} came out with {len(self.draws) - before} draws of noise for one"

    def gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        return np.asarray(self._next(values, sigma))

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return np.asarray(self._next(values, scale))

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        return int(self._next(scores, scale))

    def floats(self, values: np.ndarray, sigma: float) -> np.ndarray:
        """Nothing: steps are audited on their own."""
        raise LogComplete

    def sample(self, n_units: int, sampling_rate: float) -> np.ndarray:
        """Nothing: steps are audited on their own."""
        raise LogComplete

    def _next(self, values: np.ndarray, scale: float) -> np.ndarray | int:
        if self._now is None:
            raise AuditError(
                "a draw must be paid for by an event of the schedule, and one came without; nothing is known"
            )
        event, labels = self._now
        published = self._published(event, labels, values, scale)
        self.draws.append(Draw(event, values.ravel().astype(float), float(scale), labels, published))
        done = event.what == self.until
        if done or len(self.draws) == self.n_planned:
            raise LogComplete
        return published

    def _published(self, event: Event, labels: tuple[Any, ...], values: np.ndarray, scale: float) -> np.ndarray | int:
        last = self.follows[len(self.draws)] if len(self.draws) < len(self.follows) else None
        if isinstance(event, SelectionEvent):
            chosen = last.published if last is not None else int(np.argmax(values))
            return min(int(chosen), len(values) - 1)
        if isinstance(event, StabilityEvent):
            known = {} if last is None else dict(zip(last.labels, np.ravel(last.published), strict=True))
            named = [known.get(label, event.threshold - self.below) for label in labels]
            return np.array(named, dtype=np.int64) if last is not None else values + event.threshold
        if last is not None and np.shape(last.published) == values.shape:
            return np.asarray(last.published)
        # Numbers that agree in everything are fitted without end: some of the noise, in turn to either side.
        published = values.copy()
        published.flat[0] += np.asarray(DISAGREEMENT * scale * (-1) ** len(self.draws)).astype(values.dtype)
        return published


class RehearsalBudget(Budget):
    """A budget whose every draw is kept by a script, with the event that pays for it."""

    def __init__(self, schedule: Schedule, script: Script) -> None:
        super().__init__(schedule, script)
        self._script = script

    def release(self, exact: np.ndarray, event: GaussianEvent | LaplaceEvent) -> np.ndarray:
        with self._script.paid_by(event):
            return super().release(exact, event)

    def choose(self, scores: np.ndarray, score_sensitivity: float, event: SelectionEvent) -> int:
        self._script.choices.append(ChoiceArguments(np.array(scores, dtype=float), score_sensitivity, event))
        with self._script.paid_by(event):
            return super().choose(scores, score_sensitivity, event)

    def name_stable(self, counts: Mapping[Value, int], event: StabilityEvent) -> list[Value]:
        with self._script.paid_by(event, tuple(sorted(counts))):
            return super().name_stable(counts, event)


def schedule_like(generator: PrivateGenerator, schema: Schema, claimed: Schedule) -> Schedule:
    """A schedule under another schema that costs hardly less than a claimed one, without calibrating it anew."""
    if claimed.rho is None:
        found = generator.schedule(schema)
        if found is None:
            raise BudgetError(f"generator={generator.name!r} has epsilon=none, and no schedule; set epsilon")
        return found
    plan = generator.whole_plan(schema, claimed.delta)
    return Schedule(tuple(plan(NEARLY * claimed.rho)), claimed.delta)


def rehearse(
    fit: Callable[[Budget], object],
    schedule: Schedule,
    follows: Script | None = None,
    until: str | None = None,
    below: int = 1,
) -> Script:
    n_planned = sum(event.count for event in schedule.events if not isinstance(event, SubsampledGaussianEvent))
    script = Script(n_planned, until, () if follows is None else tuple(follows.draws), below)
    with suppress(LogComplete):
        fit(RehearsalBudget(schedule, script))
    return script


def faults_between(with_unit: Script, without: Script) -> dict[str, tuple[str, float]]:
    """The faults that two rehearsals show, by event: each in words, and how much of the noise is left by it."""
    faults = {what: (said, 0.0) for script in (with_unit, without) for what, said in script.faults.items()}
    if [draw.event for draw in with_unit.draws] != [draw.event for draw in without.draws]:
        faults.setdefault(
            with_unit.draws[-1].event.what if with_unit.draws else "all draws",
            ("other draws were made without the unit than with it, though the same numbers were published", 0.0),
        )
    for one, other in zip(with_unit.draws, without.draws, strict=False):
        if one.event != other.event:
            break
        left = _left(one, other)
        if left < 1 - ROUNDING and left < faults.get(one.event.what, ("", 1.0))[1]:
            faults[one.event.what] = (_said(one, other), left)
    return faults


def _said(one: Draw, other: Draw) -> str:
    if one.scale < _stated_scale(one.event) * (1 - ROUNDING):
        return f"{one.event.what}: the noise that is asked for is less than is stated"
    if len(one.values) != len(other.values) and not one.labels:
        return f"{one.event.what}: a unit changes how many numbers are released"
    return f"{one.event.what}: a unit moves the exact numbers by more than the sensitivity that the noise is for"


def _stated_scale(event: Event) -> float:
    """The scale of noise that an event states; 0 where it follows from an argument of the draw."""
    match event:
        case LaplaceEvent():
            return event.scale
        case GaussianEvent() | StabilityEvent():
            return event.sigma
    return 0.0


def _left(one: Draw, other: Draw) -> float:
    """The noise of a draw in units of what the unit moved, over what the event states; infinite: nothing was moved."""
    moved = _moved(one, other)
    if moved is None:
        return 0.0
    scale, event = min(one.scale, other.scale), one.event
    match event:
        case SelectionEvent():  # a score moves by at most half of the range that its noise of scale 1 hides
            distance, stated = float(np.abs(moved).max(initial=0.0)), 2 / event.epsilon
        case LaplaceEvent():
            distance, stated = float(np.abs(moved).sum()), event.scale / event.sensitivity
        case StabilityEvent():  # rows that a unit holds, in whichever values
            distance, stated = float(np.abs(moved).sum()), event.sigma / event.sensitivity
        case GaussianEvent():
            distance, stated = float(np.linalg.norm(moved)), event.sigma / event.sensitivity
        case _:
            return math.inf
    asked = scale / _stated_scale(event) if _stated_scale(event) else math.inf
    return min(asked, math.inf if distance == 0 else scale / distance / stated)


def _moved(one: Draw, other: Draw) -> np.ndarray | None:
    """The move of each number; `None` where the two cannot be compared."""
    if one.labels or other.labels:
        first, second = (dict(zip(draw.labels, draw.values, strict=True)) for draw in (one, other))
        return np.array([first.get(label, 0.0) - second.get(label, 0.0) for label in {**first, **second}])
    return one.values - other.values if len(one.values) == len(other.values) else None
