"""Reservations of privacy budget: made before the first fit, used once, never drawn again.

The numbers of the public report are one more schedule beside the fits, under a label that no candidate can have.

A reservation's token is on the disk before the ledger is asked, its use is in the ledger before the first draw, and
every noisy value is in a journal before anything reads it. So a run that was killed goes on as follows: an unused
reservation is used; a used one with values on the disk is replayed, after draws that were begun and lost have been
charged again; a used one without any value is spent, and another is made.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from synth.dp.accounting import rdp_curve
from synth.dp.budget import Budget
from synth.dp.events import event_of
from synth.dp.ledger import Request
from synth.dp.ledger.entries import curve_content, curve_of
from synth.dp.ledger.request import MAX_WORDS
from synth.dp.noise_journal import Journal
from synth.dp.schedule import Schedule
from synth.dp.statement import LedgerNote, PrivacyStatement
from synth.errors import BudgetError, LedgerError
from synth.schema import Schema
from understudy.budget.account import Fund, unit_of
from understudy.run.plan import PUBLICATION, Plan
from understudy.run.workspace import SPENT, RunWorkspace


def make_request(what: str, schedule: Schedule, schema: Schema, fingerprint: str) -> Request:
    """A request for what a schedule costs, under a token of its own.

    Args:
        what: the release in words.
        schedule: of the fit.
        schema: names dataset and unit.
        fingerprint: keyed, of the table.
    """
    assert schema.dataset is not None
    return Request(
        token=secrets.token_hex(16),
        dataset=schema.dataset,
        unit=unit_of(schema),
        what=what,
        curve=schedule.curve,
        schedule_hash=schedule.digest,
        fingerprint=fingerprint,
    )


def commit(fund: Fund, statement: PrivacyStatement) -> None:
    """Close the reservation of a fit whose model is on the disk; doing it twice is doing it once."""
    note = statement.ledger
    if note is None or note.reservation is None:
        raise LedgerError("the statement names no reservation, so that nothing was closed")
    fund.ledger.commit(note.reservation, {"epsilon": statement.epsilon, "delta": statement.delta})


def reserve(plan: Plan, work: RunWorkspace, fingerprint: str) -> None:
    """All private fits of a run paid for, or none; nothing is done outside a ledger.

    Args:
        plan: names ledger and generators.
        work: keeps the tokens.
        fingerprint: keyed, of the real table.

    Raises:
        LedgerError: the total does not admit them all; nothing was reserved.
        BudgetError: an earlier start reserved another schedule.
    """
    if plan.fund is None:
        return
    requests = {label: _kept(plan, work, label) or _new(plan, work, label, fingerprint) for label in plan.reserved}
    states = _granted(plan.fund, work, requests)
    # Draws may have been made under these whose values nobody has: they are paid for, and worth nothing.
    spent = [
        label
        for label, state in states.items()
        if state != "reserved" and not (work.is_made(label) or work.has_values(label))
    ]
    if spent:
        for label in spent:
            work.forget_journal(label)
        _granted(plan.fund, work, {label: _new(plan, work, label, fingerprint) for label in spent})


@contextmanager
def budget(plan: Plan, work: RunWorkspace, label: str) -> Iterator[Budget | None]:
    """What one fit may draw, from where an earlier start of it ended; none where it promises nothing.

    Raises:
        LedgerError: the total does not admit that lost draws are made again; nothing was drawn.
    """
    if label not in plan.reserved:
        yield None
        return
    with closing(work.journal(label)) as journal:
        note = None if plan.fund is None else _used(plan.fund, work, label, journal)
        if journal.lost:
            _warn_of_lost(work, label, uncounted=plan.fund is None)
            journal.settle()
        yield Budget(plan.reserved[label], journal=journal, ledger=note)


def _used(fund: Fund, work: RunWorkspace, label: str, journal: Journal) -> LedgerNote:
    """The reservation in use, with lost draws charged again; they are then to be settled."""
    content = work.request(label)
    assert content is not None
    token = content["token"]
    state = fund.ledger.reservation(token).state
    if state == "committed":  # its model was saved: this folder is a copy from before that, and would draw once more
        raise LedgerError(
            "the ledger says that this fit was finished, and its model is not in the unfinished work; add --restart, "
            "which begins another fit under a reservation of its own"
        )
    if state == "reserved":
        fund.ledger.use(token)
    for record in journal.lost:
        event = event_of(record.what, record.mechanism, record.noise, record.count)
        fund.ledger.charge(token, f"lost and drawn again: {record.what}"[:MAX_WORDS], rdp_curve([event]))
    return fund.ledger.note(token)


def _warn_of_lost(work: RunWorkspace, label: str, *, uncounted: bool) -> None:
    counted = (
        "outside a ledger nothing adds that to the statement's epsilon"
        if uncounted
        else "the ledger counts both, the statement's own epsilon one"
    )
    work.add_warnings(
        [
            f"{_place(label)}: a draw was lost when an earlier start of this run was cut short, and was made again: "
            f"{counted}"
        ]
    )


def _kept(plan: Plan, work: RunWorkspace, label: str) -> Request | None:
    """The request that an earlier start wrote down.

    Raises:
        BudgetError: it was for another schedule.
    """
    content = work.request(label)
    if content is None:
        return None
    request = Request(**{**content, "curve": curve_of(content["curve"])})
    if request.schedule_hash != plan.reserved[label].digest:
        raise BudgetError(
            f"{_place(label)}: an earlier start of this run reserved another schedule, it seems under other library "
            f"versions; go on with those, or add --restart ({SPENT})"
        )
    return request


def _new(plan: Plan, work: RunWorkspace, label: str, fingerprint: str) -> Request:
    what = f"{label} of a run, by {plan.generators[label].name}" if label != PUBLICATION else _numbers(plan)
    request = make_request(what, plan.reserved[label], plan.schema, fingerprint)
    work.write_request(label, {**request.__dict__, "curve": curve_content(request.curve)})
    return request


def _numbers(plan: Plan) -> str:
    """What is asked for the numbers of the public report."""
    return f"numbers published about {plan.job.release} of a run"


def _place(label: str) -> str:
    """Where the job speaks of what goes by a label."""
    return "public_report" if label == PUBLICATION else f"generators.{label}"


def _granted(fund: Fund, work: RunWorkspace, requests: Mapping[str, Request]) -> dict[str, str]:
    """The state of each reservation, made now or by an earlier start.

    Raises:
        LedgerError: the total does not admit those that are new; of them nothing is kept.
    """
    try:
        reservations = fund.ledger.reserve(list(requests.values()))
    except LedgerError:
        recorded = {entry.token for entry in fund.ledger.history()}
        for label, request in requests.items():
            if request.token not in recorded:
                work.forget_request(label)
        raise
    work.add_warnings([sentence for reservation in reservations for sentence in reservation.warnings])
    return {label: found.state for label, found in zip(requests, reservations, strict=True)}
