"""`understudy schema`: propose a schema, declare it public, check a table against it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from synth import extras
from understudy.cli.options import OutFile, SchemaFile, Table, arg, console_of, opt
from understudy.console import BAD_INPUT, DONE

if TYPE_CHECKING:
    from synth.schema import Schema
    from synth.schema.kinds import AnyColumn

INFER = "Example: understudy schema infer patients.csv --target outcome --entity patient_id --out inferred.toml"
DECLARE = (
    "Example: understudy schema declare inferred.toml --n-units 50000 --dataset patients --measure income "
    "--out patients.schema.toml"
)
UNCONFIRMED = (
    "whoever declares what was read off the table says that it is public all the same: confirm each, replace it by "
    "what is known without the table, or let a private fit measure it (--measure); the same goes for kinds, decimals "
    "and what may be missing"
)
CHECK = "Example: understudy schema check patients.csv --schema patients.schema.toml"


EntityOption = Annotated[str | None, opt("Column that names the unit of privacy.")]
NoEntityOption = Annotated[
    bool, opt("Every row is a unit of privacy: look for no column that names one.", "--no-entity")
]
OrderOption = Annotated[str | None, opt("Column by which rows of an entity follow each other.")]
NoOrderOption = Annotated[bool, opt("Rows of an entity do not follow each other: look for no order.", "--no-order")]
Force = Annotated[bool, opt("Replace the output file where it exists.", "--force")]


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="What is public about a table: infer, declare, check, exchange.",
    )
    group.command("infer", epilog=INFER)(infer)
    group.command("declare", epilog=DECLARE)(declare)
    group.command("check", epilog=CHECK)(check)
    for add in extras.load("schema command").values():
        add(group)
    app.add_typer(group, name="schema", epilog=INFER)


def infer(
    ctx: typer.Context,
    table: Table,
    out: OutFile,
    target: Annotated[str | None, opt("Column that a model would predict.")] = None,
    entity: EntityOption = None,
    no_entity: NoEntityOption = False,
    order: OrderOption = None,
    no_order: NoOrderOption = False,
    missing_value: Annotated[
        list[str] | None, opt("A text that stands for a missing value; may be repeated.", metavar="TEXT")
    ] = None,
    kind: Annotated[
        list[str] | None, opt("The kind of a column, whatever it looks like; may be repeated.", metavar="COLUMN=KIND")
    ] = None,
    constraints: Annotated[
        bool, opt("Propose constraints between columns, too.", "--constraints/--no-constraints")
    ] = True,
    force: Force = False,
) -> int:
    """Propose a schema from a table. What it says was read off the data: nothing in it is public yet."""
    from reports.sections.limitations import left_out
    from synth.infer import infer_schema
    from synth.output import check_new_file
    from synth.schema_file import write_schema
    from understudy.data import find_table, first_rows

    console = console_of(ctx)
    check_new_file(out, force=force)
    check_units(entity, order, no_entity=no_entity, no_order=no_order)
    chosen = _kinds(kind or ())
    with console.stage("infer"):
        rows, is_whole = first_rows(find_table(table))
        schema = infer_schema(
            rows, target=target, entity=entity, order=order, propose_entity=not no_entity,
            propose_order=is_whole and not no_order, constraints=constraints, missing_values=missing_value or (),
            kinds=chosen,
        )  # fmt: skip
    write_schema(schema, out, read_off=True)
    kinds = {name: column.kind for name, column in schema.columns.items()}
    console.table(("column", "kind"), [(name, _kind_in_words(column)) for name, column in schema.columns.items()])
    console.say(*left_out(schema))
    if any(column.is_personal for column in schema.columns.values()):
        console.warn("personal data was told by names and patterns; look for what was not found")
    missing = [text for text in schema.missing_values if text]
    if missing:
        console.say(f"Texts that stand for a missing value: {', '.join(map(repr, missing))}")
    if schema.entity is not None and entity is None:
        k = schema.max_rows_per_unit
        console.say(
            f"Unit of privacy: one value of column {schema.entity!r}, with at most {k} row{'' if k == 1 else 's'} of "
            "it (name another column by --entity, or give --no-entity where every row is a unit of its own)"
        )
    if schema.entity is not None and not no_order:
        console.say(*_order_in_words(schema))
    proposed = [(str(constraint), constraint.proposed or "") for constraint in schema.constraints]
    if proposed:
        console.say("Constraints that are proposed: a synthetic row that breaks one is drawn again")
        console.table(("constraint", "what speaks for it"), proposed)
    console.say(f"Schema: {out} (inferred: read it, correct it, then `understudy schema declare {out} --out ...`)")
    console.result({
        "schema": str(out), "status": schema.status, "entity": schema.entity,
        "max_rows_per_unit": schema.max_rows_per_unit, "order": schema.order,
        "constant_in_entity": list(schema.constant_in_entity),
        "nondecreasing_in_entity": list(schema.nondecreasing_in_entity),
        "missing_values": list(schema.missing_values), "columns": kinds,
        "constraints": [{"constraint": constraint, "because": reason} for constraint, reason in proposed],
    })  # fmt: skip
    return 0


def check_units(entity: str | None, order: str | None, *, no_entity: bool, no_order: bool) -> None:
    from synth.errors import JobError

    if entity is not None and no_entity:
        raise JobError(f"--no-entity says that rows are the units, and entity={entity!r} names others; leave out one")
    if order is not None and (no_order or no_entity):
        other = "--no-order" if no_order else "--no-entity"
        raise JobError(
            f"order={order!r} is of rows that follow each other, and {other} says that none do; leave out one"
        )


def _order_in_words(schema: "Schema") -> list[str]:
    if schema.order is None:
        return [
            f"Order of the rows of one {schema.entity!r}: no column is convincing, so they are made as if they did not "
            "follow each other (name one by --order)"
        ]
    lines = [
        f"Order of the rows of one {schema.entity!r}: by column {schema.order!r} (name another by --order, or give "
        "--no-order where they do not follow each other)"
    ]
    if schema.nondecreasing_in_entity:
        lines.append(f"Never falls in that order: {', '.join(map(repr, schema.nondecreasing_in_entity))}")
    if schema.constant_in_entity:
        lines.append(f"Has one value in all of these rows: {', '.join(map(repr, schema.constant_in_entity))}")
    return lines


def _kinds(options: Sequence[str]) -> dict[str, str]:
    from synth.errors import JobError

    chosen: dict[str, str] = {}
    for option in options:
        name, _, kind = option.rpartition("=")  # a name may hold the sign, a kind never does
        if not name:
            raise JobError(f"--kind is COLUMN=KIND, and kind={option!r} is not; write one such as zipcode=categorical")
        if name in chosen:
            raise JobError(f"--kind names column={name!r} twice; keep one")
        chosen[name] = kind
    return chosen


def _kind_in_words(column: "AnyColumn") -> str:
    what = getattr(column, "personal", None)
    return column.kind if what is None else f"{column.kind} ({what.replace('_', ' ')}, {column.locale})"


def declare(
    ctx: typer.Context,
    inferred: Annotated[Path, arg("A schema that was inferred and checked.")],
    out: OutFile,
    n_units: Annotated[int | None, opt("Number of units of privacy: a public number.", "--n-units", min=1)] = None,
    dataset: Annotated[str | None, opt("Name under which a ledger keeps the budget of this table.")] = None,
    measure: Annotated[
        list[str] | None, opt("A column whose bounds or categories are not public; may be repeated.", metavar="COLUMN")
    ] = None,
    measure_all: Annotated[
        bool, opt("Measure the bounds or categories of every column that has any.", "--measure-all")
    ] = False,
    measure_spikes: Annotated[
        list[str] | None,
        opt("A number whose frequent values are not public; may be repeated.", "--measure-spikes", metavar="COLUMN"),
    ] = None,
    order: OrderOption = None,
    nondecreasing: Annotated[
        list[str] | None,
        opt("A number or time that never falls in that order; those named replace the schema's.", metavar="COLUMN"),
    ] = None,
    force: Force = False,
) -> int:
    """Declare a schema public, and show, column by column, what you thereby assert.

    Warns of every limit that may have been read off the table.
    """
    from synth.declare import assertions, declare_schema, measurable, unconfirmed
    from synth.output import check_new_file
    from synth.schema_file import read_schema, write_schema

    console = console_of(ctx)
    check_new_file(out, force=force)
    schema = read_schema(inferred)
    names = [*(measure or ()), *(measurable(schema) if measure_all else ())]
    declared = declare_schema(
        schema, n_units=n_units, dataset=dataset, measure=names, measure_spikes=measure_spikes or (), order=order,
        nondecreasing=nondecreasing or (),
    )  # fmt: skip
    taken_over = unconfirmed(schema, declared)
    write_schema(declared, out)
    console.say("By this schema you assert that the following is public, whatever the table holds:")
    console.say(*asserted_lines(declared))
    alike: dict[str, list[str]] = {}
    for name, sentence in taken_over:
        alike.setdefault(sentence, []).extend([] if name is None else [name])
    for sentence, names in alike.items():
        console.warn(f"{sentence} (columns {', '.join(map(repr, names))})" if names else sentence)
    if taken_over:
        console.warn(UNCONFIRMED)
    console.say(f"Schema: {out} (declared)")
    console.result({
        "schema": str(out), "status": declared.status,
        "assertions": [{"column": column, "public": sentence} for column, sentence in assertions(declared)],
        "unconfirmed": [{"column": column, "sentence": sentence} for column, sentence in taken_over],
    })  # fmt: skip
    return 0


def asserted_lines(declared: "Schema") -> list[str]:
    from synth.declare import assertions

    return [
        f"  {f'column {subject!r}' if number < len(declared.columns) else subject}: {sentence}"
        for number, (subject, sentence) in enumerate(assertions(declared))
    ]


def check(ctx: typer.Context, table: Table, schema: SchemaFile) -> int:
    """Say what of a table does not fit its schema. The exit code is 2 where anything does not."""
    from synth.errors import TableError
    from synth.schema_file import read_schema
    from synth.table import violations
    from understudy.data import find_table

    console = console_of(ctx)
    known, source = read_schema(schema), find_table(table)
    with console.stage("check"):
        faults = violations(source.address, known)
    violated = [{"column": v.column, "rule": v.rule, "remedy": v.remedy} for v in faults]
    console.result({"fits": not faults, "violations": violated, "exit_code": BAD_INPUT if faults else DONE})
    if not faults:
        console.say(f"The table fits: {source.shown} under {schema!r}")
        return DONE
    console.table(("column", "does not fit", "remedy"), [(v.column or "table", v.rule, v.remedy) for v in faults])
    if not console.json:
        more = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
        raise TableError(f"{faults[0]}{more}")
    return BAD_INPUT
