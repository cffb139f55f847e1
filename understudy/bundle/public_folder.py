"""The public bundle: what may leave with a released table, whole by itself, and nothing that was read off real rows.

Left out on purpose, beside everything that was measured: the verdict and the policy's findings, which rest on real
rows; every fingerprint; seeds and the job's digest, from which a guess of a seed could be confirmed: whoever knows all
rows but one and can fit again from the same seed can try guesses of that row; an inferred schema, whose limits are
values of real rows; the model, of which more may be drawn than was judged.
"""

import shutil
from pathlib import Path

from evaluate.result import Evaluation
from synth.output import whole_file
from synth.schema import Schema, build_schema
from synth.table import read_table
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import PUBLIC, About, last_day
from understudy.bundle.sealing import rules_of, seal
from understudy.cards import write_public_card
from understudy.delivery import Delivery
from understudy.publishing import facts_of, write_public

SCHEMA = "schema.toml"
NOT_SAID = ("platform",)
"""Of the versions; what machine it was nobody needs to know."""


def write_public_folder(delivery: Delivery, folder: Path, made_at: str, signer: Signer | None) -> None:
    """The public bundle in an internal one, sealed; none where no table is named for release, or it may not leave.

    Args:
        delivery: what is known.
        folder: of the internal bundle; its tables and its schema are there.
        made_at: the moment, as manifests write it.
        signer: signs it; none: nobody does.

    Raises:
        BundleError: a file cannot be part of a bundle.
        OutputError: the folder cannot be written.
    """
    public = folder / PUBLIC
    if public.exists():
        shutil.rmtree(public)  # of an earlier start
    if delivery.release is None or delivery.release not in delivery.tables:
        return
    public.mkdir()
    source = folder / delivery.tables[delivery.release]
    _copy(source, public / source.name)
    schema = build_schema(delivery.evaluation.schema)
    if schema.status == "declared" and (folder / SCHEMA).exists():
        _copy(folder / SCHEMA, public / SCHEMA)
    facts = facts_of(
        delivery.evaluation,
        delivery.release,
        policy=delivery.policy,
        schema=schema,
        synthetic=read_table(source),
        title=delivery.title,
    )
    write_public(facts, public)
    write_public_card(delivery.evaluation, delivery.release, delivery.handing, public, source.name)
    seal(public, _about(delivery, schema, made_at), signer)


def _about(delivery: Delivery, schema: Schema, made_at: str) -> About:
    return About(
        kind="public",
        made_at=made_at,
        valid_until=last_day(delivery.policy, made_at),
        run_id=run_id_of(delivery.evaluation),
        title=delivery.title,
        dataset=schema.dataset,
        unit=schema.unit,
        policy=rules_of(delivery.policy),
        release=delivery.release,
        versions={name: v for name, v in versions_of(delivery.evaluation).items() if name not in NOT_SAID},
    )


def run_id_of(evaluation: Evaluation) -> str | None:
    """What tells the run from others: drawn at random, so that it says nothing of any input."""
    known = evaluation.provenance.get("run_id")
    return None if known is None else str(known)


def versions_of(evaluation: Evaluation) -> dict[str, str]:
    """Versions of everything installed that matters, where the evaluation was made."""
    known = evaluation.provenance.get("versions")
    return {str(name): str(version) for name, version in known.items()} if isinstance(known, dict) else {}


def _copy(source: Path, to: Path) -> None:
    with whole_file(to) as beside:
        shutil.copyfile(source, beside)
