"""The stages of a run, one function each. `run.run` has their order, and `candidates.finish` that of one candidate.

Two of them are attacks that fit models, and stand at the end, since commands use them without a run. The audit of a
claim is part of every run that can have it: its trial is one more candidate. Shadow models are many fits, and run only
where somebody asks.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from evaluate.audit_result import EXCEEDS, MEASURE, AuditError
from evaluate.engine import evaluate_beside, isolated
from evaluate.gate.verdict import Verdict, judge
from evaluate.result import Candidate, Evaluation, Expectation, Failure, GeneratorRecord
from evaluate.tables import MetricResult, Real, Tables
from synth.dp.budget import Budget
from synth.dp.statement import PrivacyStatement
from synth.errors import ModelError, UnderstudyError
from synth.generators.base import Generator, PrivateGenerator, fit_model, with_files
from synth.generators.models.constraints import REJECTED
from synth.generators.models.model import Model
from synth.generators.models.postprocess import write_rows
from synth.generators.outlook import outlook
from synth.generators.registry import generator
from synth.progress import Progress
from synth.schema import Schema
from synth.split import Split, split_table
from synth.table import write_table
from synth.table.rows import Rows
from understudy.data import read_rows
from understudy.job import child_seed
from understudy.run.plan import Plan

FALSE_ALARMS = (
    "about one audit in 10,000 of a true claim disproves it by chance (by its 99% confidence, at most one in 100)"
)
"""As `evaluate.privacy.audit.white_box` has it, with the confidence of 99% of every audit in a run."""
CALIBRATED = 0.05
"""The share by which a claim may lie below its target: noise is calibrated to the target from below."""
SHADOW = "privacy.shadow"


def read(plan: Plan, folder: Path, tell: Callable[[str], None] | None = None) -> Rows:
    """The real table under its schema, read once; what does not fit into memory lies in a folder. *Sensitive*."""
    return read_rows(plan.table, plan.schema, plan.job.outside, folder, tell)


def split(plan: Plan, real: Rows) -> Split:
    """Train and holdout: by hashes of names where any fit is private, stratified otherwise."""
    return split_table(
        real,
        plan.schema,
        holdout_share=plan.job.split.holdout_share,
        seed=plan.job.split_seed,
        private=bool(plan.schedules),
    )


def fit(plan: Plan, label: str, train: Rows, budget: Budget | None, place: Path, progress: Progress) -> Model:
    """One generator's model of the *sensitive* rows; a private one draws from its budget. The seed reaches no noise."""
    chosen, seed = plan.generators[label], child_seed(plan.job.seed, "fit", label)
    return fit_model(chosen, train, plan.schema, seed=seed, progress=progress, budget=budget, place=place)


def sample(plan: Plan, label: str, model: Model, path: Path, progress: Progress) -> int | None:
    rows, seed = plan.points[label].spec.rows, child_seed(plan.job.seed, "sample", label)
    if not plan.suffix:
        return write_rows(model, path, rows, seed=seed, progress=progress).n_rejected
    synthetic = model.sample(rows, seed=seed, progress=progress)
    write_table(synthetic, path, plan.schema)
    rejected: int | None = synthetic.attrs.get(REJECTED)
    return rejected


def real(plan: Plan, sides: Split) -> Real:
    asked = plan.job.evaluation
    options = asked.options(child_seed(plan.job.seed, "evaluate"), plan.job.outside)
    return Real.prepare(sides.train, sides.holdout, asked.aim(plan.schema), options)


def evaluate(
    plan: Plan, real: Real, label: str, table: Path, statement: PrivacyStatement | None, progress: Progress
) -> Evaluation:
    """A synthetic table measured against the *sensitive* real side, with its generator's specification."""
    chosen = plan.generators[label]
    # A page to hand on names a file, and not where it lies on this machine.
    parameters = with_files(chosen.parameters(), lambda path: Path(path).name)
    return evaluate_beside(
        real,
        {label: table},
        measures=plan.job.evaluation.measures,
        time_limit_s=plan.job.evaluation.time_limit_s,
        progress=progress,
        statements={} if statement is None else {label: statement},
        generators={label: GeneratorRecord.of(chosen.name, parameters)},
        # Of one evaluation in several parts, the first alone carries the self-tests: they are of the real rows.
        self_tested=label == next(iter(plan.points)),
    )


def shadow(plan: Plan, real: Real, candidate: Candidate, synthetic: Path, progress: Progress) -> Candidate:
    """The candidate with the shadow-model attack on its table. Its fits are never released: no ledger hears of them."""
    asked, chosen = plan.job.evaluation, plan.generators[candidate.name]
    if asked.shadow_models is None:
        return candidate
    tables, limit = (lambda: real.beside(synthetic, candidate.statement)), asked.time_limit_s
    return shadow_attacked(candidate, tables, chosen, asked.shadow_models, time_limit_s=limit, progress=progress)


def expected(plan: Plan, label: str) -> Expectation | None:
    """The outlook of a private candidate by public facts; `None` where nothing can be worked out, as of histories."""
    share = 1 - plan.job.split.holdout_share
    forecast = outlook(plan.generators[label], plan.schema, schedule=plan.schedules.get(label), train_share=share)
    if forecast is None:
        return None
    return Expectation(forecast.column, forecast.tree, forecast.pair, forecast.n_rows)


def audited(plan: Plan) -> tuple[str, ...]:
    """Labels of the candidates whose claim is audited: those with an epsilon, unless the job says otherwise.

    An audit is of a mechanism, not of a fit: of a sweep's seeds the first stands for all. What nobody pays for is not
    audited, since no audit could make it releasable.
    """
    if not plan.job.evaluation.audit or plan.unpaid:
        return ()
    firsts = {point.setting: label for label, point in reversed(plan.points.items())}
    return tuple(label for label in plan.schedules if firsts[plan.points[label].setting] == label)


def audit(plan: Plan, candidate: Candidate, progress: Progress) -> Candidate:
    """The candidate with the audit of its generator's claim, or why there is none. No real row is read."""
    chosen, seed = plan.generators[candidate.name], child_seed(plan.job.seed, "audit", candidate.name)
    if not isinstance(chosen, PrivateGenerator):
        return candidate
    limit = plan.job.evaluation.time_limit_s
    return audit_claim(candidate, lambda: (chosen, plan.schema), seed=seed, time_limit_s=limit, progress=progress)


def verdicts_of(plan: Plan, evaluation: Evaluation) -> tuple[Verdict, ...]:
    return judge(evaluation, [plan.policy], waivers=plan.waivers)


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
        seconds={**candidate.seconds, "privacy.audit": round(time.perf_counter() - started, 3)},
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
