"""`understudy schema`: propose a schema, declare it public, check a table against it."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import OutFile, SchemaFile, Table, console_of
from understudy.exit_codes import BAD_INPUT, DONE

INFER = "Example: understudy schema infer patients.csv --target outcome --entity patient_id --out inferred.toml"
DECLARE = "Example: understudy schema declare inferred.toml --n-units 50000 --out patients.schema.toml"
CHECK = "Example: understudy schema check patients.csv --schema patients.schema.toml"


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="What is public about a table: infer, declare, check."
    )
    group.command("infer", epilog=INFER)(infer)
    group.command("declare", epilog=DECLARE)(declare)
    group.command("check", epilog=CHECK)(check)
    app.add_typer(group, name="schema", epilog=INFER)


def infer(
    ctx: typer.Context,
    table: Table,
    out: OutFile,
    target: Annotated[str | None, typer.Option(help="Column that a model would predict.")] = None,
    entity: Annotated[str | None, typer.Option(help="Column that names the unit of privacy.")] = None,
) -> int:
    """Propose a schema from a table. What it says was read off the data: nothing in it is public yet."""
    from synth.infer import infer_schema
    from synth.output import check_writable
    from synth.schema_file import write_schema
    from synth.table import read_table

    console = console_of(ctx)
    check_writable(out)
    with console.stage("infer"):
        schema = infer_schema(read_table(table), target=target, entity=entity)
    write_schema(schema, out)
    kinds = {name: column.kind for name, column in schema.columns.items()}
    console.table(("column", "kind"), list(kinds.items()))
    console.say(f"Schema: {out} (inferred: read it, correct it, then `understudy schema declare {out} --out ...`)")
    console.result({"schema": str(out), "status": schema.status, "columns": kinds})
    return 0


def declare(
    ctx: typer.Context,
    inferred: Annotated[Path, typer.Argument(help="A schema that was inferred and checked.", show_default=False)],
    out: OutFile,
    n_units: Annotated[
        int | None, typer.Option("--n-units", min=1, help="Number of units of privacy: a public number.")
    ] = None,
) -> int:
    """Declare a schema public, and show, column by column, what you thereby assert."""
    from synth.declare import assertions, declare_schema
    from synth.output import check_writable
    from synth.schema_file import read_schema, write_schema

    console = console_of(ctx)
    check_writable(out)
    declared = declare_schema(read_schema(inferred), n_units=n_units)
    asserted = assertions(declared)
    write_schema(declared, out)
    console.say("By this schema you assert that the following is public, whatever the table holds:")
    console.table(("column", "public"), asserted)
    console.say(f"Schema: {out} (declared)")
    said = [{"column": column, "public": sentence} for column, sentence in asserted]
    console.result({"schema": str(out), "status": declared.status, "assertions": said})
    return 0


def check(ctx: typer.Context, table: Table, schema: SchemaFile) -> int:
    """Say what of a table does not fit its schema. The exit code is 2 where anything does not."""
    from synth.errors import TableError
    from synth.schema_file import read_schema
    from synth.table import read_table, violations

    console = console_of(ctx)
    read = read_schema(schema)
    with console.stage("check"):
        found = violations(read_table(table), read)
    said = [{"column": v.column, "rule": v.rule, "remedy": v.remedy} for v in found]
    console.result({"fits": not found, "violations": said, "exit_code": BAD_INPUT if found else DONE})
    if not found:
        console.say(f"The table fits: {table} under {schema}")
        return 0
    console.table(("column", "does not fit", "remedy"), [(v.column or "table", v.rule, v.remedy) for v in found])
    if not console.json:
        more = f" ({len(found) - 1} more)" if len(found) > 1 else ""
        raise TableError(f"{found[0]}{more}")
    return BAD_INPUT
