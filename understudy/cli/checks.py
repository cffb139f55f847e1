"""`understudy check` and `json-schema`: files of settings checked without reading a table, and their JSON Schemas."""

import json
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import console_of
from understudy.console import BAD_INPUT, DONE

CHECK = "Example: understudy check job.toml patients.schema.toml"
JSON_SCHEMA = "Example: understudy json-schema policy > policy.schema.json"


def add_to(app: typer.Typer) -> None:
    app.command("check", epilog=CHECK)(check)
    app.command("json-schema", epilog=JSON_SCHEMA)(json_schema)


def check(
    ctx: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(help="Job files, schemas, policies or waivers, as TOML.", show_default=False)
    ],
) -> int:
    """Say which job files, schemas, policies and waivers cannot be used. No table and no ledger is read.

    A job is checked with the schema, policy and waivers that it names. The exit code is 2 where a file cannot be used.
    """
    from synth.errors import BadInput, JobError, MissingExtra
    from understudy.job.load import check_file

    console = console_of(ctx)
    kinds: dict[str, str] = {}
    faults: dict[str, str] = {}
    for path in files:
        try:
            kinds[str(path)] = check_file(path)
        except (BadInput, MissingExtra) as error:
            faults[str(path)] = str(error)
    for name, kind in kinds.items():
        console.say(f"{name}: a {kind} that can be used")
    console.result({"fits": not faults, "files": kinds, "faults": faults, "exit_code": BAD_INPUT if faults else DONE})
    if not faults:
        return DONE
    if console.json:
        return BAD_INPUT
    *more, last = (f"{name}: {fault}" for name, fault in faults.items())
    for sentence in more:
        console.error(sentence, BAD_INPUT)
    raise JobError(last)


def json_schema(
    ctx: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            help="schema, job, policy, waivers, evaluation, model-card, manifest, withdrawal, sign-off; extras' own.",
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
