"""The privacy accounting of an evaluation: its statements and their events, beside all that it claims of them.

A claim that its own events exceed is damage: no run writes one. Whoever can write the file can write another honest
one, so that this is no signature.
"""

from collections.abc import Iterable
from functools import lru_cache

from evaluate.provenance import PublishedNumbers
from evaluate.result import Evaluation, EvaluationError
from synth.dp.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    RandomizedResponseEvent,
    StabilityEvent,
    SubsampledGaussianEvent,
    event_of,
)
from synth.dp.schedule_file import MOST_NOISE, MOST_RELEASES, schedule_of
from synth.dp.statement import LOCAL, RELATIONS, ROUNDING, PrivacyStatement
from synth.errors import BudgetError

AGREEMENT = 1e-3
"""The share by which a claim may differ from what its events come to: accountants of other versions round otherwise."""
_LARGEST_DELTA = 0.1  # The delta that a fit asks for is at most this over its declared number of units


def damaged(fault: str) -> EvaluationError:
    """The error of an evaluation that says what no run writes."""
    return EvaluationError(f"the evaluation is damaged: {fault}; evaluate again")


def check_accounting(evaluation: Evaluation, *, made_here: bool) -> None:
    """Refuse an evaluation that claims less than its events cost, of one release or of several together."""
    known, numbers = evaluation.provenance, evaluation.provenance.released_numbers
    fits = {one.name: one.statement for one in evaluation.candidates if one.statement is not None}
    drawn = (*fits.values(), *(() if numbers is None else (numbers.statement,)))
    for name, stated in fits.items():
        _check_release(stated, f"the statement of {name!r}")
    if numbers is not None:
        _check_release(numbers.statement, "the statement of the published numbers")
        _check_published(numbers, fits, is_sweep=known.sweep is not None)
    if made_here and any(one.n_units != evaluation.schema.n_units for one in drawn):
        raise damaged("a statement is of another number of units than the schema")
    for claim, releases, name in (
        (known.composed, drawn, "the composed claim of its run"),
        (None if numbers is None else numbers.every, drawn, "the claim of all that was drawn with the numbers"),
        (None if known.sweep is None else known.sweep.composed, tuple(fits.values()), "the claim of its sweep"),
    ):
        if claim is not None:
            _check_several(releases, claim.epsilon, claim.delta, claim.n_fits, name)
    for name, both in known.both_tables.items():
        of_table = tuple(stated for label, stated in fits.items() if label == name)
        _check_several(of_table, both.epsilon, both.delta, both.n_fits, f"the claim of {name!r} with its related table")
    _check_labels(evaluation)


@lru_cache(maxsize=1024)
def cost(events: tuple[Event, ...], delta: float) -> float | None:
    """Epsilon that events come to; `None` where no accountant resolves them."""
    try:
        return schedule_of(events, delta).epsilon
    except (BudgetError, ArithmeticError, ValueError, MemoryError):  # libraries on noise far from any that is drawn
        return None


def _priced(statements: Iterable[PrivacyStatement]) -> tuple[Event, ...]:
    """All events that statements list, as they are priced: alike ones are equal, and none costs more than it does."""
    lines = (line for stated in statements for line in stated.events)
    events = (_bounded(event_of("", one.mechanism, one.noise, min(one.count, MOST_RELEASES))) for one in lines)
    return tuple(event for event in events if event is not None)


def _bounded(event: Event) -> Event | None:
    """An event that accountants take seconds for, of no larger cost; `None` where there is next to none. A whole number
    among very many is as good as a real one, which takes no grid of all of them.
    """
    match event:
        case GaussianEvent() | StabilityEvent() if max(event.sigma, event.sensitivity) > MOST_NOISE:
            ratio = event.sigma / event.sensitivity
            return None if ratio > MOST_NOISE else GaussianEvent("", ratio, 1, event.count, whole=False)
        case LaplaceEvent() if max(event.scale, event.sensitivity) > MOST_NOISE:
            ratio = event.scale / event.sensitivity
            return None if ratio > MOST_NOISE else LaplaceEvent("", ratio, 1, event.count, whole=False)
        case SubsampledGaussianEvent() if event.noise_multiplier > MOST_NOISE:
            return None
    return event


def _check_release(stated: PrivacyStatement, name: str) -> None:
    """Refuse a statement of one release that no budget writes: its claim is what its events cost."""
    if stated.delta * stated.n_units > _LARGEST_DELTA * (1 + ROUNDING):
        raise damaged(f"{name} has a larger delta than any fit may ask for")
    _check_stated(stated, name)


def _check_stated(stated: PrivacyStatement, name: str) -> None:
    """Refuse a statement that claims less than its events cost, or lists some that no fit draws or nobody can price."""
    if stated.relation not in RELATIONS:
        raise damaged(f"{name} names a neighboring relation that there is not")
    if stated.trust == LOCAL and any(one.mechanism != RandomizedResponseEvent.mechanism for one in stated.events):
        raise damaged(f"{name} is local, and lists an event that no respondent randomizes")
    if not stated.events:
        raise damaged(f"{name} lists no event, and a fit with noise draws some")
    try:
        spent = cost(_priced([stated]), stated.delta)
    except BudgetError:
        raise damaged(f"{name} lists an event that no fit draws") from None
    if spent is None:
        raise damaged(f"{name} lists events that no accountant resolves")
    if _exceeds(spent, stated.epsilon):
        raise damaged(f"{name} claims a smaller epsilon than its own events cost")


def _check_several(
    releases: tuple[PrivacyStatement, ...], epsilon: float, delta: float, n_releases: int, name: str
) -> None:
    """Refuse a claim of several releases that leaves some out, or is smaller than what they cost together. They are
    priced at the delta at which a run composes them: at a larger one, any claim would do. A run draws nothing that it
    cannot price so, and what nobody can price may be any lie.
    """
    if n_releases < len(releases):
        raise damaged(f"{name} counts fewer private releases than the evaluation holds")
    if not releases:
        return
    events = _priced(releases)
    least = max(2 * sum(event.delta for event in events), *(one.delta for one in releases))
    if delta < least * (1 - ROUNDING):
        raise damaged(f"{name} has a smaller delta than the releases that it composes")
    spent = cost(events, least)
    if spent is None:
        raise damaged(f"{name} is of events that no accountant resolves together")
    if _exceeds(spent, epsilon):
        raise damaged(f"{name} has a smaller epsilon than the events of its releases cost")


def _check_published(numbers: PublishedNumbers, fits: dict[str, PrivacyStatement], *, is_sweep: bool) -> None:
    """Refuse a claim of published numbers and their table, or their sweep, that leaves something out."""
    name = "the claim of the published numbers with their table"
    if not is_sweep and numbers.n_fits != 1:
        raise damaged(f"{name} counts several fits, as of a sweep, and there is none")
    counted = tuple(fits.values()) if is_sweep else tuple(one for name, one in fits.items() if name == numbers.table)
    both = numbers.together
    _check_stated(both, name)
    _check_several((*counted, numbers.statement), both.epsilon, both.delta, numbers.n_fits + 1, name)


def _check_labels(evaluation: Evaluation) -> None:
    """Refuse a sweep that does not name its tables, or a ledger that names releases which are not there."""
    known, names = evaluation.provenance, {one.name for one in evaluation.candidates}
    if known.sweep is not None and not names <= {point.label for point in known.sweep.points}:
        raise damaged("a table is no point of its sweep")
    if known.ledger is not None:
        others = set(known.ledger.reserved_epsilon) - {
            one.name for one in evaluation.candidates if one.statement is not None
        }
        if len(others) > (known.released_numbers is not None):
            raise damaged("the ledger reserved a budget for a release that is not there")


def _exceeds(spent: float, claimed: float) -> bool:
    return spent > claimed * (1 + AGREEMENT)
