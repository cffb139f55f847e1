"""Payment for private fits: reserved together, used once, charged before each draw, committed, refused as a whole.

Every fit that is saved or released is paid for here, of a run as well as alone. A reservation's token is kept before
the ledger is asked. Its use is in the ledger before the first draw. Every noisy value of a run is in a journal before
anything reads it. So a run that was killed goes on as follows. An unused reservation is used. A used one with values on
the disk is replayed, after draws that were begun and lost have been charged again. A used one without any value is
spent, and another is made. A single fit keeps no journal: where it is killed, its reservation is spent.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from synth.dp.accounting import rdp_curve
from synth.dp.budget import Budget
from synth.dp.events import event_of
from synth.dp.ledger import Request
from synth.dp.ledger.records import MAX_WORDS, curve_content, curve_of
from synth.dp.noise_journal import Journal
from synth.dp.schedule import Schedule
from synth.dp.statement import LedgerNote, PrivacyStatement
from synth.errors import BudgetError, LedgerError
from synth.schema import Schema
from understudy.budget.account import Fund, unit_of

SPENT = "what was drawn or reserved stays spent"


class RequestStore(Protocol):
    """The memory of a payment between its steps. By default nothing that is drawn outlives the process."""

    def request(self, label: str) -> dict[str, Any] | None:
        """The request to the ledger for a release; `None` before there is one."""

    def write_request(self, label: str, content: Mapping[str, Any]) -> None:
        """Keep a request before the ledger is asked."""

    def forget_request(self, label: str) -> None:
        """Drop a request that the ledger did not grant."""

    def add_warnings(self, sentences: Sequence[str]) -> None: ...

    def journal(self, label: str) -> Journal | None:
        """The noisy values of a release; `None` where none outlive the process."""
        return None

    def is_drawn(self, label: str) -> bool:
        """True where a noisy value of the release is on the disk, or all that is made of them."""
        return False

    def forget_journal(self, label: str) -> None:
        """Drop a journal without a value."""
        return


@dataclass
class RequestsInMemory(RequestStore):
    """The requests and warnings of a fit that no later start goes on from."""

    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def request(self, label: str) -> dict[str, Any] | None:
        return self.requests.get(label)

    def write_request(self, label: str, content: Mapping[str, Any]) -> None:
        self.requests[label] = dict(content)

    def forget_request(self, label: str) -> None:
        self.requests.pop(label, None)

    def add_warnings(self, sentences: Sequence[str]) -> None:
        self.warnings = tuple(dict.fromkeys((*self.warnings, *sentences)))


@dataclass(frozen=True)
class Release:
    """One release that is to be paid for."""

    schedule: Schedule
    what: str
    where: str


@dataclass(frozen=True)
class Payment:
    """The payment for some releases of one table, from one total or outside any ledger."""

    fund: Fund | None
    schema: Schema
    releases: Mapping[str, Release]
    kept: RequestStore

    def reserve(self, fingerprint: str) -> None:
        """Reserve all releases, or none; nothing is done outside a ledger."""
        if self.fund is None:
            return
        requests = {label: self._earlier(label) or self._new(label, fingerprint) for label in self.releases}
        states = self._granted(self.fund, requests)
        # Draws may have been made under these whose values nobody has: they are paid for, and worth nothing.
        spent = [label for label, state in states.items() if state != "reserved" and not self.kept.is_drawn(label)]
        if spent:
            for label in spent:
                self.kept.forget_journal(label)
            self._granted(self.fund, {label: self._new(label, fingerprint) for label in spent})

    @contextmanager
    def budget(self, label: str) -> Iterator[Budget | None]:
        """The budget of one release, from where an earlier start of it ended; `None` where it promises nothing."""
        if label not in self.releases:
            yield None
            return
        journal = self.kept.journal(label)
        try:
            note = None if self.fund is None else self._used(self.fund, label, journal)
            if journal is not None and journal.lost:
                counted = (
                    "outside a ledger nothing adds that to the statement's epsilon"
                    if self.fund is None
                    else "the ledger counts both, the statement's own epsilon one"
                )
                cut_short = "a draw was lost when an earlier start of this run was cut short, and was made again"
                self.kept.add_warnings([f"{self.releases[label].where}: {cut_short}: {counted}"])
                journal.settle()
            yield Budget(self.releases[label].schedule, journal=journal, ledger=note)
        finally:
            if journal is not None:
                journal.close()

    def commit(self, statement: PrivacyStatement | None) -> None:
        """Close the reservation of a release that is on the disk; doing it twice is doing it once."""
        if self.fund is None or statement is None or statement.ledger is None:
            return
        if statement.ledger.reservation is None:
            raise LedgerError("the statement names no reservation, so that nothing was closed")
        cost = {"epsilon": statement.epsilon, "delta": statement.delta}
        self.fund.ledger.commit(statement.ledger.reservation, cost)

    def _used(self, fund: Fund, label: str, journal: Journal | None) -> LedgerNote:
        """The reservation in use, with lost draws charged again; they are then to be settled."""
        content = self.kept.request(label)
        if content is None:
            raise LedgerError(f"{self.releases[label].where}: nothing was reserved, so nothing may be drawn")
        token = content["token"]
        state = fund.ledger.reservation(token).state
        if state == "committed":  # its model was saved: this is a copy from before that, and would draw once more
            raise LedgerError(
                "the ledger says that this fit was finished, and its model is not in the unfinished work; add "
                "--restart, which begins another fit under a reservation of its own"
            )
        if state == "reserved" or journal is None:  # without a journal nobody knows what was drawn: once is all
            fund.ledger.use(token)
        for record in () if journal is None else journal.lost:
            event = event_of(record.what, record.mechanism, record.noise, record.count)
            fund.ledger.charge(token, f"lost and drawn again: {record.what}"[:MAX_WORDS], rdp_curve([event]))
        return fund.ledger.note(token)

    def _earlier(self, label: str) -> Request | None:
        """The request that an earlier start wrote down."""
        content = self.kept.request(label)
        if content is None:
            return None
        request = Request(**{**content, "curve": curve_of(content["curve"])})
        release = self.releases[label]
        if request.schedule_hash != release.schedule.digest:
            raise BudgetError(
                f"{release.where}: an earlier start of this run reserved another schedule, it seems under other "
                f"library versions; go on with those, or add --restart ({SPENT})"
            )
        return request

    def _new(self, label: str, fingerprint: str) -> Request:
        """A request under a token of its own, kept before the ledger is asked."""
        release = self.releases[label]
        request = make_request(release.what, release.schedule, self.schema, fingerprint)
        self.kept.write_request(label, {**request.__dict__, "curve": curve_content(request.curve)})
        return request

    def _granted(self, fund: Fund, requests: Mapping[str, Request]) -> dict[str, str]:
        """The state of each reservation, made now or by an earlier start."""
        try:
            reservations = fund.ledger.reserve(list(requests.values()))
        except LedgerError:
            recorded = {entry.token for entry in fund.ledger.history()}
            for label, request in requests.items():
                if request.token not in recorded:
                    self.kept.forget_request(label)
            raise
        self.kept.add_warnings([sentence for reservation in reservations for sentence in reservation.warnings])
        return {label: reservation.state for label, reservation in zip(requests, reservations, strict=True)}


def make_request(what: str, schedule: Schedule, schema: Schema, fingerprint: str) -> Request:
    """A request for what a schedule costs, under a token of its own."""
    if schema.dataset is None:
        raise LedgerError('a release under a ledger needs the dataset\'s name; add dataset = "NAME" to the schema file')
    return Request(
        token=secrets.token_hex(16),
        dataset=schema.dataset,
        unit=unit_of(schema),
        what=what,
        curve=schedule.curve,
        schedule_hash=schedule.digest,
        fingerprint=fingerprint,
    )
