"""Who pays for the private fits of a job: a ledger for all of them, or nobody."""

import os
from collections.abc import Mapping
from pathlib import Path

from synth.dp.schedule import Schedule
from synth.errors import BudgetError, JobError, LedgerError
from synth.generators.base import Generator, PrivateGenerator
from synth.schema import Schema
from understudy.funds import LEDGER_VARIABLE, Fund, ledger_url, open_fund, refuse_password
from understudy.job import Job


def payment(
    job: Job, home: Path, schema: Schema, generators: Mapping[str, Generator]
) -> tuple[dict[str, Schedule], Fund | None]:
    """The schedules of all private fits, and the total that pays for them.

    Args:
        job: names the ledger.
        home: folder that its path starts from.
        schema: names what is paid for.
        generators: of all candidates, by label.

    Raises:
        JobError: a sweep names a table for release, or says that it may be, and no ledger pays; or says that it may
            not be, and has no private fit.
        LedgerError: there is no such ledger, or it does not know the dataset.
        BudgetError: a budget leaves no room for its fit.
    """
    if job.ledger is not None:
        refuse_password(job.ledger.url)
    url = ledger_of(job, home)
    private = {label: g for label, g in generators.items() if isinstance(g, PrivateGenerator) and g.promises}
    # Before the schedules, which take a while.
    fund = open_fund(url, schema) if private and url is not None else None
    if job.is_sweep and private and fund is None:
        _refuse_release(job)
    if job.sweep is not None and job.sweep.releasable is False and not private:
        raise JobError(
            "sweep.releasable=false is for private fits, and this sweep has none: its tables are kept like any other "
            "job's; leave that out"
        )
    calibrated: dict[int, Schedule | None] = {}
    for chosen in private.values():
        if id(chosen) not in calibrated:
            calibrated[id(chosen)] = chosen.schedule(schema)
    found = {label: calibrated[id(chosen)] for label, chosen in private.items()}
    return {label: schedule for label, schedule in found.items() if schedule is not None}, fund


def publication_of(job: Job, schema: Schema, generators: Mapping[str, Generator]) -> Schedule | None:
    """All that the numbers of the public report will draw; none where the job asks for no such numbers.

    Args:
        job: names the table to release, and what its numbers may cost.
        schema: names the unit, and the columns that the numbers are about.
        generators: of all candidates, by label.

    Raises:
        JobError: the table to release is made without an epsilon.
        BudgetError: the budget leaves no room for the numbers.
    """
    if job.public_report is None or job.release is None:
        return None
    if not generators[job.release].promises:
        raise JobError(
            f"public_report.epsilon={job.public_report.epsilon:g} pays for numbers about a fixed table, and "
            f"release={job.release!r} has no epsilon: its table itself tells of single rows, which no noise on numbers "
            "about it takes back; give the generator an epsilon, or leave public_report out"
        )
    from evaluate.dp_release.release import released_schedule
    from evaluate.engine import aimed

    asked = aimed(schema, job.evaluation.target, job.evaluation.task)
    try:
        return released_schedule(asked, job.public_report.epsilon, job.public_report.delta)
    except BudgetError as error:
        raise BudgetError(f"public_report: {error}") from None


def ledger_of(job: Job, home: Path) -> str | None:
    """The ledger that pays; none: nobody does.

    Args:
        job: names it.
        home: folder that its path starts from.

    Raises:
        LedgerError: a sweep that must use a ledger says that it uses none.
    """
    url = ledger_url(None if job.ledger is None else job.ledger.url, home)
    if job.sweep is None or job.sweep.releasable is not False:
        return url
    if os.environ.get(LEDGER_VARIABLE):
        raise LedgerError(
            f"{LEDGER_VARIABLE} names the ledger that every private fit must use, and sweep.releasable=false uses "
            "none; leave that out, or change the variable"
        )
    return None


def _refuse_release(job: Job) -> None:
    """Refuse to release a point of a sweep that nobody pays for."""
    if job.release is None and not (job.sweep is not None and job.sweep.releasable):
        return
    said = f"release={job.release!r}" if job.release else "sweep.releasable=true"
    raise JobError(
        f"{said}, and a sweep releases nothing unless a ledger pays for all of its private fits; name a ledger in the "
        "job (and no sweep.releasable=false), or leave that out"
    )
