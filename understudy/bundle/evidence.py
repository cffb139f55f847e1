"""The evidence of one job or offer as a sealed folder: renderings, what was given, the bundle to hand on, the seal.

The bundle to hand on goes with a released table. It is whole by itself, and holds nothing that was read off real rows.
Left out on purpose, beside everything that was measured: the verdict and the policy's findings, which rest on real
rows; every fingerprint; seeds and the job's digest, from which a guess of a seed could be confirmed: whoever knows all
rows but one and can fit again from the same seed can try guesses of that row; an inferred schema, whose limits are
values of real rows; the model, of which more may be drawn than was judged.

Its table is written anew from what was measured, by the schema: a column that it drops or does not know, an index, a
file's own description of itself and what no column can hold were never measured, so they stay inside.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyarrow import parquet

from evaluate.gate.decision import Outcome
from evaluate.gate.policy import Policy
from evaluate.gate.verdict import Verdict
from evaluate.result import NOTICE, Evaluation
from evaluate.text import listed
from reports import write_html, write_sweep
from reports.exports import SUMMARY, render_junit, to_summary
from reports.model_card.card import CardFacts, internal_card, public_card
from reports.model_card.render import CROISSANT, to_croissant, write_card
from reports.public.facts import Publication, PublicFacts, public_facts, public_verdict
from reports.public.page import write_public_html
from reports.sections.comparison import is_releasable
from synth import extras
from synth.errors import JobError
from synth.output import whole_file, whole_folder
from synth.schema import Schema
from synth.table import Table, read_table
from synth.usage_terms import Terms
from synth.validation import GivenFile, parse_toml
from understudy import provenance
from understudy.bundle.manifest import TO_HAND_ON, About, last_day, rules_of, seal
from understudy.bundle.signing import BundleError, Signer
from understudy.data import parts_of, read_whole, rewrite
from understudy.job.spec import LABEL, build_job
from understudy.provenance import sha256

CARDS = "cards"
PUBLIC_YAML, PUBLIC_MARKDOWN = "model-card.yaml", "README.md"
REPORT, EVALUATION, VERDICT, JUNIT = "report.html", "evaluation.json", "verdict.json", "junit.xml"
SCHEMA = "schema.toml"
PUBLIC = ("made_at", "valid_until", "run_id", "title", "dataset", "unit", "policy", "release")
"""What the manifest to hand on says of the same as the internal one."""
PUBLIC_REPORT, NUMBERS = "report-to-hand-on.html", "released.json"
PUBLIC_NOTICE = (
    "Public: every number here was released under a budget of its own; the statements say which, how and at what cost. "
    "Price them anew with `understudy ledger show --release released.json --candidate NAME`."
)
ALONE, BOTH = "published numbers", "the table and the published numbers"
"""Names of the statements that have no label."""
SUFFIXES = (".csv.gz", ".csv", ".parquet")


@dataclass(frozen=True)
class Handing:
    """The terms on which a job hands its tables on."""

    terms: Terms = field(default_factory=Terms)
    holdout_share: float | None = None

    def facts(self, table: Path | None, file: str | None) -> CardFacts:
        n_rows = n_columns = None
        if table is not None and table.suffix == ".parquet":
            footer = parquet.read_metadata(table)
            n_rows, n_columns = footer.num_rows, footer.num_columns
        elif table is not None:
            rows = Table.of(table)
            n_rows, n_columns = sum(n for part in rows.parts for _, n in part()), len(rows.names)
        return CardFacts(datetime.now(UTC).date(), self.terms, file, n_rows, n_columns, self.holdout_share)


def file_name(name: str, index: int) -> str:
    """A candidate's name where it may name a file, else its place among them.

    >>> file_name("mst", 1), file_name("../etc/passwd", 2)
    ('mst', 'table-2')
    """
    return name if LABEL.fullmatch(name) is not None else f"table-{index}"


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
    evaluation, verdicts, named = delivery.evaluation, delivery.verdicts, {"title": delivery.title}
    _write(folder / EVALUATION, evaluation.to_json())
    write_verdict(delivery, folder)
    _write(folder / JUNIT, render_junit(verdicts))
    write_html(evaluation, folder / REPORT, verdicts=verdicts, release=delivery.release, **named)
    _write(folder / SUMMARY, to_summary(evaluation, verdicts, release=delivery.release, **named))
    if is_releasable(evaluation):  # of a sweep that nobody pays for no table was kept
        (folder / CARDS).mkdir(exist_ok=True)
        for index, candidate in enumerate(evaluation.candidates, start=1):
            table, name = delivery.tables.get(candidate.name), file_name(candidate.name, index)
            file = None if table is None else f"../{table.as_posix()}"
            facts = delivery.handing.facts(None if table is None else folder / table, file)
            card = internal_card(evaluation, candidate.name, facts, verdicts)
            write_card(card, folder / CARDS / f"{name}.yaml", folder / CARDS / f"{name}.md")
    for write in extras.load("export").values():
        write(delivery, folder)
    if evaluation.provenance.sweep is not None:
        write_sweep(evaluation, folder)


def write_verdict(delivery: Delivery, folder: Path, public: Outcome | None = None) -> None:
    _write(folder / VERDICT, json.dumps(delivery.verdict_content(public), indent=1, ensure_ascii=False))


def _write(path: Path, text: str) -> None:
    with whole_file(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_evidence(
    delivery: Delivery, folder: Path, signer: Signer | None, *, files: Mapping[str, GivenFile], seeds: Mapping[str, int]
) -> str:
    """Complete a folder, in which synthetic tables and models lie already, and seal it: the digest of its manifest.

    Done again after a start that was cut short, it gives a whole bundle.
    """
    about = about_of(delivery, seeds)
    for name, file in files.items():
        with whole_file(folder / f"{name}.toml") as beside:
            beside.write_bytes(file.content)
    deliver(delivery, folder)
    write_verdict(delivery, folder, write_public_folder(delivery, folder, about, signer))
    return seal(folder, about, signer)


def about_of(delivery: Delivery, seeds: Mapping[str, int]) -> About:
    """What a manifest says of a delivery, in brief."""
    made_at, known = provenance.now(), delivery.evaluation.provenance
    return About(
        kind="internal",
        made_at=made_at,
        valid_until=last_day(delivery.policy, known.evaluated_at, made_at),
        run_id=known.run_id,  # drawn at random, so that it says nothing of any input
        title=delivery.title,
        dataset=delivery.evaluation.schema.dataset,
        unit=delivery.evaluation.schema.unit,
        policy=rules_of(delivery.policy),
        release=delivery.release,
        releasable=is_releasable(delivery.evaluation),
        verdict=None if delivery.released is None else delivery.released.verdict,
        verdicts={verdict.candidate: verdict.verdict for verdict in delivery.verdicts},
        seeds=dict(seeds),
        versions=dict(known.versions),
    )


def write_public_folder(delivery: Delivery, folder: Path, about: About, signer: Signer | None) -> Outcome | None:
    """The bundle to hand on in an internal one, sealed; none where no table is named for release or may leave."""
    public = folder / TO_HAND_ON
    if public.exists():
        shutil.rmtree(public)  # of an earlier start
    if delivery.release is None or delivery.release not in delivery.tables:
        return None
    public.mkdir()
    source, schema = folder / delivery.tables[delivery.release], delivery.evaluation.schema
    outcome = write_public_table(delivery, source, public, schema, schema, folder / SCHEMA)
    seal_public(public, about, signer)
    return outcome


def write_public_table(
    delivery: Delivery, source: Path, public: Path, schema: Schema, shown: Schema, schema_file: Path
) -> Outcome | None:
    """The table that is named for release, written anew by a schema, with its report and card to hand on.

    `shown`: the schema of what the report shows and counts, which leaves keys of other tables out.
    """
    evaluation, release = delivery.evaluation, str(delivery.release)
    table = public / source.name
    rewrite(source, table, schema)
    parts = parts_of(table)
    first = read_table(parts[0])  # of a table in parts, one stands for all: they are drawn alike
    if schema.status == "declared" and schema_file.exists():
        with whole_file(public / SCHEMA) as beside:
            shutil.copyfile(schema_file, beside)
    on_card = delivery.handing.facts(table, table.name)
    facts = public_facts(
        evaluation, release, policy=delivery.policy, schema=shown, synthetic=first, n_rows=on_card.n_rows,
        title=delivery.title,
    )  # fmt: skip
    write_public(facts, public)
    card = public_card(evaluation, release, on_card)
    write_card(card, public / PUBLIC_YAML, public / PUBLIC_MARKDOWN)
    digests = {part.relative_to(public).as_posix(): sha256(part) for part in parts}
    _write(public / CROISSANT, to_croissant(card, digests, first))
    return public_verdict(facts).outcome


def seal_public(public: Path, about: About, signer: Signer | None) -> None:
    # What machine it was nobody outside needs to know.
    versions = {name: version for name, version in about.versions.items() if name != "platform"}
    shared = {name: getattr(about, name) for name in PUBLIC}
    seal(public, About(kind="to-hand-on", versions=versions, **shared), signer)


def write_public(facts: PublicFacts, folder: Path) -> None:
    """`report-to-hand-on.html`, and `released.json` where numbers were released; each file whole or not there."""
    write_public_html(facts, folder / PUBLIC_REPORT)
    if facts.publication is not None:
        _write(folder / NUMBERS, released_json(facts, facts.publication))


def released_json(facts: PublicFacts, published: Publication) -> str:
    """The published numbers with the statements that anyone prices anew, without the names of what stays inside."""
    candidates = []
    for name, statement in {facts.table: facts.statement, ALONE: published.statement, BOTH: published.together}.items():
        content = None if statement is None else statement.to_dict()
        if content is not None and content["ledger"] is not None:
            content["ledger"] = {key: value for key, value in content["ledger"].items() if value is not None}
        candidates.append({"name": name, "statement": content})
    content = {
        "notice": PUBLIC_NOTICE,
        "table": facts.table,
        "numbers": [asdict(number) for number in published.numbers],
        "candidates": candidates,
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)


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
    called = _evaluated_name(evaluation, sha256, table, candidate)
    names = [name for name in columns if name not in evaluation.schema.kept]
    left_out = (
        f"{listed(names)}: dropped by the schema or unknown to it, never measured, and left out of the table in "
        f"{TO_HAND_ON}/; hand on that table alone"
    )
    return ExternalTable(evaluation, table, called, {**inputs, **others}, (left_out,) if names else ())


def write_offered(
    offer: ExternalTable, verdicts: tuple[Verdict, ...], policy: Policy, bundle: Path, signer: Signer | None
) -> None:
    """The bundle of an offered table, whole or not at all, whatever its verdict."""
    known, handing, table = offer.evaluation.provenance, Handing(), offer.table
    if "job" in offer.files:
        job = build_job(parse_toml(offer.files["job"], "job", JobError))
        handing = Handing(job.card, job.split.holdout_share)
    suffix = next((end for end in ([""] if table.is_dir() else SUFFIXES) if table.name.endswith(end)), None)
    if suffix is None:
        raise BundleError(f"a table is a {', '.join(SUFFIXES)} file: path={str(table)!r}; name it as it was")
    if "/" in offer.candidate or not offer.candidate.isprintable():
        raise BundleError(f"candidate={offer.candidate!r} cannot name a file; evaluate the table under another name")
    with whole_folder(bundle) as folder:
        kept = Path("synthetic") / f"{offer.candidate}{suffix}"
        for part in parts_of(table):
            copy = folder / kept / part.relative_to(table)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(part, copy)
        _evaluated_name(offer.evaluation, sha256(folder / kept), table, offer.candidate)
        title, tables = known.job or "A table from elsewhere", {offer.candidate: kept}
        delivery = Delivery(offer.evaluation, verdicts, policy, title, offer.candidate, tables, handing)
        seeds = {} if known.seed is None else {"evaluation": known.seed}
        write_evidence(delivery, folder, signer, files=offer.files, seeds=seeds)


def _evaluated_name(evaluation: Evaluation, sha256: str, table: Path, named: str | None) -> str:
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
