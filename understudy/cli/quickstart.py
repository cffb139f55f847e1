"""`understudy try`: from a table alone to a report, with no other file."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.options import SeedOption, ShowRowsOption, Table, console_of, opt
from understudy.cli.schemas import EntityOption, NoEntityOption, NoOrderOption, OrderOption, check_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.console import Console
    from understudy.quickstart import QuickStart
    from understudy.run.run import RunOutcome

EXAMPLE = "Example: understudy try patients.csv --target readmitted"


def add_to(app: typer.Typer) -> None:
    app.command("try", epilog=EXAMPLE)(try_table)


def try_table(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    table: Table,
    target: Annotated[str | None, opt("Column that a model would predict.")] = None,
    out: Annotated[
        Path | None, opt("The folder to make; it must be new.", show_default="tried-NAME beside you")
    ] = None,
    epsilon: Annotated[
        float | None, opt("Fit with differential privacy; asks for all that must be declared.", min=0.0)
    ] = None,
    entity: EntityOption = None,
    no_entity: NoEntityOption = False,
    order: OrderOption = None,
    no_order: NoOrderOption = False,
    seed: SeedOption = 0,
    show_rows: ShowRowsOption = True,
    yes: Annotated[bool, opt("Ask nothing. Nothing is asserted for anybody.", "--yes")] = False,
) -> int:
    """From a table to a report with no other file: infer, split, fit, evaluate, judge.

    The folder holds the synthetic table, the report and the verdict, with `schema.toml` and `job.toml` that do the same
    again. Without --epsilon nothing limits what the synthetic table tells of a real row.
    """
    from tempfile import TemporaryDirectory

    from synth.dp.mechanisms import require_sampler
    from synth.output import check_new_folder
    from understudy.cli.jobs import show
    from understudy.quickstart import QuickStart, Units
    from understudy.run.plan import make_plan
    from understudy.run.run import run

    console = console_of(ctx)
    check_units(entity, order, no_entity=no_entity, no_order=no_order)
    if out is not None:
        check_new_folder(out)
    if epsilon is not None:
        require_sampler()
        _refuse_to_assert(table, yes=yes)
    with console.stage("infer"):
        units = Units(entity, order, propose_entity=not no_entity, propose_order=not no_order)
        start = replace(QuickStart.of(table, target=target, units=units, seed=seed), show_rows=show_rows)
    folder = start.folder if out is None else out
    _tell_schema(start, console)
    if epsilon is not None:
        start = _declared(start, epsilon)
    with TemporaryDirectory(prefix="understudy-") as inputs:
        plan = make_plan(start.write(Path(inputs)), folder)
        for sentence in plan.warnings:
            console.warn(sentence)

        outcome = run(plan, console)
    show(outcome, console)
    _tell_next(outcome, start, console)
    console.result({**outcome.delivery.verdict_content(), "exit_code": outcome.exit_code, "out": str(folder)})
    return outcome.exit_code


def _refuse_to_assert(table: str, *, yes: bool) -> None:
    from synth.errors import JobError
    from understudy.data import is_address

    if yes or not is_terminal():
        shown = "TABLE" if is_address(table) else table
        raise JobError(
            "--epsilon needs a person who says what is public, and nothing asserts that for anybody; run it on a "
            f"terminal without --yes, or write a schema (`understudy schema infer {shown} --out inferred.toml`, then "
            "`understudy schema declare`) and a job"
        )


def is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _tell_schema(start: "QuickStart", console: "Console") -> None:
    from evaluate.text import MOST_NAMED

    schema = start.schema
    kinds: dict[str, list[str]] = {}
    for name, column in schema.columns.items():
        kinds.setdefault("left out" if column.drop else column.kind, []).append(name)
    for kind, names in kinds.items():
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        console.say(f"  {kind}: {', '.join(names[:MOST_NAMED])}{more}")
    unit = "a row" if schema.entity is None else f"all rows of one {schema.entity!r}"
    target = "no target (name one with --target to measure utility)" if schema.target is None else schema.target
    console.say(f"  unit of privacy: {unit}; target: {target}")
    if schema.order is not None:
        console.say(f"  these rows follow each other by {schema.order!r} (--no-order: they do not)")


WHAT_IS_DECLARED = (
    "A fit with an epsilon reads nothing off the table but under its budget. So you say what is public without it:",
    "  kinds: that these columns are of these kinds, with these decimals, and may be missing where it says so",
    "  n_units: how many people (or rows) there may be; the guarantee is about one more or one fewer of them",
    "  limits: whose bounds and categories everybody may know; all others, and frequent values that you name, "
    "are measured under the budget",
    "  nothing else: whoever declares what is secret gives it away, and no epsilon counts that",
)


def _declared(start: "QuickStart", epsilon: float) -> "QuickStart":
    from synth.errors import JobError
    from understudy.cli.schemas import asserted_lines
    from understudy.console import printable

    for line in WHAT_IS_DECLARED:
        typer.echo(line, err=True)
    unit = "rows" if start.schema.entity is None else f"units ({start.schema.entity!r})"
    asked = printable(f"n_units: how many {unit} may there be, as a public number?")
    n_units = _whole_number(asked)
    public = _columns("limits: columns whose limits are public", start.to_measure)
    frequent = _columns("frequent values: numbers where some exact values are frequent, such as 0", start.numbers)
    declared = start.declared(n_units=n_units, public=public, epsilon=epsilon, frequent=frequent)
    typer.echo("By this you assert that the following is public, whatever the table holds:", err=True)
    for line in asserted_lines(declared.schema):
        typer.echo(printable(line), err=True)
    if not typer.confirm("Is all of that right, and known without the table?", default=False, err=True):
        raise JobError(
            "what is not right, or not public, is not declared; write a schema (`understudy schema infer`), correct "
            "it, then `understudy schema declare` it"
        )
    return declared


def _whole_number(asked: str) -> int:
    while True:
        answer: str = typer.prompt(asked, err=True)
        digits = answer.strip().replace(",", "").replace("_", "")
        if digits.isascii() and digits.isdigit() and int(digits) > 0:
            return int(digits)
        typer.echo("That is no whole number above 0; type one, such as 6000.", err=True)


def _columns(what: str, can: "Sequence[str]") -> frozenset[str]:
    from synth.errors import nearest
    from understudy.console import printable

    if not can:
        return frozenset()
    asked = f"{what}, with commas between ({', '.join(can)}), or none of them"
    while True:
        answer: str = typer.prompt(printable(asked), default="none", err=True)
        named = frozenset(name.strip() for name in answer.split(",") if name.strip() and answer.strip() != "none")
        wrong = sorted(named - set(can))
        if not wrong:
            return named
        typer.echo(
            printable(f"{wrong[0]!r} is no column that can be named here; {nearest(wrong[0], can)}. Type them again."),
            err=True,
        )


def _tell_next(outcome: "RunOutcome", start: "QuickStart", console: "Console") -> None:
    from understudy.bundle.evidence import EVALUATION, REPORT

    out = outcome.plan.out
    console.say("Next:")
    console.say(f"  read {out / REPORT} in a browser")
    console.say(
        f"  change {out / 'schema.toml'} or {out / 'job.toml'}, then `understudy run {out / 'job.toml'} --out DIR`"
    )
    if any(verdict.verdict == "PASS" for verdict in outcome.verdicts):
        console.say(f"  ask for more: `understudy gate {out / EVALUATION} --policy partner`")
    if start.epsilon is None:
        console.say(
            "  limit what it tells of a person, as nothing does now: the same command on a terminal, without --yes and "
            "with `--epsilon 1 --out DIR`; it asks what is public"
        )
    else:
        console.say("  count this release with later ones: `understudy ledger open`, then name the ledger in the job")
