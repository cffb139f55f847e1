"""`understudy impute`: missing cells of a table filled in by a model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.options import ClampOption, OutFile, Table, call_of, console_of, outside_of
from understudy.seeds import MAX_SEED

IMPUTE = "Example: understudy impute model patients.csv --seed 7 --out filled.csv"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("impute", epilog=IMPUTE)(impute)


def impute(
    ctx: typer.Context,
    model: Annotated[Path, typer.Argument(help="A saved model of arn or latent_class.", show_default=False)],
    table: Table,
    out: OutFile,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MAX_SEED, help="Same seed, same cells; unless set, fresh ones.")
    ] = None,
    clamp: ClampOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
) -> int:
    """Fill in missing cells of a table, each drawn given the cells of its row. What comes out is as sensitive."""
    from synth.errors import JobError
    from synth.generators.models.imputation import UNFILLED, with_missing
    from synth.generators.registry import load_model
    from synth.output import making
    from synth.table import read_table, write_table
    from synth.table.reading import check_suffix
    from understudy.real_table import file_state

    console = console_of(ctx)
    check_suffix(out)
    loaded: Any = load_model(model)
    if not hasattr(loaded, "impute"):
        raise JobError(f"generator={loaded.name!r} cannot fill in missing cells; fit arn, or latent_class, which can")
    rows_schema = with_missing(loaded.schema)
    call = call_of("impute", seed=seed, clamp=clamp, force=force, model=file_state(model), table=file_state(table))
    with making(out, call, is_file=True, force=force) as made:
        told = made.told
        if told is None:
            with console.stage(f"impute {loaded.name}"):
                rows = read_table(table, rows_schema, outside=outside_of(clamp))
                filled = loaded.impute(rows, seed=seed)
                write_table(filled, made.place, rows_schema)
            n_cells = int(rows[list(loaded.schema.learned)].isna().to_numpy().sum())
            told = {"rows": len(filled), "missing": n_cells, "unfilled": filled.attrs[UNFILLED]}
            made.finish(told)
        else:
            console.note(made.notice)
        console.say(f"Imputed table: {out}, {told['missing']:,} cells were missing")
        if told["unfilled"]:
            console.say(
                f"Constraints: {told['unfilled']:,} rows keep missing cells, since no draw kept the constraints"
            )
        console.say("It holds the real rows: no guarantee covers it, and it is no synthetic table")
        console.result({"imputed": str(out), "generator": loaded.name, **told})
    return 0
