"""The privacy budget of a statement, as lines that a person checks with a pocket calculator."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluate.text import amount, count, plain, sentence

_WORDS = {
    "Gaussian": "Gaussian noise",
    "Laplace": "Laplace noise",
    "exponential": "Noisy choice of the best (exponential mechanism)",
    "stability histogram": "Values whose noisy count reaches a threshold (stability histogram)",
    "Poisson-subsampled Gaussian": "Gaussian noise on random samples of the units (DP-SGD)",
}
_NOISE = {
    "sigma": "sigma", "scale": "scale", "threshold": "threshold", "sensitivity": "sensitivity",
    "epsilon": "epsilon of a choice", "noise_multiplier": "noise multiplier", "sampling_rate": "sampling rate",
}  # fmt: skip
_FORMULAS = {
    "Gaussian": ("Gaussian noise", "rho = times × (sensitivity ÷ sigma)² ÷ 2"),
    "Laplace": ("Laplace noise", "rho = times × (sensitivity ÷ scale)² ÷ 2"),
    "exponential": ("Noisy choice", "rho = times × epsilon² ÷ 8"),
    "stability histogram": (
        "Stability histogram",
        "rho = times × (sensitivity ÷ sigma)² ÷ 2; its own delta is at least the chance that noise lifts a value that "
        "one unit alone holds to the threshold",
    ),
    "Poisson-subsampled Gaussian": (
        "DP-SGD",
        "has no rho: random samples make it cheaper than rho can say, and only the accountants price it",
    ),
}
_HELD = (
    "dataset", "unit", "reservation", "entry", "epsilon", "spent_epsilon", "total_epsilon", "total_delta",
)  # fmt: skip
_ACCOUNT = ("dataset", "unit", "total_epsilon", "total_delta")
"""What two positions have in common that are of one account."""
OUTSIDE = "Made outside a ledger: nothing adds it to other releases of the same table."
AFTER_RUN = "after all that this run drew"
AFTER_RELEASE = "when this release was reserved, all before it and itself included"
"""The moments that a ledger's position may be of."""


@dataclass(frozen=True)
class BookLine:
    """What was read, how, how often, and at what cost; no rho and no share where it has none."""

    what: str
    mechanism: str
    noise: tuple[str, ...]
    times: str
    rho: float | None
    share: float | None
    delta: float


@dataclass(frozen=True)
class BudgetTable:
    """The lines of a statement with their totals, and how to check them.

    Attributes:
        lines: in the order of the statement.
        rho: of all lines; none where one has none.
        own_delta: of all mechanisms together.
        rest: what is left of the claimed delta.
        by_hand: rho + 2 sqrt(rho ln(1 / rest)); none where there is no rho (Bun & Steinke 2016, Proposition 1.3).
        formulas: mechanism and how its rho comes about, for those that occur.
        ledger: what the ledger says, as data, what is spent at `moment`; none: outside a ledger.
        left: epsilon that the ledger has left at `moment`.
        moment: that the position is of; none: outside a ledger.
        recompute: the command that prices the books anew.
        find: the command that finds the ledger's entry.
    """

    lines: tuple[BookLine, ...]
    rho: float | None
    own_delta: float
    rest: float
    by_hand: float | None
    formulas: tuple[tuple[str, str], ...]
    ledger: Mapping[str, Any] | None
    left: float | None
    moment: str | None
    recompute: str
    find: str | None


def books_of(name: str, statement: Mapping[str, Any], booked: object = None) -> BudgetTable:
    """The books of one candidate's statement, which may come from anyone and hold anything.

    Args:
        name: of the candidate.
        statement: of it.
        booked: how the ledger stands after all that the run drew, as its evaluation says; none where no run says so.
    """
    listed = statement.get("events")
    events = [event for event in listed if isinstance(event, Mapping)] if isinstance(listed, list | tuple) else []
    rhos = [amount(event.get("rho")) for event in events]
    known = [rho for rho in rhos if rho is not None]
    rho = sum(known) if events and len(known) == len(rhos) else None
    own = sum(amount(event.get("delta")) or 0.0 for event in events)
    rest = (amount(statement.get("delta")) or 0.0) - own
    held = position_of(statement.get("ledger"), booked)
    return BudgetTable(
        lines=tuple(_line(event, rho) for event in events),
        rho=rho,
        own_delta=own,
        rest=rest,
        by_hand=None if rho is None or not 0 < rest < 1 else rho + 2 * math.sqrt(rho * math.log(1 / rest)),
        formulas=_formulas(events),
        ledger=held,
        left=None if held is None else _left(held),
        moment=None if held is None else str(held["moment"]),
        recompute=f"understudy account evaluation.json --candidate {_quoted(name)}",
        find=None if held is None else f"understudy ledger verify --holds {_quoted(held.get('entry'))}",
    )


def _line(event: Mapping[str, Any], total: float | None) -> BookLine:
    mechanism, rho, times = str(event.get("mechanism")), amount(event.get("rho")), amount(event.get("count"))
    noise = event.get("noise")
    return BookLine(
        what=plain(event.get("what")),
        mechanism=_WORDS.get(mechanism, plain(mechanism)),
        noise=_noise(noise if isinstance(noise, Mapping) else {}),
        times="—" if times is None else count(times),
        rho=rho,
        share=rho / total if rho is not None and total else None,
        delta=amount(event.get("delta")) or 0.0,
    )


def _noise(noise: Mapping[str, Any]) -> tuple[str, ...]:
    """Names and numbers, with the digits that a calculator needs."""
    shown = [
        f"{_NOISE.get(key, plain(key))} {plain(value) if amount(value) is None else exact(value)}"
        for key, value in noise.items()
        if not isinstance(value, bool)
    ]
    return (*shown, "on whole numbers") if noise.get("whole") is True else tuple(shown)


def _formulas(events: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    met = dict.fromkeys(str(event.get("mechanism")) for event in events)
    return tuple(_FORMULAS[mechanism] for mechanism in met if mechanism in _FORMULAS)


def position_of(note: object, booked: object = None) -> dict[str, Any] | None:
    """Where a ledger holds a release and how its dataset stands, which is said of one moment everywhere.

    A run reserves all that it draws before it draws anything, and the note of each release is of the moment when that
    one was reserved. What a reader takes for the position is that after all of them.

    Args:
        note: of a statement, which may hold anything; none: outside a ledger.
        booked: how the ledger stands after all that the run drew; passed over where it is of another dataset.

    Returns:
        The note's fields, `spent_epsilon` and `moment` being of one moment; none outside a ledger.
    """
    if not isinstance(note, Mapping):
        return None
    held = {key: note.get(key, "not stated") for key in _HELD}
    if not isinstance(booked, Mapping) or any(booked.get(key) != note.get(key) for key in _ACCOUNT):
        return {**held, "moment": AFTER_RELEASE}
    own, after = amount(note.get("spent_epsilon")), amount(booked.get("spent_epsilon"))
    if after is None or (own is not None and after < own):
        return {**held, "moment": AFTER_RELEASE}
    return {**held, "spent_epsilon": after, "moment": AFTER_RUN}


def _left(ledger: Mapping[str, Any]) -> float | None:
    total, spent = amount(ledger.get("total_epsilon")), amount(ledger.get("spent_epsilon"))
    return None if total is None or spent is None else max(0.0, total - spent)


def exact(value: object) -> str:
    """A number with the six digits that it takes to check a sum by hand.

    >>> exact(0.0256575), exact(9), exact(1e-6), exact(None)
    ('0.0256575', '9', '1e\u22126', '—')
    """
    number = amount(value)
    if number is None:
        return "—"
    return f"{number:.6g}".replace("e-0", "e-").replace("e+", "e").replace("-", "\u2212")


def warned(said: object) -> str:
    """A warning as a whole sentence.

    >>> warned("no formal guarantee for a"), warned("n_units=900 is few")
    ('No formal guarantee for a.', 'n_units=900 is few.')
    """
    text = sentence(said).rstrip(".")
    first = text.partition(" ")[0]
    return f"{text[:1].upper() + text[1:] if first.isalpha() else text}."


def _quoted(name: object) -> str:
    return shlex.quote(plain(name))
