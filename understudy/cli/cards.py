"""`understudy card`: the model card of a measured table."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import arg, console_of, opt

CARD = "Example: understudy card evaluation.json --candidate mst --out mst.md"


def add_to(app: typer.Typer) -> None:
    app.command("card", epilog=CARD)(card)


def card(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    evaluation: Annotated[Path, arg("What `understudy evaluate` wrote.")],
    candidate: Annotated[str, opt("The table that the card is about.")],
    out: Annotated[Path, opt("The card: Markdown at this path, YAML beside it.")],
    table: Annotated[Path | None, opt("The synthetic table, for its size and its name.")] = None,
    job: Annotated[Path | None, opt("A job whose [card] says license, contact and use.")] = None,
    policy: Annotated[list[str] | None, opt("A policy whose verdict it shows; may be repeated.")] = None,
    to_hand_on: Annotated[bool, opt("Leave out everything computed from real rows.", "--to-hand-on")] = False,
) -> int:
    """Write the model card of one measured table, as Markdown for a dataset repository and as YAML."""
    from evaluate.gate.verdict import judge
    from reports.model_card.card import internal_card, public_card
    from reports.model_card.render import write_card
    from reports.model_card.schema import ModelCard
    from synth.errors import OutputError
    from synth.output import check_writable
    from understudy.artifacts import Handing
    from understudy.evaluate_external import read_evaluation, read_policy
    from understudy.job.spec import read_job

    console = console_of(ctx)
    beside = out.with_suffix(".yaml")
    if out == beside:
        raise OutputError(f"the Markdown and the YAML of a card are two files: --out {str(out)!r}; end it in .md")
    for path in (out, beside):
        check_writable(path)
    spec = None if job is None else read_job(job)
    handing = Handing() if spec is None else Handing(spec.card, spec.split.holdout_share)
    measured, rules = read_evaluation(evaluation), [read_policy(name) for name in policy or ()]
    facts = handing.facts(table, None if table is None else table.name)
    content: ModelCard
    if to_hand_on:
        content = public_card(measured, candidate, facts)
    else:
        content = internal_card(measured, candidate, facts, judge(measured, rules))
    written = write_card(content, beside, out)
    console.say(f"Card: {out}")
    console.result({"card": [str(path) for path in written], "form": content.form})
    return 0
