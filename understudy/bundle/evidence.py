"""The evidence of one job or offer as a sealed folder: renderings, what was given, the bundle to hand on, the seal.

The bundle to hand on goes with a released table. It is whole by itself, and holds nothing that was read off real rows.
Left out on purpose, beside everything that was measured: the verdict and the policy's findings, which rest on real
rows; every fingerprint; seeds and the job's digest, from which a guess of a seed could be confirmed: whoever knows all
rows but one and can fit again from the same seed can try guesses of that row; an inferred schema, whose limits are
values of real rows; the model, of which more may be drawn than was judged.

Its table is written anew from what was measured, by the schema: a column that it drops or does not know, an index, a
file's own description of itself and what no column can hold were never measured, so they stay inside.
"""

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from evaluate.gate.finding import Outcome
from reports.public.facts import public_facts, public_verdict
from reports.sections.comparison import is_releasable
from synth.output import whole_file
from synth.table import read_table
from understudy.artifacts import Delivery, deliver, size_of, write_public_card, write_verdict
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import TO_HAND_ON, About, last_day, moment, rules_of, seal
from understudy.data.load import parts_of, rewrite
from understudy.run.released_numbers import write_public

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
    made_at = moment(datetime.now(UTC))
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
