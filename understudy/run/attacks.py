"""Attacks that fit models: the audit of a claim, and shadow models.

The audit is part of every run that can have it: its trial is one more candidate. Shadow models are many fits, and run
only where somebody asks.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from evaluate.audit_result import EXCEEDS, MEASURE, AuditError
from evaluate.engine import isolated
from evaluate.result import Candidate, Failure
from evaluate.tables import MetricResult, Tables
from synth.dp.statement import PrivacyStatement
from synth.errors import ModelError, UnderstudyError
from synth.generators.base import Generator, PrivateGenerator
from synth.generators.models.model import Model
from synth.generators.registry import generator
from synth.progress import Progress
from synth.schema import Schema

SECONDS = "privacy.audit"
"""The name of an audit among a candidate's seconds."""
FALSE_ALARMS = (
    "about one audit in 10,000 of a true claim disproves it by chance (by its 99% confidence, at most one in 100)"
)
"""As `evaluate.privacy.audit.white_box` has it, with the confidence of 99% of every audit in a run."""
CALIBRATED = 0.05
"""The share by which a claim may lie below its target: noise is calibrated to the target from below."""


def audit_claim(
    candidate: Candidate,
    claimed: Callable[[], tuple[PrivateGenerator, Schema]],
    *,
    seed: int,
    time_limit_s: float | None,
    progress: Progress,
) -> Candidate:
    """The candidate with the audit of its claim, or with the reason why there is none. No real row is read."""
    from evaluate.privacy.audit import white_box as auditing

    started = time.perf_counter()
    try:
        result = auditing.audit(*claimed(), seed=seed, progress=progress, time_limit_s=time_limit_s)
    except UnderstudyError as error:
        return replace(candidate, failures=(*candidate.failures, Failure(MEASURE, "failed", str(error))))
    return replace(
        candidate,
        estimates=(*candidate.estimates, result.estimate),
        audit=result,
        seconds={**candidate.seconds, SECONDS: round(time.perf_counter() - started, 3)},
    )


def disproved(candidate: Candidate) -> tuple[str, ...]:
    """Warnings where an audit disproves the claim: what it means for this table, for others, and how to go on."""
    if candidate.audit is None or candidate.audit.verdict != EXCEEDS:
        return ()
    return (
        f"the audit disproves the privacy statement of {candidate.name}: the noise protects less than its epsilon "
        "promises, so release neither its table nor its model",
        "a disproved statement does not disprove those of other generators, but all take their noise from the same "
        "code, and what counts with a disputed fit is disputed, too: audit them again before a release",
        f"{FALSE_ALARMS}: `understudy audit --model DIR` audits the same model again, without a new fit, and "
        "`understudy evaluate --model DIR` measures its table beside it, for the gate to judge",
    )


def claim_of(model: Model, statement: PrivacyStatement) -> tuple[PrivateGenerator, Schema]:
    parameters = getattr(model, "parameters", None)
    if not isinstance(parameters, Mapping):
        raise AuditError(
            "a model's claim is audited by its generator's parameters, and this one holds none; fit it again"
        )
    chosen = generator(model.name, **parameters)
    if not isinstance(chosen, PrivateGenerator) or chosen.epsilon is None:
        raise AuditError("the model claims an epsilon and its parameters name none; fit it again")
    target = (chosen.epsilon, chosen.claimed_delta(model.schema))
    claimed = math.isclose(statement.epsilon, target[0], rel_tol=CALIBRATED)
    if not claimed or not math.isclose(statement.delta, target[1], rel_tol=1e-6):
        raise AuditError(
            f"the model claims epsilon={statement.epsilon:g} at delta={statement.delta:g}, and its parameters are for "
            f"epsilon={target[0]:g} at delta={target[1]:g}; fit it again"
        )
    return chosen, model.schema


SHADOW = "privacy.shadow"


def shadow_attacked(
    candidate: Candidate,
    tables: Callable[[], Tables],
    chosen: Generator,
    n_models: int,
    *,
    time_limit_s: float | None,
    progress: Progress,
) -> Candidate:
    """The candidate with what shadow models came to, or with the reason for nothing. *Sensitive*: `tables`."""

    def attack() -> MetricResult:
        from evaluate.privacy.shadow_models import measure

        return measure(tables(), chosen, n_models, progress)

    result, seconds = isolated(SHADOW, attack, time_limit_s)
    return replace(
        candidate,
        estimates=(*candidate.estimates, *result.estimates),
        failures=(*candidate.failures, *result.failures),
        seconds={**candidate.seconds, SHADOW: round(seconds, 3)},
    )


def specification_of(model: Model) -> Generator:
    parameters = getattr(model, "parameters", None)
    if parameters is None:
        raise ModelError("shadow models are fitted by a model's parameters, and this one holds none; fit it again")
    return generator(model.name, **parameters)
