"""The state of a ledger: what its entries come to, applied one after the other, and what it allows.

A reservation is reserved, then used, then committed; only between the last two may it be charged again. Nothing goes
back: what was reserved stays spent, used or not, since a ledger cannot know what was made elsewhere under a token.

The chain shows any change to what was written, unless whoever made it computed all later hashes anew. It cannot show
that its last entries are gone. A hash that lies elsewhere, in a privacy statement, shows both.
"""

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from synth.dp.ledger.records import (
    MAX_WORDS,
    Holding,
    LedgerEntry,
    Request,
    Reservation,
    checked_total,
    curve_of,
    named,
)
from synth.dp.renyi_curve import CONVERSION_SHARE, RdpCurve, RdpFilter
from synth.errors import LedgerError, nearest

TOLERANCE = 1e-9
"""By how much, relatively, a recorded total may be passed: another machine's logarithm may round the other way."""


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

    @property
    def datasets(self) -> set[str]:
        """The names that have a total."""
        return {dataset for dataset, _ in self.accounts}

    def replay(self, entries: Iterable[LedgerEntry]) -> None:
        """Take in the entries that follow, each checked: its place in the chain, its hash, the rules."""
        for entry in entries:
            try:
                self._apply(entry)
            except Impossible as reason:
                raise LedgerError(
                    f"the ledger is damaged at entry seq={entry.seq} ({reason}), so nothing can be decided by it; run "
                    "`understudy ledger show` and restore a copy that is whole"
                ) from None

    def _apply(self, entry: LedgerEntry) -> None:
        if not entry.follows(self.last):
            raise Impossible("the chain of hashes is broken: it was altered, or one before it is gone")
        steps: dict[str, Callable[[LedgerEntry, dict[str, Any]], None]] = {
            "opened": self._open,
            "reserved": self._reserve,
            "used": self._use,
            "charged": self._charge,
            "committed": self._commit,
        }
        if entry.kind not in steps:
            raise Impossible("its kind is not known to this version")
        try:
            steps[entry.kind](entry, entry.content)
        except (KeyError, TypeError, ValueError, RecursionError):
            raise Impossible("its body is malformed") from None
        self.last = entry

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

    def _use(self, entry: LedgerEntry, content: dict[str, Any]) -> None:
        self.reservations[entry.token] = replace(self._reservation(entry, "reserved"), state="used")

    def _charge(self, entry: LedgerEntry, content: dict[str, Any]) -> None:
        reservation, curve = self._reservation(entry, "used"), curve_of(content["curve"])
        spent = self._spend(entry, curve)
        self.reservations[entry.token] = replace(reservation, curve=reservation.curve + curve, spent=spent)

    def _commit(self, entry: LedgerEntry, content: dict[str, Any]) -> None:
        reservation = self._reservation(entry, "used")
        self.reservations[entry.token] = replace(reservation, state="committed", note=entry.body)

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
        """Warnings about a table of this fingerprint under this name."""
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
        """What a token names."""
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
        """Refuse releases that do not all fit."""
        by_account: dict[tuple[str, str], list[Request]] = {}
        for request in requests:
            by_account.setdefault((request.dataset, request.unit), []).append(request)
        for (dataset, unit), asked in by_account.items():
            account = self.accounts.get((dataset, unit))
            if account is None:
                units = sorted(other for name, other in self.accounts if name == dataset)
                raise LedgerError(_other_unit(dataset, units, unit) if units else unknown(dataset, self.datasets))
            curves, names = [request.curve for request in asked], [request.what for request in asked]
            check_total(account, curves, releases_of(len(asked)), names=names)


@dataclass(frozen=True)
class Damage:
    """One thing that is wrong."""

    seq: int | None
    what: str


def releases_of(n: int) -> str:
    """The refused releases, in words."""
    return "this release" if n == 1 else f"these {n} releases"


def check_total(account: Holding, curves: Sequence[RdpCurve], what: str, names: Sequence[str] = ()) -> None:
    """Refuse costs that do not fit into what is left."""
    after, total = account, account.total
    for curve in curves:  # added in the order in which the books will add them, so that both get the same sum
        after = after.with_cost(curve)
    if total.admits(after.curve):
        return
    share = (1 - CONVERSION_SHARE) * total.delta
    remedy = "ask for a smaller epsilon or fewer releases"
    rise = f"epsilon from {account.spent_epsilon:.6g} to {after.spent_epsilon:.6g}"
    alone = [total.spent(curve) for curve in curves]
    if names and max(alone) > min(alone):
        rise += f", the largest of them {names[alone.index(max(alone))]!r} with {max(alone):.6g} by itself"
    if after.curve.delta > share:
        before, behind = account.curve.delta, after.curve.delta
        rise = f"the deltas of mechanisms from {before:.3g} to {behind:.3g}, where {share:.3g} is the most"
        remedy = "set a smaller delta for it, or declare the categories and frequent values that it would measure"
    raise LedgerError(
        f"the total of dataset={account.dataset!r} with unit={account.unit!r} is epsilon={total.epsilon:g} at "
        f"delta={total.delta:.3g}, of which {account.left_epsilon:.6g} is left, and {what} would bring {rise}; "
        f"{remedy}"
    )


def _other_unit(dataset: str, units: Sequence[str], unit: str) -> str:
    command = f"understudy ledger open {shlex.quote(dataset)} --unit {shlex.quote(unit)} --epsilon E --n-units N"
    return (
        f"dataset={dataset!r} has a total for unit={', '.join(map(repr, units))}, not for unit={unit!r}; declare that "
        f"unit in the schema, or open a total with `{command}`"
    )


def unknown(dataset: str, known: set[str]) -> str:
    """The sentence for a dataset without a total, with the nearest name that has one."""
    hint = f" ({nearest(dataset, known)})" if known else ""
    command = f"understudy ledger open {shlex.quote(dataset)} --epsilon E --n-units N"
    return f"dataset={dataset!r} has no total in this ledger{hint}; open one with `{command}`"
