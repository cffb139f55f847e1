"""Delivery: everything that is written once a table is measured and judged, whoever made it.

Of every table that is handed on there is an internal model card, and a public one of the table that is released.
"""

import csv
import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluate.gate.finding import Outcome
from evaluate.gate.policy import Policy
from evaluate.gate.verdict import Verdict
from evaluate.result import NOTICE, Evaluation
from reports import write_html, write_sweep
from reports.exports import SUMMARY, render_junit, to_summary
from reports.model_card.card import CardFacts, internal_card, public_card
from reports.model_card.render import CROISSANT, to_croissant, write_card
from reports.sections.comparison import is_releasable
from synth import extras
from synth.errors import TableError
from synth.output import whole_file
from synth.table import read_table
from synth.usage_terms import Terms
from understudy.data.load import parts_of
from understudy.data.source import FILES
from understudy.job.spec import LABEL
from understudy.provenance import sha256

if TYPE_CHECKING:
    from understudy.run.plan import Plan

CARDS = "cards"
PUBLIC_YAML, PUBLIC_MARKDOWN = "model-card.yaml", "README.md"


@dataclass(frozen=True)
class Handing:
    """The terms on which a job hands its tables on."""

    terms: Terms = field(default_factory=Terms)
    holdout_share: float | None = None

    @classmethod
    def of(cls, plan: "Plan") -> "Handing":
        return cls(plan.job.card, plan.job.split.holdout_share)

    def facts(self, table: Path | None, file: str | None, today: date | None = None) -> CardFacts:
        n_rows, n_columns = (None, None) if table is None else size_of(table)
        made_on = datetime.now(UTC).date() if today is None else today
        return CardFacts(made_on, self.terms, file, n_rows, n_columns, self.holdout_share)


def write_cards(
    evaluation: Evaluation,
    verdicts: Iterable[Verdict],
    tables: Mapping[str, Path],
    handing: Handing,
    folder: Path,
) -> None:
    """An internal card of every candidate, as `cards/LABEL.yaml` and `cards/LABEL.md`.

    Of a sweep that nobody pays for there are none: none of its tables was kept. *Sensitive*: `evaluation`.
    """
    if not is_releasable(evaluation):
        return
    ruled, cards = tuple(verdicts), folder / CARDS
    cards.mkdir(exist_ok=True)
    for index, candidate in enumerate(evaluation.candidates, start=1):
        table = tables.get(candidate.name)
        file = None if table is None else f"../{table.as_posix()}"
        facts = handing.facts(None if table is None else folder / table, file)
        name = file_name(candidate.name, index)
        card = internal_card(evaluation, candidate.name, facts, ruled)
        write_card(card, cards / f"{name}.yaml", cards / f"{name}.md")


def write_public_card(evaluation: Evaluation, name: str, handing: Handing, folder: Path, file: str) -> None:
    """The card of a release: `model-card.yaml`, `README.md` with a dataset card's front matter, `croissant.json`."""
    card, parts = public_card(evaluation, name, handing.facts(folder / file, file)), parts_of(folder / file)
    write_card(card, folder / PUBLIC_YAML, folder / PUBLIC_MARKDOWN)
    digests = {part.relative_to(folder).as_posix(): sha256(part) for part in parts}
    _write(folder / CROISSANT, to_croissant(card, digests, read_table(parts[0])))


def file_name(name: str, index: int) -> str:
    """A candidate's name where it may name a file, else its place among them.

    >>> file_name("mst", 1), file_name("../etc/passwd", 2)
    ('mst', 'table-2')
    """
    return name if LABEL.fullmatch(name) is not None else f"table-{index}"


def size_of(table: Path) -> tuple[int | None, int | None]:
    """Rows and columns of a synthetic table's file, or folder of parts; `None` where they cannot be counted."""
    if table.is_dir():
        sizes = [size_of(part) for part in parts_of(table)]
        n_rows = [size[0] for size in sizes]
        return (None if None in n_rows else sum(n for n in n_rows if n is not None)), sizes[0][1]
    if not table.is_file():
        raise TableError(f"the table is not there: path={str(table)!r}; name {FILES}")
    if table.suffix == ".parquet":
        import pyarrow.parquet as pq

        known = pq.read_metadata(table)
        return int(known.num_rows), int(known.num_columns)
    opener = gzip.open if table.suffix == ".gz" else open
    with opener(table, "rt", encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        try:
            n_columns = len(next(lines, []))
            return sum(1 for _ in lines), n_columns
        except (csv.Error, UnicodeDecodeError, EOFError):  # nothing that we wrote
            return None, None


REPORT, EVALUATION, VERDICT, JUNIT = "report.html", "evaluation.json", "verdict.json", "junit.xml"


@dataclass(frozen=True)
class Delivery:
    """All that is known once every candidate is measured and judged. *Sensitive*: `evaluation`."""

    evaluation: Evaluation
    verdicts: tuple[Verdict, ...]
    policy: Policy
    title: str
    release: str | None
    tables: Mapping[str, Path] = field(default_factory=dict)
    handing: Handing = field(default_factory=Handing)

    @property
    def released(self) -> Verdict | None:
        """The verdict on the table named for release; `None` where none is named."""
        return next((v for v in self.verdicts if v.candidate == self.release), None)

    @property
    def is_sweep(self) -> bool:
        return self.evaluation.provenance.sweep is not None

    def verdict_content(self, public: Outcome | None = None) -> dict[str, Any]:
        sweep = self.evaluation.provenance.sweep
        swept = {} if sweep is None else {"sweep": asdict(sweep)}
        return {
            "notice": NOTICE,
            "policy": self.policy.name,
            "release": self.release,
            **swept,
            "verdict": None if self.released is None else self.released.verdict,
            "verdict_to_hand_on": public,
            "candidates": [verdict.to_dict() for verdict in self.verdicts],
        }


def deliver(delivery: Delivery, folder: Path) -> None:
    """Every rendering of the evidence, each file whole or not there."""
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
    for write in extras.load("export").values():
        write(delivery, folder)
    if delivery.is_sweep:
        write_sweep(delivery.evaluation, folder)


def write_verdict(delivery: Delivery, folder: Path, public: Outcome | None = None) -> None:
    """The verdicts, those that stay inside and the public one."""
    _write(folder / VERDICT, json.dumps(delivery.verdict_content(public), indent=1, ensure_ascii=False))


def _write(path: Path, text: str) -> None:
    with whole_file(path) as beside:
        beside.write_text(text, encoding="utf-8")
