"""`understudy run`: the whole job, from a real table to a verdict."""

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.evidence import outcome_words, reason_line
from understudy.cli.options import ExecutorOption, SignKey, arg, console_of, opt, reasons, signer_of

if TYPE_CHECKING:
    from reports.sections.comparison import Mean
    from understudy.console import Console
    from understudy.run.plan import Plan
    from understudy.run.run import RunOutcome


IN_BRIEF = ("utility.tstr.boosting", "columns.tvd.excess", "pairs.tvd.excess", "privacy.membership.auc")
"""The measures of a sweep that a terminal has room for."""


def add_to(app: typer.Typer) -> None:
    app.command("run", epilog="Example: understudy run examples/fair.toml --out out/fair")(run)


def run(
    ctx: typer.Context,
    job: Annotated[Path, arg("The job file (docs/reference/job.md).")],
    out: Annotated[
        Path | None, opt("The folder to make; it must be new. Without it the plan is shown, and nothing runs.", "--out")
    ] = None,
    restart: Annotated[
        bool, opt("Remove unfinished work of this output; what was drawn stays spent.", "--restart")
    ] = False,
    workers: Annotated[int | None, opt("Candidates made at once; left out: as the job says.", min=1)] = None,
    executor: ExecutorOption = None,
    sign_key: SignKey = None,
) -> int:
    """Split, fit, sample, evaluate, judge, report.

    Everything lands in one folder, whole or not at all; the same command goes on with a run that was cut short. The
    exit code is the verdict on the table that the job names under `release` (of two related tables, the worse): 0
    PASS, 1 FAIL, 3 INCONCLUSIVE; 0 where the job names none, and for a plan.
    """
    from understudy.bundle.manifest import sealed_digest
    from understudy.job.kinds import kind_of
    from understudy.run.plan import make_plan
    from understudy.run.run import run as carry_out

    console = console_of(ctx)
    signer = signer_of(sign_key, console)
    folder = out or _free(job)
    if (kind := kind_of(job)) is not None:
        options = {"restart": restart, "workers": workers, "executor": executor}
        return kind.run(job, folder, console, signer, is_named=out is not None, **options)
    plan = make_plan(job, folder, restart=restart, workers=workers, executor=executor)
    if out is None:
        show_plan(plan, console)
    for sentence in plan.warnings:
        console.warn(sentence)
    if out is None:
        return planned(job, folder, console)

    outcome = carry_out(plan, console, signer)
    show(outcome, console)
    known = outcome.evaluation.provenance
    console.result({
        **outcome.delivery.verdict_content(), "exit_code": outcome.exit_code, "out": str(folder),
        "warnings": known.warnings, "ledger": None if known.ledger is None else asdict(known.ledger),
        "manifest_sha256": sealed_digest(folder), "signer": None if signer is None else signer.fingerprint,
        "tracking": None if outcome.tracked is None else asdict(outcome.tracked),
    })  # fmt: skip
    return outcome.exit_code


def planned(job: Path, folder: Path, console: "Console") -> int:
    console.say(f"This is the plan, and nothing was run. To run it: understudy run {job} --out {folder}")
    console.result({"planned": True, "out": str(folder), "exit_code": 0})
    return 0


def _free(job: Path) -> Path:
    """A folder that a run could make here, named after its job."""
    names = (job.stem if n == 1 else f"{job.stem}-{n}" for n in itertools.count(1))
    return next(Path(name) for name in names if not Path(name).exists())


def show_plan(plan: "Plan", console: "Console") -> None:
    from evaluate.text import typed_loss

    schema, job = plan.schema, plan.job
    by = "a row" if schema.entity is None else f"all rows of one {schema.entity!r}"
    aim = f", target {schema.target}" if schema.target else ""
    console.say(f"Table: {plan.table.shown}, {len(schema.kept)} columns{aim}; unit of privacy: {by}")
    console.say(f"Split: {job.split.holdout_share:.0%} held out, seed {job.split_seed}")
    for label in plan.points:
        promise = "no formal guarantee"
        if label in plan.schedules:
            schedule = plan.schedules[label]
            promise = f"epsilon {typed_loss(schedule.epsilon)}, delta {schedule.delta:.3g}"
        named = ", named for release" if label == job.release else ""
        console.say(f"Generator {label}: {plan.generators[label].name}, {promise}{named}")
    for sentence in _reasons(plan):
        console.say(sentence)
    if plan.fund is not None:
        console.say(f"Ledger: {plan.fund.url}")
    console.say(f"Policy: {plan.policy.name}, version {plan.policy.version}, for {plan.policy.audience}")
    kinds = "every measure" if job.evaluation.measures is None else f"measures {', '.join(job.evaluation.measures)}"
    console.say(f"Evaluation: {kinds}; then a report, verdicts, cards and a sealed folder")


def _reasons(plan: "Plan") -> list[str]:
    """What `auto` stands for in a job, and why."""
    from synth.generators.auto import Auto

    asked = {
        point.setting_label: Auto(
            **{key: value for key, value in point.spec.parameters.items() if key in Auto.model_fields}
        )
        for point in plan.points.values()
        if (point.spec.generator or point.family) == Auto.name
    }
    return reasons(asked, plan.schema)


def show(outcome: "RunOutcome", console: "Console") -> None:
    from reports.sections.limitations import left_out, on_samples
    from understudy.artifacts import REPORT
    from understudy.budget.account import release_line

    if outcome.unsaved:
        console.note(
            f"Models that cannot be saved, and are not: {', '.join(outcome.unsaved)} (see docs/reference/job.md)."
        )
    if outcome.plan.job.is_sweep:
        _show_sweep(outcome, console)
    else:
        _show_candidates(outcome, console)
    of_samples = dict.fromkeys(
        sentence for candidate in outcome.evaluation.candidates for sentence in on_samples(candidate)
    )
    schema = outcome.plan.schema
    for sentence in (*_reasons(outcome.plan), *of_samples, *left_out(schema)):
        console.say(sentence)
    _show_utility(outcome, console)
    _show_shift(outcome, console)
    for check in outcome.verdicts[0].checks if outcome.verdicts else ():  # of the real rows: the same for all
        if check.outcome == "did not come out":
            console.say(f"Self-test {check.case} did not come out, so nothing passes. {check.reason}")
    noted = outcome.evaluation.provenance.ledger
    if noted is not None:
        console.say(release_line(noted))
    if outcome.plan.unpaid:
        console.say("NOT RELEASABLE: no ledger pays for this sweep's private fits; tables and models were not kept")
    released = outcome.delivery.released
    if released is not None:
        console.say(f"{released.candidate}: {released.verdict} under policy {released.policy}, for {released.audience}")
    _show_tracking(outcome, console)
    console.say(f"Report: {outcome.plan.out / REPORT}")


def _show_tracking(outcome: "RunOutcome", console: "Console") -> None:
    if outcome.tracked is not None and outcome.tracked.failure:
        console.warn(outcome.tracked.failure)
    elif outcome.tracked is not None:
        console.say(f"Tracked: {outcome.tracked.url}")


def _show_shift(outcome: "RunOutcome", console: "Console") -> None:
    shift = outcome.evaluation.real.shift
    for sentence in shift.warnings:
        console.warn(sentence)
    for sentence in shift.notes:
        console.say(sentence)


def _show_utility(outcome: "RunOutcome", console: "Console") -> None:
    from reports.sections.quality import given_away, predicted

    for sentence in predicted(outcome.evaluation):
        console.say(sentence)
    for sentence in given_away(outcome.evaluation):
        console.warn(sentence)


def _show_candidates(outcome: "RunOutcome", console: "Console") -> None:
    from reports.sections.overview import ruling_of
    from synth.dp.statement import guarantee_words

    statements = {c.name: c.statement for c in outcome.evaluation.candidates}
    rows = [
        (
            verdict.candidate,
            guarantee_words(statements[verdict.candidate]),
            verdict.verdict,
            [f"{f.rule.measure} {outcome_words(f)}" for f in verdict.findings if f.outcome != "PASS"],
        )
        for verdict in outcome.verdicts
    ]
    console.table(("candidate", "guarantee", "verdict", "rules that did not pass"), rows)
    released = outcome.delivery.released
    for verdict in outcome.verdicts if released is None else [released]:
        if verdict.reason:
            console.say(f"{verdict.candidate}: {verdict.reason}")
        for finding in ruling_of(verdict).reasons:
            if finding.binding and finding.outcome != "PASS":
                console.say(f"{verdict.candidate}: {reason_line(finding)}")


def _show_sweep(outcome: "RunOutcome", console: "Console") -> None:
    """A line for every generator at every epsilon: means over seeds, and how many verdicts of which kind."""
    from collections import Counter

    from reports.sections.comparison import sweep_of

    sweep = sweep_of(outcome.evaluation)
    if sweep is None:
        return
    verdicts = {verdict.candidate: verdict.verdict for verdict in outcome.verdicts}
    shown = [i for i, panel in enumerate(sweep.panels) if panel.measure in IN_BRIEF]
    counts: dict[tuple[str, float | None], Counter[str]] = {}
    for label, point in outcome.plan.points.items():
        counts.setdefault(point.setting, Counter())[verdicts[label]] += 1
    rows = [
        (
            row.generator,
            "none" if row.epsilon is None else f"{row.epsilon:g}",
            *(_mean(row.cells[i]) for i in shown),
            ", ".join(f"{verdict} {n}" for verdict, n in counts[row.generator, row.epsilon].items()),
        )
        for row in sweep.rows
    ]
    headings = [sweep.panels[i].measure.replace(".", "\n", 1) for i in shown]
    console.table(("generator", "epsilon", *headings, "verdicts"), rows)


def _mean(cell: "Mean | None") -> str:
    if cell is None:
        return ""
    return f"{cell.value:.3f}" if cell.low is None else f"{cell.value:.3f} ±{cell.value - cell.low:.3f}"
