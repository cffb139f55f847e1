"""Delivery: everything that is written once a table is measured and judged, whoever made it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluate.gate.finding import Outcome
from evaluate.gate.policy import Policy
from evaluate.gate.verdict import Verdict
from evaluate.result import NOTICE, Evaluation
from reports import write_html, write_sweep
from reports.exports.junit import render_junit
from reports.exports.prometheus import write_telemetry
from reports.exports.summary import SUMMARY, to_summary
from synth.output import whole_file
from understudy.artifacts.cards import Handing, write_cards

REPORT, EVALUATION, VERDICT, JUNIT = "report.html", "evaluation.json", "verdict.json", "junit.xml"


@dataclass(frozen=True)
class Delivery:
    """What is known once every candidate is measured and judged.

    Attributes:
        evaluation: *Sensitive*: it was measured on real rows.
        verdicts: one for each candidate, in the order of candidates.
        policy: what they rest on.
        title: the headline.
        release: the candidate named for release; none where none is.
        tables: the synthetic table of each candidate, as files within the folder that is written.
        handing: what the job says about handing them on.
    """

    evaluation: Evaluation
    verdicts: tuple[Verdict, ...]
    policy: Policy
    title: str
    release: str | None
    tables: Mapping[str, Path] = field(default_factory=dict)
    handing: Handing = field(default_factory=Handing)

    @property
    def released(self) -> Verdict | None:
        """The verdict on the table named for release; none where none is named."""
        return next((v for v in self.verdicts if v.candidate == self.release), None)

    @property
    def is_sweep(self) -> bool:
        """Whether the candidates are points of a sweep."""
        return self.evaluation.provenance.sweep is not None

    def verdict_content(self, public: Outcome | None = None) -> dict[str, Any]:
        """The verdicts as plain data.

        Args:
            public: the verdict that the public report shows; none where there is no such report, or it shows none.
        """
        sweep = self.evaluation.provenance.sweep
        swept = {} if sweep is None else {"sweep": asdict(sweep)}
        return {
            "notice": NOTICE,
            "policy": self.policy.name,
            "release": self.release,
            **swept,
            "verdict": None if self.released is None else self.released.verdict,
            "public_verdict": public,
            "candidates": [verdict.to_dict() for verdict in self.verdicts],
        }


def deliver(delivery: Delivery, folder: Path) -> None:
    """Every rendering of the evidence, each file whole or not there.

    Args:
        delivery: what is known.
        folder: is there, and holds the synthetic tables; files of these names are replaced.

    Raises:
        OutputError: a file cannot be written.
    """
    _write(folder / EVALUATION, delivery.evaluation.to_json())
    write_verdict(delivery, folder)
    _write(folder / JUNIT, render_junit(delivery.verdicts))
    write_html(
        delivery.evaluation,
        folder / REPORT,
        verdicts=delivery.verdicts,
        title=delivery.title,
        release=delivery.release,
    )
    summary = to_summary(delivery.evaluation, delivery.verdicts, title=delivery.title, release=delivery.release)
    _write(folder / SUMMARY, summary)
    write_cards(delivery.evaluation, delivery.verdicts, delivery.tables, delivery.handing, folder)
    write_telemetry(delivery.evaluation, delivery.verdicts, folder, datetime.now(UTC))
    if delivery.is_sweep:
        write_sweep(delivery.evaluation, folder)


def write_verdict(delivery: Delivery, folder: Path, public: Outcome | None = None) -> None:
    """The verdicts, those that stay inside and the public one.

    Args:
        delivery: what is known.
        folder: one that is there is replaced in it.
        public: as in `Delivery.verdict_content`.

    Raises:
        OutputError: it cannot be written.
    """
    _write(folder / VERDICT, json.dumps(delivery.verdict_content(public), indent=1, ensure_ascii=False))


def _write(path: Path, text: str) -> None:
    with whole_file(path) as beside:
        beside.write_text(text, encoding="utf-8")
