"""`understudy split`, `fit`, `sample`, `impute`, `generators`: the steps of a job, one at a time, and saved models."""

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import (
    ClampOption,
    OutFile,
    OutFolder,
    SchemaFile,
    SeedOption,
    Table,
    call_of,
    console_of,
    outside_of,
    parameters_of,
)
from understudy.job.seeds import MAX_SEED

if TYPE_CHECKING:
    from synth.dp.statement import PrivacyStatement

SPLIT = "Example: understudy split patients.csv --schema patients.schema.toml --out parts"
FIT = (
    "Example: understudy fit parts/train.csv --schema patients.schema.toml --generator mst --epsilon 1 "
    "--set n_bins=64 --out model"
)
SAMPLE = (
    "Example: understudy sample model --rows 10000 --seed 7 --given sex=Female --given age=37 --balance income "
    "--out synthetic.csv"
)

IMPUTE = "Example: understudy impute model patients.csv --seed 7 --out filled.csv"
CONDITIONED = {
    "exact": "drawn exactly, column by column",
    "weights": "rows were chosen by how likely they make what is given",
    "direct": "rows follow the network's own chances given these columns, which are a little less exact",
    "merged": "a rare category is learned together with others, and rows that hold it are like those of all of them",
}
"""The ways to meet conditions, in words."""

WIDTH = 80
"""Characters of a line of parameters in the list of generators."""


def add_to(app: typer.Typer) -> None:
    app.command("split", epilog=SPLIT)(split)
    app.command("fit", epilog=FIT)(fit)
    app.command("sample", epilog=SAMPLE)(sample)
    app.command("generators", epilog="Example: understudy generators --json")(generators)
    app.command("impute", epilog=IMPUTE)(impute)


def split(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    table: Table,
    schema: SchemaFile,
    out: OutFolder,
    holdout_share: Annotated[float, typer.Option(help="Share of units that no generator may see.")] = 0.2,
    seed: SeedOption = 0,
    stratified: Annotated[
        bool, typer.Option("--stratified", help="Stratify on the target; only where no private fit will follow.")
    ] = False,
    clamp: ClampOption = False,
) -> int:
    """Split a table into train and holdout, whole entities on one side, by hashes of names."""
    from synth.output import making
    from synth.schema_file import read_schema
    from understudy.data.source import find_table
    from understudy.data.split_files import Cut, part

    console = console_of(ctx)
    cut = Cut(holdout_share, seed, stratified, outside_of(clamp))
    place = find_table(table)
    known = read_schema(schema)
    call = call_of("split", schema=known.model_dump_json(), cut=asdict(cut), **place.state)
    with making(out, call) as made:
        told = made.told
        if told is None:
            with console.stage("split"):
                told = {side.stem: str(out / side.name) for side in part(place, known, cut, made.place)}
            made.finish(told)
        else:
            console.note(made.notice)
        console.say(f"Train and holdout: {told['train']}, {told['holdout']}")
        console.result(told)
    return 0


def fit(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    table: Table,
    schema: SchemaFile,
    name: Annotated[str, typer.Option("--generator", help="See `understudy generators`.", show_default=False)],
    out: OutFolder,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget; unless set, no formal guarantee.", show_default=False)
    ] = None,
    delta: Annotated[
        str | None, typer.Option(help='A number, or "auto": min(1e-6, n_units^-1.2).', show_default=False)
    ] = None,
    seed: SeedOption = 0,
    parameters: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A parameter; may be repeated.")
    ] = None,
    clamp: ClampOption = False,
    ledger: Annotated[
        str | None,
        typer.Option(
            help="A path or URL of the ledger that pays; unless set, that of UNDERSTUDY_LEDGER.", show_default=False
        ),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor",
            help="Who reads the parts of the table and counts them: processes, or a Dask cluster (tcp://host:8786); "
            "left out: this process. For independent, mst, aim, latent_class with epsilon.",
            show_default=False,
        ),
    ] = None,
    training: Annotated[
        Path | None,
        typer.Option(
            help="A folder for unfinished work and a network's training log: without epsilon the same command goes on "
            "from there, with epsilon it holds the log alone. For trees, ctgan and tvae.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Fit a generator on a table and save its model. The table should be a training part (`understudy split`)."""
    from reports.sections.limitations import left_out
    from synth.generators.registry import generator
    from synth.generators.wrapper import compose
    from synth.output import making
    from synth.schema_file import read_schema
    from understudy.budget.account import ledger_place, release_line, releases
    from understudy.data.source import find_table
    from understudy.single_fit import carry_out, earlier_fit, plan_fit

    console = console_of(ctx)
    asked = generator(name, **parameters_of(parameters or [], epsilon, delta))
    place = find_table(table)
    known = read_schema(schema)
    chosen = compose(asked, known)
    call = call_of(
        "fit", generator=name, parameters=chosen.model_dump_json(), schema=known.model_dump_json(), seed=seed,
        clamp=clamp, ledger=ledger_place(ledger), **place.state,
    )  # fmt: skip
    with making(out, call) as made:
        planned = plan_fit(
            chosen, place, known, made, outside=outside_of(clamp), ledger=ledger, place=training, executor=executor
        )
        for sentence in planned.warnings:
            console.warn(sentence)
        if made.told is None:
            with console.stage(f"fit {chosen.name}") as progress:
                model, found = carry_out(planned, seed, progress)
        else:
            console.note(made.notice)
            model, found = earlier_fit(planned, made.told)
        for sentence in found:
            console.warn(sentence)
        for sentence in left_out(known):
            console.say(sentence)
        statement = model.statement
        noted = releases({chosen.name: statement})
        console.say(_promise(statement))
        if noted is not None:
            console.say(release_line(noted))
        console.say(f"Model: {out}")
        warnings = [*planned.warnings, *found]
        console.result(
            {
                "model": str(out),
                "generator": chosen.name,
                "statement": None if statement is None else statement.to_dict(),
                "ledger": None if noted is None else asdict(noted),
                "warnings": warnings,
            }
        )
    return 0


def _promise(statement: "PrivacyStatement | None") -> str:
    from evaluate.text import typed_loss

    if statement is None:
        return "No formal guarantee: this fit had no epsilon."
    return (
        f"Guarantee: epsilon={typed_loss(statement.epsilon)}, delta={statement.delta:.3g} by {statement.accountant}, "
        f"unit {statement.unit}, {statement.relation}, trust: {statement.trust}"
    )


def sample(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    model: Annotated[Path, typer.Argument(help="A saved model.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="The file to write; without a suffix, a folder of Parquet files, which holds any number of rows: the "
            "same command goes on where one ended.",
            show_default=False,
        ),
    ],
    rows: Annotated[int | None, typer.Option(min=1, help="How many; unless set, the model's own default.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MAX_SEED, help="Same seed, same table; unless set, a fresh one.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given",
            metavar="COLUMN=VALUE",
            help="What every row holds in a column, written as in a CSV file (nothing: missing); may be repeated.",
        ),
    ] = None,
    balance: Annotated[
        list[str] | None,
        typer.Option(
            "--balance",
            metavar="COLUMN[=VALUE:SHARE]",
            help="A column: as many rows with each of its categories. Or, once for each value, its share of the rows.",
        ),
    ] = None,
    rows_a_file: Annotated[
        int | None, typer.Option(min=1, help="Rows of each file in a folder, at most; unless set, a million.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file, or the folder of files.")] = False,
) -> int:
    """Sample a synthetic table from a saved model; free of any budget, as often as wanted."""
    from synth.generators.models.chunked_output import ROWS_A_FILE, Written, write_rows
    from synth.generators.models.constraints import REJECTED, rejections
    from synth.generators.models.known_rows import GIVEN
    from synth.generators.registry import load_model
    from synth.output import check_writable, making
    from synth.table import check_names, write_table
    from synth.table.files import WRITTEN, check_suffix
    from understudy.data.source import file_state

    console = console_of(ctx)
    in_files = out.suffix == ""
    if not in_files:
        if rows_a_file is not None:
            raise typer.BadParameter(
                f"--rows-a-file is for a folder: --out {str(out)!r} is a file; take its suffix off"
            )
        check_suffix(out, WRITTEN)
        check_writable(out)
    loaded = load_model(model)
    conditions = _conditions(given or [], loaded.schema.columns)
    shares = _shares(balance or [], loaded.schema.columns)
    result: dict[str, Any] = {"synthetic": str(out), "generator": loaded.name}

    def tell(more: Mapping[str, Any]) -> None:
        files = more.get("files")
        console.say(f"Synthetic table: {out}" + ("" if files is None else f" ({files} file{'s' * (files > 1)})"))
        if more.get("given") is not None:
            console.say(f"Conditions: {CONDITIONED[more['given']]}")
        if more["rejected"] is not None:
            console.say(f"Constraints: {rejections(more['rejected'])}")
        console.result({**result, **more})

    if in_files:

        def tell_files(written: Written) -> None:
            bar.close()
            more = {"rows": written.n_rows, "rejected": written.n_rejected, "given": written.given}
            tell({**more, "files": written.n_files, "seed": written.seed})

        with ExitStack() as bar:
            progress = bar.enter_context(console.stage(f"sample {loaded.name}"))
            write_rows(
                loaded, out, rows, seed=seed, given=conditions, balance=shares,
                rows_a_file=rows_a_file or ROWS_A_FILE, force=force, progress=progress, tell=tell_files,
            )  # fmt: skip
        return 0
    check_names(loaded.schema.kept, out)
    call = call_of(
        "sample", rows=rows, seed=seed, given=conditions, balance=shares, force=force, model=file_state(model)
    )
    with making(out, call, is_file=True, force=force) as made:
        told = made.told
        if told is None:
            with console.stage(f"sample {loaded.name}") as progress:
                synthetic = loaded.sample(rows, seed=seed, given=conditions, balance=shares, progress=progress)
                write_table(synthetic, made.place, loaded.schema)
            told = {
                "rows": len(synthetic),
                "rejected": synthetic.attrs.get(REJECTED),
                "given": synthetic.attrs.get(GIVEN),
            }
            made.finish(told)
        else:
            console.note(made.notice)
        tell(told)
    return 0


def _conditions(options: list[str], columns: Collection[str]) -> dict[str, str]:
    """The conditions of `--given` by column; a column's name may hold an equals sign itself.

    >>> _conditions(["sex=F", "a=b=3", "job="], ["sex", "a=b", "job"])
    {'sex': 'F', 'a=b': '3', 'job': ''}
    """
    found: dict[str, str] = {}
    for option in options:
        splits = [(option[:i], option[i + 1 :]) for i, character in enumerate(option) if character == "="]
        if not splits or not splits[0][0]:
            raise typer.BadParameter(f"{option!r} is not of the form column=value; write one such as --given age=37")
        name, value = next((split for split in splits if split[0] in columns), splits[0])
        if name in found:
            raise typer.BadParameter(f"{name!r} is given twice; keep one")
        found[name] = value
    return found


def _shares(options: list[str], columns: Collection[str]) -> dict[str, dict[str, float] | None]:
    """The shares of `--balance` by value, or `None` for the same share of every category.

    >>> _shares(["sex"], ["sex"]), _shares(["a=F:0.3", "a=M:0.7"], ["a"])
    ({'sex': None}, {'a': {'F': 0.3, 'M': 0.7}})
    """
    found: dict[str, dict[str, float] | None] = {}
    for option in options:
        if option in columns:
            found[option] = None
            continue
        try:
            ((name, told),) = _conditions([option], columns).items()
            value, mark, share = told.rpartition(":")
            shares = found.setdefault(name, {})
            if not mark or shares is None or value in shares:
                raise ValueError
            shares[value] = float(share)
        except (ValueError, typer.BadParameter):
            raise typer.BadParameter(
                f"{option!r} is not of the form column=value:share; write one such as --balance sex=F:0.5, once for "
                "each value, or --balance sex"
            ) from None
    return found


def generators(ctx: typer.Context) -> int:
    """List the generators and their parameters."""
    from textwrap import wrap

    from synth.generators.registry import generator_class, names

    console = console_of(ctx)
    known = {name: generator_class(name) for name in names()}
    rows = [
        (
            name,
            "with epsilon" if chosen.private else "none",
            wrap(", ".join(f"{key}={_shown(field.default)}" for key, field in chosen.model_fields.items()), WIDTH),
        )
        for name, chosen in known.items()
    ]
    console.table(("generator", "guarantee", "parameters"), rows)
    console.result({"generators": {name: chosen.model_json_schema() for name, chosen in known.items()}})
    return 0


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return f"[{', '.join(_shown(part) for part in default)}]"
    return f"{default:.3g}" if isinstance(default, float) else str(default)


def impute(
    ctx: typer.Context,
    model: Annotated[Path, typer.Argument(help="A saved model.", show_default=False)],
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
    from synth.generators.models.known_rows import UNFILLED, with_missing
    from synth.generators.registry import load_model
    from synth.output import making
    from synth.table import read_table, write_table
    from synth.table.files import WRITTEN, check_suffix
    from understudy.data.source import file_state, find_table

    console = console_of(ctx)
    check_suffix(out, WRITTEN)
    loaded: Any = load_model(model)
    if not hasattr(loaded, "impute"):
        raise JobError(
            f"the model of generator={loaded.name!r} fills in no cells of histories or texts; fit one of rows"
        )
    rows_schema = with_missing(loaded.schema)
    state = {"model": file_state(model), "table": find_table(table).state}
    call = call_of("impute", seed=seed, clamp=clamp, force=force, **state)
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
