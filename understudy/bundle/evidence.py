"""The whole evidence of one job or offer as a sealed folder: renderings, what was given, the public part, the seal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

from reports.sweep import is_releasable
from synth.output import whole_file
from synth.schema import build_schema
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import About, Manifest, last_day, moment
from understudy.bundle.public_folder import run_id_of, versions_of, write_public_folder
from understudy.bundle.sealing import rules_of, seal
from understudy.delivery import Delivery, deliver, write_verdict


@dataclass(frozen=True)
class Evidence:
    """Everything that goes into an internal bundle, beside the synthetic tables and models that lie there already.

    Attributes:
        delivery: what is known and judged.
        given: what was given, as it was when it was understood, by the name that it has in the bundle, such as
            policy.toml.
        seeds: of every draw but private noise.
    """

    delivery: Delivery
    given: Mapping[str, bytes] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=dict)

    @property
    def releasable(self) -> bool:
        """Whether anything of it may be released at all."""
        return is_releasable(self.delivery.evaluation)


def write_evidence(evidence: Evidence, folder: Path, signer: Signer | None) -> Manifest:
    """Complete a folder and seal it. Done again after a start that was cut short, it gives a whole bundle all the same.

    Args:
        evidence: what goes into it.
        folder: holds synthetic tables and models, and is nobody's bundle yet.
        signer: signs the manifests; none: nobody does.

    Returns:
        What was sealed.

    Raises:
        BundleError: something in the folder cannot be part of a bundle, or the evidence counts no longer.
        OutputError: the folder cannot be written.
    """
    made_at = moment(datetime.now(UTC))
    delivery = evidence.delivery
    valid_until = last_day(delivery.policy, delivery.evaluation.provenance.get("evaluated_at"), made_at)
    for name, content in evidence.given.items():
        with whole_file(folder / name) as beside:
            beside.write_bytes(content)
    deliver(delivery, folder)
    write_verdict(delivery, folder, write_public_folder(delivery, folder, made_at, valid_until, signer))
    return seal(folder, _about(evidence, made_at, valid_until), signer)


def _about(evidence: Evidence, made_at: str, valid_until: date | None) -> About:
    delivery = evidence.delivery
    schema = build_schema(delivery.evaluation.schema)
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
