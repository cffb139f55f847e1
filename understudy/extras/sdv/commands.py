"""`understudy schema from-sdv` and `to-sdv`: SDV's metadata to a schema and back."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import OutFile, console_of
from understudy.cli.schemas import Force

FROM_SDV = "Example: understudy schema from-sdv metadata.json --data patients.csv --out patients.schema.toml"
TO_SDV = "Example: understudy schema to-sdv patients.schema.toml --out metadata.json"


def add_to(group: typer.Typer) -> None:
    group.command("from-sdv", epilog=FROM_SDV)(from_metadata)
    group.command("to-sdv", epilog=TO_SDV)(to_metadata)


def from_metadata(
    ctx: typer.Context,
    metadata: Annotated[Path, typer.Argument(help="A JSON file of metadata that SDV saved.", show_default=False)],
    out: OutFile,
    table: Annotated[str | None, typer.Option(help="The table, where the metadata has several.")] = None,
    data: Annotated[
        str | None, typer.Option(help="A table with what the metadata does not hold: bounds, categories.")
    ] = None,
    force: Force = False,
) -> int:
    """Make a schema of SDV's metadata, and say what of it is lost. Nothing in the schema is public yet."""
    from synth.output import check_new_file
    from synth.schema_file import write_schema
    from synth.table import read_table
    from understudy.extras.sdv.reading import from_sdv, read_metadata

    console = console_of(ctx)
    check_new_file(out, force=force)
    with console.stage("translate"):
        made = from_sdv(read_metadata(metadata), table=table, data=None if data is None else read_table(data))
    write_schema(made.schema, out)
    console.table(("column", "kind"), [(name, column.kind) for name, column in made.schema.columns.items()])
    for sentence in made.lost:
        console.say(f"Lost: {sentence}")
    console.say(f"Schema: {out} (inferred: read it, correct it, then `understudy schema declare {out} --out ...`)")
    console.result({"schema": str(out), "status": made.schema.status, "lost": list(made.lost)})
    return 0


def to_metadata(
    ctx: typer.Context,
    schema: Annotated[Path, typer.Argument(help="A schema file.", show_default=False)],
    out: OutFile,
    table: Annotated[str, typer.Option(help="The table's name in the metadata.")] = "table",
    spec: Annotated[str, typer.Option(help="Version of the metadata: V2, V1 or SINGLE_TABLE_V1.")] = "V2",
    force: Force = False,
) -> int:
    """Make SDV's metadata of a schema, and say what of it is lost."""
    from synth.errors import JobError, nearest
    from synth.output import check_new_file
    from synth.schema_file import read_schema
    from understudy.extras.sdv.words import SPECS
    from understudy.extras.sdv.writing import to_sdv, write_metadata

    console = console_of(ctx)
    check_new_file(out, force=force)
    chosen = next((known for known in SPECS if known == spec), None)
    if chosen is None:
        raise JobError(f"spec={spec!r} is no version of SDV's metadata; {nearest(spec, SPECS)}")
    made = to_sdv(read_schema(schema), table=table, spec=chosen)
    write_metadata(made.metadata, out)
    for sentence in made.lost:
        console.say(f"Lost: {sentence}")
    console.say(f"Metadata: {out} ({chosen})")
    console.result({"metadata": str(out), "spec": chosen, "lost": list(made.lost)})
    return 0
