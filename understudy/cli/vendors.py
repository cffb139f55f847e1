"""`understudy compare`: the tables of several vendors, on the same terms."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import (
    ClampOption,
    MeasureOption,
    OutFolder,
    SchemaFile,
    SeedOption,
    ShowRowsOption,
    SignKey,
    TargetOption,
    TargetsOption,
    TaskOption,
    TimeLimitOption,
    arg,
    console_of,
    opt,
    options_of,
    signer_of,
)

COMPARE = (
    "Example: understudy compare acme.csv beta.parquet --real parts/train.csv --holdout parts/holdout.csv "
    "--schema patients.schema.toml --claims claims.toml --out out/comparison"
)


def add_to(app: typer.Typer) -> None:
    app.command("compare", epilog=COMPARE)(compare)


def a_delivery(text: str) -> Path:
    """A vendor's file or folder: what is wrong with it is that vendor's fault, and stops no other."""
    from understudy.data import is_address  # its libraries are slow to import

    if is_address(text):
        raise typer.BadParameter("a vendor delivers files, and this is an address; name a file or a folder")
    return Path(text)


def compare(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    tables: Annotated[list[Path], arg("The vendors' files.", parser=a_delivery)],
    real: Annotated[str, opt("Real rows that every vendor was given: file, folder or address.")],
    holdout: Annotated[str, opt("Real rows that none was given.")],
    schema: SchemaFile,
    out: OutFolder,
    policy: Annotated[str, opt("A shipped policy's name, or a TOML file.")] = "internal",
    labels: Annotated[str | None, opt("Names of the vendors, separated by commas; none: their files' names.")] = None,
    claims: Annotated[Path | None, opt("A TOML file of what vendors claim; shown as unverified.")] = None,
    seed: SeedOption = 0,
    rows: Annotated[int | None, opt("Rows of each table; none: as many as the smallest has, or train.", min=1)] = None,
    measure: MeasureOption = None,
    time_limit_s: TimeLimitOption = None,
    target: TargetOption = None,
    task: TaskOption = None,
    targets: TargetsOption = "8000",
    show_rows: ShowRowsOption = True,
    clamp: ClampOption = False,
    sign_key: SignKey = None,
) -> int:
    """Compare vendors' tables on the same terms: bar those that break a rule, rank the others in groups.

    Exit code: 0 every table was evaluated and one at least is ranked, 1 every table is disqualified, 2 bad input, 3
    anything else: a table could not be evaluated or lacks columns, or none is left to rank.
    """
    from synth.output import check_new_folder
    from understudy.vendors.comparison import compare as compared
    from understudy.vendors.comparison import deliver_comparison, exit_code, sentences
    from understudy.vendors.submission import Asked

    console = console_of(ctx)
    check_new_folder(out)
    signer = signer_of(sign_key, console)
    names = None if labels is None else tuple(label.strip() for label in labels.split(","))
    options = options_of(
        clamp, measure, {"targets": targets}, seed=seed, time_limit_s=time_limit_s, target=target, task=task,
        show_rows=show_rows,
    )  # fmt: skip
    asked = Asked(real, holdout, schema, tuple(tables), policy, names, claims, rows, options)
    with console.stage("compare") as progress:
        comparison = compared(asked, progress)
    with console.stage("report"):
        deliver_comparison(comparison, seed, out, signer)
    code, said, ranking = exit_code(comparison), sentences(comparison), comparison.ranking
    for sentence in said:
        console.warn(sentence)
    order = ranking.order.order
    console.table(("place", "vendor", "group"), [(str(ranked.place), ranked.name, ranked.letters) for ranked in order])
    if len(order) > 1:
        console.say("Vendors that share a letter cannot be told apart.")
    for vendor in ranking.vendors:
        if vendor.standing != "ranked":
            console.say(f"{vendor.name}: {vendor.standing}: {vendor.reason}")
    console.say(f"Comparison: {out}")
    console.result({
        "comparison": str(out), "exit_code": code, "order": [asdict(ranked) for ranked in order],
        "terms": asdict(ranking.terms), "vendors": [asdict(vendor) for vendor in ranking.vendors],
        "warnings": list(said),
    })  # fmt: skip
    return code
