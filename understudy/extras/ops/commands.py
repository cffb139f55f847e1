"""`understudy index`: one page over many outputs."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.bundles import PublicKeys, Register, SignOffKeys, demand_of
from understudy.cli.options import arg, console_of, opt


def add_to(app: typer.Typer) -> None:
    app.command("index", epilog="Example: understudy index out")(index)


def index(
    ctx: typer.Context,
    folder: Annotated[Path, arg("A folder that holds outputs, at any depth.")],
    out: Annotated[
        Path | None, opt("The page; an older index there is replaced.", show_default="index.html in the folder")
    ] = None,
    public_key: PublicKeys = None,
    sign_off_key: SignOffKeys = None,
    register: Register = None,
) -> int:
    """One page over many outputs: recorded verdicts, epsilon and key figures of every table, with links.

    Outputs of `run`, `batch`, `try` and `compare`, sweeps and bundles. A verdict is shown only where every file of its
    output is as it was sealed. The page is internal.
    """
    from understudy.extras.ops.index import EXPIRED, NOT_SOUND, WITHDRAWN, counted, make_page

    console = console_of(ctx)
    page = folder / "index.html" if out is None else out
    demand = demand_of(public_key, None, register)
    if sign_off_key:
        demand = replace(demand, sign_off_keys=demand_of(sign_off_key, None, None).keys)
    with console.stage("index") as progress:
        rows = make_page(folder, page, demand, progress)
    broken = [row for row in rows if row["state"] in (NOT_SOUND, WITHDRAWN, EXPIRED)]
    for sentence in dict.fromkeys(f"{row['output']}: {row['state']}: {row['reason']}" for row in broken):
        console.warn(sentence)
    tables, outputs = sum(bool(row["table"]) for row in rows), len({row["output"] for row in rows})
    states = counted(rows)
    told = ", ".join(f"{state} {n}" for state, n in states.items() if n)
    console.say(f"Index: {page} ({tables} tables of {outputs} outputs: {told})")
    console.result({"index": str(page), "outputs": outputs, "tables": tables, "states": states})
    return 0
