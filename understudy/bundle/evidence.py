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
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

from evaluate.gate.finding import Outcome
from evaluate.result import Evaluation
from reports.public.facts import public_facts
from reports.public.verdict import public_verdict
from reports.sections.sweep import is_releasable
from synth.output import whole_file
from synth.schema import Schema
from synth.table import read_table
from understudy.artifacts import Delivery, deliver, size_of, write_public_card, write_verdict
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import TO_HAND_ON, About, Manifest, last_day, moment, rules_of, seal
from understudy.data.load import parts_of, rewrite
from understudy.run.released_numbers import write_public

SCHEMA = "schema.toml"
NOT_SAID = ("platform",)
"""Of the versions; what machine it was nobody needs to know."""


def write_public_folder(
    delivery: Delivery, folder: Path, made_at: str, valid_until: date | None, signer: Signer | None
) -> Outcome | None:  # fmt: skip
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
        _copy(folder / SCHEMA, public / SCHEMA)
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
    seal(public, _about_public(delivery, schema, made_at, valid_until), signer)
    return public_verdict(facts).outcome


def _about_public(delivery: Delivery, schema: Schema, made_at: str, valid_until: date | None) -> About:
    return About(
        kind="to-hand-on",
        made_at=made_at,
        valid_until=valid_until,
        run_id=run_id_of(delivery.evaluation),
        title=delivery.title,
        dataset=schema.dataset,
        unit=schema.unit,
        policy=rules_of(delivery.policy),
        release=delivery.release,
        versions={name: v for name, v in versions_of(delivery.evaluation).items() if name not in NOT_SAID},
    )


def run_id_of(evaluation: Evaluation) -> str | None:
    """The run's identity: drawn at random, so that it says nothing of any input."""
    return evaluation.provenance.run_id


def versions_of(evaluation: Evaluation) -> dict[str, str]:
    """Versions of everything installed that matters, where the evaluation was made."""
    return dict(evaluation.provenance.versions)


def _copy(source: Path, to: Path) -> None:
    with whole_file(to) as beside:
        shutil.copyfile(source, beside)


@dataclass(frozen=True)
class BundleContent:
    """Everything that goes into an internal bundle, beside the synthetic tables and models that lie there already."""

    delivery: Delivery
    given: Mapping[str, bytes] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=dict)

    @property
    def releasable(self) -> bool:
        """True where anything of it may be released at all."""
        return is_releasable(self.delivery.evaluation)


def write_evidence(evidence: BundleContent, folder: Path, signer: Signer | None) -> Manifest:
    """Complete a folder and seal it; done again after a start that was cut short, it gives a whole bundle."""
    made_at = moment(datetime.now(UTC))
    delivery = evidence.delivery
    valid_until = last_day(delivery.policy, delivery.evaluation.provenance.evaluated_at, made_at)
    for name, content in evidence.given.items():
        with whole_file(folder / name) as beside:
            beside.write_bytes(content)
    deliver(delivery, folder)
    write_verdict(delivery, folder, write_public_folder(delivery, folder, made_at, valid_until, signer))
    return seal(folder, _about_internal(evidence, made_at, valid_until), signer)


def _about_internal(evidence: BundleContent, made_at: str, valid_until: date | None) -> About:
    delivery = evidence.delivery
    schema = delivery.evaluation.schema
    return About(
        kind="internal",
        made_at=made_at,
        valid_until=valid_until,
        run_id=run_id_of(delivery.evaluation),
        title=delivery.title,
        dataset=schema.dataset,
        unit=schema.unit,
        policy=rules_of(delivery.policy),
        release=delivery.release,
        releasable=evidence.releasable,
        verdict=None if delivery.released is None else delivery.released.verdict,
        verdicts={verdict.candidate: verdict.verdict for verdict in delivery.verdicts},
        seeds=dict(evidence.seeds),
        versions=versions_of(delivery.evaluation),
    )
