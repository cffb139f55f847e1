"""The summary of a batch, for people, spreadsheets and programs."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluate.text import typed_loss
from reports.exports.csv import write_csv
from synth.errors import UnderstudyError
from synth.output import whole_file
from synth.schema_file import read_schema
from understudy.batch.jobs import SUMMARY_CSV, SUMMARY_JSON, BatchJob
from understudy.batch.result import JobOutcome
from understudy.bundle.manifest import moment

FIELDS = (
    "job", "state", "policy", "audience", "finished_earlier", "epsilon", "seconds", "out", "error", "exit_code",
    "exit_status", "signed_by", "reason",
)  # fmt: skip
HEADINGS = ("job", "state", "policy", "epsilon in all", "seconds", "output", "why")
MOST_SHOWN = 90
"""Characters of an error or a reason in a table on a terminal; the rest is in the files."""


def content_of(outcomes: Sequence[JobOutcome], code: int, began: datetime) -> dict[str, Any]:
    """A batch as plain data."""
    return {
        "exit_code": code,
        "began": moment(began),
        "ended": moment(datetime.now(UTC)),
        "states": dict(Counter(outcome.state for outcome in outcomes)),
        "jobs": [_entry(outcome) for outcome in outcomes],
    }


def rows_of(outcomes: Sequence[JobOutcome]) -> list[tuple[str, ...]]:
    """The table of a batch for a terminal, under `HEADINGS`."""
    return [
        (
            outcome.name,
            outcome.shown_state,
            outcome.policy,
            "" if outcome.epsilon is None else typed_loss(outcome.epsilon),
            "" if outcome.seconds is None else f"{outcome.seconds:.1f}",
            "" if outcome.out is None else shown(outcome.out),
            _brief(outcome.why),
        )
        for outcome in outcomes
    ]


def write_summary(content: dict[str, Any], folder: Path) -> None:
    """Write `summary.json` and `summary.csv`, each whole or not at all."""
    write_csv(folder / SUMMARY_CSV, FIELDS, content["jobs"])
    with whole_file(folder / SUMMARY_JSON) as beside:
        beside.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


def accounts(jobs: Sequence[BatchJob]) -> list[dict[str, Any]]:
    """The standing of each ledger account that private fits of these jobs are paid from.

    A ledger that cannot be read now is told as such: what was spent is in it all the same.
    """
    payers: dict[tuple[str | None, Path], BatchJob] = {}
    for job in jobs:
        if job.spec is not None and any(point.epsilon is not None for point in job.spec.points.values()):
            ledger = None if job.spec.ledger is None else str(job.path.parent / job.spec.ledger.url)
            payers.setdefault((ledger, job.path.parent / job.job.table.schema_path), job)
    found = [account for job in payers.values() if (account := _account(job)) is not None]
    return list({(account["ledger"], account["dataset"]): account for account in found}.values())


def account_line(account: dict[str, Any]) -> str:
    """One total, in one line."""
    if "error" in account:
        return f"Ledger {account['ledger']}: {account['error']}"
    return (
        f"Ledger {account['ledger']!r}: dataset {account['dataset']!r}, unit {account['unit']}: epsilon "
        f"{typed_loss(account['spent_epsilon'])} of {typed_loss(account['total_epsilon'])} is spent, at delta "
        f"{typed_loss(account['total_delta'])}"
    )


def shown(path: Path) -> str:
    """A path as text that can be written anywhere."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _brief(why: str) -> str:
    return why if len(why) <= MOST_SHOWN else f"{why[: MOST_SHOWN - 1].rstrip()}…"


def _entry(outcome: JobOutcome) -> dict[str, Any]:
    return {
        "job": outcome.name,
        "state": outcome.state,
        "policy": outcome.policy or None,
        "audience": outcome.audience or None,
        "finished_earlier": outcome.earlier,
        "epsilon": outcome.epsilon,
        "seconds": None if outcome.seconds is None else round(outcome.seconds, 3),
        "out": None if outcome.out is None else shown(outcome.out),
        "error": outcome.error or None,
        "exit_code": outcome.exit_code,
        "exit_status": outcome.exit_status,
        "signed_by": outcome.signed_by,
        "reason": outcome.reason or None,
    }


def _account(job: BatchJob) -> dict[str, Any] | None:
    """The total that pays for one job; `None` where nobody pays."""
    from understudy.budget.account import ledger_of, open_fund

    try:
        url = ledger_of(job.job, job.path.parent)
        if url is None:
            return None
        fund = open_fund(url, read_schema(job.path.parent / job.job.table.schema_path))
    except UnderstudyError as error:
        return {"ledger": f"of job {job.name}", "dataset": None, "error": str(error).rstrip(".")}
    held = fund.holding
    return {
        "ledger": fund.place,
        "dataset": held.dataset,
        "unit": held.unit,
        "spent_epsilon": held.spent_epsilon,
        "total_epsilon": held.epsilon,
        "total_delta": held.delta,
    }
