"""`understudy split`, `fit`, `sample`, `impute`, `generators`: the steps of a job, one at a time, and saved models."""

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.options import (
    ClampOption,
    DeltaOption,
    OutFile,
    OutFolder,
    ParameterOption,
    SchemaFile,
    SeedOption,
    Table,
    YesOption,
    arg,
    console_of,
    opt,
    outside_of,
    parameters_of,
    reasons,
)
from understudy.console import Console
from understudy.job import MAX_SEED

SPLIT = "Example: understudy split patients.csv --schema patients.schema.toml --out parts"
FIT = (
    "Example: understudy fit parts/train.csv --schema patients.schema.toml --generator mst --epsilon 1 "
    "--set n_bins=64 --out model"
)
SAMPLE = (
    "Example: understudy sample model --rows 10000 --seed 7 --given sex=Female --given age=37 --balance income "
    "--out synthetic.csv"
)

GENERATORS = "Example: understudy generators --for patients.schema.toml --epsilon 1"
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
    app.command("generators", epilog=GENERATORS)(generators)
    app.command("impute", epilog=IMPUTE)(impute)


def split(
    ctx: typer.Context,
    table: Table,
    schema: SchemaFile,
    out: OutFolder,
    holdout_share: Annotated[float, opt("Share of units that no generator may see.")] = 0.2,
    seed: SeedOption = 0,
    stratified: Annotated[
        bool, opt("Stratify on the target; only where no private fit will follow.", "--stratified")
    ] = False,
    clamp: ClampOption = False,
) -> int:
    """Split a table into train and holdout, whole entities on one side, by hashes of names."""
    from synth.output import check_new_folder
    from synth.schema_file import read_schema
    from understudy.data import find_table, split_into

    console = console_of(ctx)
    check_new_folder(out)
    source, known = find_table(table), read_schema(schema)
    with console.stage("split"):
        sides = split_into(
            out, source, known, outside_of(clamp), private=not stratified, holdout_share=holdout_share, seed=seed
        )
    told = {side.stem: str(side) for side in sides}
    console.say(f"Train and holdout: {told['train']}, {told['holdout']}")
    console.result(told)
    return 0


def fit(
    ctx: typer.Context,
    table: Table,
    schema: SchemaFile,
    name: Annotated[str, opt("See `understudy generators`.", "--generator")],
    out: OutFolder,
    epsilon: Annotated[float | None, opt("Privacy budget; unless set, no formal guarantee.")] = None,
    delta: DeltaOption = None,
    seed: SeedOption = 0,
    parameters: ParameterOption = None,
    clamp: ClampOption = False,
    ledger: Annotated[
        str | None, opt("A path or URL of the ledger that pays; unless set, that of UNDERSTUDY_LEDGER.")
    ] = None,
    executor: Annotated[
        str | None,
        opt(
            "Who counts the parts of the table: processes, or a Dask cluster (tcp://host:8786). For independent, mst, "
            "aim, latent_class with epsilon.",
            "--executor",
        ),
    ] = None,
    training: Annotated[
        Path | None,
        opt(
            "A folder for the log and, without epsilon, unfinished work, with which the same command goes on. For "
            "ctgan, tvae and texts."
        ),
    ] = None,
    yes: YesOption = False,
) -> int:
    """Fit a generator on a table and save its model. The table should be a training part (`understudy split`).

    Asks before it spends a budget on what is expected to FAIL the policy `internal`, and refuses where nobody answers.
    """
    from reports.sections.limitations import left_out
    from synth.dp.statement import guarantee_words
    from synth.generators.base import compose
    from synth.generators.registry import generator
    from synth.schema_file import read_schema
    from understudy.budget import release_line, releases
    from understudy.cli.jobs import ask_to_spend
    from understudy.data import find_table
    from understudy.run.run import carry_out, plan_fit

    console = console_of(ctx)
    asked, source = generator(name, **parameters_of(parameters, epsilon, delta)), find_table(table)
    known = read_schema(schema)
    planned = plan_fit(
        compose(asked, known), source, known, out, outside=outside_of(clamp), ledger=ledger, training=training,
        executor=executor,
    )  # fmt: skip
    console.warn(*planned.warnings)
    console.say(*reasons({"": asked}, known))
    ask_to_spend(planned.in_vain, yes=yes)
    with console.stage(f"fit {planned.generator.name}") as progress:
        model, of_ledger = carry_out(planned, seed, progress, console.warn)
    console.warn(*of_ledger)
    console.say(*left_out(known))
    statement = model.statement
    noted = releases({planned.generator.name: statement})
    console.say(f"Guarantee: {guarantee_words(statement)}")
    if noted is not None:
        console.say(release_line(noted))
    console.say(f"Model: {out}")
    console.result({
        "model": str(out), "generator": planned.generator.name,
        "statement": None if statement is None else statement.to_dict(),
        "ledger": None if noted is None else asdict(noted), "warnings": [*planned.warnings, *of_ledger],
    })  # fmt: skip
    return 0


def sample(
    ctx: typer.Context,
    model: Annotated[Path, arg("A saved model.")],
    out: Annotated[
        Path,
        opt("The file to write; without a suffix, a folder of Parquet files, which holds any number of rows.", "--out"),
    ],
    rows: Annotated[int | None, opt("How many; unless set, the model's own default.", min=1)] = None,
    seed: Annotated[int | None, opt("Same seed, same table; unless set, a fresh one.", min=0, max=MAX_SEED)] = None,
    given: Annotated[
        list[str] | None,
        opt("What every row holds in a column (nothing: missing); may be repeated.", "--given", metavar="COLUMN=VALUE"),
    ] = None,
    balance: Annotated[
        list[str] | None,
        opt(
            "A column of which all categories are as frequent, or, for each value, its share.",
            "--balance",
            metavar="COLUMN[=VALUE:SHARE]",
        ),
    ] = None,
    rows_a_file: Annotated[
        int | None, opt("Rows of each file in a folder, at most; unless set, a million.", min=1)
    ] = None,
    force: Annotated[bool, opt("Replace the file, or the folder of files.", "--force")] = False,
) -> int:
    """Sample a synthetic table from a saved model; free of any budget, as often as wanted."""
    from synth.generators.models.constraints import REJECTED, rejections
    from synth.generators.models.given import GIVEN
    from synth.generators.models.postprocess import ROWS_A_FILE, write_rows
    from synth.generators.registry import load_model
    from synth.output import check_new_file, whole_file
    from synth.table import check_names, write_table
    from synth.table.files import WRITTEN, check_suffix

    console = console_of(ctx)
    in_files = out.suffix == ""
    if not in_files:
        if rows_a_file is not None:
            raise typer.BadParameter(
                f"--rows-a-file is for a folder: --out {str(out)!r} is a file; take its suffix off"
            )
        check_suffix(out, WRITTEN)
        check_new_file(out, force=force)
    loaded = load_model(model)
    asked: dict[str, Any] = {
        "seed": seed, "given": _conditions(given or [], loaded.schema.columns),
        "balance": _shares(balance or [], loaded.schema.columns),
    }  # fmt: skip
    told: dict[str, Any] = {"synthetic": str(out), "generator": loaded.name}
    with console.stage(f"sample {loaded.name}") as progress:
        if in_files:
            written = write_rows(
                loaded, out, rows, **asked, rows_a_file=rows_a_file or ROWS_A_FILE, force=force, progress=progress
            )
            told |= {"rows": written.n_rows, "rejected": written.n_rejected, "given": written.given}
            told |= {"files": written.n_files, "seed": written.seed}
        else:
            check_names(loaded.schema.kept, out)
            synthetic = loaded.sample(rows, **asked, progress=progress)
            told |= {"rows": len(synthetic), "rejected": synthetic.attrs.get(REJECTED)}
            told |= {"given": synthetic.attrs.get(GIVEN)}
            with whole_file(out) as beside:
                write_table(synthetic, beside, loaded.schema)
    n_files = told.get("files")
    console.say(f"Synthetic table: {out}" + ("" if n_files is None else f" ({n_files} file{'s' * (n_files > 1)})"))
    if told["given"] is not None:
        console.say(f"Conditions: {CONDITIONED[told['given']]}")
    if told["rejected"] is not None:
        console.say(f"Constraints: {rejections(told['rejected'])}")
    console.result(told)
    return 0


def _conditions(options: list[str], columns: Collection[str]) -> dict[str, str]:
    """The conditions of `--given` by column; a column's name may hold an equals sign itself.

    >>> _conditions(["sex=F", "a=b=3", "job="], ["sex", "a=b", "job"])
    {'sex': 'F', 'a=b': '3', 'job': ''}
    """
    conditions: dict[str, str] = {}
    for option in options:
        splits = [(option[:i], option[i + 1 :]) for i, character in enumerate(option) if character == "="]
        if not splits or not splits[0][0]:
            raise typer.BadParameter(f"{option!r} is not of the form column=value; write one such as --given age=37")
        name, value = next((split for split in splits if split[0] in columns), splits[0])
        if name in conditions:
            raise typer.BadParameter(f"{name!r} is given twice; keep one")
        conditions[name] = value
    return conditions


def _shares(options: list[str], columns: Collection[str]) -> dict[str, dict[str, float] | None]:
    """The shares of `--balance` by value, or `None` for the same share of every category.

    >>> _shares(["sex"], ["sex"]), _shares(["a=F:0.3", "a=M:0.7"], ["a"])
    ({'sex': None}, {'a': {'F': 0.3, 'M': 0.7}})
    """
    balance: dict[str, dict[str, float] | None] = {}
    for option in options:
        if option in columns:
            balance[option] = None
            continue
        try:
            ((name, told),) = _conditions([option], columns).items()
            value, mark, share = told.rpartition(":")
            shares = balance.setdefault(name, {})
            if not mark or shares is None or value in shares:
                raise ValueError
            shares[value] = float(share)
        except (ValueError, typer.BadParameter):
            raise typer.BadParameter(
                f"{option!r} is not of the form column=value:share; write one such as --balance sex=F:0.5, once for "
                "each value, or --balance sex"
            ) from None
    return balance


def generators(
    ctx: typer.Context,
    schema: Annotated[Path | None, opt("A schema: which one suits it, why, and what noise to expect.", "--for")] = None,
    epsilon: Annotated[float | None, opt("Of one fit under that schema.")] = None,
    delta: DeltaOption = None,
) -> int:
    """List the generators and their parameters; for a schema, say which suits it. No row is read, so asking is free."""
    from textwrap import wrap

    from synth.errors import JobError
    from synth.generators.registry import generator_class, names

    console = console_of(ctx)
    if schema is not None:
        return _suited(console, schema, parameters_of(None, epsilon, delta))
    if epsilon is not None or delta is not None:
        raise JobError("a budget is of a fit under a schema; name that by --for")
    known = {name: generator_class(name) for name in names()}
    classes = {name: tuple(dict.fromkeys((chosen, chosen.with_epsilon()))) for name, chosen in known.items()}
    rows = [
        (
            name,
            "with epsilon" if "epsilon" in chosen.model_fields else "none",
            wrap(", ".join(f"{key}={_shown(field.default)}" for key, field in chosen.model_fields.items()), WIDTH),
        )
        for name, of_name in classes.items()
        for chosen in of_name
    ]
    console.table(("generator", "guarantee", "parameters"), rows)
    schemas = {name: [chosen.model_json_schema() for chosen in of_name] for name, of_name in classes.items()}
    console.result({"generators": {name: s[0] if len(s) == 1 else {"anyOf": s} for name, s in schemas.items()}})
    return 0


def _suited(console: Console, path: Path, budget: dict[str, Any]) -> int:
    """What `auto` fits under a schema and why, beside the noise of each generator on marginals."""
    from typing import get_args

    from synth.generators.auto import Auto
    from synth.generators.outlook import Planned, doubt, outlook
    from synth.schema_file import read_schema
    from understudy.run.preflight import beyond_shipped

    schema, auto = read_schema(path), Auto(**budget)
    auto.check(schema)
    chosen = auto.chosen(schema)
    outlooks = [each for kind in get_args(Planned) if (each := outlook(kind(**budget), schema)) is not None]
    why, by_name = doubt(auto, schema, auto.schedule(schema)), {each.generator: each for each in outlooks}
    if outlooks:
        console.say("Expected total variation from noise alone; what a model leaves out comes on top of it.")
        rows = [
            (
                f"{forecast.generator}{' *' * (forecast.generator == chosen.name)}", f"{forecast.column:.2g}",
                *("-" if noise is None else f"{noise:.2g}" for noise in (forecast.tree, forecast.pair)),
                str(forecast.n_marginals),
            )
            for forecast in outlooks
        ]  # fmt: skip
        console.table(("generator", "column", "tree", "pair", "marginals"), rows)
        console.say("tree: a pair of the tree with the fewest cells; pair: a typical one.")
    if expected := by_name.get(chosen.name):
        console.say(f"Of {chosen.name}, by column; lost: the chance that what is measured loses a tenth of the values.")
        columns = sorted(expected.columns.items(), key=lambda column: -column[1])
        lost = {name: f"{chance:.2g}" for name, chance in expected.lost.items()}
        cells = ((name, f"{x:.2g}", lost.get(name, "-"), ", ".join(beyond_shipped(x)) or "-") for name, x in columns)
        console.table(("column", "rows in the wrong place", "lost", "more than these policies allow"), [*cells])
    console.say(*reasons({"": auto}, schema))
    console.warn(*auto.cautions(schema), *([] if why is None else [f"{chosen.name}: {why}"]))
    console.result({
        "chosen": chosen.name, "reason": auto.reason(schema), "epsilon": auto.epsilon, "delta": auto.delta,
        "in_vain": why, "outlooks": [forecast.to_dict() for forecast in outlooks],
    })  # fmt: skip
    return 0


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return f"[{', '.join(_shown(part) for part in default)}]"
    return f"{default:.3g}" if isinstance(default, float) else str(default)


def impute(
    ctx: typer.Context,
    model: Annotated[Path, arg("A saved model.")],
    table: Table,
    out: OutFile,
    seed: Annotated[int | None, opt("Same seed, same cells; unless set, fresh ones.", min=0, max=MAX_SEED)] = None,
    clamp: ClampOption = False,
    force: Annotated[bool, opt("Replace the file.", "--force")] = False,
) -> int:
    """Fill in missing cells of a table, each drawn given the cells of its row. What comes out is as sensitive."""
    from synth.errors import JobError
    from synth.generators.models.given import UNFILLED, with_missing
    from synth.generators.registry import load_model
    from synth.output import check_new_file, whole_file
    from synth.table import read_table, write_table
    from synth.table.files import WRITTEN, check_suffix

    console = console_of(ctx)
    check_suffix(out, WRITTEN)
    check_new_file(out, force=force)
    loaded: Any = load_model(model)
    if not hasattr(loaded, "impute"):
        raise JobError(
            f"the model of generator={loaded.name!r} fills in no cells of histories or texts; fit one of rows"
        )
    schema = with_missing(loaded.schema)
    with console.stage(f"impute {loaded.name}"):
        rows = read_table(table, schema, outside=outside_of(clamp))
        filled = loaded.impute(rows, seed=seed)
        with whole_file(out) as beside:
            write_table(filled, beside, schema)
    n_missing = int(rows[list(loaded.schema.learned)].isna().to_numpy().sum())
    n_unfilled = filled.attrs[UNFILLED]
    console.say(f"Imputed table: {out}, {n_missing:,} cells were missing")
    if n_unfilled:
        console.say(f"Constraints: {n_unfilled:,} rows keep missing cells, since no draw kept the constraints")
    console.say("It holds the real rows: no guarantee covers it, and it is no synthetic table")
    told = {"rows": len(filled), "missing": n_missing, "unfilled": n_unfilled}
    console.result({"imputed": str(out), "generator": loaded.name, **told})
    return 0
