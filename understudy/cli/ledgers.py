"""`understudy ledger`: the total of a dataset, what was spent of it, and whether the books are whole."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import console_of
from understudy.console import DONE, FAILED

if TYPE_CHECKING:
    from synth.dp.ledger import Holding, Ledger, LedgerEntry

OPEN = "Example: understudy ledger open patients --epsilon 3 --n-units 50000 --unit patient_id --ledger ledger.db"
SHOW = "Example: understudy ledger show --ledger ledger.db"
RESERVE = 'Example: understudy ledger reserve patients --plan counts.toml --for "counts for the annual report"'
HISTORY = "Example: understudy ledger history patients --ledger postgresql://keeper@db.example/books"
VERIFY = "Example: understudy ledger verify --holds 3f6c... --ledger ledger.db"

Url = Annotated[
    str | None,
    typer.Option(
        "--ledger", envvar="UNDERSTUDY_LEDGER", help="A file, or postgresql://user@host/database.", show_default=False
    ),
]
Name = Annotated[str, typer.Argument(help="Declared name of the dataset.", show_default=False)]
MaybeName = Annotated[str | None, typer.Argument(help="Declared name of the dataset.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="The privacy budget of datasets: open a total, show it, reserve of it, read and verify the books.",
    )
    group.command("open", epilog=OPEN)(open_total)
    group.command("show", epilog=SHOW)(show)
    group.command("reserve", epilog=RESERVE)(reserve)
    group.command("history", epilog=HISTORY)(history)
    group.command("verify", epilog=VERIFY)(verify)
    app.add_typer(group, name="ledger", epilog=OPEN)


def open_total(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    epsilon: Annotated[float, typer.Option(help="The total, for all releases there will ever be.", show_default=False)],
    name: MaybeName = None,
    delta: Annotated[str, typer.Option(help='The total: a number, or "auto": min(1e-6, n_units^-1.2).')] = "auto",
    n_units: Annotated[int | None, typer.Option("--n-units", help="Number of units of privacy: public.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="row, or the column that names the unit.", show_default="row")
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="A declared schema to take name, unit and number from.")] = None,
    url: Url = None,
) -> int:
    """Promise a total for a dataset, for good.

    It is promised once and cannot be changed. Where there is no ledger, this makes one.
    """
    ledger, console = _ledger(url), console_of(ctx)
    declared = {} if schema is None else _declared(schema)
    given = {"dataset": name, "unit": unit, "n_units": n_units}
    chosen = {key: _agreed(key, value, declared.get(key)) for key, value in given.items()}
    held = ledger.open(
        _needed("dataset", chosen["dataset"], "write its NAME after `open`"),
        unit=chosen["unit"] or "row",
        epsilon=epsilon,
        delta=_number(delta),
        n_units=_needed("n_units", chosen["n_units"], "pass --n-units, on which delta depends"),
    )
    console.say(
        f"Total of {held.dataset} by {held.unit}: epsilon={held.epsilon:g} at delta={held.delta:.3g}, for all releases "
        "of all its versions and extracts together"
    )
    console.result(_holding(held))
    return DONE


def show(ctx: typer.Context, url: Url = None) -> int:
    """Show totals, what was spent of them by now and what is left.

    A card or a report says how a ledger stood after its run; this says how it stands now.
    """
    from evaluate.text import room, typed_loss
    from synth.dp.statement import IN_LEDGER

    console, holdings = console_of(ctx), _ledger(url).holdings()
    headings = ("dataset", "unit", "epsilon", "delta", "spent", "left", "releases")
    rows = [
        (
            *(held.dataset, held.unit, f"{held.epsilon:g}", f"{held.delta:.3g}"),
            *(typed_loss(held.spent_epsilon), room(held.left_epsilon), str(held.n_releases)),
        )
        for held in holdings
    ]
    console.table(headings, rows)
    console.say(f"Spent and left are as of now, after every reservation that was made, used or not. {IN_LEDGER}")
    console.result({"holdings": [_holding(held) for held in holdings]})
    return DONE


def reserve(
    ctx: typer.Context,
    name: Name,
    plan: Annotated[Path, typer.Option(help="The schedule of the release, as TOML.", show_default=False)],
    what: Annotated[str, typer.Option("--for", help="The release in words.", show_default=False)],
    unit: Annotated[str | None, typer.Option(help="Of privacy.", show_default="the one with a total")] = None,
    token: Annotated[
        str | None, typer.Option(help="Names it: asked twice, it counts once.", show_default="new")
    ] = None,
    url: Url = None,
) -> int:
    """Reserve for a release made elsewhere or later."""
    import secrets

    from evaluate.text import typed_loss
    from synth.dp.ledger import Request
    from synth.dp.schedule_file import read_schedule
    from synth.dp.statement import IN_LEDGER

    console, ledger = console_of(ctx), _ledger(url)
    schedule = read_schedule(plan)
    request = Request(
        token=token or secrets.token_hex(16),
        dataset=name,
        unit=unit or _only_unit(ledger, name),
        what=what,
        curve=schedule.curve,
        schedule_hash=schedule.digest,
    )
    (made,) = ledger.reserve([request])
    stands = ledger.note(made.token)
    console.say(f"Reserved for {made.what}: token {made.token}")
    console.say(
        f"epsilon={typed_loss(stands.epsilon)} in the ledger; {made.dataset} by {made.unit} has now spent "
        f"{typed_loss(stands.spent_epsilon)} of {stands.total_epsilon:g} at delta={stands.total_delta:.3g}. {IN_LEDGER}"
    )
    for warning in made.warnings:
        console.note(f"Warning: {warning}.")
    console.result({**stands.__dict__, "state": made.state, "warnings": list(made.warnings)})
    return DONE


def history(ctx: typer.Context, name: MaybeName = None, url: Url = None) -> int:
    """List the entries, as they are.

    Nothing is checked here: `understudy ledger verify` does that.
    """
    console, entries = console_of(ctx), _ledger(url).history(name)
    rows = [_row(entry) for entry in entries]
    console.table(("seq", "time (UTC)", "kind", "token", "of what"), rows)
    columns = ("time", "kind", "dataset", "unit", "token", "body", "previous", "hash")
    plain = [{"seq": entry.seq, **{key: str(getattr(entry, key)) for key in columns}} for entry in entries]
    console.result({"entries": plain})
    return DONE


def verify(
    ctx: typer.Context,
    holds: Annotated[
        str | None, typer.Option(help="Hash from a privacy statement; it must be among the entries.")
    ] = None,
    url: Url = None,
) -> int:
    """Check every entry: exit code 1 where one is damaged.

    What is gone from the end shows only by a hash kept elsewhere: pass the one of the newest statement to --holds.
    """
    console, found = console_of(ctx), _ledger(url).verify(holds)
    code = FAILED if found else DONE
    if found:
        console.table(
            ("seq", "damage"), [("-" if damage.seq is None else str(damage.seq), damage.what) for damage in found]
        )
    else:
        console.say("The ledger is whole." if holds is None else "The ledger is whole, and holds that entry.")
    console.result({"whole": not found, "damages": [damage.__dict__ for damage in found], "exit_code": code})
    return code


def _ledger(url: str | None) -> "Ledger":
    from synth.dp.ledger import open_ledger
    from synth.errors import LedgerError

    if url is None:
        raise LedgerError("no ledger is named; pass --ledger, or set UNDERSTUDY_LEDGER")
    return open_ledger(url)


def _declared(path: Path) -> dict[str, Any]:
    from synth.errors import LedgerError
    from synth.schema_file import read_schema

    schema = read_schema(path)
    if schema.status != "declared":
        raise LedgerError(
            f"a total needs a declared schema, and {str(path)!r} is inferred; `understudy schema declare` it"
        )
    return {"dataset": schema.dataset, "unit": schema.unit, "n_units": schema.n_units}


def _agreed(key: str, given: Any, declared: Any) -> Any:
    """The option or the declaration; refused where the two differ."""
    from synth.errors import LedgerError

    if given is not None and declared is not None and given != declared:
        raise LedgerError(f"{key}={given!r} contradicts the schema, which says {declared!r}; leave one of them out")
    return declared if given is None else given


def _needed(key: str, value: Any, remedy: str) -> Any:
    from synth.errors import LedgerError

    if value is None:
        raise LedgerError(f"a total needs its {key}; {remedy}, or --schema of a schema that declares it")
    return value


def _only_unit(ledger: "Ledger", name: str) -> str:
    from synth.dp.ledger.records import named
    from synth.errors import LedgerError

    units = [held.unit for held in ledger.holdings() if held.dataset == named(name, "dataset")]
    if len(units) > 1:
        raise LedgerError(f"dataset={name!r} has totals for unit={', '.join(map(repr, units))}; pass one as --unit")
    return units[0] if units else "row"


def _holding(held: "Holding") -> dict[str, Any]:
    keys = ("dataset", "unit", "epsilon", "delta", "n_units", "spent_epsilon", "left_epsilon", "n_releases")
    return {key: getattr(held, key) for key in keys}


def _row(entry: "LedgerEntry") -> tuple[str, ...]:
    said = _words(entry)
    of = f"{entry.dataset} by {entry.unit}" + (f": {said}" if said else "")
    cells = (str(entry.time)[:16].replace("T", " "), entry.kind, str(entry.token)[:8], of)
    return (str(entry.seq), *map(str, cells))  # a damaged one may hold anything


def _words(entry: "LedgerEntry") -> str:
    """An entry's body in words; a damaged one may say anything."""
    try:
        content = entry.content
    except (TypeError, ValueError, RecursionError):
        return "(cannot be read)"
    if "what" in content:
        return str(content["what"])
    said = content.get("note", content)
    return (
        ", ".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in said.items())
        if isinstance(said, dict)
        else "(cannot be read)"
    )


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
