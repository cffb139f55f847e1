"""`understudy json-schema`: the JSON Schema of a policy, a job, waivers, an evaluation and other files."""

import json
from typing import Annotated

import typer

from understudy.cli.options import console_of
from understudy.console import DONE

JSON_SCHEMA = "Example: understudy json-schema policy > policy.schema.json"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("json-schema", epilog=JSON_SCHEMA)(json_schema)


def json_schema(
    ctx: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            help="schema, job, sites, policy, waivers, evaluation, model-card, manifest, sign-off or withdrawal.",
            metavar="KIND",
            show_default=False,
        ),
    ],
) -> int:
    """Print the JSON Schema of a kind of file, for editors and for checks by others."""
    from understudy import json_schemas

    console = console_of(ctx)
    made = json_schemas.json_schema(kind)
    if not console.json:
        for line in json.dumps(made, indent=1, ensure_ascii=False).split("\n"):
            console.say(line)
    console.result(made)
    return DONE
