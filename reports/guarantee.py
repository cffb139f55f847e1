"""The guarantee of one table in words: whether its statement stands, what an audit says of it, and its books.

The books are lines that a person checks with a pocket calculator.
"""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Literal

from evaluate.audit_result import EXCEEDS, TOO_WEAK, Audit, AuditCheck, AuditPart, in_ten
from evaluate.gate.claim import Claims, made_here, on_stand_in
from evaluate.provenance import LedgerStanding
from evaluate.result import Candidate, Evaluation
from evaluate.text import amount, loss, percent, plain
from synth.dp.statement import NO_GUARANTEE, EventRecord, LedgerNote, PrivacyStatement

DISPROVED = "The noise protects less than was claimed: the privacy statement is false and must not be relied on."
NOT_DISPROVED = (
    "A bound below the claim proves nothing beyond that no flaw of this kind was found: it is no evidence that the "
    "claim is true."
)
WEAK = (
    "Too weak to say: even without any noise, so few trials of the attack could not have shown a bound well above the "
    "claim; give the audit more time."
)
READINGS = {EXCEEDS: DISPROVED, TOO_WEAK: WEAK}
OF_REPORTS = {
    EXCEEDS: "Reports tell more of their respondents than was claimed: the privacy statement is false and must not be "
    "relied on.",
    TOO_WEAK: "Too weak to say: so few reports would not have shown half the noise in nine of ten such audits.",
}
IN_PARTS = (
    "The sums of one training run were attacked by canaries in it, the counts before it by fits of their own. Each "
    "part had its share of the error, so that the confidence is of all bounds together."
)
ATTACKED = {"noise": "measurement log", "reports": "reports of respondents"}
"""The things that an audit attacks, in words."""
LONGEST, MOST_PARTS, MOST_CHECKS, MOST_EVENTS = 240, 4, 8, 40
"""Of what an audit says that it ran on, and of its parts, checks and events: an evaluation may come from anyone."""
DECIMALS, CLAIMED_DIGITS, MOST_DIGITS = 3, 3, 12
"""Of bounds, and the digits of claims: as many as `evaluate.text.loss` has, more where they would hide a difference."""


@dataclass(frozen=True)
class AuditNote:
    bound: str
    excess: str
    sentence: str
    reading: str
    evidence: str
    alarms: bool
    power: str = ""
    checks: tuple[str, ...] = ()
    scope: str = ""
    short: str = ""


def audit_note(candidate: Candidate) -> AuditNote | None:
    """The audit of one candidate; `None` where none ran."""
    audit = candidate.audit
    if audit is None:
        return None
    what = "one training run and the counts before it" if audit.parts else f"the {ATTACKED[audit.attacked]}"
    ran_on = "a public stand-in" if audit.parts else plain(audit.ran_on, LONGEST)
    alarms = audit.verdict == EXCEEDS
    bound, claimed, excess = _compared(audit)
    claim = claimed if alarms else loss(audit.epsilon)
    sentence = (
        f"Audit of {what}: {'' if alarms else f'{audit.verdict}; '}lower bound {bound}, claim {claim} at delta "
        f"{loss(audit.delta)}{f', exceeded by {excess}' if alarms else ''}, {100 * audit.confidence:g}% confidence, "
        f"on {ran_on}."
    )
    reading = (READINGS if audit.attacked == "noise" else OF_REPORTS).get(audit.verdict, NOT_DISPROVED)
    faults = (f"{_capitalized(plain(fault, LONGEST))}." for fault in audit.faults[:MOST_CHECKS])
    evidence = _evidence(audit)
    if audit.parts:
        parts = (
            f"{_capitalized(plain(part.what, 60))}: lower bound {cut(part.bound)}, on {plain(part.ran_on, LONGEST)}. "
            f"{_evidence(part)}"
            for part in audit.parts[:MOST_PARTS]
        )
        evidence = " ".join([IN_PARTS, *parts])
    return AuditNote(
        bound, excess, sentence, " ".join([*faults, reading]), evidence, alarms, power_in_words(audit),
        checks_in_words(audit), scope_in_words(audit), "" if audit.weakest is None else half_of(audit.weakest),
    )  # fmt: skip


def power_in_words(audit: Audit) -> str:
    """By the mechanism where it is weakest; empty where it does not say."""
    return "" if audit.weakest is None else f"Where it is weakest, it {half_of(audit.weakest)}."


def checks_in_words(audit: Audit) -> tuple[str, ...]:
    return tuple(_of_check(check) for check in audit.checks[:MOST_CHECKS])


def scope_in_words(audit: Audit) -> str:
    """What an audit leaves out; empty where it does not say."""
    if not audit.not_covered:
        return ""
    return f"It does not look at: {'; '.join(plain(what, LONGEST) for what in audit.not_covered[:MOST_EVENTS])}."


def half_of(power: float) -> str:
    """The power of an audit, in short."""
    return f"would have shown {_half(power)}"


def _of_check(check: AuditCheck) -> str:
    shows = [plain(check.would_show, LONGEST)] if check.would_show else []
    shows += [_half(check.power)] if check.power is not None else []
    verdict = "no fault found" if check.fault is None else f"FAULT: {plain(check.fault, LONGEST)}"
    could = f" It would have shown {', and '.join(shows)}." if shows else ""
    return f"{_capitalized(plain(check.what, 60))}: {verdict}. Looked at: {plain(check.looked_at, LONGEST)}.{could}"


def _half(power: float) -> str:
    return f"half the noise in {in_ten(power)} of 10 such audits"


def _compared(audit: Audit) -> tuple[str, str, str]:
    """Bound, claim and bound less claim, which add up: the bound is cut off and the claim rounded up, as everywhere.
    Both have more digits where those would hide that the bound is above the claim.
    """
    for digits in range(CLAIMED_DIGITS, MOST_DIGITS):
        claim = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(_decimal(audit.epsilon))
        decimals = max(DECIMALS + digits - CLAIMED_DIGITS, -int(claim.normalize().as_tuple().exponent))
        bound = _decimal(audit.bound).quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_FLOOR)
        if audit.verdict != EXCEEDS or bound > claim:
            break
    bound_text, claimed, excess = (f"{x:.{decimals}f}".replace("-", "\u2212") for x in (bound, claim, bound - claim))
    return bound_text, claimed, excess


def _decimal(value: float) -> Decimal:
    """Without the last digits, which belong to floating point."""
    return Context(prec=14).create_decimal(Decimal(value))


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _evidence(audit: Audit | AuditPart) -> str:
    """The attacker's error rates, and the bound that follows without assumptions."""
    wrong, missed = percent(audit.false_positives[0]), percent(audit.false_negatives[0])
    free, strongest = cut(audit.distribution_free), cut(audit.strongest)
    if isinstance(audit, Audit) and audit.attacked == "reports":
        return (
            f"Of {audit.n_trials:,} answers, half of them each row's, the attacker took {wrong} of the one row's for "
            f"the other's and missed {missed} of the other's. Without the assumption that each answer of a respondent "
            f"is randomized on its own, the bound is {free}. Answers that nobody randomized would have shown "
            f"{strongest}."
        )
    return (
        f"In {audit.n_trials:,} trials the attacker took {wrong} of absent canaries for present and {missed} of "
        f"present ones for absent. Without the assumption that noise is Gaussian, the bound is {free}. An attacker "
        f"who never errs would have shown {strongest}."
    )


def cut(bound: float) -> str:
    """A lower bound with three digits after the point: cut off, since rounding up would claim too much.

    >>> cut(2.9999), cut(0.0)
    ('2.999', '0.000')
    """
    return f"{_decimal(bound).quantize(Decimal(1).scaleb(-DECIMALS), rounding=ROUND_FLOOR)}"


Standing = Literal["formal", "void", "disputed", "unverified"]
LACKS: Mapping[Standing | None, str] = {
    "formal": "",
    "void": "its privacy statement is void: no formal guarantee",
    "disputed": "its privacy statement is disputed",
    "unverified": "its privacy statement is unverified",
    None: NO_GUARANTEE,
}
"""The words beside a verdict; `None`: there is no statement."""


def standing_of(
    evaluation: Evaluation, candidate: Candidate, claims: Claims | None, *, public: bool = False
) -> Standing | None:
    """`None` without a statement; `public`: audits on anything but a public stand-in are not for the public."""
    if candidate.statement is None or claims is None:
        return None
    if not claims.counted.private:
        return "void"
    audit = candidate.audit
    disproved = audit is not None and audit.verdict == EXCEEDS and (not public or on_stand_in(audit))
    if disproved or claims.counted.disputed:
        return "disputed"
    return "formal" if made_here(evaluation) else "unverified"


STEPS = "Poisson-subsampled Gaussian"
_WORDS = {
    "Gaussian": "Gaussian noise",
    "Laplace": "Laplace noise",
    "exponential": "Noisy choice of the best (exponential mechanism)",
    "randomized response": "Each respondent randomizes their own answer (randomized response)",
    "stability histogram": "Values whose noisy count reaches a threshold (stability histogram)",
    STEPS: "Gaussian noise on random samples of the units (DP-SGD)",
}
_NOISE = {
    "sigma": "sigma", "scale": "scale", "threshold": "threshold", "sensitivity": "sensitivity",
    "epsilon": "epsilon of each", "noise_multiplier": "noise multiplier", "sampling_rate": "sampling rate",
}  # fmt: skip
_FORMULAS = {
    "Gaussian": ("Gaussian noise", "rho = times × (sensitivity ÷ sigma)² ÷ 2"),
    "Laplace": ("Laplace noise", "rho = times × (sensitivity ÷ scale)² ÷ 2"),
    "exponential": ("Noisy choice", "rho = times × epsilon² ÷ 8"),
    "randomized response": (
        "Randomized answers",
        "rho = times × epsilon² ÷ 2; epsilon = times × epsilon of one, delta 0",
    ),
    "stability histogram": (
        "Stability histogram",
        "rho = times × (sensitivity ÷ sigma)² ÷ 2; its own delta is at least the chance that noise lifts a value that "
        "one unit alone holds to the threshold",
    ),
    STEPS: ("DP-SGD", "has no rho: random samples make it cheaper than rho can say, and only the accountants price it"),
}
_ACCOUNT = ("dataset", "unit", "total_epsilon", "total_delta")  # Keys that two positions of one account have in common
OUTSIDE = "Made outside a ledger: nothing adds it to other releases of the same table."
AFTER_RUN = "after all that this run drew"
AFTER_RELEASE = "when this release was reserved, all before it and itself included"
"""The moments that a ledger's position may be of."""


@dataclass(frozen=True)
class BookLine:
    """One event of a statement with its cost; `None` for rho and share where it has none."""

    what: str
    mechanism: str
    noise: tuple[str, ...]
    times: int
    rho: float | None
    share: float | None
    delta: float


@dataclass(frozen=True)
class BudgetTable:
    lines: tuple[BookLine, ...]
    rho: float | None
    own_delta: float
    rest: float
    by_hand: float | None
    formulas: tuple[tuple[str, str], ...]
    ledger: LedgerNote | None
    left: float
    moment: str
    recompute: str
    find: str


def books_of(name: str, statement: PrivacyStatement, booked: LedgerStanding | None = None) -> BudgetTable:
    events, own = statement.events, sum(event.delta for event in statement.events)
    known = [event.rho for event in events if event.rho is not None]
    rho, rest = sum(known) if events and len(known) == len(events) else None, statement.delta - own
    note, moment = position_of(statement.ledger, booked)
    mechanisms = dict.fromkeys(event.mechanism for event in events)
    return BudgetTable(
        lines=tuple(_line(event, rho) for event in events),
        rho=rho,
        own_delta=own,
        rest=rest,
        by_hand=None if rho is None or not 0 < rest < 1 else rho + 2 * math.sqrt(rho * math.log(1 / rest)),
        formulas=tuple(_FORMULAS[mechanism] for mechanism in mechanisms if mechanism in _FORMULAS),
        ledger=note,
        left=0.0 if note is None else max(0.0, note.total_epsilon - note.spent_epsilon),
        moment=moment,
        recompute=f"understudy ledger show --release evaluation.json --candidate {shlex.quote(plain(name))}",
        find="" if note is None else f"understudy ledger show --holds {shlex.quote(plain(note.entry))}",
    )


def _line(event: EventRecord, total: float | None) -> BookLine:
    numbers = {key: value for key, value in event.noise.items() if not isinstance(value, bool)}
    noise = [f"{_NOISE.get(key, plain(key))} {exact(value)}" for key, value in numbers.items()]
    return BookLine(
        what=plain(event.what),
        mechanism=_WORDS.get(event.mechanism, plain(event.mechanism)),
        noise=(*noise, *(["on whole numbers"] if event.noise.get("whole") is True else [])),
        times=event.count,
        rho=event.rho,
        share=event.rho / total if event.rho is not None and total else None,
        delta=event.delta,
    )


def noise_multiplier(statement: PrivacyStatement) -> float | None:
    """Noise in units of what one unit can move: of DP-SGD's steps, else the least of all Gaussian releases."""
    steps = [event.noise["noise_multiplier"] for event in statement.events if event.mechanism == STEPS]
    gaussian = [event.noise for event in statement.events if event.mechanism == "Gaussian"]
    return min(steps or [noise["sigma"] / noise["sensitivity"] for noise in gaussian], default=None)


def position_of(note: LedgerNote | None, booked: LedgerStanding | None = None) -> tuple[LedgerNote | None, str]:
    """A release in its ledger and the standing of its dataset, with one moment for both."""
    if note is None:
        return None, ""
    # A run reserves all that it draws before it draws anything, and each note is of the moment when that one was
    # reserved. What a reader takes for the position is that after all of them.
    of_account = booked is not None and all(getattr(booked, name) == getattr(note, name) for name in _ACCOUNT)
    if booked is None or not of_account or booked.spent_epsilon < note.spent_epsilon:
        return note, AFTER_RELEASE
    return replace(note, spent_epsilon=booked.spent_epsilon), AFTER_RUN


def exact(value: object) -> str:
    """A number with the six digits that it takes to check a sum by hand.

    >>> exact(0.0256575), exact(9), exact(1e-6), exact(None)
    ('0.0256575', '9', '1e\u22126', '—')
    """
    number = amount(value)
    shown = "" if number is None else f"{number:.6g}"
    return shown.replace("e-0", "e-").replace("e+", "e").replace("-", "\u2212") or "—"
