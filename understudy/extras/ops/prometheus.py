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
from reports.guarantee import noise_multiplier
from synth.output import whole_file
from understudy.bundle.evidence import Delivery

PUBLIC_FILE, INTERNAL_FILE = "metrics.public.prom", "metrics.internal.prom"
NUMBERS = "published numbers"  # label of what was released beside a table; no candidate's label has a space
PUBLIC = {
    "dp_training_epsilon_consumed": "Epsilon of one release, as its privacy statement claims it.",
    "dp_training_budget_remaining": "Epsilon that the ledger has left for a dataset after this run.",
    "dp_training_budget_limit": "Epsilon that all releases of a dataset may come to.",
    "dp_noise_multiplier": "Noise in units of what one unit can move.",
    "dp_training_ledger_entry": "1 where a ledger holds this model's fit to a protected dataset, else 0.",
    "understudy_run_timestamp_seconds": "When the evidence of a run was written.",
}
INTERNAL = {
    "dp_gradient_clip_fraction": "Share of the units' gradients that DP-SGD scaled down. Reads real rows.",
    "dp_membership_inference_auc": "Area under the curve of the membership attack. Reads real rows.",
    "dp_training_accuracy_delta": "Score by real training rows less that by synthetic ones. Reads real rows.",
    "understudy_verdict": "1 for the verdict of a policy on a model, else 0. Reads real rows.",
}
Sample = tuple[str, dict[str, str], float]  # a metric, its labels and its number


def public_samples(evaluation: Evaluation, when: datetime) -> Iterator[Sample]:
    """Samples for outside: of an evaluation, statements, audits on a stand-in, schema and run alone are read."""
    if not made_here(evaluation):
        return
    schema, known = evaluation.schema, evaluation.provenance
    run_id, ledger, published = known.run_id or "", known.ledger, known.released_numbers
    # The name of a dataset whose releases are to be paid for; empty where the schema declares none.
    protected = (schema.dataset or "") if schema.status == "declared" else ""
    releases = [(table.name, table.statement, disproved(table)) for table in evaluation.candidates]
    releases += [] if published is None else [(NUMBERS, published.statement, False)]
    for model, stated, is_disputed in releases:
        paid = None if stated is None else stated.ledger
        labels = {"model": model, "dataset": protected if paid is None else paid.dataset, "run_id": run_id}
        # Of a void statement and of one that an audit disproves, neither the epsilon nor the noise is known.
        guarantee = "none" if stated is None or not stated.private else "disputed" if is_disputed else "formal"
        if stated is not None and guarantee == "formal":
            yield "dp_training_epsilon_consumed", labels, stated.epsilon
            if (noise := noise_multiplier(stated)) is not None:
                yield "dp_noise_multiplier", {"model": model}, noise
        if labels["dataset"]:
            yield "dp_training_ledger_entry", {**labels, "guarantee": guarantee}, float(paid is not None)
    if ledger is not None:
        yield "dp_training_budget_remaining", {"dataset": ledger.dataset}, ledger.left_epsilon
        yield "dp_training_budget_limit", {"dataset": ledger.dataset}, ledger.total_epsilon
    yield "understudy_run_timestamp_seconds", {"dataset": protected, "run_id": run_id}, float(int(when.timestamp()))


def internal_samples(evaluation: Evaluation, verdicts: Collection[Verdict]) -> Iterator[Sample]:
    """Samples that were computed from real rows. `evaluation`: *Sensitive*: it was measured on real rows."""
    for candidate in evaluation.candidates:
        values = {number.measure: number.value for number in candidate.estimates if not number.subject}
        # In the order of `INTERNAL`.
        measures = (CLIPPED, "privacy.membership.auc", "utility.gap.boosting.without")
        for metric, measure in zip(INTERNAL, measures, strict=False):
            if measure in values:
                yield metric, {"model": candidate.name}, values[measure]
    for verdict in verdicts:
        for outcome in ("PASS", "FAIL", "INCONCLUSIVE"):
            labels = {"model": verdict.candidate, "policy": verdict.policy, "verdict": outcome}
            yield "understudy_verdict", labels, float(verdict.verdict == outcome)


def write_telemetry(delivery: Delivery, folder: Path, when: datetime | None = None) -> None:
    """Both files, each whole or not there. `delivery`: *Sensitive*: it was measured on real rows."""
    public = public_samples(delivery.evaluation, when or datetime.now(UTC))
    internal = internal_samples(delivery.evaluation, delivery.verdicts)
    for name, help_texts, samples in ((PUBLIC_FILE, PUBLIC, public), (INTERNAL_FILE, INTERNAL, internal)):
        with whole_file(folder / name) as beside:
            text = "".join(_lines(help_texts, list(samples)))
            beside.write_text(text, encoding="utf-8", errors="replace", newline="\n")


def _lines(help_texts: Mapping[str, str], samples: Collection[Sample]) -> Iterator[str]:
    escaped = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
    for name, words in help_texts.items():
        yield f"# HELP {name} {words}\n# TYPE {name} gauge\n"
        for metric, labels, number in samples:
            if metric == name:
                pairs = ",".join(f'{label}="{value.translate(escaped)}"' for label, value in labels.items())
                yield f"{name}{{{pairs}}} {number!r}\n"
