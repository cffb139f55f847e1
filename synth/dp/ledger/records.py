"""Records of a ledger: its chained entries, requests to it, and the reservations and totals that it answers with.

An entry has one canonical form, and the hash of that form chains it to the entry before.
"""

import hashlib
import json
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from synth.dp.renyi_curve import RdpCurve, RdpFilter
from synth.errors import LedgerError
from synth.validation import plain_json

FORMAT = "understudy-ledger/1"
"""Hashed with every entry: a change to what the columns mean is another format."""
GENESIS = "0" * 64  # the first entry's value in place of the hash of the one before it
MAX_NAME, MAX_WORDS = 100, 1000
"""Longest name (of a dataset, a unit, a token) and longest text (what a release is), in characters."""


@dataclass(frozen=True)
class LedgerEntry:
    """One row of a ledger, as it was read; a damaged database may hold anything in any column."""

    seq: int
    time: str
    kind: str
    dataset: str
    unit: str
    token: str
    body: str
    previous: str
    hash: str = ""

    def digest(self) -> str:
        """The hash that this entry should have."""
        columns = [self.seq, self.time, self.kind, self.dataset, self.unit, self.token, self.body, self.previous]
        # Columns of another type than was written hash as what they are, so that they are found.
        text = json.dumps([FORMAT, *columns], ensure_ascii=True, separators=(",", ":"), default=repr)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def follows(self, last: "LedgerEntry | None") -> bool:
        """True if the chain holds from the entry before to this one."""
        link = (1, GENESIS) if last is None else (last.seq + 1, last.hash)
        return (self.seq, self.previous) == link and self.digest() == self.hash

    @property
    def content(self) -> dict[str, Any]:
        content = plain_json(self.body)
        if not isinstance(content, dict) or canonical(content) != self.body:
            raise ValueError("the body is not canonical")
        return content


def chained(
    last: LedgerEntry | None, time: str, kind: str, key: tuple[str, str], token: str, body: str
) -> LedgerEntry:  # fmt: skip
    """The entry that comes after `last`."""
    seq, previous = (1, GENESIS) if last is None else (last.seq + 1, last.hash)
    entry = LedgerEntry(seq, time, kind, *key, token, body, previous)
    return replace(entry, hash=entry.digest())


def canonical(content: Mapping[str, Any]) -> str:
    r"""JSON in the one form that is hashed: sorted keys, no spaces, ASCII; floats come back exactly.

    >>> canonical({"b": 0.1, "a": "é"})
    '{"a":"\\u00e9","b":0.1}'
    """
    return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True)


def curve_content(curve: RdpCurve) -> dict[str, Any]:
    """A curve as plain data; JSON has no infinity, so it is spelled "inf"."""
    divergences = ["inf" if math.isinf(value) else float(value) for value in curve.divergences]
    return {"delta": float(curve.delta), "divergences": divergences}


def curve_of(content: Mapping[str, Any]) -> RdpCurve:
    divergences = tuple(math.inf if value == "inf" else _float(value) for value in content["divergences"])
    return RdpCurve(divergences, _float(content["delta"]))


def _float(value: object) -> float:
    if not isinstance(value, float):
        raise TypeError("a cost is a float")
    return value


@dataclass(frozen=True)
class Request:
    """One release that is to be paid for."""

    token: str
    dataset: str
    unit: str
    what: str
    curve: RdpCurve
    schedule_hash: str
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        # One name, one spelling: é is one character however it was typed.
        for key in ("token", "dataset", "unit", "schedule_hash", "what", "fingerprint"):
            if key != "fingerprint" or self.fingerprint is not None:
                object.__setattr__(self, key, named(getattr(self, key), key, MAX_WORDS if key == "what" else MAX_NAME))

    @property
    def body(self) -> str:
        """The body of the entry that grants it."""
        return canonical({
            "curve": curve_content(self.curve),
            "fingerprint": self.fingerprint,
            "schedule": self.schedule_hash,
            "what": self.what,
        })  # fmt: skip


@dataclass(frozen=True)
class Reservation:
    """Epsilon that is set aside for one release, for good.

    `curve` is what it has cost by now, `spent` all that its dataset had when it was last charged.
    """

    token: str
    dataset: str
    unit: str
    what: str
    state: str
    entry: str
    warnings: tuple[str, ...]
    curve: RdpCurve = field(repr=False)
    spent: RdpCurve = field(repr=False)
    body: str = field(repr=False)
    note: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Holding:
    """The total of one dataset and unit, and the curve of all that was reserved or charged."""

    dataset: str
    unit: str
    total: RdpFilter
    n_units: int
    curve: RdpCurve = field(default_factory=RdpCurve.zero, repr=False)
    n_releases: int = 0

    @property
    def epsilon(self) -> float:
        return self.total.epsilon

    @property
    def delta(self) -> float:
        return self.total.delta

    @property
    def spent_epsilon(self) -> float:
        return self.total.spent(self.curve)

    @property
    def left_epsilon(self) -> float:
        """The rest of the total. Costs do not add up linearly: two halves of it may both fit, or neither."""
        return max(0.0, self.epsilon - self.spent_epsilon)

    def with_cost(self, curve: RdpCurve, n_releases: int = 0) -> "Holding":
        """The same total after one more cost."""
        return replace(self, curve=self.curve + curve, n_releases=self.n_releases + n_releases)


def named(text: object, what: str, longest: int = MAX_NAME) -> str:
    """A name in its one spelling (Unicode's NFC)."""
    if not isinstance(text, str) or not text.strip():
        raise LedgerError(f"{what} must be a text that is not empty; give it one")
    name = unicodedata.normalize("NFC", text)
    if len(name) > longest:
        raise LedgerError(f"{what} has {len(name)} characters, and {longest} is the most; shorten it")
    if not name.isprintable() or name != name.strip():
        raise LedgerError(f"{what}={name!a} holds characters that do not print, or spaces at its ends; leave them out")
    return name


def checked_total(epsilon: object, delta: object, n_units: object) -> tuple[float, float, int]:
    """Epsilon, delta and n_units of a total; delta None or "auto" is min(1e-6, n_units^-1.2).

    >>> checked_total(1, None, 1_000_000)
    (1.0, 6.309573444801936e-08, 1000000)
    """
    if not _is_number(epsilon) or not 0 < epsilon < math.inf:  # type: ignore[operator]  # NaN compares as false
        raise LedgerError(f"the total epsilon={_shown(epsilon)} must be a finite number above 0; 1 is strict, 10 loose")
    if not isinstance(n_units, int) or isinstance(n_units, bool) or not 1 <= n_units < 2**63:
        raise LedgerError(
            f"n_units={_shown(n_units)} must be the public number of units, a whole number from 1; delta depends on it"
        )
    ceiling = 1 / (10 * n_units)
    if delta is None or delta == "auto":
        delta = min(1e-6, ceiling, float(n_units) ** -1.2)
    if not _is_number(delta) or not 0 < delta <= ceiling:  # type: ignore[operator]
        raise LedgerError(
            f"the total delta={_shown(delta)} must lie in (0, 1/(10 n_units)] = (0, {ceiling:.3g}], since a larger one "
            'may publish whole units; use delta="auto"'
        )
    return float(epsilon), float(delta), n_units  # type: ignore[arg-type]


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{value!r:.40}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
