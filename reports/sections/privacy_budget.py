"""The privacy budget of a statement, as lines that a person checks with a pocket calculator."""

import math
import shlex
from dataclasses import dataclass, replace

from evaluate.provenance import LedgerStanding
from evaluate.text import amount, plain
from synth.dp.statement import EventRecord, LedgerNote, PrivacyStatement

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
    STEPS: (
        "DP-SGD",
        "has no rho: random samples make it cheaper than rho can say, and only the accountants price it",
    ),
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
    events = statement.events
    known = [event.rho for event in events if event.rho is not None]
    rho = sum(known) if events and len(known) == len(events) else None
    own = sum(event.delta for event in events)
    rest = statement.delta - own
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
    """A release in its ledger and the standing of its dataset, with one moment for both. A run reserves all that it
    draws before it draws anything, and the note of each release is of the moment when that one was reserved. What a
    reader takes for the position is that after all of them.
    """
    if note is None:
        return None, ""
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
    if number is None:
        return "—"
    return f"{number:.6g}".replace("e-0", "e-").replace("e+", "e").replace("-", "\u2212")
