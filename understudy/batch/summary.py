"""The summary of a batch, for people, spreadsheets and programs."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluate.text import typed_loss
from reports.exports import write_csv
from synth.output import whole_file
from understudy.batch.jobs import SUMMARY_CSV, SUMMARY_JSON
from understudy.batch.result import JobOutcome
from understudy.bundle.manifest import moment

HEADINGS = ("job", "state", "policy", "epsilon in all", "seconds", "output", "why")
MOST_SHOWN = 90
"""Characters of an error or a reason in a table on a terminal; the rest is in the files."""


def content_of(outcomes: Sequence[JobOutcome], code: int, began: datetime) -> dict[str, Any]:
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
    write_csv(folder / SUMMARY_CSV, list(content["jobs"][0]) if content["jobs"] else [], content["jobs"])
    with whole_file(folder / SUMMARY_JSON) as beside:
        beside.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


def shown(path: Path) -> str:
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _brief(why: str) -> str:
    return why if len(why) <= MOST_SHOWN else f"{why[: MOST_SHOWN - 1].rstrip()}…"


def _entry(outcome: JobOutcome) -> dict[str, Any]:
    plain = {**asdict(outcome), "exit_code": outcome.exit_code}
    plain |= {"seconds": None if outcome.seconds is None else round(outcome.seconds, 3)}
    plain |= {"out": None if outcome.out is None else shown(outcome.out)}
    named = {"job": plain.pop("name"), "state": plain.pop("state"), "finished_earlier": plain.pop("earlier"), **plain}
    return {key: None if value == "" else value for key, value in named.items()}
