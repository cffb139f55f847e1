"""The account that private fits are paid from: which ledger, for which dataset, and what it has left.

A job's private fits are all paid from one account, or by nobody.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluate.provenance import LedgerStanding
from synth.dp.ledger import Holding, Ledger, open_ledger
from synth.dp.ledger.records import check_total, named, unknown
from synth.dp.ledger.store import LedgerAddress, parsed
from synth.dp.renyi_curve import RdpCurve, RdpFilter
from synth.dp.schedule import Schedule
from synth.dp.statement import IN_LEDGER, PrivacyStatement
from synth.errors import BudgetError, JobError, LedgerError
from synth.generators.base import Generator, PrivateGenerator
from synth.schema import Schema
from understudy.job.spec import Job

LEDGER_VARIABLE = "UNDERSTUDY_LEDGER"
"""Environment variable with the ledger that every private fit of the command line must use, but an evaluation's own."""


@dataclass(frozen=True)
class Fund:
    """The total of a schema's dataset in a ledger."""

    ledger: Ledger
    url: str
    holding: Holding

    @property
    def filter(self) -> RdpFilter:
        """The filter of the total."""
        return self.holding.total

    def check(self, curves: Mapping[str, RdpCurve]) -> None:
        """Refuse costs that what is left does not admit. Nothing is reserved: only reserving decides."""
        if curves:
            check_total(self.holding, list(curves.values()), list(curves))


def ledger_place(named: str | None) -> str | None:
    """The ledger of private fits, without credentials; `None` where they are made outside any."""
    url = ledger_url(named)
    return None if url is None else _place(parsed(url))


def ledger_url(
    named: str | None, home: Path = Path(), environment: Mapping[str, str] = os.environ
) -> str | None:  # fmt: skip
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


def refuse_password(url: str) -> None:
    """Refuse an address that holds a password: a job is copied into its output."""
    address = parsed(url)
    if address.url.password is not None or any("password" in key.lower() for key in address.url.query):
        raise LedgerError(
            "the ledger's address in a job holds no password, since the job is copied into the output; leave it out "
            f"and use PGPASSWORD, a pgpass file, or {LEDGER_VARIABLE}"
        )


def open_fund(url: str, schema: Schema) -> Fund:
    """The total of a schema's dataset and unit in a ledger. Nothing is written."""
    if schema.dataset is None:
        raise LedgerError(
            "a private fit under a ledger needs the dataset's name, under which all its versions are paid for, and the "
            'schema names none; add dataset = "NAME" at the top of the schema file'
        )
    ledger, dataset, unit = open_ledger(url), named(schema.dataset, "dataset"), unit_of(schema)
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


def unit_of(schema: Schema) -> str:
    """The unit of privacy as statements and ledgers name it."""
    return named(schema.unit, "unit")


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
    if job.ledger is not None:
        refuse_password(job.ledger.url)
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
    calibrated: dict[int, Schedule | None] = {}
    for chosen in private.values():
        if id(chosen) not in calibrated:
            calibrated[id(chosen)] = chosen.schedule(schema)
    schedules = {label: calibrated[id(chosen)] for label, chosen in private.items()}
    return {label: schedule for label, schedule in schedules.items() if schedule is not None}, fund


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


def ledger_of(job: Job, home: Path) -> str | None:
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
