"""`understudy advise`: what to fit and what to expect, from public facts alone. No row of the table is read."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.options import SchemaFile, Table, console_of, scalar
from understudy.console import DONE, Console, duration

if TYPE_CHECKING:
    from understudy.advice import Advice, Option

ADVISE = "Example: understudy advise patients.csv --schema patients.schema.toml --epsilon 1"


def add_to(app: typer.Typer) -> None:
    app.command("advise", epilog=ADVISE)(advise)


def advise(
    ctx: typer.Context,
    table: Table,
    schema: SchemaFile,
    epsilon: Annotated[float, typer.Option(help="Of one fit, in total.", show_default=False)],
    delta: Annotated[
        str, typer.Option(help='Of the guarantee: a number, or "auto", which is min(1e-6, n_units^-1.2).')
    ] = "auto",
    holdout_share: Annotated[
        float | None,
        typer.Option(
            help="Share of units that the fit will not see; 0 for a fit of the whole table.",
            show_default="that of a job",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="What the table will be judged by: a name or a TOML file; rules that it is too small for are told.",
            show_default="all that ship",
        ),
    ] = None,
) -> int:
    """Say which private generator suits a schema and a budget, with which settings, what to expect of it, and why.

    It costs no budget: the schema decides. Of the table only the names of the columns are read, to check that it fits;
    no row is, nor their number. Errors are of noise alone, before the estimation smooths it.
    """
    from evaluate.gate.policy import shipped
    from synth.schema_file import read_schema
    from understudy.advice import HOLDOUT_SHARE
    from understudy.advice import advise as ask
    from understudy.data.load import check_columns
    from understudy.data.source import find_table
    from understudy.job.load import given_policy, named_policy

    console = console_of(ctx)
    declared = read_schema(schema)
    policies = [named_policy(given_policy(one, Path())) for one in policy or shipped()]
    check_columns(find_table(table), declared)
    with console.stage("price the generators"):
        share = HOLDOUT_SHARE if holdout_share is None else holdout_share
        advice = ask(declared, epsilon, scalar(delta), share, policies)
    _show(advice, console)
    console.result({**advice.to_dict(), "exit_code": DONE})
    return DONE


def _show(advice: "Advice", console: Console) -> None:
    console.say("Expected total variation from noise alone; what a model leaves out comes on top of it.")
    headings = ("generator", "column", "tree", "pair", "measured", "time", "MB")
    console.table(headings, [_row(option, advice) for option in advice.options])
    console.say(f"Held out from the fit: a share of {advice.holdout_share:g} of the units (--holdout-share).")
    console.say("tree: a pair of the tree with the fewest cells; pair: a typical one; measured: columns + marginals.")
    console.say(f"Recommended at epsilon={advice.epsilon:g}, delta={advice.chosen.outlook.delta:.3g}:")
    for line in ("", *advice.job_lines, ""):
        console.say(line)
    for sentence in advice.reasons:
        console.say(f"Why: {sentence}.")
    console.say(f"Beside it: {advice.without_epsilon}.")
    for sentence in advice.warnings:
        console.warn(sentence)


def _row(option: "Option", advice: "Advice") -> tuple[str, ...]:
    from understudy.advice import settings_of

    found = option.outlook
    named = f"{option.name} {settings_of(option)}".strip()
    pairs = ("-" if noise is None else f"{noise.error:.2g}" for noise in (found.tree, found.pair))
    mark = " *" if option is advice.chosen else ""
    measured = f"{len(found.sizes)} + {found.n_marginals}"
    return (named + mark, f"{found.column:.2g}", *pairs, measured, duration(found.seconds), f"{found.memory_mb:.0f}")
