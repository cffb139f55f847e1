"""The state of a ledger: what its entries, applied one after the other, come to.

A reservation is reserved, then used, then committed; only between the last two may it be charged again. Nothing goes
back: what was reserved stays spent, used or not, since a ledger cannot know what was made elsewhere under a token.
"""

from dataclasses import dataclass, replace
from typing import Any

from synth.dp.curve import RdpCurve, RdpFilter
from synth.dp.ledger.entries import GENESIS, Entry, curve_of
from synth.dp.ledger.request import MAX_WORDS, Holding, Reservation, checked_total, named
from synth.errors import LedgerError

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
        """The account as it is shown."""
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
    """One reservation in the books.

    Attributes:
        reservation: its state.
        body: of the entry that made it; the same request has the same.
        curve: its cost, with what was charged again.
        spent: its dataset's curve after its last charge.
        note: body of the entry that committed it.
    """

    reservation: Reservation
    body: str
    curve: RdpCurve
    spent: RdpCurve
    note: str | None = None


class Books:
    """Accounts and reservations after some number of entries."""

    def __init__(self) -> None:
        self.accounts: dict[tuple[str, str], Account] = {}
        self.records: dict[str, Record] = {}
        self.last: Entry | None = None
        self._names: dict[str, set[str]] = {}
        """The datasets that a fingerprint was seen under."""
        self._prints: dict[str, set[str]] = {}
        """The fingerprints that were seen under a dataset."""

    @property
    def datasets(self) -> set[str]:
        """The names that have a total."""
        return {dataset for dataset, _ in self.accounts}

    def apply(self, entry: Entry) -> None:
        """Take in the next entry.

        Raises:
            Impossible: it cannot follow those before it; the books stay as they were.
        """
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

    def _open(self, entry: Entry, content: dict[str, Any]) -> None:
        if (entry.dataset, entry.unit) in self.accounts:
            raise Impossible("it opens a total that is open already")
        epsilon, delta, n_units = checked_total(content["epsilon"], content["delta"], content["n_units"])
        key = named(entry.dataset, "dataset"), named(entry.unit, "unit")
        self.accounts[key] = Account(*key, RdpFilter(epsilon, delta), n_units, RdpCurve.zero())

    def _reserve(self, entry: Entry, content: dict[str, Any]) -> None:
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

    def _use(self, entry: Entry, content: dict[str, Any]) -> None:
        self._step(entry, self._record(entry, "reserved"), state="used")

    def _charge(self, entry: Entry, content: dict[str, Any]) -> None:
        record, curve = self._record(entry, "used"), curve_of(content["curve"])
        after = self._spend(self._account(entry), curve)
        record = replace(record, curve=record.curve + curve, spent=after.curve)
        self._step(entry, record, n_charges=record.reservation.n_charges + 1)

    def _commit(self, entry: Entry, content: dict[str, Any]) -> None:
        self._step(entry, replace(self._record(entry, "used"), note=entry.body), state="committed")

    def _step(self, entry: Entry, record: Record, **changes: Any) -> None:
        self.records[entry.token] = replace(record, reservation=replace(record.reservation, **changes))

    def _account(self, entry: Entry) -> Account:
        account = self.accounts.get((entry.dataset, entry.unit))
        if account is None:
            raise Impossible("its dataset and unit have no total")
        return account

    def _record(self, entry: Entry, state: str) -> Record:
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
        """What is odd about a table of this fingerprint under this name."""
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


def replayed(books: Books, entries: list[Entry]) -> None:
    """Take in the entries that follow, each checked: its place, its link, its hash, its rules.

    Raises:
        LedgerError: one of them is damaged; the books end before it.
    """
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
                "`understudy ledger verify` and restore a copy that is whole"
            )
