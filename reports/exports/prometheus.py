"""Telemetry of a run for an operator's monitoring: two Prometheus registries and their text files.

The public registry holds what a privacy statement, a job and a ledger say; nothing in it was computed from real rows.
The internal one holds what was. No name is in both, so that one collector can read both files.

A sample whose number is not known is not there: no zero and no NaN stands for it.
"""

import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evaluate.gate.claim import disproved, made_here
from evaluate.gate.verdict import Verdict
from evaluate.metrics import CLIPPED
from evaluate.result import Candidate, Estimate, Evaluation
from reports.model_card.privacy import noise_multiplier
from synth.dp.statement import PrivacyStatement
from synth.output import whole_file
from synth.schema import Schema

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Gauge

PUBLIC_FILE, INTERNAL_FILE = "metrics.public.prom", "metrics.internal.prom"
MEMBERSHIP = "privacy.membership.auc"
GAPS = ("utility.gap.boosting", "utility.gap.linear")
"""The loss of a model by synthetic training rows: of the stronger model, where there are both."""
OUTCOMES = ("PASS", "FAIL", "INCONCLUSIVE")
NUMBERS = "published numbers"
"""The model's label of what was released beside a table; no label of a job's candidate has a space."""


@dataclass(frozen=True)
class Family:
    """One metric: its name, what it says, and its labels."""

    name: str
    help: str
    labels: tuple[str, ...]


EPSILON = Family(
    "dp_training_epsilon_consumed",
    "Epsilon of one release, as its privacy statement claims it; exact, where pages round it up to three digits.",
    ("model", "dataset", "run_id"),
)
REMAINING = Family(
    "dp_training_budget_remaining", "Epsilon that the ledger has left for a dataset after this run.", ("dataset",)
)
LIMIT = Family("dp_training_budget_limit", "Epsilon that all releases of a dataset may come to.", ("dataset",))
NOISE = Family(
    "dp_noise_multiplier",
    "Noise in units of what one unit can move: of the steps of DP-SGD, else the least of all Gaussian releases.",
    ("model",),
)
RECORDED = Family(
    "dp_training_ledger_entry",
    "1 where a ledger holds this model's fit to a protected dataset, 0 where none does. Its guarantee is formal, none, "
    "or disputed: an audit disproves it.",
    ("model", "dataset", "run_id", "guarantee"),
)
WHEN = Family("understudy_run_timestamp_seconds", "When the evidence of a run was written.", ("dataset", "run_id"))
PUBLIC = (EPSILON, REMAINING, LIMIT, NOISE, RECORDED, WHEN)

CLIP_FRACTION = Family(
    "dp_gradient_clip_fraction", "Share of the units' gradients that DP-SGD scaled down. Reads real rows.", ("model",)
)
AUC = Family(
    "dp_membership_inference_auc", "Area under the curve of the membership attack. Reads real rows.", ("model",)
)
DELTA = Family(
    "dp_training_accuracy_delta",
    "Score of a model trained on real rows less that of one trained on synthetic ones. Reads real rows.",
    ("model",),
)
VERDICT = Family(
    "understudy_verdict",
    "1 for the verdict of a policy on a model, 0 for the others. Reads real rows.",
    ("model", "policy", "verdict"),
)
INTERNAL = (CLIP_FRACTION, AUC, DELTA, VERDICT)


def public_registry(evaluation: Evaluation, when: datetime) -> "CollectorRegistry":
    """Metrics for outside: of an evaluation, statements, audits on a stand-in, schema and run alone are read."""
    registry, gauges = _empty(PUBLIC)
    if not made_here(evaluation):
        return registry
    run_id, protected = _label(evaluation.provenance.run_id), _protected(evaluation.schema)
    for model, stated, disputed in _releases(evaluation):
        held = None if stated is None else stated.ledger
        dataset = protected if held is None else _label(held.dataset)
        # Of a void statement and of one that an audit disproves, neither the epsilon nor the noise is known.
        guarantee = "none" if stated is None or not stated.private else "disputed" if disputed else "formal"
        if stated is not None and guarantee == "formal":
            _set(gauges[EPSILON], stated.epsilon, model, dataset, run_id)
            _set(gauges[NOISE], noise_multiplier(stated), model)
        if dataset:
            _set(gauges[RECORDED], float(held is not None), model, dataset, run_id, guarantee)
    ledger = evaluation.provenance.ledger
    if ledger is not None:
        _set(gauges[REMAINING], ledger.left_epsilon, _label(ledger.dataset))
        _set(gauges[LIMIT], ledger.total_epsilon, _label(ledger.dataset))
    _set(gauges[WHEN], float(int(when.timestamp())), protected, run_id)
    return registry


def internal_registry(evaluation: Evaluation, verdicts: Iterable[Verdict]) -> "CollectorRegistry":
    """Metrics that were computed from real rows. `evaluation`: *Sensitive*: it was measured on real rows."""
    registry, gauges = _empty(INTERNAL)
    labels: dict[str, str] = {}
    for model, candidate in _by_label(evaluation):
        labels.setdefault(candidate.name, model)
        _set(gauges[CLIP_FRACTION], _value(candidate, CLIPPED), model)
        _set(gauges[AUC], _value(candidate, MEMBERSHIP), model)
        found = (_value(candidate, gap) for gap in GAPS)
        _set(gauges[DELTA], next((gap for gap in found if gap is not None), None), model)
    for verdict in verdicts:
        model = labels.get(verdict.candidate, _label(verdict.candidate))
        for outcome in OUTCOMES:
            _set(gauges[VERDICT], float(verdict.verdict == outcome), model, _label(verdict.policy), outcome)
    return registry


def write_telemetry(evaluation: Evaluation, verdicts: Iterable[Verdict], folder: Path, when: datetime) -> None:
    """Both text files, each whole or not there. `evaluation`: *Sensitive*: it was measured on real rows."""
    from prometheus_client import generate_latest

    public, internal = public_registry(evaluation, when), internal_registry(evaluation, verdicts)
    for name, registry in ((PUBLIC_FILE, public), (INTERNAL_FILE, internal)):
        with whole_file(folder / name) as beside:
            beside.write_bytes(generate_latest(registry))


def _empty(families: Iterable[Family]) -> tuple["CollectorRegistry", dict[Family, "Gauge"]]:
    from prometheus_client import CollectorRegistry, Gauge

    registry = CollectorRegistry(auto_describe=False)
    return registry, {one: Gauge(one.name, one.help, one.labels, registry=registry) for one in families}


def _set(gauge: "Gauge", value: float | None, *labels: str) -> None:
    if value is not None:
        gauge.labels(*labels).set(value)


def _by_label(evaluation: Evaluation) -> Iterable[tuple[str, Candidate]]:
    taken: list[str] = []
    for candidate in evaluation.candidates:
        taken.append(_free(_label(candidate.name), taken))
        yield taken[-1], candidate


def _free(name: str, taken: Collection[str]) -> str:
    numbered = (f"{name}#{place}" for place in itertools.count(2))
    return name if name not in taken else next(one for one in numbered if one not in taken)


def _releases(evaluation: Evaluation) -> Iterable[tuple[str, PrivacyStatement | None, bool]]:
    """The statement of every candidate, and whether an audit disproves it; and that of numbers beside a table."""
    taken = []
    for model, candidate in _by_label(evaluation):
        taken.append(model)
        yield model, candidate.statement, disproved(candidate)
    published = evaluation.provenance.released_numbers
    if published is not None:
        yield _free(NUMBERS, taken), published.statement, False


def _protected(schema: Schema) -> str:
    """The name of a dataset whose releases are to be paid for; empty where the schema declares none."""
    return _label(schema.dataset) if schema.status == "declared" else ""


def _value(candidate: Candidate, measure: str) -> float | None:
    found = candidate.find(measure)
    return found.value if isinstance(found, Estimate) else None


def _label(value: object) -> str:
    """A label's text; what is no text of UTF-8 is replaced."""
    return "" if value is None else str(value).encode("utf-8", "replace").decode("utf-8")
