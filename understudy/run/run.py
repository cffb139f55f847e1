"""One run: the stages one after the other, each done once whatever cuts the run short, and the folder they leave."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from evaluate.gate.verdict import Verdict
from evaluate.provenance import Provenance, SweepRecord
from evaluate.result import Evaluation
from synth.distribution import VERSION
from synth.dp.statement import PrivacyStatement
from synth.generators.wrapper import wrappers
from synth.split import Split
from understudy import provenance
from understudy.artifacts import Delivery, Handing
from understudy.budget.account import releases
from understudy.bundle.evidence import write_evidence
from understudy.bundle.keys import Signer
from understudy.console import DONE, VERDICTS, Console
from understudy.evaluation_log import count_attempt
from understudy.job.tracking import Tracked
from understudy.run import candidates, released_numbers, stages
from understudy.run.attacks import disproved
from understudy.run.plan import Plan
from understudy.run.pool import make_all
from understudy.run.workspace import TRAINING, RunWorkspace, unfinished

MODELS = "models"
KEPT = (candidates.SYNTHETIC, MODELS, TRAINING)
"""What candidates leave in the output."""
# The key is the seed; evaluations name the split so.
KEYED, STRATIFIED = "keyed hash", "stratified draw"


@dataclass(frozen=True)
class RunOutcome:
    plan: Plan
    evaluation: Evaluation
    verdicts: tuple[Verdict, ...]
    tracked: Tracked | None = None

    @property
    def delivery(self) -> Delivery:
        plan = self.plan
        tables = {label: Path(candidates.SYNTHETIC) / f"{label}{plan.suffix}" for label in plan.points}
        kept = {} if plan.unpaid else tables
        return Delivery(
            self.evaluation, self.verdicts, plan.policy, plan.title, plan.job.release, kept, Handing.of(plan)
        )  # fmt: skip

    @property
    def unsaved(self) -> list[str]:
        plan = self.plan
        return [] if plan.unpaid else [label for label in plan.points if not (plan.out / MODELS / label).is_dir()]

    @property
    def exit_code(self) -> int:
        released = self.delivery.released
        return DONE if released is None else VERDICTS[released.verdict]


def run(plan: Plan, console: Console, signer: Signer | None = None) -> RunOutcome:
    """Carry out a plan, from where an earlier start of the same run was cut short."""
    with unfinished(plan.out, restart=plan.restart) as work:
        work.claim(_names(plan))
        real = _real(plan, work, console)
        make_all(plan, work, real.sides, console)
        _publish(plan, work, real.sides, console)
        evaluation = _join(plan, work, real)
        outcome = RunOutcome(plan, evaluation, stages.verdicts_of(plan, evaluation))
        with console.stage("report"):
            _write(outcome, work.result, signer)
        for statement in _statements(plan, work).values():
            plan.payment(work).commit(statement)
        work.finish()
    if plan.job.tracking is not None:
        with console.stage("track"):
            outcome = replace(outcome, tracked=plan.job.tracking.track(plan.job, outcome.delivery, plan.out))
    return outcome


def _names(plan: Plan) -> dict[str, str | None]:
    """The identity of a run, as far as it is known before the table is read."""
    return {
        **{name: plan.given[name].sha256 if name in plan.given else None for name in provenance.INPUTS},
        **_files_read(plan),
        "version of understudy": VERSION,
        # A copy of unfinished work would draw under the same reservation once more.
        "output": str(plan.out.parent.resolve() / plan.out.name),
        "ledger": None if plan.fund is None else plan.fund.url,
    }


def _files_read(plan: Plan) -> dict[str, str | None]:
    """The SHA-256 of each file that a generator reads beside the table: it may say what a noisy count is a count of."""
    return {
        f"{key} of generators.{label}": provenance.sha256(path)
        for label, chosen in plan.generators.items()
        for wrapper in wrappers(chosen)
        for key, path in wrapper.reads.items()
    }


@dataclass(frozen=True)
class _Real:
    """The real table of a run. *Sensitive*: `sides` and `clamped`."""

    sides: Split
    prints: Mapping[str, str]
    clamped: tuple[str, ...]


def _real(plan: Plan, work: RunWorkspace, console: Console) -> _Real:
    """The real table, with everything paid for that is drawn from it."""
    clamped: list[str] = []
    with console.stage("split"):
        sides = stages.split(plan, stages.read(plan, work.folder, clamped.append))
        prints = provenance.fingerprints(sides.train, sides.holdout, plan.schema, plan.key)
        work.claim(prints)
    several = None if plan.fund is None else plan.prepared
    print_of_table = prints["table"] if several is None else several.fingerprint(plan.key, plan.job.outside)
    plan.payment(work).reserve(print_of_table)
    for sentence in (*clamped, *work.warnings):
        console.warn(sentence)
    return _Real(sides, prints, tuple(clamped))


def _publish(plan: Plan, work: RunWorkspace, sides: Split, console: Console) -> None:
    if plan.publication is None or plan.job.release is None:
        return
    with console.stage("release numbers") as progress:
        table = candidates.table_path(plan, work, plan.job.release)
        released_numbers.release_numbers(plan, work, sides, table, progress)


def _join(plan: Plan, work: RunWorkspace, real: _Real) -> Evaluation:
    """One evaluation of all candidates, with where it came from; what may not leave a sweep is removed before."""
    evaluation = candidates.joined(plan, work)
    if plan.unpaid:
        _remove_releasable(work.result)
    for path in work.result.iterdir():  # what an earlier start wrote of the evidence
        if path.name not in KEPT:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    evaluation = replace(evaluation, provenance=_provenance(plan, work, real, evaluation))
    return released_numbers.with_numbers(evaluation, released_numbers.publication(plan, work))


def _remove_releasable(folder: Path) -> None:
    """Nothing that could be passed on is left of a sweep that nobody pays for."""
    for kept in KEPT:
        if (folder / kept).exists():  # What cannot be removed must stop the run: the output says that nothing is left.
            shutil.rmtree(folder / kept)


def _provenance(plan: Plan, work: RunWorkspace, real: _Real, evaluation: Evaluation) -> Provenance:
    from reports.sections.quality import given_away

    audited = stages.audited(plan)  # of a sweep's seeds the first stands for all
    disputed = (
        sentence
        for candidate in evaluation.candidates
        if candidate.name in audited
        for sentence in disproved(candidate)
    )
    known = Provenance(
        job=plan.title,
        release=plan.job.release,
        split=f"{KEYED if real.sides.keyed else STRATIFIED}, seed {plan.job.split_seed}",
        warnings=tuple(
            dict.fromkeys((*real.clamped, *plan.warnings, *work.warnings, *disputed, *given_away(evaluation)))
        ),
        ledger=releases(_statements(plan, work)),
        sweep=_swept(plan),
        composed=plan.everything,
        both_tables=plan.both_tables,
        attempts=count_attempt(real.prints["table"], plan.schema, attempt=work.attempt, n_tables=len(plan.points)),
        run_id=work.attempt,
        evaluated_at=work.began_at,
        seed=plan.job.seed,
        fingerprints=real.prints,
        files_sha256={str(path.relative_to(work.result)): provenance.sha256(path) for path in _outputs(work)},
    )
    return provenance.with_inputs(known, plan.given)


def _statements(plan: Plan, work: RunWorkspace) -> dict[str, PrivacyStatement | None]:
    stated = {label: candidates.candidate_of(work, label).statement for label in plan.points}
    published = {} if plan.publication is None else {released_numbers.ALONE: released_numbers.statement_of(work)}
    return {**stated, **published}


def _outputs(work: RunWorkspace) -> list[Path]:
    """Every file of the result; a table in parts is one. Of an unpaid sweep no table is left."""
    tables = [path for path in (work.result / candidates.SYNTHETIC).glob("*") if path.is_dir()]
    files = (path for path in work.result.rglob("*") if path.is_file() and not set(tables) & set(path.parents))
    return sorted([*tables, *files])


def _swept(plan: Plan) -> SweepRecord | None:
    if not plan.job.is_sweep:
        return None
    return SweepRecord(not plan.unpaid, plan.composed, tuple(point.entry for point in plan.points.values()))


def _write(outcome: RunOutcome, folder: Path, signer: Signer | None) -> None:
    plan = outcome.plan
    files = {f"{name}.toml": file.content for name, file in plan.given.items()}
    seeds = {"job": plan.job.seed, "split": plan.job.split_seed}
    write_evidence(outcome.delivery, folder, signer, files=files, seeds=seeds)
