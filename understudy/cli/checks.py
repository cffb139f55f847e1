"""`understudy check`: files of settings checked without reading a table, and their JSON Schemas."""

import json
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import arg, console_of, opt
from understudy.console import BAD_INPUT, DONE, Console

CHECK = "Example: understudy check job.toml patients.schema.toml"


def add_to(app: typer.Typer) -> None:
    app.command("check", epilog=CHECK)(check)


def check(
    ctx: typer.Context,
    files: Annotated[list[Path] | None, arg("Job files, schemas, policies or waivers, as TOML.")] = None,
    json_schema: Annotated[
        str | None,
        opt(
            "In place of files: print the JSON Schema of schema, job, policy, waivers, evaluation, model-card, "
            "manifest, withdrawal, sign-off, or a kind of an extra, for editors.",
            metavar="KIND",
        ),
    ] = None,
) -> int:
    """Say which job files, schemas, policies and waivers cannot be used. No table and no ledger is read.

    A job is checked with the schema, policy and waivers that it names. The exit code is 2 where a file cannot be used.
    """
    from synth.errors import BadInput, JobError, MissingExtra
    from understudy.job.load import check_file

    console = console_of(ctx)
    if (json_schema is None) == (not files):
        raise JobError("name files to check, or a kind of file by --json-schema")
    if json_schema is not None:
        return _print(json_schema, console)
    kinds: dict[str, str] = {}
    faults: dict[str, str] = {}
    for path in files or ():
        try:
            kinds[str(path)] = check_file(path)
        except (BadInput, MissingExtra) as error:
            faults[str(path)] = str(error)
    for name, kind in kinds.items():
        console.say(f"{name}: a {kind} that can be used")
    code = BAD_INPUT if faults else DONE
    console.result({"fits": not faults, "files": kinds, "faults": faults, "exit_code": code})
    for name, fault in faults.items():
        if not console.json:
            console.error(f"{name}: {fault}", BAD_INPUT)
    return code


def _print(kind: str, console: Console) -> int:
    from understudy.job.load import json_schema

    content = json_schema(kind)
    if not console.json:
        for line in json.dumps(content, indent=1, ensure_ascii=False).split("\n"):
            console.say(line)
    console.result(content)
    return DONE
