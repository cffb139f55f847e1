"""The state of a ledger: what its entries come to, applied one after the other, what it allows, and what is damaged.

A reservation is reserved, then used, then committed; only between the last two may it be charged again. Nothing goes
back: what was reserved stays spent, used or not, since a ledger cannot know what was made elsewhere under a token.

The chain shows any change to what was written, unless whoever made it computed all later hashes anew. It cannot show
that its last entries are gone. A hash that lies elsewhere, in a privacy statement, shows both.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from synth.dp.ledger.records import (
    GENESIS,
    MAX_WORDS,
    Draft,
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


@dataclass(frozen=True)
class Account:
    """One dataset and unit: its total, and the curve of everything reserved or charged."""

    dataset: str
    unit: str
    total: RdpFilter
    n_units: int
    curve: RdpCurve
    n_releases: int = 0

    def with_cost(self, curve: RdpCurve, n_releases: int = 0) -> "Account":
        """The account after one more cost."""
        return replace(self, curve=self.curve + curve, n_releases=self.n_releases + n_releases)

    @property
    def holding(self) -> Holding:
        total, spent = self.total, self.total.spent(self.curve)
        return Holding(
            dataset=self.dataset,
            unit=self.unit,
            epsilon=total.epsilon,
            delta=total.delta,
            n_units=self.n_units,
            spent_epsilon=spent,
            n_releases=self.n_releases,
            curve=self.curve,
        )


@dataclass(frozen=True)
class Record:
    """One reservation in the books."""

    reservation: Reservation
    body: str
    curve: RdpCurve
    spent: RdpCurve
    note: str | None = None


class LedgerState:
    """Accounts and reservations after some number of entries."""

    def __init__(self) -> None:
        self.accounts: dict[tuple[str, str], Account] = {}
        self.records: dict[str, Record] = {}
        self.last: LedgerEntry | None = None
        self._names: dict[str, set[str]] = {}
        """The datasets that a fingerprint was seen under."""
        self._prints: dict[str, set[str]] = {}
        """The fingerprints that were seen under a dataset."""

    @property
    def datasets(self) -> set[str]:
        """The names that have a total."""
        return {dataset for dataset, _ in self.accounts}

    def apply(self, entry: LedgerEntry) -> None:
        steps = {
            "opened": self._open,
            "reserved": self._reserve,
            "used": self._use,
            "charged": self._charge,
            "committed": self._commit,
        }
        step = steps.get(entry.kind) if isinstance(entry.kind, str) else None
        if step is None:
            raise Impossible("its kind is not known to this version")
        try:
            step(entry, entry.content)
        except (KeyError, TypeError, ValueError, RecursionError):
            raise Impossible("its body is malformed") from None
        self.last = entry

    def _open(self, entry: LedgerEntry, content: dict[str, Any]) -> None:
        if (entry.dataset, entry.unit) in self.accounts:
            raise Impossible("it opens a total that is open already")
        epsilon, delta, n_units = checked_total(content["epsilon"], content["delta"], content["n_units"])
        key = named(entry.dataset, "dataset"), named(entry.unit, "unit")
        self.accounts[key] = Account(*key, RdpFilter(epsilon, delta), n_units, RdpCurve.zero())

    def _reserve(self, entry: LedgerEntry, content: dict[str, Any]) -> None:
        if entry.token in self.records:
            raise Impossible("it reserves under a token that is taken")
        curve, account = curve_of(content["curve"]), self._account(entry)
        fingerprint: str | None = content["fingerprint"]
        reservation = Reservation(
            token=named(entry.token, "token"),
            dataset=entry.dataset,
            unit=entry.unit,
            what=named(content["what"], "what", MAX_WORDS),
            schedule_hash=str(content["schedule"]),
            state="reserved",
            n_charges=0,
            seq=entry.seq,
            entry=entry.hash,
            warnings=self.warnings(entry.dataset, fingerprint),
        )
        after = self._spend(account, curve, n_releases=1)
        self.records[entry.token] = Record(reservation, entry.body, curve, after.curve)
        if fingerprint is not None:
            self._names.setdefault(fingerprint, set()).add(entry.dataset)
            self._prints.setdefault(entry.dataset, set()).add(fingerprint)

    def _use(self, entry: LedgerEntry, content: dict[str, Any]) -> None:
        self._step(entry, self._record(entry, "reserved"), state="used")

    def _charge(self, entry: LedgerEntry, content: dict[str, Any]) -> None:
        record, curve = self._record(entry, "used"), curve_of(content["curve"])
        after = self._spend(self._account(entry), curve)
        record = replace(record, curve=record.curve + curve, spent=after.curve)
        self._step(entry, record, n_charges=record.reservation.n_charges + 1)

    def _commit(self, entry: LedgerEntry, content: dict[str, Any]) -> None:
        self._step(entry, replace(self._record(entry, "used"), note=entry.body), state="committed")

    def _step(self, entry: LedgerEntry, record: Record, **changes: Any) -> None:
        self.records[entry.token] = replace(record, reservation=replace(record.reservation, **changes))

    def _account(self, entry: LedgerEntry) -> Account:
        account = self.accounts.get((entry.dataset, entry.unit))
        if account is None:
            raise Impossible("its dataset and unit have no total")
        return account

    def _record(self, entry: LedgerEntry, state: str) -> Record:
        record = self.records.get(entry.token)
        if record is None:
            raise Impossible("its token was never reserved")
        reservation = record.reservation
        if (reservation.dataset, reservation.unit) != (entry.dataset, entry.unit):
            raise Impossible("its dataset or unit is not that of its reservation")
        if reservation.state != state:
            raise Impossible(f"its reservation is {reservation.state}, not {state}")
        return record

    def _spend(self, account: Account, curve: RdpCurve, n_releases: int = 0) -> Account:
        after = account.with_cost(curve, n_releases)
        if after.total.spent(after.curve) > after.total.epsilon * (1 + TOLERANCE):
            raise Impossible("it brings the spent epsilon over the total")
        self.accounts[account.dataset, account.unit] = after
        return after

    def warnings(self, dataset: str, fingerprint: str | None) -> tuple[str, ...]:
        """Warnings about a table of this fingerprint under this name."""
        if fingerprint is None:
            return ()
        found = []
        if self._prints.get(dataset, set()) - {fingerprint}:
            found.append(
                f"dataset={dataset!r} was used before with another table: another version or extract, it seems, and "
                "the total covers them all"
            )
        others = sorted(self._names.get(fingerprint, set()) - {dataset})
        if others:
            found.append(
                f"the table of dataset={dataset!r} is known as {', '.join(map(repr, others))} too: two names double "
                "its budget, so keep to one"
            )
        return tuple(found)


def replayed(books: LedgerState, entries: list[LedgerEntry]) -> None:
    """Take in the entries that follow, each checked: its place, its link, its hash, its rules."""
    for entry in entries:
        before = books.last
        expected = (1, GENESIS) if before is None else (before.seq + 1, before.hash)
        fault = None
        if (entry.seq, entry.previous) != expected or entry.digest() != entry.hash:
            fault = "the chain of hashes is broken there"
        else:
            try:
                books.apply(entry)
            except Impossible as reason:
                fault = str(reason)
        if fault is not None:
            raise LedgerError(
                f"the ledger is damaged at entry seq={entry.seq} ({fault}), so nothing can be decided by it; run "
                "`understudy ledger show` and restore a copy that is whole"
            )


@dataclass(frozen=True)
class Damage:
    """One thing that is wrong."""

    seq: int | None
    what: str


def damages(entries: Sequence[LedgerEntry], holds: str | None = None) -> tuple[Damage, ...]:
    """Everything wrong with a ledger, in the order of the chain; empty for one that is whole."""
    books, found, before = LedgerState(), list[Damage](), None
    for entry in entries:
        found += _misplaced(entry, before)
        found += _altered(entry, before)
        try:
            books.apply(entry)
        except Impossible as reason:
            found.append(Damage(entry.seq, f"{reason}: it cannot follow the entries before it"))
        before = entry
    if not entries:
        found.append(Damage(1, "the first entry is missing: the ledger is empty"))
    if holds is not None and holds not in {entry.digest() for entry in entries}:
        found.append(Damage(None, f"no entry has the hash {holds}, which a statement names: it was removed or altered"))
    return tuple(found)


def _misplaced(entry: LedgerEntry, before: LedgerEntry | None) -> list[Damage]:
    expected = 1 if before is None else before.seq + 1
    if entry.seq < 1:
        return [Damage(entry.seq, "entries are numbered from 1")]
    if entry.seq == expected or (before is not None and before.seq < 1 and entry.seq == 1):
        return []
    last = entry.seq - 1
    gap = f"entry {expected} is missing" if last == expected else f"entries {expected} to {last} are missing"
    return [Damage(expected, gap)]


def _altered(entry: LedgerEntry, before: LedgerEntry | None) -> list[Damage]:
    found = []
    if entry.digest() != entry.hash:
        found.append(Damage(entry.seq, "its hash is not that of its content: a column was altered"))
    # Where the entry before was altered, one of its two hashes is still the one that this entry was linked to.
    links = {GENESIS} if before is None else {before.hash, before.digest()}
    if entry.previous not in links:
        found.append(Damage(entry.seq, "its link is not the hash of the entry before it"))
    return found


def record_of(books: LedgerState, token: str) -> Record:
    record = books.records.get(named(token, "token"))
    if record is None:
        raise LedgerError(f"token={token!r} was never reserved in this ledger; reserve first, or name its own ledger")
    return record


def granted(books: LedgerState, draft: Draft) -> bool:
    """True if the books hold this very request."""
    record = books.records.get(draft.token)
    if record is None:
        return False
    held = record.reservation
    if (held.dataset, held.unit, record.body) != (draft.dataset, draft.unit, draft.body):
        raise LedgerError(
            f"token={draft.token!r} names another request already; choose a token of its own for this one"
        )
    return True


def check_totals(books: LedgerState, requests: Sequence[Request]) -> None:
    """Refuse releases that do not all fit."""
    by_account: dict[tuple[str, str], list[Request]] = {}
    for request in requests:
        by_account.setdefault((request.dataset, request.unit), []).append(request)
    for (dataset, unit), asked in by_account.items():
        account = books.accounts.get((dataset, unit))
        if account is None:
            raise LedgerError(_without_total(books, dataset, unit))
        curves, names = [request.curve for request in asked], [request.what for request in asked]
        check_total(account, curves, releases_of(len(asked)), names=names)


def releases_of(n: int) -> str:
    """The refused releases, in words."""
    return "this release" if n == 1 else f"these {n} releases"


def check_total(account: Account, curves: Sequence[RdpCurve], what: str, names: Sequence[str] = ()) -> None:
    """Refuse costs that do not fit into what is left."""
    after = account
    for curve in curves:  # added in the order in which the books will add them, so that both get the same sum
        after = after.with_cost(curve)
    total, held = account.total, account.holding
    if total.admits(after.curve):
        return
    share = (1 - CONVERSION_SHARE) * total.delta
    remedy = "ask for a smaller epsilon or fewer releases"
    rise = f"epsilon from {held.spent_epsilon:.6g} to {total.spent(after.curve):.6g}"
    alone = [total.spent(curve) for curve in curves]
    if names and max(alone) > min(alone):
        rise += f", the largest of them {names[alone.index(max(alone))]!r} with {max(alone):.6g} by itself"
    if after.curve.delta > share:
        before, behind = account.curve.delta, after.curve.delta
        rise = f"the deltas of mechanisms from {before:.3g} to {behind:.3g}, where {share:.3g} is the most"
        remedy = "set a smaller delta for it, or declare the categories and frequent values that it would measure"
    raise LedgerError(
        f"the total of dataset={account.dataset!r} with unit={account.unit!r} is epsilon={total.epsilon:g} at "
        f"delta={total.delta:.3g}, of which {held.left_epsilon:.6g} is left, and {what} would bring {rise}; "
        f"{remedy}"
    )


def _without_total(books: LedgerState, dataset: str, unit: str) -> str:
    units = sorted(known for name, known in books.accounts if name == dataset)
    if not units:
        return unknown(dataset, books.datasets)
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
