"""The evidence bundle of a table from elsewhere: the evaluated file, and no other, with what was found of it."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluate.gate.policy import Policy
from evaluate.gate.verdict import Verdict
from evaluate.result import Evaluation
from evaluate.text import listed
from synth.errors import JobError
from synth.output import whole_folder
from synth.validation import GivenFile, parse_toml
from understudy import provenance
from understudy.artifacts import Delivery, Handing
from understudy.bundle.evidence import write_evidence
from understudy.bundle.files import BundleError
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import TO_HAND_ON
from understudy.data.load import parts_of
from understudy.hashed_table import read_whole
from understudy.job.spec import build_job

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
