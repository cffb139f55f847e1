"""The budget: the ledger that pays for private fits, how it is paid, and what a release costs by every way of counting.

A job's private fits are all paid from one account, or by nobody: reserved together, used once, charged before each
draw, committed, refused as a whole. A reservation's token is kept before the ledger is asked. Its use is in the ledger
before the first draw. Every noisy value of a run is in a journal before anything reads it. So a run that was killed
goes on as follows. An unused reservation is used. A used one with values on the disk is replayed, after draws that were
begun and lost have been charged again. A used one without any value is spent, and another is made. A single fit keeps
no journal: where it is killed, its reservation is spent.
"""

import math
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from evaluate.provenance import LedgerStanding
from synth.dp.accounting import epsilon_advanced, epsilon_basic, epsilon_pld, epsilon_zcdp, rdp_curve
from synth.dp.budget import Budget
from synth.dp.events import Event, event_of
from synth.dp.ledger import Holding, Ledger, Request, open_ledger
from synth.dp.ledger.records import MAX_WORDS, check_total, curve_content, curve_of, named, unknown
from synth.dp.ledger.store import LedgerAddress, parsed
from synth.dp.noise_journal import Journal
from synth.dp.renyi_curve import RdpCurve, RdpFilter
from synth.dp.schedule import FALSE_ALARMS, Schedule
from synth.dp.schedule_file import ScheduleFile, StatedCost
from synth.dp.statement import IN_LEDGER, LedgerNote, PrivacyStatement
from synth.errors import BudgetError, JobError, LedgerError
from synth.generators.base import Generator, PrivateGenerator
from synth.schema import Schema
from understudy.job.spec import Job, JobTerms

LEDGER_VARIABLE = "UNDERSTUDY_LEDGER"
"""Environment variable with the ledger that every private fit of the command line must use, but an evaluation's own."""
SPENT = "what was drawn or reserved stays spent"
LARGEST = 100 * math.log(2)
"""The epsilon beyond which advanced composition says nothing, and its exponential overflows."""
AGREEMENT = 1e-3
"""The relative difference at which a claim and a computed epsilon still agree."""


@dataclass(frozen=True)
class Fund:
    """The total of a schema's dataset in a ledger."""

    ledger: Ledger
    url: str
    holding: Holding

    def check(self, curves: Mapping[str, RdpCurve]) -> None:
        """Refuse costs that what is left does not admit. Nothing is reserved: only reserving decides."""
        if curves:
            check_total(self.holding, list(curves.values()), list(curves))


def ledger_place(named: str | None) -> str | None:
    """The ledger of private fits, without credentials; `None` where they are made outside any."""
    url = ledger_url(named)
    return None if url is None else _place(parsed(url))


def ledger_url(named: str | None, home: Path = Path(), environment: Mapping[str, str] = os.environ) -> str | None:
    """The ledger that private fits use; `None`: they are made outside any."""
    required = environment.get(LEDGER_VARIABLE) or None
    path = None if named is None else parsed(named).path
    chosen = named if path is None else str(home / path)
    if required is None or chosen is None:
        return required or chosen
    if _place(parsed(required)) != _place(parsed(chosen)):
        raise LedgerError(
            f"{LEDGER_VARIABLE} names the ledger that every private fit must use, and {parsed(chosen).shown!r} is "
            "another one; leave that out, or change the variable"
        )
    return required


def open_fund(url: str, schema: Schema) -> Fund:
    """The total of a schema's dataset and unit in a ledger. Nothing is written."""
    if schema.dataset is None:
        raise LedgerError(
            "a private fit under a ledger needs the dataset's name, under which all its versions are paid for, and the "
            'schema names none; add dataset = "NAME" at the top of the schema file'
        )
    ledger, dataset, unit = open_ledger(url), named(schema.dataset, "dataset"), named(schema.unit, "unit")
    holdings = ledger.holdings()
    units = {holding.unit: holding for holding in holdings if holding.dataset == dataset}
    if not units:
        raise LedgerError(unknown(dataset, {holding.dataset for holding in holdings}))
    if unit not in units:
        raise LedgerError(
            f"dataset={dataset!r} has a total for unit={', '.join(map(repr, sorted(units)))}, not for the schema's "
            f"unit={unit!r}; correct the schema's entity, or open a total for that unit"
        )
    return Fund(ledger, _place(parsed(url)), units[unit])


def releases(statements: Mapping[str, PrivacyStatement | None]) -> LedgerStanding | None:
    """The reservations of a run and the dataset's total after it; `None` where no ledger holds them."""
    notes = {
        label: statement.ledger
        for label, statement in statements.items()
        if statement is not None and statement.ledger is not None
    }
    if not notes:
        return None
    last = max(notes.values(), key=lambda note: note.spent_epsilon)
    return LedgerStanding(
        dataset=last.dataset,
        unit=last.unit,
        reserved_epsilon={label: note.epsilon for label, note in notes.items()},
        spent_epsilon=last.spent_epsilon,
        left_epsilon=max(0.0, last.total_epsilon - last.spent_epsilon),
        total_epsilon=last.total_epsilon,
        total_delta=last.total_delta,
    )


def release_line(noted: LedgerStanding) -> str:
    """The content of `releases` in one line, and why it is more than what the releases claim."""
    from evaluate.text import room, typed_loss

    epsilons = ", ".join(f"{label} {typed_loss(epsilon)}" for label, epsilon in noted.reserved_epsilon.items())
    return (
        f"Ledger: dataset {noted.dataset!r}, unit {noted.unit}: epsilon reserved for {epsilons}; "
        f"{room(noted.left_epsilon)} of {typed_loss(noted.total_epsilon)} is left, at delta "
        f"{typed_loss(noted.total_delta)}. {IN_LEDGER}"
    )


def _place(address: LedgerAddress) -> str:
    if address.path is not None:
        return str(address.path.resolve())
    url = address.url
    return f"postgresql://{(url.host or '').lower()}:{url.port or 5432}/{url.database or ''}"


def plan_budget(
    job: Job, home: Path, schema: Schema, generators: Mapping[str, Generator]
) -> tuple[dict[str, Schedule], Fund | None]:
    """The schedules of all private fits, and the total that pays for them."""
    address = None if job.ledger is None else parsed(job.ledger.url).url
    if address is not None and (address.password is not None or "password" in " ".join(address.query).lower()):
        raise LedgerError(
            "the ledger's address in a job holds no password, since the job is copied into the output; leave it out "
            f"and use PGPASSWORD, a pgpass file, or {LEDGER_VARIABLE}"
        )
    url = ledger_of(job, home)
    private = {label: g for label, g in generators.items() if isinstance(g, PrivateGenerator) and g.promises}
    # Before the schedules, which take a while.
    fund = open_fund(url, schema) if private and url is not None else None
    is_released = job.release is not None or (job.sweep is not None and job.sweep.releasable)
    if job.is_sweep and private and fund is None and is_released:
        asked = f"release={job.release!r}" if job.release else "sweep.releasable=true"
        raise JobError(
            f"{asked}, and a sweep releases nothing unless a ledger pays for all of its private fits; name a ledger in "
            "the job (and no sweep.releasable=false), or leave that out"
        )
    if job.sweep is not None and job.sweep.releasable is False and not private:
        raise JobError(
            "sweep.releasable=false is for private fits, and this sweep has none: its tables are kept like any other "
            "job's; leave that out"
        )
    calibrated = {id(chosen): chosen for chosen in private.values()}  # the seeds of a sweep share theirs
    schedules = {identity: chosen.schedule(schema) for identity, chosen in calibrated.items()}
    by_label = {label: schedules[id(chosen)] for label, chosen in private.items()}
    return {label: schedule for label, schedule in by_label.items() if schedule is not None}, fund


def publication_of(job: Job, schema: Schema, generators: Mapping[str, Generator]) -> Schedule | None:
    """All that the released numbers will draw; `None` where the job asks for no such numbers."""
    if job.released_numbers is None or job.release is None:
        return None
    if not generators[job.release].promises:
        raise JobError(
            f"released_numbers.epsilon={job.released_numbers.epsilon:g} pays for numbers about a fixed table, and "
            f"release={job.release!r} has no epsilon: its table itself tells of single rows, which no noise on numbers "
            "about it takes back; give the generator an epsilon, or leave released_numbers out"
        )
    from evaluate.dp_release import released_schedule

    asked = job.evaluation.aim(schema)
    try:
        return released_schedule(asked, job.released_numbers.epsilon, job.released_numbers.delta)
    except BudgetError as error:
        raise BudgetError(f"released_numbers: {error}") from None


def ledger_of(job: JobTerms, home: Path) -> str | None:
    """The ledger that pays; `None`: nobody does."""
    url = ledger_url(None if job.ledger is None else job.ledger.url, home)
    if job.sweep is None or job.sweep.releasable is not False:
        return url
    if os.environ.get(LEDGER_VARIABLE):
        raise LedgerError(
            f"{LEDGER_VARIABLE} names the ledger that every private fit must use, and sweep.releasable=false uses "
            "none; leave that out, or change the variable"
        )
    return None


class RequestStore(Protocol):
    """The memory of a payment between its steps: requests to the ledger, and the noisy values drawn under them."""

    def request(self, label: str) -> dict[str, Any] | None: ...
    def write_request(self, label: str, content: Mapping[str, Any]) -> None: ...
    def forget_request(self, label: str) -> None: ...
    def add_warnings(self, sentences: Sequence[str]) -> None: ...
    def journal(self, label: str) -> Journal | None: ...
    def is_drawn(self, label: str) -> bool: ...
    def forget_journal(self, label: str) -> None: ...


@dataclass
class RequestsInMemory:
    """The requests and warnings of a fit that no later start goes on from: no noisy value outlives the process."""

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

    def journal(self, label: str) -> Journal | None:
        return None

    def is_drawn(self, label: str) -> bool:
        return False

    def forget_journal(self, label: str) -> None:
        return None


@dataclass(frozen=True)
class Release:
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
    if schema.dataset is None:
        raise LedgerError('a release under a ledger needs the dataset\'s name; add dataset = "NAME" to the schema file')
    return Request(
        token=secrets.token_hex(16),
        dataset=schema.dataset,
        unit=named(schema.unit, "unit"),
        what=what,
        curve=schedule.curve,
        schedule_hash=schedule.digest,
        fingerprint=fingerprint,
    )


def compose(books: ScheduleFile, total: tuple[float, float] | None = None) -> dict[str, Any]:
    """The cost of a release by every way of counting, and of a total `in_ledger`; infinite where one does not apply."""
    schedule, claim = books.schedule, books.claim
    if total is None and claim is not None and claim.in_ledger is not None:
        total = claim.in_ledger[1:]
    in_ledger = None if total is None else RdpFilter(*total).spent(schedule.curve)
    epsilon = schedule.epsilon
    own, n_releases = sum(event.delta for event in schedule.events), sum(event.count for event in schedule.events)
    # Advanced composition: half of delta for the releases, half for composing them, those of an event, then the events.
    half = (schedule.delta - own) / 2
    alone = [_alone(event, half / n_releases) for event in schedule.events]
    parts = [
        min(epsilon_advanced(each, event.count, half / len(schedule.events)), event.count * each)
        if each <= LARGEST
        else math.inf
        for each, event in zip(alone, schedule.events, strict=True)
    ]
    basic = [event.count * _alone(event, 2 * half / n_releases) for event in schedule.events]
    return {
        "name": books.name,
        "delta": schedule.delta,
        "rho": schedule.rho,
        "epsilon": epsilon,
        "epsilon_rdp": schedule.epsilon_rdp,
        "epsilon_by_hand": epsilon_zcdp(schedule.events, schedule.delta),
        "epsilon_advanced": epsilon_basic(parts),
        "epsilon_basic": epsilon_basic(basic),
        "groups": schedule.groups,
        "detections": {rate: schedule.trade_off.detections(rate) for rate in FALSE_ALARMS},
        "events": [event.record().__dict__ for event in schedule.events],
        "schedule_hash": schedule.digest,
        "in_ledger": None
        if total is None
        else {"epsilon": in_ledger, "total_epsilon": total[0], "total_delta": total[1]},
        "claim": None
        if claim is None
        else {"epsilon": claim.epsilon, "agrees": abs(claim.epsilon - epsilon) <= AGREEMENT * epsilon},
        "against": [] if claim is None else list(_against(claim, schedule, epsilon, in_ledger, total)),
    }


def _alone(event: Event, delta: float) -> float:
    """Epsilon of one release of an event, at `delta` beyond its own."""
    single = replace(event, count=1)
    return epsilon_pld([single], delta + single.delta) if delta > 0 else math.inf


def _against(
    claim: StatedCost, schedule: Schedule, epsilon: float, in_ledger: float | None, total: tuple[float, float] | None
) -> Iterator[str]:
    """Sentences on every part of the claim that is smaller than the computed cost."""
    if not claim.private:
        yield "the statement is void: it says itself that its noise was not drawn from a secure source"
    if not _covers(claim.epsilon, epsilon):
        yield (
            f"the claim epsilon={claim.epsilon:.6g} is smaller than what the events cost, epsilon={epsilon:.6g} at "
            f"delta={schedule.delta:.3g}"
        )
    for event, rho in zip(schedule.events, claim.rhos, strict=False):
        if rho is not None and event.rho is not None and not _covers(rho, event.rho):
            yield f"event={event.what!r} is said to cost rho={rho:.6g}, and its noise costs rho={event.rho:.6g}"
    for event, delta in zip(schedule.events, claim.deltas, strict=False):
        if not _covers(delta, event.delta):
            yield f"event={event.what!r} is said to cost delta={delta:.3g}, and its noise costs delta={event.delta:.3g}"
    if in_ledger is None or claim.in_ledger is None or claim.in_ledger[1:] != total:
        return
    if not _covers(claim.in_ledger[0], in_ledger):
        yield (
            f"the ledger's part is said to be epsilon={claim.in_ledger[0]:.6g}, and the events come to "
            f"epsilon={in_ledger:.6g} there"
        )


def _covers(claimed: float, cost: float) -> bool:
    return claimed >= cost * (1 - AGREEMENT)
