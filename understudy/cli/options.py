"""Arguments and options that several commands share."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from understudy.console import Console
from understudy.real_table import LEAST_MEMORY_MB, MEMORY_MB, is_address
from understudy.seeds import MAX_SEED


def a_file(text: str) -> Path:
    """A table that is read whole.

    Raises:
        BadParameter: it is a folder, or the address of a database, which is not shown: it may hold a password.
    """
    if is_address(text) or Path(text).is_dir():
        what = "an address" if is_address(text) else "a folder"
        raise typer.BadParameter(f"only a file can be read here, and this is {what}; name a file of sampled rows")
    return Path(text)


Table = Annotated[Path, typer.Argument(parser=a_file, help="A .csv, .csv.gz or .parquet file.", show_default=False)]
StoredTable = Annotated[
    str,
    typer.Argument(
        help="A .csv, .csv.gz or .parquet file, a folder of such files, or postgresql://host/database#table.",
        show_default=False,
    ),
]
EngineOption = Annotated[
    Literal["memory", "stored"] | None,
    typer.Option(
        "--engine",
        help="memory reads a file whole; stored reads it where it is, as folders and databases always are.",
        show_default="memory for a file",
    ),
]
TaskOption = Annotated[
    Literal["classification", "regression"] | None,
    typer.Option(help="How models predict the target; left out: the schema's, or by its kind and number of values."),
]
MemoryOption = Annotated[
    int | None,
    typer.Option(
        "--memory-mb",
        min=LEAST_MEMORY_MB,
        help="What the embedded engine of stored files may take.",
        show_default=str(MEMORY_MB),
    ),
]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="Of the embedded engine.", show_default="all cores")
]
SchemaFile = Annotated[Path, typer.Option("--schema", help="The table's schema.", show_default=False)]
OutFile = Annotated[Path, typer.Option("--out", help="The file to write.", show_default=False)]
OutFolder = Annotated[Path, typer.Option("--out", help="The folder to make; it must be new.", show_default=False)]
ClampOption = Annotated[
    bool, typer.Option("--clamp", help="Clamp values outside the schema in place of refusing the table.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED, help="Of every draw but private noise.")]


def outside_of(clamp: bool) -> Literal["clamp", "refuse"]:
    """The treatment of real values outside the schema."""
    return "clamp" if clamp else "refuse"


def console_of(ctx: typer.Context) -> Console:
    """Where a command prints."""
    console: Console = ctx.obj
    return console


def scalar(text: str) -> Any:
    """The value of a `key=value` option, read as TOML where it is that, else as text.

    Raises:
        BadParameter: it is a number that is too large, or is nested too deep.

    >>> scalar("3"), scalar("true"), scalar("auto")
    (3, True, 'auto')
    """
    from synth.parsing import NotPlain, plain_toml

    try:
        return plain_toml(f"value = {text}")["value"]
    except NotPlain as fault:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise typer.BadParameter(f"the value {shown!r} cannot be used: {fault}; write another") from None
    except tomllib.TOMLDecodeError:
        return text


def pairs(options: list[str]) -> dict[str, Any]:
    """The `key=value` options by key.

    Raises:
        BadParameter: one is not of that form, or a key repeats.
    """
    found: dict[str, Any] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{option!r} is not of the form key=value; write one such as n_bins=64")
        if key in found:
            raise typer.BadParameter(f"{key!r} is set twice; keep one")
        found[key] = scalar(value)
    return found


def parameters_of(options: list[str], epsilon: float | None, delta: str | None) -> dict[str, Any]:
    """The parameters of a generator: the `key=value` options, and the claim where one is named.

    Raises:
        BadParameter: an option is not of that form, or sets what is set already.
    """
    given = {"epsilon": epsilon, "delta": None if delta is None else scalar(delta)}
    claim, found = {key: value for key, value in given.items() if value is not None}, pairs(options)
    for key in claim:
        if key in found:
            raise typer.BadParameter(f"{key!r} is set twice, by --{key} and by --set; keep one")
    return {**found, **claim}


def call_of(command: str, **asked: Any) -> dict[str, Any]:
    """What a command is asked for and what it reads: what tells its output from that of another call."""
    from importlib import metadata

    return {"command": command, "version": metadata.version("understudy"), **asked}
