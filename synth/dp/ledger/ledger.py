"""The operations on a ledger: each is one transaction, and has happened wholly or not at all, whoever dies when.

A process reads the whole chain at its first operation and checks each entry (place, link, hash, rules). Later it sees
that the last entry it knows is in its place, and then checks only what is new. So nothing is decided on an entry that
this process has not checked, at the price of reading each: 10,000 take about a second.
"""

import datetime as dt
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

from synth.dp.ledger.records import (
    MAX_WORDS,
    Draft,
    Holding,
    LedgerEntry,
    Request,
    Reservation,
    canonical,
    chained,
    checked_total,
    curve_content,
    named,
)
from synth.dp.ledger.state import (
    Damage,
    LedgerState,
    Record,
    check_total,
    check_totals,
    damages,
    granted,
    record_of,
    replayed,
    unknown,
)
from synth.dp.ledger.store import PATIENCE_S, Store, add, entries_after, entry_at, parsed
from synth.dp.renyi_curve import RdpCurve
from synth.dp.statement import LedgerNote
from synth.errors import LedgerError

MAX_NOTE = 4000  # longest note of a commit, in characters of JSON


def open_ledger(url: str | Path, patience_s: float = PATIENCE_S) -> "Ledger":
    """The ledger at an address. Nothing is reached or made before the first operation."""
    return Ledger(Store(parsed(str(url), patience_s)))


class Ledger:
    """The books of a privacy budget. Every operation raises `LedgerError` where its database fails or is damaged."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._books = LedgerState()
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        return f"Ledger({self._store.address.shown!r})"

    def open(
        self, dataset: str, *, unit: str, epsilon: float, delta: float | Literal["auto"] | None = None, n_units: int
    ) -> Holding:
        """A new total, promised once for all releases of a dataset; makes the ledger where there is none."""
        key = named(dataset, "dataset"), named(unit, "unit")
        total = dict(zip(("epsilon", "delta", "n_units"), checked_total(epsilon, delta, n_units), strict=True))
        with self._writing(may_make=True) as pen:
            if key in pen.books.accounts:
                raise LedgerError(
                    f"a total is promised once: dataset={key[0]!r} with unit={key[1]!r} has "
                    f"epsilon={pen.books.accounts[key].total.epsilon:g}, which cannot be changed; keep within it"
                )
            pen.add(Draft("opened", *key, "", canonical(total)))
        return self._books.accounts[key].holding

    def reserve(self, requests: Sequence[Request]) -> tuple[Reservation, ...]:
        """Epsilon set aside for all requests, in their order, or for none of them.

        A request that was granted before, by the same token with the same content, is not charged again.
        """
        if len({request.token for request in requests}) < len(requests):
            raise LedgerError("two requests have the same token; give each release its own")
        drafts = {request.token: _reserving(request) for request in requests}
        with self._writing() as pen:
            new = [request for request in requests if not granted(pen.books, drafts[request.token])]
            check_totals(pen.books, new)
            for request in new:
                pen.add(drafts[request.token])
        return tuple(record_of(self._books, request.token).reservation for request in requests)

    def reservation(self, token: str) -> Reservation:
        with self._reading() as books:
            return record_of(books, token).reservation

    def use(self, token: str) -> Reservation:
        """The reservation, from now on used: to be called before the first draw, and once."""
        with self._writing() as pen:
            record = record_of(pen.books, token)
            if record.reservation.state != "reserved":
                raise LedgerError(f"a reservation is used once, and token={token!r} was; reserve anew for another fit")
            pen.add(_following("used", record, {}))
        return record_of(self._books, token).reservation

    def charge(self, token: str, what: str, curve: RdpCurve) -> Reservation:
        """The reservation, charged once more: a draw whose value was lost is drawn, and paid for, again.

        A charge whose answer was lost is to be made again: that is dearer than it had to be, never cheaper.
        """
        content = {"curve": curve_content(curve), "what": named(what, "what", MAX_WORDS)}
        with self._writing() as pen:
            record = record_of(pen.books, token)
            if record.reservation.state != "used":
                raise LedgerError(
                    f"only a reservation in use can be charged again, and token={token!r} is "
                    f"{record.reservation.state}; reserve anew for another fit"
                )
            account = pen.books.accounts[record.reservation.dataset, record.reservation.unit]
            check_total(account, [curve], "this charge")
            pen.add(_following("charged", record, content))
        return record_of(self._books, token).reservation

    def commit(self, token: str, note: Mapping[str, Any]) -> Reservation:
        """The reservation, closed: its release is made. Saying the same twice is saying it once."""
        body = _note_body(note)
        with self._writing() as pen:
            record = record_of(pen.books, token)
            state = record.reservation.state
            if state == "reserved" or (state == "committed" and record.note != body):
                raise LedgerError(
                    f"a reservation in use is committed, once, and token={token!r} is {state}; "
                    "use it before the first draw and commit it after the last"
                )
            if state == "used":
                pen.add(_following("committed", record, {"note": dict(note)}))
        return record_of(self._books, token).reservation

    def note(self, token: str) -> LedgerNote:
        """A statement's note on a reservation; the same whenever it is asked, once nothing more is charged."""
        with self._reading() as books:
            record = record_of(books, token)
            reservation = record.reservation
            total = books.accounts[reservation.dataset, reservation.unit].total
        return LedgerNote(
            dataset=reservation.dataset,
            unit=reservation.unit,
            reservation=reservation.token,
            entry=reservation.entry,
            epsilon=total.spent(record.curve),
            spent_epsilon=total.spent(record.spent),
            total_epsilon=total.epsilon,
            total_delta=total.delta,
        )

    def holdings(self) -> tuple[Holding, ...]:
        """Every dataset and unit with its total and what is left of it, in the order they were opened."""
        with self._reading() as books:
            return tuple(account.holding for account in books.accounts.values())

    def history(self, dataset: str | None = None) -> tuple[LedgerEntry, ...]:
        """The entries as they are, of one dataset or all; they are not checked: see `verify`."""
        with self._store.reading() as connection:
            entries = entries_after(connection)
        if dataset is None:
            return tuple(entries)
        chosen = tuple(entry for entry in entries if entry.dataset == named(dataset, "dataset"))
        if not chosen:
            raise LedgerError(unknown(dataset, {str(entry.dataset) for entry in entries}))
        return chosen

    def verify(self, holds: str | None = None) -> tuple[Damage, ...]:
        """Everything that is wrong with the ledger, row by row; empty for one that is whole."""
        if holds is not None and not _is_hash(holds):
            raise LedgerError("holds must be the hash of an entry, 64 hexadecimal digits; copy it from the statement")
        with self._store.reading() as connection:
            entries = entries_after(connection)
            unguarded = self._store.guards_missing(connection)
        open_doors = [Damage(None, f"the trigger {name} that forbids changes is not there") for name in unguarded]
        return (*open_doors, *damages(entries, None if holds is None else holds.lower()))

    @contextmanager
    def _reading(self) -> Iterator[LedgerState]:
        with self._turn, self._store.reading() as connection:
            yield self._caught_up(connection)

    @contextmanager
    def _writing(self, may_make: bool = False) -> Iterator["_Pen"]:
        """A turn to write. What the books would not take back is not committed, and what is undone leaves them."""
        added: list[LedgerEntry] = []
        with self._turn:
            try:
                with self._store.writing(may_make) as connection:
                    yield _Pen(connection, self._caught_up(connection), added)
                    replayed(self._books, added)
            except BaseException:
                if added:
                    self._books = LedgerState()
                raise

    def _caught_up(self, connection: sa.Connection) -> LedgerState:
        """The books with what others have added since; they take in only what is committed, so no undone entry."""
        last = self._books.last
        if last is not None and entry_at(connection, last.seq) != last:
            raise LedgerError(
                f"the ledger is not the one it was: its entry seq={last.seq} is gone or altered; run `understudy "
                "ledger show` and restore a copy that is whole"
            )
        replayed(self._books, entries_after(connection, None if last is None else last.seq))
        return self._books


@dataclass(frozen=True)
class _Pen:
    """A turn to write: the books as the transaction finds them, and what it has added so far."""

    connection: sa.Connection
    books: LedgerState
    added: list[LedgerEntry]

    def add(self, draft: Draft) -> None:
        """Chain one more entry to the last."""
        entry = chained(draft, self.added[-1] if self.added else self.books.last, _now())
        add(self.connection, entry)
        self.added.append(entry)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _reserving(request: Request) -> Draft:
    content = {
        "curve": curve_content(request.curve),
        "fingerprint": request.fingerprint,
        "schedule": request.schedule_hash,
        "what": request.what,
    }
    return Draft("reserved", request.dataset, request.unit, request.token, canonical(content))


def _following(kind: str, record: Record, content: Mapping[str, Any]) -> Draft:
    held = record.reservation
    return Draft(kind, held.dataset, held.unit, held.token, canonical(content))


def _note_body(note: Mapping[str, Any]) -> str:
    plain = all(isinstance(key, str) and isinstance(value, str | int | float | None) for key, value in note.items())
    body = ""
    if plain:
        try:
            body = canonical({"note": dict(note)})
        except ValueError:  # an infinite number
            plain = False
    if not plain or len(body) > MAX_NOTE:
        raise LedgerError(
            f"a note is texts, finite numbers and booleans by name, at most {MAX_NOTE} characters; shorten it"
        )
    return body


def _is_hash(text: str) -> bool:
    return len(text) == 64 and not set(text.lower()) - set("0123456789abcdef")
