"""A claim as it is judged and quoted: of all that counts with a table, and what it protects from.

A claim that its own events exceed is damage: no run writes one. Whoever can write the file can write another honest
one, so that this is no signature. Limits on tests of "in or out" and epsilon of groups follow from the events: nothing
is read off any row. Where these are not known, or do not come to the claim, epsilon and delta alone say less.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from evaluate.audit_result import EXCEEDS, Audit
from evaluate.provenance import ComposedClaim, PublishedNumbers
from evaluate.result import Candidate, Evaluation, EvaluationError
from evaluate.text import at_most, count, loss, one_in
from synth.dp.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    RandomizedResponseEvent,
    StabilityEvent,
    SubsampledGaussianEvent,
    event_of,
)
from synth.dp.schedule import FALSE_ALARMS, Schedule, TradeOff
from synth.dp.schedule_file import MOST_NOISE, MOST_RELEASES, schedule_of, stated_schedule
from synth.dp.statement import LOCAL, RELATIONS, ROUNDING, PrivacyStatement
from synth.errors import BudgetError

AGREEMENT = 1e-3
"""The share by which a claim may differ from what its events come to: accountants of other versions round otherwise."""
_LARGEST_DELTA = 0.1  # The delta that a fit asks for is at most this over its declared number of units
STAND_IN = "public stand-in"  # In the description of data that an audit ran on, which says that anybody may know of it

Of = Literal["fit", "published", "sweep", "run", "sum"]
_PICKED = "No job named it for release before anything was drawn, and whoever picks one of several has looked at all."


@dataclass(frozen=True)
class Claim:
    """The privacy claim of several releases of one real table together."""

    scope: Of
    epsilon: float
    delta: float
    n_releases: int = 1
    private: bool = True
    disputed: int = 0

    @property
    def what(self) -> str:
        """The releases in words, such as a table's row names them."""
        return {
            "fit": "this fit alone",
            "published": "the table and the numbers published about it"
            + (f", with {_all(self.n_releases - 1)} private fits of its sweep" if self.n_releases > 2 else ""),
            "sweep": f"all private fits of the sweep that the table is from, {count(self.n_releases)} in number",
            "run": f"{_all(self.n_releases)} private releases that its run drew",
            "sum": f"{_all(self.n_releases)} private releases of this evaluation, added up",
        }[self.scope]

    @property
    def why(self) -> str:
        """The reason why the table counts with them; empty for the fit alone."""
        return {
            "fit": "",
            "published": "Whoever has the table and the numbers has both.",
            "sweep": "Whoever picks one of several fits has looked at all.",
        }.get(self.scope, _PICKED)

    @property
    def doubt(self) -> str:
        """The doubt where it rests on a claim that an audit disproves; else empty."""
        if not self.disputed:
            return ""
        if self.n_releases == 1:
            return "DISPUTED: an audit disproves it."
        few = self.disputed == 1
        what = "one of these releases claims" if few else f"{count(self.disputed)} of these releases claim"
        return f"DISPUTED: an audit disproves what {what} alone, so that this number must not be relied on either."


@dataclass(frozen=True)
class Claims:
    """What a table claims: by its fit alone, by all that counts with it, by all that was drawn where that is more."""

    alone: Claim
    counted: Claim
    drawn: Claim | None

    @property
    def all(self) -> tuple[Claim, ...]:
        """From the fit alone to all that was drawn, each once."""
        rest = () if self.drawn is None else (self.drawn,)
        return (self.alone, *(() if self.counted == self.alone else (self.counted,)), *rest)

    @property
    def reading(self) -> str:
        """The reason why the table is judged by another claim than its fit's own; else empty."""
        if self.counted == self.alone:
            return ""
        return (
            f"Epsilon {loss(self.counted.epsilon)} at delta {loss(self.counted.delta)} is that of {self.counted.what}; "
            f"this fit alone claims {loss(self.alone.epsilon)} at delta {loss(self.alone.delta)}. {self.counted.why} "
            f"{self.counted.doubt}"
        ).rstrip()

    @property
    def price_of_choice(self) -> str:
        """The claim of a choice among all that was drawn; empty where nothing else was drawn."""
        if self.drawn is None:
            return ""
        beside = (
            "Others were measured beside it" if self.drawn.scope == "sum" else "The job drew more, which stays inside"
        )
        return (
            f"{beside}: {self.drawn.what} come to epsilon {loss(self.drawn.epsilon)} at delta "
            f"{loss(self.drawn.delta)}. That is the claim where the best of them was chosen. {self.drawn.doubt}"
        ).rstrip()


def _all(n: int) -> str:
    return "both" if n == 2 else f"all {count(n)}"


def claims_of(evaluation: Evaluation, candidate: Candidate) -> Claims | None:
    """All that a table claims, as its evaluation states it; `None` without a statement. Nothing is read off real rows.

    Raises:
        EvaluationError: some claim of the evaluation is damaged.
    """
    check_accounting(evaluation)
    known, stated = evaluation.provenance, candidate.statement
    if stated is None:
        return None
    fits = [each for each in evaluation.candidates if each.statement is not None]
    private = all(each.statement.private for each in fits if each.statement is not None)
    n_disputed = sum(map(disproved, fits))

    def composed(scope: Of, claim: ComposedClaim, disputed: int = n_disputed) -> Claim:
        return Claim(scope, claim.epsilon, claim.delta, claim.n_fits, private, disputed)

    alone = Claim("fit", stated.epsilon, stated.delta, 1, stated.private, int(disproved(candidate)))
    parts = []
    if known.sweep is not None:
        if known.sweep.composed is None:
            raise damaged("its provenance does not say what the private fits of its sweep claim together")
        parts.append(composed("sweep", known.sweep.composed))
    numbers = known.released_numbers
    if numbers is not None and candidate.name == numbers.table:
        both, n_doubts = numbers.together, alone.disputed if known.sweep is None else n_disputed
        parts.append(Claim("published", both.epsilon, both.delta, numbers.n_fits + 1, both.private, n_doubts))
    every = known.composed or (None if numbers is None else numbers.every)
    run = composed("run", every) if every is not None else None if known.sweep is not None else _added_up(evaluation)
    if run is not None and candidate.name != known.release:
        parts.append(run)
    counted = _covering(max(parts, key=lambda each: each.epsilon), [*parts, alone]) if parts else alone
    if replace(counted, scope="fit") == alone:  # as of a sweep of one fit
        counted = alone
    more = run is not None and run.n_releases > counted.n_releases
    return Claims(alone, counted, _covering(run, [counted]) if run is not None and more else None)


def _added_up(evaluation: Evaluation) -> Claim | None:
    """The sum of several private releases that no run composed; `None` where there are not several.

    Source: Dwork and Roth (2014), The Algorithmic Foundations of Differential Privacy, Theorem 3.16.
    """
    drawn = _drawn(evaluation)
    if len(drawn) < 2:
        return None
    epsilon, delta = sum(each.epsilon for each in drawn), min(1.0, sum(each.delta for each in drawn))
    n_disputed, private = sum(map(disproved, evaluation.candidates)), all(each.private for each in drawn)
    return Claim("sum", epsilon, delta, len(drawn), private, n_disputed)


def _drawn(evaluation: Evaluation) -> tuple[PrivacyStatement, ...]:
    """The statements of all private releases that an evaluation holds."""
    numbers = evaluation.provenance.released_numbers
    fits = (candidate.statement for candidate in evaluation.candidates if candidate.statement is not None)
    return (*fits, *(() if numbers is None else (numbers.statement,)))


def _covering(claim: Claim, parts: Iterable[Claim]) -> Claim:
    """A claim that is no smaller than that of any part of it, as no composition is."""
    every = (claim, *parts)
    return replace(
        claim, epsilon=max(part.epsilon for part in every), delta=max(part.delta for part in every),
        private=all(part.private for part in every), disputed=max(part.disputed for part in every),
    )  # fmt: skip


def disproved(candidate: Candidate) -> bool:
    """True where an audit on a public stand-in disproves a candidate's claim."""
    audit = candidate.audit
    return audit is not None and candidate.statement is not None and audit.verdict == EXCEEDS and on_stand_in(audit)


def on_stand_in(audit: Audit) -> bool:
    """True where all of an audit ran on a public stand-in: any other audit is not for the public."""
    return all(STAND_IN in ran_on for ran_on in (audit.ran_on, *(part.ran_on for part in audit.parts)))


def made_here(evaluation: Evaluation) -> bool:
    """True where the run that measured the tables made them: it split the real table itself."""
    return bool(evaluation.provenance.split)


def damaged(fault: str) -> EvaluationError:
    """The error of an evaluation that says what no run writes."""
    return EvaluationError(f"the evaluation is damaged: {fault}; evaluate again")


def check_accounting(evaluation: Evaluation) -> None:
    """Refuse an evaluation that claims less than its events cost, of one release or of several together."""
    known, numbers = evaluation.provenance, evaluation.provenance.released_numbers
    fits = {each.name: each.statement for each in evaluation.candidates if each.statement is not None}
    drawn = _drawn(evaluation)
    for name, stated in fits.items():
        _check_stated(stated, f"the statement of {name!r}", of_one=True)
    if numbers is not None:
        _check_stated(numbers.statement, "the statement of the published numbers", of_one=True)
        _check_published(numbers, fits, is_sweep=known.sweep is not None)
    if made_here(evaluation) and any(each.n_units != evaluation.schema.n_units for each in drawn):
        raise damaged("a statement is of another number of units than the schema")
    every, swept = None if numbers is None else numbers.every, None if known.sweep is None else known.sweep.composed
    for claim, releases, name in (
        (known.composed, drawn, "the composed claim of its run"),
        (every, drawn, "the claim of all that was drawn with the numbers"),
        (swept, tuple(fits.values()), "the claim of its sweep"),
    ):
        if claim is not None:
            _check_several(releases, claim.epsilon, claim.delta, claim.n_fits, name)
    names = {each.name for each in evaluation.candidates}
    if numbers is not None and numbers.table not in names:
        raise damaged("its provenance holds published numbers of no table of it")
    if known.sweep is not None and not names <= {point.label for point in known.sweep.points}:
        raise damaged("a table is no point of its sweep")
    if known.ledger is not None and len({*known.ledger.reserved_epsilon} - {*fits}) > (numbers is not None):
        raise damaged("the ledger reserved a budget for a release that is not there")


@lru_cache(maxsize=1024)
def cost(events: tuple[Event, ...], delta: float) -> float | None:
    """Epsilon that events come to; `None` where no accountant resolves them."""
    try:
        return schedule_of(events, delta).epsilon
    except (BudgetError, ArithmeticError, ValueError, MemoryError):  # libraries on noise far from any that is drawn
        return None


def _priced(statements: Iterable[PrivacyStatement]) -> tuple[Event, ...]:
    """All events that statements list, as they are priced: alike ones are equal, and none costs more than it does."""
    lines = (draw for stated in statements for draw in stated.events)
    events = (_bounded(event_of("", draw.mechanism, draw.noise, min(draw.count, MOST_RELEASES))) for draw in lines)
    return tuple(event for event in events if event is not None)


def _bounded(event: Event) -> Event | None:
    """An event that accountants take seconds for, of no larger cost; `None` where there is next to none."""
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


def _check_stated(stated: PrivacyStatement, name: str, *, of_one: bool) -> None:
    """Refuse a statement that claims less than its events cost, or lists some that no fit draws or nobody can price."""
    if of_one and stated.delta * stated.n_units > _LARGEST_DELTA * (1 + ROUNDING):
        raise damaged(f"{name} has a larger delta than any fit may ask for")
    if stated.relation not in RELATIONS:
        raise damaged(f"{name} names a neighboring relation that there is not")
    if stated.trust == LOCAL and any(event.mechanism != RandomizedResponseEvent.mechanism for event in stated.events):
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
    releases: Sequence[PrivacyStatement], epsilon: float, delta: float, n_releases: int, name: str
) -> None:
    """Refuse a claim of several releases that leaves some out, or is smaller than what they cost together."""
    if n_releases < len(releases):
        raise damaged(f"{name} counts fewer private releases than the evaluation holds")
    if not releases:
        return
    # Priced at the delta at which a run composes them: at a larger one, any claim would do. A run draws nothing that it
    # cannot price so, and what nobody can price may be any lie.
    events = _priced(releases)
    least = max(2 * sum(event.delta for event in events), *(stated.delta for stated in releases))
    if delta < least * (1 - ROUNDING):
        raise damaged(f"{name} has a smaller delta than the releases that it composes")
    spent = cost(events, least)
    if spent is None:
        raise damaged(f"{name} is of events that no accountant resolves together")
    if _exceeds(spent, epsilon):
        raise damaged(f"{name} has a smaller epsilon than the events of its releases cost")


def _check_published(numbers: PublishedNumbers, fits: dict[str, PrivacyStatement], *, is_sweep: bool) -> None:
    """Refuse a claim of published numbers and their table, or their sweep, that leaves something out."""
    name, both = "the claim of the published numbers with their table", numbers.together
    if not is_sweep and numbers.n_fits != 1:
        raise damaged(f"{name} counts several fits, as of a sweep, and there is none")
    counted = [stated for label, stated in fits.items() if is_sweep or label == numbers.table]
    _check_stated(both, name, of_one=False)
    _check_several((*counted, numbers.statement), both.epsilon, both.delta, numbers.n_fits + 1, name)


def _exceeds(spent: float, claimed: float) -> bool:
    return spent > claimed * (1 + AGREEMENT)


_NUMBERS = {2: "two", 5: "five", 10: "ten"}


@dataclass(frozen=True)
class Protection:
    """What a claim gives: limits on any test, and epsilon of groups."""

    epsilon: float
    delta: float
    limit: TradeOff
    groups: tuple[tuple[int, float], ...] = ()

    @property
    def by_events(self) -> bool:
        """True if the events decide, not epsilon and delta alone."""
        return bool(self.groups)

    @property
    def by_claim(self) -> TradeOff:
        """The limit that epsilon and delta alone set."""
        return TradeOff.of_claim(self.epsilon, self.delta)

    @property
    def detections(self) -> tuple[tuple[float, float], ...]:
        """The most that any test finds, at each of `FALSE_ALARMS`."""
        return tuple((rate, self.limit.detections(rate)) for rate in FALSE_ALARMS)

    def tests(self, unit: str, seen: str = "this table") -> Iterator[str]:
        """Sentences on the most that any test finds.

        >>> protection = Protection(1.0, 1e-6, TradeOff.of_claim(1.0, 1e-6))
        >>> next(protection.tests("row")).partition(" that are not")[0]
        'A test of this table that wrongly flags 1% of the rows'
        """
        ones, noun = named(unit, 2), named(unit)
        yield (
            f"A test of {seen} that wrongly flags 1% of the {ones} that are not in the real table finds at most "
            f"{at_most(self.limit.detections(0.01))} of those that are."
        )
        yield (
            f"Somebody who holds it as likely as not that one {noun} is in, knows all others and has any computing "
            f"power, guesses right in at most {at_most(self.limit.right_guesses)} of cases; a coin is right in 50%."
        )

    def definition(self, unit: str, seen: str) -> Iterator[str]:
        noun = named(unit)
        rest = one_in(self.delta) if 0 < self.delta < 0.1 else loss(self.delta)
        if self.epsilon > math.log(1e6):
            yield "Epsilon is so large that it says next to nothing by itself: e^epsilon is more than a million."
        else:
            yield (
                f"Whatever somebody looks for in {seen}: the chance that it comes out is at most "
                f"{loss(math.exp(self.epsilon))} times what it is without one {noun}, plus delta, {rest}."
            )
        yield "Delta is a part of that limit. It is not the chance that the factor is exceeded, which may be larger."

    def together(self, unit: str) -> str:
        ones = named(unit, 2)
        if not self.groups:
            return f"Several {ones} together are protected less: their epsilon grows faster than their number."
        bounded = [f"{_NUMBERS[size]} {loss(epsilon)}" for size, epsilon in self.groups if math.isfinite(epsilon)]
        free = [_NUMBERS[size] for size, epsilon in self.groups if not math.isfinite(epsilon)]
        if not bounded:
            return f"Two {ones} together, or one answer of one, have no bound at this delta."
        sentence = f"Epsilon of several {ones} together, at the same delta: {', '.join(bounded)}"
        sentence += f"; for {' and '.join(free)} there is no bound" if free else ""
        return f"{sentence}. That of two also limits what shows of one answer of one."


def named(unit: str, n: int = 1) -> str:
    """The unit of privacy as a noun.

    >>> named("row", 2), named("patient")
    ('rows', 'unit of privacy (patient)')
    """
    if unit == "row":
        return "row" if n == 1 else "rows"
    return f"unit{'' if n == 1 else 's'} of privacy ({unit})"


def protection_of(evaluation: Evaluation, candidate: Candidate, claims: Claims) -> Protection:
    """The protection of all that counts with a table; nothing read off real rows is used."""
    claim, schedule = claims.counted, _schedule(evaluation, candidate, claims.counted)
    if schedule is None:
        return Protection(claim.epsilon, claim.delta, TradeOff.of_claim(claim.epsilon, claim.delta))
    return Protection(claim.epsilon, claim.delta, schedule.trade_off, tuple(schedule.groups.items()))


def standing_protection(evaluation: Evaluation, candidate: Candidate, claims: Claims | None) -> Protection | None:
    """The same where a guarantee holds; `None` where it is void, disputed, unverified or not there."""
    return protection_of(evaluation, candidate, claims) if claims is not None and _stands(evaluation, claims) else None


def _stands(evaluation: Evaluation, claims: Claims) -> bool:
    return claims.counted.private and not claims.counted.disputed and made_here(evaluation)


def proven_limit(evaluation: Evaluation, candidate: Candidate, claims: Claims | None) -> TradeOff | None:
    """The limit on tests of those whom attacks look for, rows or entities; `None` where no guarantee covers them."""
    entity, stated = evaluation.schema.entity, candidate.statement
    if claims is None or stated is None or entity not in (None, stated.unit) or not _stands(evaluation, claims):
        return None  # an entity is not covered by a guarantee for each of its rows
    claim = claims.counted
    # The curve of the events counts only where they come to the claim: one that leaves an event out allows too little.
    schedule = _schedule(evaluation, candidate, claim, short=False)
    return TradeOff.of_claim(claim.epsilon, claim.delta) if schedule is None else schedule.trade_off


def _schedule(evaluation: Evaluation, candidate: Candidate, claim: Claim, *, short: bool = True) -> Schedule | None:
    """The events of all that makes up a claim, as one schedule at its delta; `None` where they do not come to it.

    They fall short of it where a release is not there, and may not be resolved together where each is. A fit alone may
    claim more than its events cost, and they count if they may be `short`.
    """
    numbers = evaluation.provenance.released_numbers
    fits = tuple(each.statement for each in evaluation.candidates)
    parts: dict[Of, tuple[PrivacyStatement | None, ...]] = {
        "fit": (candidate.statement,),
        "published": (None if numbers is None else numbers.together,),
        "run": _drawn(evaluation),
        "sum": (),
    }
    known = [stated for stated in parts.get(claim.scope, fits) if stated is not None]
    if claim.scope not in ("fit", "published") and len(known) != claim.n_releases:
        return None
    try:
        events = tuple(event for stated in known for event in stated_schedule("", stated.to_dict()).events)
    except BudgetError:
        return None
    epsilon = cost(events, claim.delta) if events else None
    least = 0.0 if len(known) == 1 and short else claim.epsilon * (1 - AGREEMENT)
    if epsilon is None or not least <= epsilon <= claim.epsilon * (1 + AGREEMENT):
        return None
    return Schedule(events, claim.delta)
