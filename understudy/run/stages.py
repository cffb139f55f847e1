"""The stages of a run, in order: the table of contents of the whole product."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evaluate.engine import evaluate_beside
from evaluate.gate.verdict import Verdict, judge
from evaluate.result import Candidate, Evaluation, Expectation, GeneratorRecord
from evaluate.tables import Real
from synth.dp.budget import Budget
from synth.dp.statement import PrivacyStatement
from synth.generators.auto import Planned, outlook
from synth.generators.base import PrivateGenerator, fit_model, unwrapped, with_files
from synth.generators.models.constraints import REJECTED
from synth.generators.models.model import Model
from synth.generators.models.postprocess import write_rows
from synth.progress import Progress
from synth.split import Split, split_table
from synth.table import write_table
from synth.table.rows import Rows
from understudy.data.load import read_rows
from understudy.job.seeds import child_seed
from understudy.run.attacks import audit_claim, shadow_attacked
from understudy.run.plan import Plan


def read(plan: Plan, folder: Path, tell: Callable[[str], None] | None = None) -> Rows:
    """The real table under its schema, read once; what does not fit into memory lies in a folder. *Sensitive*."""
    if plan.prepared is not None:
        return Rows.from_frames([plan.prepared.read(plan.job.outside, tell)], plan.schema, folder)
    return read_rows(plan.table, plan.schema, plan.job.outside, folder, tell)


def split(plan: Plan, real: Rows) -> Split:
    """Train and holdout: by hashes of names where it is prepared or any fit is private, stratified otherwise."""
    return split_table(
        real,
        plan.schema,
        holdout_share=plan.job.split.holdout_share,
        seed=plan.job.split_seed,
        # Of several tables all are split by the key, so that a unit is on one side in each.
        private=plan.private or plan.prepared is not None,
    )


def fit(plan: Plan, label: str, train: Rows, budget: Budget | None, place: Path, progress: Progress) -> Model:
    """One generator's model of the *sensitive* rows; a private one draws from its budget. The seed reaches no noise."""
    chosen, seed = plan.generators[label], child_seed(plan.job.seed, "fit", label)
    return fit_model(chosen, train, plan.schema, seed=seed, progress=progress, budget=budget, place=place)


def sample(plan: Plan, label: str, model: Model, path: Path, progress: Progress) -> int | None:
    rows, seed = plan.points[label].spec.rows, child_seed(plan.job.seed, "sample", label)
    if not plan.suffix:
        return write_rows(model, path, rows, seed=seed, progress=progress).n_rejected
    if plan.prepared is not None:
        synthetic = plan.prepared.sample(label, model, rows, seed, progress)
    else:
        synthetic = model.sample(rows, seed=seed, progress=progress)
    write_table(synthetic, path, plan.schema)
    rejected: int | None = synthetic.attrs.get(REJECTED)
    return rejected


def real(plan: Plan, sides: Split) -> Real:
    asked = plan.job.evaluation
    options = asked.options(child_seed(plan.job.seed, "evaluate"), plan.job.outside)
    return Real.prepare(sides.train, sides.holdout, asked.aim(plan.schema), options)


def evaluate(
    plan: Plan,
    real: Real,
    synthetic: Mapping[str, Any],
    statements: Mapping[str, PrivacyStatement | None],
    progress: Progress,
    *,
    self_tested: bool = True,
) -> Evaluation:
    """Every synthetic table measured against the *sensitive* real side, each with its generator's specification."""
    return evaluate_beside(
        real,
        synthetic,
        measures=plan.job.evaluation.measures,
        time_limit_s=plan.job.evaluation.time_limit_s,
        progress=progress,
        statements={label: stated for label, stated in statements.items() if stated is not None},
        generators={label: _specification(plan, label) for label in synthetic},
        self_tested=self_tested,
    )


def expected(plan: Plan, label: str) -> Expectation | None:
    """The outlook of a private candidate by public facts; `None` where nothing can be worked out, as of histories."""
    chosen, schedule = plan.generators[label], plan.schedules.get(label)
    if schedule is None or not isinstance(chosen, PrivateGenerator) or not isinstance(unwrapped(chosen), Planned):
        return None
    if chosen.in_order:
        return None
    forecast = outlook(chosen, plan.schema, schedule=schedule, train_share=1 - plan.job.split.holdout_share)
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


def shadow(
    plan: Plan, real: Real, candidate: Candidate, synthetic: Path, progress: Progress
) -> Candidate:  # fmt: skip
    """The candidate with the shadow-model attack on its table. Its fits are never released: no ledger hears of them."""
    asked, chosen = plan.job.evaluation, plan.generators[candidate.name]
    if asked.shadow_models is None:
        return candidate
    return shadow_attacked(
        candidate,
        lambda: real.beside(synthetic, candidate.statement),
        chosen,
        asked.shadow_models,
        time_limit_s=asked.time_limit_s,
        progress=progress,
    )


def verdicts_of(plan: Plan, evaluation: Evaluation) -> tuple[Verdict, ...]:
    return judge(evaluation, [plan.policy], waivers=plan.waivers)


def _specification(plan: Plan, label: str) -> GeneratorRecord:
    chosen = plan.generators[label]
    # A page to hand on names a file, and not where it lies on this machine.
    return GeneratorRecord.of(chosen.name, with_files(chosen.parameters(), lambda path: Path(path).name))
