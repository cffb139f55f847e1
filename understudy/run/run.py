"""What is carried out: one run of a job, or one fit outside a job.

Of a run each stage is done once, whatever cuts the run short. A fit is checked before a row is read, paid for before
the first draw, and saved whole.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import Verdict
from evaluate.provenance import Provenance, PublishedNumbers, Released, SweepRecord
from evaluate.result import Evaluation
from synth.dp.budget import Budget
from synth.dp.schedule import Schedule
from synth.dp.statement import PrivacyStatement
from synth.errors import BudgetError, JobError, OutputError
from synth.extras import VERSION
from synth.generators.base import Generator, PrivateGenerator, fit_model, wrappers
from synth.generators.models.model import Model
from synth.output import check_new_folder, is_taken, read_state, whole_file
from synth.progress import Progress
from synth.schema import Schema
from synth.split import Split
from synth.table import read_table
from synth.table.conforming import Outside, of_names, refuse
from synth.table.table import Table
from understudy import provenance
from understudy.budget import Fund, Payment, Release, RequestsInMemory, ledger_url, open_fund, releases
from understudy.bundle.evidence import ALONE, Delivery, Handing, write_evidence
from understudy.bundle.signing import Signer
from understudy.console import DONE, VERDICTS, Console
from understudy.data import RealTable, beyond_slots, read_rows
from understudy.executor import PROCESSES, checked, counting
from understudy.job.spec import Tracked
from understudy.provenance import count_attempt, note_training
from understudy.run import stages
from understudy.run.candidates import SYNTHETIC, candidate_of, joined, make_all, table_path
from understudy.run.plan import PUBLICATION, Plan
from understudy.run.preflight import Intent, cautions, doubts
from understudy.run.stages import disproved
from understudy.run.workspace import TRAINING, RunWorkspace, unfinished

MODELS = "models"
KEPT = (SYNTHETIC, MODELS, TRAINING)
"""What candidates leave in the output."""


@dataclass(frozen=True)
class RunOutcome:
    plan: Plan
    evaluation: Evaluation
    verdicts: tuple[Verdict, ...]
    tracked: Tracked | None = None

    @property
    def delivery(self) -> Delivery:
        plan = self.plan
        tables = {label: Path(SYNTHETIC) / f"{label}{plan.suffix}" for label in plan.points}
        kept = {} if plan.unpaid else tables
        return Delivery(
            self.evaluation, self.verdicts, plan.policy, plan.title, plan.job.release, kept,
            Handing(plan.job.card, plan.job.split.holdout_share),
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
        sides, prints, clamped = _real(plan, work, console)
        make_all(plan, work, sides, console)
        if plan.publication is not None and plan.job.release is not None:
            with console.stage("release numbers") as progress:
                release_numbers(plan, work, sides, table_path(plan, work, plan.job.release), progress)
        evaluation = _join(plan, work, sides, prints, clamped)
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
        # A file that a generator reads beside the table may say what a noisy count is a count of.
        **{
            f"{key} of generators.{label}": provenance.sha256(path)
            for label, chosen in plan.generators.items()
            for wrapper in wrappers(chosen)
            for key, path in wrapper.reads.items()
        },
        "version of understudy": VERSION,
        # A copy of unfinished work would draw under the same reservation once more.
        "output": str(plan.out.parent.resolve() / plan.out.name),
        "ledger": None if plan.fund is None else plan.fund.url,
    }


def _real(plan: Plan, work: RunWorkspace, console: Console) -> tuple[Split, Mapping[str, str], Sequence[str]]:
    """*Sensitive*. The sides of the real table, their fingerprints, and what was clamped; all draws are paid for."""
    clamped: list[str] = []
    with console.stage("split"):
        sides = stages.split(plan, stages.read(plan, work.folder, clamped.append))
        prints = provenance.fingerprints(sides.train, sides.holdout, plan.schema, plan.key)
        work.claim(prints)
    plan.payment(work).reserve(prints["table"])
    console.warn(*clamped, *work.warnings)
    return sides, prints, clamped


def _join(
    plan: Plan, work: RunWorkspace, sides: Split, prints: Mapping[str, str], clamped: Sequence[str]
) -> Evaluation:
    """One evaluation of all candidates, with where it came from; what may not leave a sweep is removed before."""
    from reports.sections.quality import given_away

    evaluation = joined(plan, work)
    for path in work.result.iterdir():
        # All of an unpaid sweep, which must not be passed on, and the evidence of an earlier start; or the run stops.
        if plan.unpaid or path.name not in KEPT:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    audited = stages.audited(plan)  # of a sweep's seeds the first stands for all
    disputed = [sentence for each in evaluation.candidates if each.name in audited for sentence in disproved(each)]
    warnings = (*clamped, *plan.warnings, *work.warnings, *disputed, *given_away(evaluation))
    sweep = None
    if plan.job.is_sweep:
        sweep = SweepRecord(not plan.unpaid, plan.composed, tuple(point.entry for point in plan.points.values()))
    known = Provenance(
        job=plan.title,
        release=plan.job.release,
        # The key is the seed.
        split=f"{'keyed hash' if sides.keyed else 'stratified draw'}, seed {plan.job.split_seed}",
        warnings=tuple(dict.fromkeys(warnings)),
        ledger=releases(_statements(plan, work)),
        sweep=sweep,
        composed=plan.everything,
        attempts=count_attempt(prints["table"], plan.schema, attempt=work.attempt, n_tables=len(plan.points)),
        run_id=work.attempt,
        evaluated_at=work.began_at,
        seed=plan.job.seed,
        fingerprints=prints,
        files_sha256={str(path.relative_to(work.result)): provenance.sha256(path) for path in _outputs(work)},
    )
    return _with_numbers(replace(evaluation, provenance=provenance.with_inputs(known, plan.given)), plan, work)


def _statements(plan: Plan, work: RunWorkspace) -> dict[str, PrivacyStatement | None]:
    stated = {label: candidate_of(work, label).statement for label in plan.points}
    return stated if plan.publication is None else {**stated, ALONE: _published(work)[0]}


def _outputs(work: RunWorkspace) -> list[Path]:
    """Every file of the result; a table in parts is one. Of an unpaid sweep no table is left."""
    tables = [path for path in (work.result / SYNTHETIC).glob("*") if path.is_dir()]
    files = (path for path in work.result.rglob("*") if path.is_file() and not set(tables) & set(path.parents))
    return sorted([*tables, *files])


def _write(outcome: RunOutcome, folder: Path, signer: Signer | None) -> None:
    plan = outcome.plan
    seeds = {"job": plan.job.seed, "split": plan.job.split_seed}
    write_evidence(outcome.delivery, folder, signer, files=plan.given, seeds=seeds)


def release_numbers(plan: Plan, work: RunWorkspace, sides: Split, table: Path, progress: Progress) -> None:
    """The released numbers drawn and kept, once whatever cuts the run short. *Sensitive*: `sides`."""
    from evaluate.dp_release import release_numbers as released

    if work.measured(PUBLICATION).exists():
        return
    schema = plan.job.evaluation.aim(plan.schema)
    with plan.payment(work).budget(PUBLICATION) as budget:
        if budget is None:
            raise BudgetError("numbers are released under a budget only; set released_numbers.epsilon")
        numbers = released(sides, read_table(table), schema, budget, progress)
        statement = budget.statement(plan.schema)
    content = {"statement": statement.to_dict(), "numbers": [asdict(number) for number in numbers]}
    with whole_file(work.measured(PUBLICATION)) as beside:
        beside.write_text(json.dumps(content), encoding="utf-8")


def _published(work: RunWorkspace) -> tuple[PrivacyStatement, tuple[Released, ...]]:
    """The statement of the released numbers, and they themselves."""
    content = read_state(work.measured(PUBLICATION), {})
    try:
        numbers = TypeAdapter(tuple[Released, ...]).validate_json(json.dumps(content["numbers"]))
    except ValueError:
        raise BudgetError("a published number is damaged; run the job anew (what was drawn stays spent)") from None
    return PrivacyStatement.from_dict(content["statement"]), numbers


def _with_numbers(evaluation: Evaluation, plan: Plan, work: RunWorkspace) -> Evaluation:
    """The evaluation with the released numbers, and with all that counts with them; itself where there are none."""
    release = plan.job.release
    if plan.publication is None or plan.together is None or release is None:
        return evaluation
    fit, (own, numbers) = candidate_of(work, release).statement, _published(work)
    fits = plan.schedules if plan.job.is_sweep else {release: plan.schedules[release]}
    events = [event for schedule in (*fits.values(), plan.publication) for event in schedule.events]
    together = Budget(Schedule(tuple(events), plan.together.delta)).statement(plan.schema)
    together = replace(together, private=fit is not None and fit.private and own.private)
    published = PublishedNumbers(release, numbers, own, together, len(fits), plan.everything)
    return replace(
        evaluation,
        candidates=tuple(
            replace(each, estimates=(*each.estimates, *(number.estimate for number in numbers)))
            if each.name == release
            else each
            for each in evaluation.candidates
        ),
        provenance=replace(evaluation.provenance, released_numbers=published),
    )


@dataclass(frozen=True)
class SingleFit:
    """A fit that is about to be made, and the warnings before a row is read."""

    generator: Generator
    table: RealTable
    schema: Schema
    schedule: Schedule | None
    fund: Fund | None
    outside: Outside
    out: Path
    training: Path | None
    executor: str | None
    warnings: tuple[str, ...]
    in_vain: tuple[str, ...]
    """Warnings that the fit is expected to FAIL the mildest policy; they are among all warnings."""


def plan_fit(  # noqa: PLR0913 (a generator and a table, then the rest by keyword)
    chosen: Generator,
    table: RealTable,
    schema: Schema,
    out: Path,
    *,
    outside: Outside,
    ledger: str | None,
    training: Path | None = None,
    executor: str | None = None,
) -> SingleFit:
    """A fit, or the first thing that would go wrong. No row is read and nothing is written or reserved."""
    check_new_folder(out)
    if training is not None and not chosen.resumes:
        raise JobError(f"generator={chosen.name!r} keeps no log and no unfinished work; leave --training out")
    if executor is not None:
        if executor != PROCESSES:
            checked(executor, "counting")
        counts = isinstance(chosen, PrivateGenerator) and chosen.promises and chosen.counts_alone
        if not counts or outside != "clamp" or chosen.in_order:
            raise JobError(
                "--executor is for counts with epsilon of values that are clamped (--clamp), by independent, mst, aim "
                "or latent_class, of rows without an order and without texts; leave it out"
            )
    chosen.check(schema)
    chosen.check_saving()
    url = ledger_url(ledger)
    schedule = fund = None
    if isinstance(chosen, PrivateGenerator) and chosen.promises:
        fund = None if url is None else open_fund(url, schema)
        schedule = chosen.schedule(schema)
    if fund is not None and schedule is not None:
        fund.check({chosen.name: schedule.curve})
    schedules = {} if schedule is None else {"": schedule}
    intent = Intent({"": chosen}, schedules, schema, fund, outside)
    in_vain = tuple(doubts(intent, load_policy("internal")).values())
    warnings = (*cautions(intent), *in_vain)
    return SingleFit(chosen, table, schema, schedule, fund, outside, out, training, executor, warnings, in_vain)


def carry_out(
    fit: SingleFit, seed: int, progress: Progress, tell: Callable[[str], None]
) -> tuple[Model, tuple[str, ...]]:
    """The saved model, and the ledger's warnings about the table. `tell`: what is for whoever holds the rows alone."""
    kept, name = RequestsInMemory(), fit.generator.name
    releases = {} if fit.schedule is None else {name: Release(fit.schedule, f"a fit by {name}", f"generator={name!r}")}
    payment = Payment(fit.fund, fit.schema, releases, kept)
    with ExitStack() as until_the_end:
        if fit.executor is None:
            fit.out.absolute().parent.mkdir(parents=True, exist_ok=True)
            real: Any = read_rows(fit.table, fit.schema, fit.outside, fit.out.absolute().parent)
            for sentence in beyond_slots(real, fit.schema) if fit.schedule is not None else ():
                tell(sentence)
        else:
            # By the names alone: neither a row nor their number is read.
            refuse(of_names(Table.of(fit.table.address).names, fit.schema, extra=False))
            real = Table.of(fit.table.absolute).on(until_the_end.enter_context(counting(fit.executor)))
        # Before the fit: a table that cannot be read again must not cost one that is paid for.
        trained_on = None
        try:
            trained_on = provenance.fingerprint(real, fit.schema, provenance.fingerprint_key())
        except OutputError:  # without a place for a key nothing is known later; a ledger needs one
            if fit.fund is not None:
                raise
        if trained_on is not None:
            payment.reserve(trained_on)
        try:
            with payment.budget(name) as budget:
                model = fit_model(
                    fit.generator, real, fit.schema, seed=seed, progress=progress, budget=budget, place=fit.training
                )
            model.save(fit.out)
            if trained_on is not None:
                note_training(fit.out, trained_on, fit.schema)
            payment.commit(model.statement)
        except BaseException as error:
            if fit.fund is not None:
                left = "the model is saved" if is_taken(fit.out) else "no model was left"
                error.add_note(f"{left}, and what the ledger reserved for it stays spent")
            raise
    return model, kept.warnings
