"""Telemetry of a run for an operator's monitoring: two files in the text format of Prometheus, and alert rules.

The public file holds what a privacy statement, a job and a ledger say; nothing in it was computed from real rows.
The internal one holds what was. No name is in both, so that one collector can read both files.

A sample whose number is not known is not there: no zero and no NaN stands for it.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from evaluate.gate.claim import disproved, made_here
from evaluate.gate.verdict import Verdict
from evaluate.metrics import CLIPPED
from evaluate.result import Evaluation
from reports.model_card.privacy import noise_multiplier
from synth.output import whole_file
from understudy.artifacts import Delivery

PUBLIC_FILE, INTERNAL_FILE = "metrics.public.prom", "metrics.internal.prom"
RULES = Path(__file__).with_name("understudy.rules.yml")
MEMBERSHIP = "privacy.membership.auc"
GAPS = ("utility.gap.boosting", "utility.gap.linear")
"""The loss of a model by synthetic training rows: of the stronger model, where there are both."""
NUMBERS = "published numbers"
"""The model's label of what was released beside a table; no label of a job's candidate has a space."""

Families = Mapping[str, tuple[str, tuple[str, ...]]]
"""What each metric says, and its labels."""
Samples = dict[tuple[str, tuple[str, ...]], float]
"""Numbers by metric and values of its labels."""

EPSILON, REMAINING, LIMIT = "dp_training_epsilon_consumed", "dp_training_budget_remaining", "dp_training_budget_limit"
NOISE, RECORDED, WHEN = "dp_noise_multiplier", "dp_training_ledger_entry", "understudy_run_timestamp_seconds"
PUBLIC: Families = {
    EPSILON: (
        "Epsilon of one release, as its privacy statement claims it; exact, where pages round it up to three digits.",
        ("model", "dataset", "run_id"),
    ),
    REMAINING: ("Epsilon that the ledger has left for a dataset after this run.", ("dataset",)),
    LIMIT: ("Epsilon that all releases of a dataset may come to.", ("dataset",)),
    NOISE: (
        "Noise in units of what one unit can move: of the steps of DP-SGD, else the least of all Gaussian releases.",
        ("model",),
    ),
    RECORDED: (
        "1 where a ledger holds this model's fit to a protected dataset, 0 where none does. Its guarantee is formal, "
        "none, or disputed: an audit disproves it.",
        ("model", "dataset", "run_id", "guarantee"),
    ),
    WHEN: ("When the evidence of a run was written.", ("dataset", "run_id")),
}
CLIP_FRACTION, AUC = "dp_gradient_clip_fraction", "dp_membership_inference_auc"
DELTA, VERDICT = "dp_training_accuracy_delta", "understudy_verdict"
INTERNAL: Families = {
    CLIP_FRACTION: ("Share of the units' gradients that DP-SGD scaled down. Reads real rows.", ("model",)),
    AUC: ("Area under the curve of the membership attack. Reads real rows.", ("model",)),
    DELTA: (
        "Score of a model trained on real rows less that of one trained on synthetic ones. Reads real rows.",
        ("model",),
    ),
    VERDICT: (
        "1 for the verdict of a policy on a model, 0 for the others. Reads real rows.",
        ("model", "policy", "verdict"),
    ),
}


def public_samples(evaluation: Evaluation, when: datetime) -> Samples:
    """Samples for outside: of an evaluation, statements, audits on a stand-in, schema and run alone are read."""
    samples: Samples = {}
    if not made_here(evaluation):
        return samples
    schema, run_id = evaluation.schema, evaluation.provenance.run_id or ""
    # The name of a dataset whose releases are to be paid for; empty where the schema declares none.
    protected = (schema.dataset or "") if schema.status == "declared" else ""
    releases = [(one.name, one.statement, disproved(one)) for one in evaluation.candidates]
    published = evaluation.provenance.released_numbers
    if published is not None:
        releases.append((NUMBERS, published.statement, False))
    for model, stated, is_disputed in releases:
        held = None if stated is None else stated.ledger
        dataset = protected if held is None else held.dataset
        # Of a void statement and of one that an audit disproves, neither the epsilon nor the noise is known.
        guarantee = "none" if stated is None or not stated.private else "disputed" if is_disputed else "formal"
        if stated is not None and guarantee == "formal":
            samples[EPSILON, (model, dataset, run_id)] = stated.epsilon
            if (noise := noise_multiplier(stated)) is not None:
                samples[NOISE, (model,)] = noise
        if dataset:
            samples[RECORDED, (model, dataset, run_id, guarantee)] = float(held is not None)
    ledger = evaluation.provenance.ledger
    if ledger is not None:
        samples[REMAINING, (ledger.dataset,)] = ledger.left_epsilon
        samples[LIMIT, (ledger.dataset,)] = ledger.total_epsilon
    samples[WHEN, (protected, run_id)] = float(int(when.timestamp()))
    return samples


def internal_samples(evaluation: Evaluation, verdicts: Collection[Verdict]) -> Samples:
    """Samples that were computed from real rows. `evaluation`: *Sensitive*: it was measured on real rows."""
    samples: Samples = {}
    for candidate in evaluation.candidates:
        values = {one.measure: one.value for one in candidate.estimates if not one.subject}
        gap = next((name for name in GAPS if name in values), "")
        for metric, measure in ((CLIP_FRACTION, CLIPPED), (AUC, MEMBERSHIP), (DELTA, gap)):
            if measure in values:
                samples[metric, (candidate.name,)] = values[measure]
    for verdict in verdicts:
        for outcome in ("PASS", "FAIL", "INCONCLUSIVE"):
            samples[VERDICT, (verdict.candidate, verdict.policy, outcome)] = float(verdict.verdict == outcome)
    return samples


def write_telemetry(delivery: Delivery, folder: Path, when: datetime | None = None) -> None:
    """Both files, each whole or not there. `delivery`: *Sensitive*: it was measured on real rows."""
    public = public_samples(delivery.evaluation, when or datetime.now(UTC))
    internal = internal_samples(delivery.evaluation, delivery.verdicts)
    for name, families, samples in ((PUBLIC_FILE, PUBLIC, public), (INTERNAL_FILE, INTERNAL, internal)):
        with whole_file(folder / name) as beside:
            beside.write_text("".join(_lines(families, samples)), encoding="utf-8", errors="replace", newline="\n")


def _lines(families: Families, samples: Samples) -> Iterator[str]:
    for name, (words, labels) in families.items():
        yield f"# HELP {name} {words}\n# TYPE {name} gauge\n"
        for (metric, values), number in samples.items():
            if metric == name:
                pairs = ",".join(f'{label}="{_escaped(value)}"' for label, value in zip(labels, values, strict=True))
                yield f"{name}{{{pairs}}} {number!r}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
