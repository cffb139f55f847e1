"""The operations on a ledger: each is one transaction, and has happened wholly or not at all, whoever dies when.

A process reads the whole chain at its first operation and checks each entry (place, link, hash, rules). Later it sees
that the last entry it knows is in its place, and then checks only what is new. So nothing is decided on an entry that
this process has not checked, at the price of reading each.
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
    Damage,
    Holding,
    LedgerEntry,
    LedgerState,
    Request,
    Reservation,
    canonical,
    chained,
    check_total,
    checked_total,
    curve_content,
    named,
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
                    f"epsilon={pen.books.accounts[key].epsilon:g}, which cannot be changed; keep within it"
                )
            pen.add("opened", key, "", canonical(total))
        return self._books.accounts[key]

    def reserve(self, requests: Sequence[Request]) -> tuple[Reservation, ...]:
        """Epsilon set aside for all requests, in their order, or for none of them.

        A request that was granted before, by the same token with the same content, is not charged again.
        """
        if len({request.token for request in requests}) < len(requests):
            raise LedgerError("two requests have the same token; give each release its own")
        with self._writing() as pen:
            new = [request for request in requests if not pen.books.is_granted(request)]
            pen.books.check_totals(new)
            for request in new:
                pen.add("reserved", (request.dataset, request.unit), request.token, request.body)
        return tuple(self._books.reservation(request.token) for request in requests)

    def reservation(self, token: str) -> Reservation:
        with self._reading() as books:
            return books.reservation(token)

    def use(self, token: str) -> Reservation:
        """The reservation, from now on used: to be called before the first draw, and once."""
        with self._writing() as pen:
            reservation = pen.books.reservation(token)
            if reservation.state != "reserved":
                raise LedgerError(f"a reservation is used once, and token={token!r} was; reserve anew for another fit")
            pen.follow("used", reservation, {})
        return self._books.reservation(token)

    def charge(self, token: str, what: str, curve: RdpCurve) -> Reservation:
        """The reservation, charged once more: a draw whose value was lost is drawn, and paid for, again.

        A charge whose answer was lost is to be made again: that is dearer than it had to be, never cheaper.
        """
        content = {"curve": curve_content(curve), "what": named(what, "what", MAX_WORDS)}
        with self._writing() as pen:
            reservation = pen.books.reservation(token)
            if reservation.state != "used":
                raise LedgerError(
                    f"only a reservation in use can be charged again, and token={token!r} is "
                    f"{reservation.state}; reserve anew for another fit"
                )
            check_total(pen.books.accounts[reservation.dataset, reservation.unit], [curve])
            pen.follow("charged", reservation, content)
        return self._books.reservation(token)

    def commit(self, token: str, note: Mapping[str, Any]) -> Reservation:
        """The reservation, closed: its release is made. Saying the same twice is saying it once."""
        content = {"note": dict(note)}
        body = canonical(content)
        if len(body) > MAX_NOTE:
            raise LedgerError(f"a note has at most {MAX_NOTE} characters; shorten it")
        with self._writing() as pen:
            reservation = pen.books.reservation(token)
            if reservation.state == "reserved" or (reservation.state == "committed" and reservation.note != body):
                raise LedgerError(
                    f"a reservation in use is committed, once, and token={token!r} is {reservation.state}; "
                    "use it before the first draw and commit it after the last"
                )
            if reservation.state == "used":
                pen.follow("committed", reservation, content)
        return self._books.reservation(token)

    def note(self, token: str) -> LedgerNote:
        """A statement's note on a reservation; the same whenever it is asked, once nothing more is charged."""
        with self._reading() as books:
            reservation = books.reservation(token)
            total = books.accounts[reservation.dataset, reservation.unit].total
        return LedgerNote(
            dataset=reservation.dataset,
            unit=reservation.unit,
            reservation=reservation.token,
            entry=reservation.entry,
            epsilon=total.spent(reservation.curve),
            spent_epsilon=total.spent(reservation.spent),
            total_epsilon=total.epsilon,
            total_delta=total.delta,
        )

    def holdings(self) -> tuple[Holding, ...]:
        """Every dataset and unit with its total and what is left of it, in the order they were opened."""
        with self._reading() as books:
            return tuple(books.accounts.values())

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
        """The first thing that is wrong with the chain, and a hash that it should hold and does not; often nothing."""
        if holds is not None and (len(holds) != 64 or set(holds.lower()) - set("0123456789abcdef")):
            raise LedgerError("holds must be the hash of an entry, 64 hexadecimal digits; copy it from the statement")
        entries, books, damages = self.history(), LedgerState(), list[Damage]()
        try:
            books.replay(entries)
        except LedgerError as error:
            seq = entries[0 if books.last is None else entries.index(books.last) + 1].seq
            damages.append(Damage(seq, str(error)))
        if not entries:
            damages.append(Damage(1, "the first entry is missing: the ledger is empty"))
        if holds is not None and holds.lower() not in {entry.digest() for entry in entries}:
            what = f"no entry has the hash {holds.lower()}, which a statement names: it was removed or altered"
            damages.append(Damage(None, what))
        return tuple(damages)

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
                    self._books.replay(added)
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
        self._books.replay(entries_after(connection, None if last is None else last.seq))
        return self._books


@dataclass(frozen=True)
class _Pen:
    """A turn to write: the books as the transaction finds them, and what it has added so far."""

    connection: sa.Connection
    books: LedgerState
    added: list[LedgerEntry]

    def add(self, kind: str, key: tuple[str, str], token: str, body: str) -> None:
        entry = chained(self.added[-1] if self.added else self.books.last, _now(), kind, key, token, body)
        add(self.connection, entry)
        self.added.append(entry)

    def follow(self, kind: str, reservation: Reservation, content: Mapping[str, Any]) -> None:
        self.add(kind, (reservation.dataset, reservation.unit), reservation.token, canonical(content))


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
