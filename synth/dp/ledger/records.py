"""Records of a ledger: its chained entries, requests to it, and what its entries come to, applied one after the other.

An entry has one canonical form, and the hash of that form chains it to the entry before. The chain shows any change to
what was written, unless whoever made it computed all later hashes anew. It cannot show that its last entries are gone.
A hash that lies elsewhere, in a privacy statement, shows both.

A reservation is reserved, then used, then committed; only between the last two may it be charged again. Nothing goes
back: what was reserved stays spent, used or not, since a ledger cannot know what was made elsewhere under a token.
"""

import hashlib
import json
import math
import shlex
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from synth.dp.renyi_curve import CONVERSION_SHARE, RdpCurve, RdpFilter
from synth.errors import LedgerError, nearest
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
            if (value := getattr(self, key)) is not None or key != "fingerprint":
                object.__setattr__(self, key, named(value, key, MAX_WORDS if key == "what" else MAX_NAME))

    @property
    def body(self) -> str:
        """The body of the entry that grants it."""
        told = {"fingerprint": self.fingerprint, "schedule": self.schedule_hash, "what": self.what}
        return canonical({"curve": curve_content(self.curve), **told})


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


TOLERANCE = 1e-9
"""By how much, relatively, a recorded total may be passed: another machine's logarithm may round the other way."""


@dataclass(frozen=True)
class Damage:
    """One thing that is wrong with a ledger."""

    seq: int | None
    what: str


class Impossible(Exception):
    """An entry cannot follow those before it; the message says why. Nothing was applied."""


class LedgerState:
    """Totals and reservations after some number of entries."""

    def __init__(self) -> None:
        self.accounts: dict[tuple[str, str], Holding] = {}
        self.reservations: dict[str, Reservation] = {}
        self.last: LedgerEntry | None = None
        self._seen: set[tuple[str, str]] = set()
        """Datasets, each with a fingerprint that was seen under it."""

    def replay(self, entries: Iterable[LedgerEntry]) -> None:
        """Take in the entries that follow, each checked: its place in the chain, its hash, the rules."""
        for entry in entries:
            try:
                if not entry.follows(self.last):
                    raise Impossible("the chain of hashes is broken: it was altered, or one before it is gone")
                self._apply(entry, entry.content)
            except Impossible as impossible:
                reason = str(impossible)
            except (KeyError, TypeError, ValueError, RecursionError):
                reason = "its body is malformed"
            else:
                self.last = entry
                continue
            raise LedgerError(
                f"the ledger is damaged at entry seq={entry.seq} ({reason}), so nothing can be decided by it; run "
                "`understudy ledger show` and restore a copy that is whole"
            )

    def _apply(self, entry: LedgerEntry, content: dict[str, Any]) -> None:
        match entry.kind:
            case "opened":
                self._open(entry, content)
            case "reserved":
                self._reserve(entry, content)
            case "used":
                self.reservations[entry.token] = replace(self._reservation(entry, "reserved"), state="used")
            case "charged":
                reservation, curve = self._reservation(entry, "used"), curve_of(content["curve"])
                spent = self._spend(entry, curve)
                self.reservations[entry.token] = replace(reservation, curve=reservation.curve + curve, spent=spent)
            case "committed":
                reservation = self._reservation(entry, "used")
                self.reservations[entry.token] = replace(reservation, state="committed", note=entry.body)
            case _:
                raise Impossible("its kind is not known to this version")

    def _open(self, entry: LedgerEntry, content: dict[str, Any]) -> None:
        if (entry.dataset, entry.unit) in self.accounts:
            raise Impossible("it opens a total that is open already")
        epsilon, delta, n_units = checked_total(content["epsilon"], content["delta"], content["n_units"])
        key = named(entry.dataset, "dataset"), named(entry.unit, "unit")
        self.accounts[key] = Holding(*key, RdpFilter(epsilon, delta), n_units)

    def _reserve(self, entry: LedgerEntry, content: dict[str, Any]) -> None:
        if entry.token in self.reservations:
            raise Impossible("it reserves under a token that is taken")
        curve, fingerprint = curve_of(content["curve"]), content["fingerprint"]
        what, token = named(content["what"], "what", MAX_WORDS), named(entry.token, "token")
        warnings = self._warnings(entry.dataset, fingerprint)
        spent = self._spend(entry, curve, n_releases=1)
        self.reservations[entry.token] = Reservation(
            token, entry.dataset, entry.unit, what, "reserved", entry.hash, warnings, curve, spent, entry.body
        )
        if fingerprint is not None:
            self._seen.add((entry.dataset, fingerprint))

    def _reservation(self, entry: LedgerEntry, state: str) -> Reservation:
        reservation = self.reservations.get(entry.token)
        if reservation is None:
            raise Impossible("its token was never reserved")
        if (reservation.dataset, reservation.unit) != (entry.dataset, entry.unit):
            raise Impossible("its dataset or unit is not that of its reservation")
        if reservation.state != state:
            raise Impossible(f"its reservation is {reservation.state}, not {state}")
        return reservation

    def _spend(self, entry: LedgerEntry, curve: RdpCurve, n_releases: int = 0) -> RdpCurve:
        account = self.accounts.get((entry.dataset, entry.unit))
        if account is None:
            raise Impossible("its dataset and unit have no total")
        after = account.with_cost(curve, n_releases)
        if after.spent_epsilon > after.epsilon * (1 + TOLERANCE):
            raise Impossible("it brings the spent epsilon over the total")
        self.accounts[account.dataset, account.unit] = after
        return after.curve

    def _warnings(self, dataset: str, fingerprint: str | None) -> tuple[str, ...]:
        if fingerprint is None:
            return ()
        warnings = []
        if any(name == dataset and other != fingerprint for name, other in self._seen):
            warnings.append(
                f"dataset={dataset!r} was used before with another table: another version or extract, it seems, and "
                "the total covers them all"
            )
        others = sorted(name for name, other in self._seen if name != dataset and other == fingerprint)
        if others:
            warnings.append(
                f"the table of dataset={dataset!r} is known as {', '.join(map(repr, others))} too: two names double "
                "its budget, so keep to one"
            )
        return tuple(warnings)

    def reservation(self, token: str) -> Reservation:
        reservation = self.reservations.get(named(token, "token"))
        if reservation is None:
            raise LedgerError(
                f"token={token!r} was never reserved in this ledger; reserve first, or name its own ledger"
            )
        return reservation

    def is_granted(self, request: Request) -> bool:
        """True if this very request was granted before."""
        reservation = self.reservations.get(request.token)
        if reservation is None:
            return False
        if (reservation.dataset, reservation.unit, reservation.body) != (request.dataset, request.unit, request.body):
            raise LedgerError(
                f"token={request.token!r} names another request already; choose a token of its own for this one"
            )
        return True

    def check_totals(self, requests: Sequence[Request]) -> None:
        by_account: dict[tuple[str, str], list[Request]] = {}
        for request in requests:
            by_account.setdefault((request.dataset, request.unit), []).append(request)
        for (dataset, unit), asked in by_account.items():
            account = self.accounts.get((dataset, unit))
            if account is None:
                units = sorted(other for name, other in self.accounts if name == dataset)
                if not units:
                    raise LedgerError(unknown(dataset, {name for name, _ in self.accounts}))
                raise LedgerError(
                    f"dataset={dataset!r} has a total for unit={', '.join(map(repr, units))}, not for unit={unit!r}; "
                    "declare that unit in the schema, or open a total for it with `understudy ledger open`"
                )
            check_total(account, [request.curve for request in asked], [request.what for request in asked])


def check_total(account: Holding, curves: Sequence[RdpCurve], releases: Sequence[str] = ()) -> None:
    """Refuse costs that do not fit into what is left: of these releases, or of one that is charged again."""
    after, total = account, account.total
    for curve in curves:  # added in the order in which the books will add them, so that both get the same sum
        after = after.with_cost(curve)
    if total.admits(after.curve):
        return
    share = (1 - CONVERSION_SHARE) * total.delta
    remedy = "ask for a smaller epsilon or fewer releases"
    rise = f"epsilon from {account.spent_epsilon:.6g} to {after.spent_epsilon:.6g}"
    alone = [total.spent(curve) for curve in curves]
    if releases and max(alone) > min(alone):
        rise += f", the largest of them {releases[alone.index(max(alone))]!r} with {max(alone):.6g} by itself"
    if after.curve.delta > share:
        before, behind = account.curve.delta, after.curve.delta
        rise = f"the deltas of mechanisms from {before:.3g} to {behind:.3g}, where {share:.3g} is the most"
        remedy = "set a smaller delta for it, or declare the categories and frequent values that it would measure"
    what = f"these {len(releases)} releases" if len(releases) > 1 else "this release" if releases else "this charge"
    raise LedgerError(
        f"the total of dataset={account.dataset!r} with unit={account.unit!r} is epsilon={total.epsilon:g} at "
        f"delta={total.delta:.3g}, of which {account.left_epsilon:.6g} is left, and {what} would bring {rise}; "
        f"{remedy}"
    )


def unknown(dataset: str, known: set[str]) -> str:
    """The sentence for a dataset without a total, with the nearest name that has one."""
    hint = f" ({nearest(dataset, known)})" if known else ""
    command = f"understudy ledger open {shlex.quote(dataset)} --epsilon E --n-units N"
    return f"dataset={dataset!r} has no total in this ledger{hint}; open one with `{command}`"
