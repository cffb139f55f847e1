"""`understudy schema from-sdv` and `to-sdv`: SDV's metadata to a schema and back."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.options import OutFile, console_of
from understudy.cli.schemas import Force

FROM_SDV = "Example: understudy schema from-sdv metadata.json --out patients.schema.toml"
TO_SDV = "Example: understudy schema to-sdv patients.schema.toml --out metadata.json"


def add_to(group: typer.Typer) -> None:
    group.command("from-sdv", epilog=FROM_SDV)(from_metadata)
    group.command("to-sdv", epilog=TO_SDV)(to_metadata)


def from_metadata(
    ctx: typer.Context,
    metadata: Annotated[Path, typer.Argument(help="A JSON file of metadata that SDV saved.", show_default=False)],
    out: OutFile,
    table: Annotated[str | None, typer.Option(help="The table, where the metadata has several.")] = None,
    force: Force = False,
) -> int:
    """Make a schema of SDV's metadata, and say what of it is lost. Nothing in the schema is public yet."""
    from synth.output import check_new_file
    from synth.schema_file import write_schema
    from understudy.extras.sdv.metadata import from_sdv, read_metadata

    check_new_file(out, force=force)
    schema, lost = from_sdv(read_metadata(metadata), table=table)
    write_schema(schema, out)
    words = f"Schema: {out} (inferred: read it, correct it, then `understudy schema declare {out} --out ...`)"
    return _tell(ctx, words, lost, schema=str(out), status=schema.status)


def to_metadata(
    ctx: typer.Context,
    schema: Annotated[Path, typer.Argument(help="A schema file.", show_default=False)],
    out: OutFile,
    table: Annotated[str, typer.Option(help="The table's name in the metadata.")] = "table",
    force: Force = False,
) -> int:
    """Make SDV's metadata (version V2) of a schema, and say what of it is lost."""
    from synth.output import check_new_file, whole_file
    from synth.schema_file import read_schema
    from understudy.extras.sdv.metadata import to_sdv

    check_new_file(out, force=force)
    content, lost = to_sdv(read_schema(schema), table=table)
    with whole_file(out) as beside:
        beside.write_text(json.dumps(content, indent=4) + "\n", encoding="utf-8")
    return _tell(ctx, f"Metadata: {out}", lost, metadata=str(out))


def _tell(ctx: typer.Context, words: str, lost: Sequence[str], **result: Any) -> int:
    console = console_of(ctx)
    for sentence in (*(f"Lost: {each}" for each in lost), words):
        console.say(sentence)
    console.result({**result, "lost": list(lost)})
    return 0
