"""The protection that a claim gives: limits on any test of "in or out", and epsilon of groups.

Both follow from the events of all that counts with a table, which its statements list: nothing is read off any row.
Where these events are not known, or do not come to the claim, epsilon and delta alone say less.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from evaluate.gate.claim import AGREEMENT, Claim, Claims, cost, made_here
from evaluate.result import Candidate, Evaluation
from evaluate.text import at_most, loss, one_in
from synth.dp.schedule import FALSE_ALARMS, Schedule, TradeOff
from synth.dp.schedule_file import stated_schedule
from synth.dp.statement import PrivacyStatement
from synth.errors import BudgetError

_NUMBERS = {2: "two", 5: "five", 10: "ten"}


@dataclass(frozen=True)
class Protection:
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
    """The limit on tests of those whom attacks look for, rows or entities; `None` where no guarantee covers them. A row
    is covered by the unit that it belongs to. An entity is not covered by a guarantee for each of its rows. The curve
    of the events counts only where they come to the claim: one that leaves an event out allows too little.
    """
    entity, stated = evaluation.schema.entity, candidate.statement
    if claims is None or stated is None or entity not in (None, stated.unit) or not _stands(evaluation, claims):
        return None
    schedule = _schedule(evaluation, candidate, claims.counted, short=False)
    claim = claims.counted
    return TradeOff.of_claim(claim.epsilon, claim.delta) if schedule is None else schedule.trade_off


def _schedule(evaluation: Evaluation, candidate: Candidate, claim: Claim, *, short: bool = True) -> Schedule | None:
    """The events of all that makes up a claim, as one schedule at its delta; `None` where they do not come to it.

    None of them exceed what an evaluation claims: that is damage, which is refused. They fall short of it where a
    release is not there, and may not be resolved together where each is. A fit alone may claim more than its events
    cost, and they count if they may be `short`.
    """
    numbers = evaluation.provenance.released_numbers
    fits = tuple(each.statement for each in evaluation.candidates if each.statement is not None)
    statements: tuple[PrivacyStatement | None, ...] = {
        "fit": (candidate.statement,),
        "published": (None if numbers is None else numbers.together,),
        "run": (*fits, *(() if numbers is None else (numbers.statement,))),
        "sum": (),
    }.get(claim.scope, fits)
    alone = claim.scope in ("fit", "published")
    known = [stated for stated in statements if stated is not None]
    if not alone and len(known) != claim.n_releases:
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
