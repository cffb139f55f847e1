"""`understudy run`: the whole job, from a real table to a verdict."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.evidence import outcome_words
from understudy.cli.options import OutFolder, console_of

if TYPE_CHECKING:
    from understudy.console import Console
    from understudy.run import Outcome


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("run", epilog="Example: understudy run examples/fair.toml --out out/fair")(run)


def run(
    ctx: typer.Context,
    job: Annotated[Path, typer.Argument(help="The job file (docs/job.md).", show_default=False)],
    out: OutFolder,
    restart: Annotated[
        bool, typer.Option("--restart", help="Remove unfinished work of this output; what was drawn stays spent.")
    ] = False,
) -> int:
    """Split, fit, sample, evaluate, judge, report.

    Everything lands in one folder, whole or not at all. A run that was cut short goes on where it was when the same
    command is given again: what a private fit drew is never drawn a second time. The exit code is the verdict on the
    table that the job names under `release` (0 PASS, 1 FAIL, 3 INCONCLUSIVE), or 0 where it names none.
    """
    from understudy.plan import make_plan
    from understudy.run import run as carry_out
    from understudy.run import verdict_content

    console = console_of(ctx)
    plan = make_plan(job, out, restart=restart)
    for sentence in plan.warnings:
        console.warn(sentence)
    outcome = carry_out(plan, console)
    _show(outcome, console)
    said = {name: outcome.evaluation.provenance[name] for name in ("warnings", "ledger")}
    console.result({**verdict_content(outcome), **said, "exit_code": outcome.exit_code, "out": str(out)})
    return outcome.exit_code


def _show(outcome: "Outcome", console: "Console") -> None:
    """A line for every candidate, then the verdict and where the report is."""
    from understudy.funds import release_line
    from understudy.run import REPORT

    if outcome.unsaved:
        console.note(f"Models that cannot be saved, and are not: {', '.join(outcome.unsaved)} (see docs/job.md).")
    statements = {c.name: c.statement for c in outcome.evaluation.candidates}
    rows = [
        (
            verdict.candidate,
            _guarantee(statements[verdict.candidate]),
            verdict.verdict,
            "\n".join(f"{f.rule.measure} {outcome_words(f)}" for f in verdict.findings if f.outcome != "PASS"),
        )
        for verdict in outcome.verdicts
    ]
    console.table(("candidate", "guarantee", "verdict", "rules that did not pass"), rows)
    noted = outcome.evaluation.provenance["ledger"]
    if noted is not None:
        console.say(release_line(noted))
    released = outcome.released
    if released is not None:
        console.say(f"{released.candidate}: {released.verdict} under policy {released.policy}, for {released.audience}")
    console.say(f"Report: {outcome.plan.out / REPORT}")


def _guarantee(statement: object) -> str:
    if not isinstance(statement, dict):
        return "no formal guarantee"
    return f"epsilon {statement['epsilon']:.3g}, delta {statement['delta']:.3g}"
