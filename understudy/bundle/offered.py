"""The evidence bundle of a table from elsewhere: the evaluated file, and no other, with what was found of it."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluate.policy import Policy
from evaluate.result import Evaluation
from evaluate.verdict import Verdict
from reports.model_card import Together
from synth.errors import TableError
from synth.output import whole_folder
from understudy import provenance
from understudy.bundle.errors import BundleError
from understudy.bundle.evidence import Evidence, write_evidence
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import Manifest
from understudy.cards import Handing
from understudy.delivery import Delivery
from understudy.job import read_job

SUFFIXES = (".csv", ".csv.gz", ".parquet")
TITLE = "A table from elsewhere"


@dataclass(frozen=True)
class Offered:
    """A table that was evaluated before, whoever made it.

    Attributes:
        evaluation: *Sensitive*: it was measured on real rows.
        table: the synthetic table's file.
        candidate: what the evaluation calls it.
        given: files that go into the bundle, by the name that they have there.
        handing: what its job says about handing it on.
    """

    evaluation: Evaluation
    table: Path
    candidate: str
    given: Mapping[str, Path] = field(default_factory=dict)
    handing: Handing = field(default_factory=Handing)


def offered(
    evaluation: Evaluation, table: Path, candidate: str | None, inputs: Mapping[str, Path], others: Mapping[str, Path]
) -> Offered:
    """A table, once it is certain that it is the evaluated one.

    Args:
        evaluation: says which files were evaluated.
        table: the synthetic table's file.
        candidate: what the evaluation calls it; none: what goes by this content.
        inputs: files of "schema" and "job", as far as they are named: the same that the evaluation rests on.
        others: further files for the bundle by the name that they have there, such as policy.toml.

    Raises:
        TableError: the table cannot be read.
        BundleError: it is not an evaluated one, or a schema or job is another; nothing was written.
    """
    try:
        sha256 = provenance.sha256(table)
    except OSError as error:
        raise TableError(f"the table cannot be read: path={str(table)!r} ({error.strerror}); check the name") from None
    for name, path in inputs.items():
        _check_input(evaluation, name, path)
    job = inputs.get("job")
    together = _together(evaluation)
    handing = Handing(together=together)
    if job is not None:
        said = read_job(job)
        handing = Handing(said.card, said.split.holdout_share, together)
    given = {**{f"{name}.toml": path for name, path in inputs.items()}, **others}
    return Offered(evaluation, table, _candidate(evaluation, sha256, table, candidate), given, handing)


def write_offered(
    offer: Offered, verdicts: tuple[Verdict, ...], policy: Policy, bundle: Path, signer: Signer | None
) -> Manifest:  # fmt: skip
    """The bundle of an offered table, whole or not at all, whatever its verdict.

    Args:
        offer: the table and what was found of it.
        verdicts: on every candidate of the evaluation, in their order.
        policy: what they rest on.
        bundle: the folder that will appear.
        signer: signs it; none: nobody does.

    Raises:
        BundleError: the table changed meanwhile, or cannot be part of a bundle; nothing was left.
        OutputError: the folder is taken or cannot be written; nothing was left.
    """
    known = offer.evaluation.provenance
    with whole_folder(bundle) as folder:
        kept = Path("synthetic") / _file_name(offer)
        (folder / "synthetic").mkdir()
        shutil.copyfile(offer.table, folder / kept)
        _candidate(offer.evaluation, provenance.sha256(folder / kept), offer.table, offer.candidate)
        delivery = Delivery(
            evaluation=offer.evaluation,
            verdicts=verdicts,
            policy=policy,
            title=str(known.get("job") or TITLE),
            release=offer.candidate,
            tables={offer.candidate: kept},
            handing=offer.handing,
        )
        seed = known.get("seed")
        seeds = {"evaluation": seed} if isinstance(seed, int) else {}
        return write_evidence(Evidence(delivery, offer.given, seeds), folder, signer)


def _candidate(evaluation: Evaluation, sha256: str, table: Path, named: str | None) -> str:
    """What the evaluation calls a table of this content."""
    found = [one.name for one in evaluation.candidates if sha256 in _digests(evaluation, one.name)]
    if not found or (named is not None and named not in found):
        which = "an evaluated table" if named is None else f"what was evaluated as candidate={named!r}"
        raise BundleError(
            f"the file is not {which}, byte for byte: path={str(table)!r}; pass the evaluated one, or evaluate this one"
        )
    if named is None and len(found) > 1:
        raise BundleError(f"several evaluated tables are byte for byte this file: {found}; name one by --candidate")
    return named or found[0]


def _digests(evaluation: Evaluation, name: str) -> tuple[Any, ...]:
    known = evaluation.provenance.get("files_sha256")
    files = known if isinstance(known, Mapping) else {}
    return tuple(files.get(f"synthetic/{name}{suffix}") for suffix in SUFFIXES)


def _file_name(offer: Offered) -> str:
    suffix = next((one for one in SUFFIXES[::-1] if offer.table.name.endswith(one)), None)
    if suffix is None:
        raise BundleError(f"a table is a {', '.join(SUFFIXES)} file: path={str(offer.table)!r}; name it as it was")
    if "/" in offer.candidate or not offer.candidate.isprintable():
        raise BundleError(f"candidate={offer.candidate!r} cannot name a file; evaluate the table under another name")
    return f"{offer.candidate}{suffix}"


def _check_input(evaluation: Evaluation, name: str, path: Path) -> None:
    """Refuse another schema or job than the evaluation rests on."""
    expected = evaluation.provenance.get(f"{name}_sha256")
    if not isinstance(expected, str):
        raise BundleError(f"the evaluation names no {name}, so that none belongs to it; leave out --{name}")
    try:
        found = provenance.sha256(path)
    except OSError as error:
        raise BundleError(f"the {name} cannot be read: path={str(path)!r} ({error.strerror}); check it") from None
    if found != expected:
        raise BundleError(f"the evaluation rests on another {name} than path={str(path)!r}; pass that one")


def _together(evaluation: Evaluation) -> Together | None:
    """What the table and the numbers published about it promise together; none where there are none."""
    published = evaluation.provenance.get("public_report")
    if not isinstance(published, Mapping):
        return None
    try:
        both, n_fits = published["together"], int(published["n_fits"])
        return Together(fits=n_fits + 1, epsilon=float(both["epsilon"]), delta=float(both["delta"]))
    except (KeyError, TypeError, ValueError):
        raise BundleError("the evaluation's published numbers are damaged; evaluate again") from None
