"""The evidence of one job or offer as a sealed folder: renderings, what was given, the bundle to hand on, the seal.

The bundle to hand on goes with a released table. It is whole by itself, and holds nothing that was read off real rows.
Left out on purpose, beside everything that was measured: the verdict and the policy's findings, which rest on real
rows; every fingerprint; seeds and the job's digest, from which a guess of a seed could be confirmed: whoever knows all
rows but one and can fit again from the same seed can try guesses of that row; an inferred schema, whose limits are
values of real rows; the model, of which more may be drawn than was judged.

Its table is written anew from what was measured, by the schema: a column that it drops or does not know, an index, a
file's own description of itself and what no column can hold were never measured, so they stay inside.
"""

import csv
import gzip
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluate.gate.finding import Outcome
from evaluate.gate.policy import Policy
from evaluate.gate.verdict import Verdict
from evaluate.result import NOTICE, Evaluation
from evaluate.text import listed
from reports import write_html, write_sweep
from reports.exports.junit import render_junit
from reports.exports.summary import SUMMARY, to_summary
from reports.model_card.card import CardFacts, internal_card, public_card
from reports.model_card.croissant import CROISSANT, to_croissant
from reports.model_card.render import write_card
from reports.public.facts import Publication, PublicFacts, public_facts
from reports.public.page import write_public_html
from reports.public.verdict import public_verdict
from reports.sections.sweep import is_releasable
from synth import extras
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError, TableError
from synth.output import whole_file, whole_folder
from synth.parsing import GivenFile
from synth.table import read_table
from synth.usage_terms import Terms
from synth.validation import parse_toml
from understudy import provenance
from understudy.bundle.documents import BundleError, Signer
from understudy.bundle.manifest import TO_HAND_ON, About, last_day, rules_of, seal
from understudy.data import FILES, parts_of, read_whole, rewrite
from understudy.job.spec import LABEL, build_job
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


SCHEMA = "schema.toml"


PUBLIC = ("made_at", "valid_until", "run_id", "title", "dataset", "unit", "policy", "release")
"""What the manifest to hand on says of the same as the internal one."""


def write_evidence(
    delivery: Delivery,
    folder: Path,
    signer: Signer | None,
    *,
    files: Mapping[str, bytes] | None = None,
    seeds: Mapping[str, int] | None = None,
) -> str:
    """Complete a folder, in which synthetic tables and models lie already, and seal it: the digest of its manifest.

    Done again after a start that was cut short, it gives a whole bundle.
    """
    made_at = provenance.now()
    about = About(
        kind="internal",
        made_at=made_at,
        valid_until=last_day(delivery.policy, delivery.evaluation.provenance.evaluated_at, made_at),
        run_id=delivery.evaluation.provenance.run_id,  # drawn at random, so that it says nothing of any input
        title=delivery.title,
        dataset=delivery.evaluation.schema.dataset,
        unit=delivery.evaluation.schema.unit,
        policy=rules_of(delivery.policy),
        release=delivery.release,
        releasable=is_releasable(delivery.evaluation),
        verdict=None if delivery.released is None else delivery.released.verdict,
        verdicts={verdict.candidate: verdict.verdict for verdict in delivery.verdicts},
        seeds=dict(seeds or {}),
        versions=dict(delivery.evaluation.provenance.versions),
    )
    for name, content in (files or {}).items():
        with whole_file(folder / name) as beside:
            beside.write_bytes(content)
    deliver(delivery, folder)
    write_verdict(delivery, folder, write_public_folder(delivery, folder, about, signer))
    return seal(folder, about, signer)


def write_public_folder(delivery: Delivery, folder: Path, about: About, signer: Signer | None) -> Outcome | None:
    """The bundle to hand on in an internal one, sealed; none where no table is named for release or may leave."""
    public = folder / TO_HAND_ON
    if public.exists():
        shutil.rmtree(public)  # of an earlier start
    if delivery.release is None or delivery.release not in delivery.tables:
        return None
    public.mkdir()
    schema = delivery.evaluation.schema
    source = folder / delivery.tables[delivery.release]
    table = public / source.name
    rewrite(source, table, schema)
    if schema.status == "declared" and (folder / SCHEMA).exists():
        with whole_file(public / SCHEMA) as beside:
            shutil.copyfile(folder / SCHEMA, beside)
    facts = public_facts(
        delivery.evaluation,
        delivery.release,
        policy=delivery.policy,
        schema=schema,
        synthetic=read_table(parts_of(table)[0]),  # of a table in parts, one stands for all: they are drawn alike
        n_rows=size_of(table)[0],
        title=delivery.title,
    )
    write_public(facts, public)
    write_public_card(delivery.evaluation, delivery.release, delivery.handing, public, table.name)
    # What machine it was nobody outside needs to know.
    versions = {name: version for name, version in about.versions.items() if name != "platform"}
    shared = {name: getattr(about, name) for name in PUBLIC}
    seal(public, About(kind="to-hand-on", versions=versions, **shared), signer)
    return public_verdict(facts).outcome


PUBLIC_REPORT, NUMBERS = "report-to-hand-on.html", "released.json"
PUBLIC_NOTICE = (
    "Public: every number here was released under a budget of its own; the statements say which, how and at what cost. "
    "Price them anew with `understudy ledger show --release released.json --candidate NAME`."
)
ALONE, BOTH = "published numbers", "the table and the published numbers"
"""Names of the statements that have no label."""


def write_public(facts: PublicFacts, folder: Path) -> None:
    """`report-to-hand-on.html`, and `released.json` where numbers were released; each file whole or not there."""
    write_public_html(facts, folder / PUBLIC_REPORT)
    if facts.publication is not None:
        with whole_file(folder / NUMBERS) as beside:
            beside.write_text(released_json(facts, facts.publication), encoding="utf-8")


def _shown_statement(statement: PrivacyStatement | None) -> dict[str, Any] | None:
    """A statement as plain data, without the names of what stays inside."""
    if statement is None:
        return None
    content = statement.to_dict()
    if content["ledger"] is not None:
        content["ledger"] = {name: value for name, value in content["ledger"].items() if value is not None}
    return content


def released_json(facts: PublicFacts, published: Publication) -> str:
    """The published numbers with the statements that anyone prices anew, as JSON text."""
    statements = {facts.table: facts.statement, ALONE: published.statement, BOTH: published.together}
    content = {
        "notice": PUBLIC_NOTICE,
        "table": facts.table,
        "numbers": [asdict(number) for number in published.numbers],
        "candidates": [
            {"name": name, "statement": _shown_statement(statement)} for name, statement in statements.items()
        ],
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)


SUFFIXES = (".csv.gz", ".csv", ".parquet")
TITLE = "A table from elsewhere"


@dataclass(frozen=True)
class ExternalTable:
    """A table that was evaluated before, and the files that it is judged by. *Sensitive*: `evaluation`."""

    evaluation: Evaluation
    table: Path
    candidate: str
    files: Mapping[str, GivenFile]
    warnings: tuple[str, ...]


def offered(
    evaluation: Evaluation,
    table: Path,
    candidate: str | None,
    inputs: Mapping[str, GivenFile],
    others: Mapping[str, GivenFile],
) -> ExternalTable:
    """A table, once it is certain that it is the evaluated one, and that schema and job are those of the evaluation."""
    columns, sha256 = read_whole(table)
    for name, file in inputs.items():
        expected = getattr(evaluation.provenance, f"{name}_sha256")
        if expected is None:
            raise BundleError(f"the evaluation names no {name}, so that none belongs to it; leave out --{name}")
        if file.sha256 != expected:
            raise BundleError(f"the evaluation rests on another {name} than path={str(file.path)!r}; pass that one")
    called = _candidate(evaluation, sha256, table, candidate)
    names = [name for name in columns if name not in evaluation.schema.kept]
    left_out = (
        f"{listed(names)}: dropped by the schema or unknown to it, never measured, and left out of the table in "
        f"{TO_HAND_ON}/; hand on that table alone"
    )
    return ExternalTable(evaluation, table, called, {**inputs, **others}, (left_out,) if names else ())


def write_offered(
    offer: ExternalTable, verdicts: tuple[Verdict, ...], policy: Policy, bundle: Path, signer: Signer | None
) -> None:  # fmt: skip
    """The bundle of an offered table, whole or not at all, whatever its verdict."""
    known, handing = offer.evaluation.provenance, Handing()
    if "job" in offer.files:
        job = build_job(parse_toml(offer.files["job"], "job", JobError))
        handing = Handing(job.card, job.split.holdout_share)
    with whole_folder(bundle) as folder:
        kept = Path("synthetic") / _file_name(offer)
        for part in parts_of(offer.table):
            copy = folder / kept / part.relative_to(offer.table)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(part, copy)
        _candidate(offer.evaluation, provenance.sha256(folder / kept), offer.table, offer.candidate)
        delivery = Delivery(
            evaluation=offer.evaluation,
            verdicts=verdicts,
            policy=policy,
            title=known.job or TITLE,
            release=offer.candidate,
            tables={offer.candidate: kept},
            handing=handing,
        )
        files = {f"{name}.toml": file.content for name, file in offer.files.items()}
        write_evidence(
            delivery, folder, signer, files=files, seeds={} if known.seed is None else {"evaluation": known.seed}
        )


def _candidate(evaluation: Evaluation, sha256: str, table: Path, named: str | None) -> str:
    """The evaluation's name for a table of this content."""
    files = evaluation.provenance.files_sha256
    names = [candidate.name for candidate in evaluation.candidates]
    matching = [n for n in names if sha256 in {files.get(f"synthetic/{n}{suffix}") for suffix in ("", *SUFFIXES)}]
    if not matching or (named is not None and named not in matching):
        which = "an evaluated table" if named is None else f"what was evaluated as candidate={named!r}"
        raise BundleError(
            f"the file is not {which}, byte for byte: path={str(table)!r}; pass the evaluated one, or evaluate this one"
        )
    if named is None and len(matching) > 1:
        raise BundleError(f"several evaluated tables are byte for byte this file: {matching}; name one by --candidate")
    return named or matching[0]


def _file_name(offer: ExternalTable) -> str:
    ends = [""] if offer.table.is_dir() else SUFFIXES
    suffix = next((end for end in ends if offer.table.name.endswith(end)), None)
    if suffix is None:
        raise BundleError(f"a table is a {', '.join(SUFFIXES)} file: path={str(offer.table)!r}; name it as it was")
    if "/" in offer.candidate or not offer.candidate.isprintable():
        raise BundleError(f"candidate={offer.candidate!r} cannot name a file; evaluate the table under another name")
    return f"{offer.candidate}{suffix}"
