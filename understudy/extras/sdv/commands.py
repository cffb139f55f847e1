"""`understudy schema convert`: SDV's metadata to a schema and back."""

import json
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import OutFile, arg, console_of, opt
from understudy.cli.schemas import Force

CONVERT = "Example: understudy schema convert metadata.json --out patients.schema.toml"


def add_to(group: typer.Typer) -> None:
    group.command("convert", epilog=CONVERT)(convert)


def convert(
    ctx: typer.Context,
    source: Annotated[Path, arg("SDV's metadata (.json), or a schema file (.toml).")],
    out: OutFile,
    table: Annotated[str | None, opt("The table's name in the metadata.")] = None,
    force: Force = False,
) -> int:
    """Make a schema of SDV's metadata, or the reverse, and say what is lost. Nothing in the schema is public yet."""
    from synth.output import check_new_file, whole_file
    from synth.schema_file import read_schema, write_schema
    from understudy.extras.sdv.metadata import from_sdv, read_metadata, to_sdv

    console = console_of(ctx)
    check_new_file(out, force=force)
    if source.suffix == ".toml":
        content, lost = to_sdv(read_schema(source), table=table or "table")
        with whole_file(out) as beside:
            beside.write_text(json.dumps(content, indent=4) + "\n", encoding="utf-8")
        words, told = f"Metadata: {out}", {"metadata": str(out)}
    else:
        schema, lost = from_sdv(read_metadata(source), table=table)
        write_schema(schema, out)
        words = f"Schema: {out} (inferred: read it, correct it, then `understudy schema declare {out} --out ...`)"
        told = {"schema": str(out), "status": schema.status}
    for sentence in (*(f"Lost: {each}" for each in lost), words):
        console.say(sentence)
    console.result({**told, "lost": list(lost)})
    return 0
