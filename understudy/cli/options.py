"""Arguments and options that several commands share, those of signing among them."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from understudy.console import Console
from understudy.job import MAX_SEED

if TYPE_CHECKING:
    from evaluate.options import EvaluationOptions
    from synth.generators.base import Generator
    from synth.schema import Schema
    from understudy.bundle.signing import Signer


def opt(text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, **more)


def arg(text: str, **more: Any) -> Any:
    return typer.Argument(help=text, **more)


Table = Annotated[
    str,
    arg(
        "A file (.csv, .tsv, .jsonl, .parquet, .feather, .xlsx), a folder or a pattern, or postgresql://host/database#table."
    ),
]
TaskOption = Annotated[
    Literal["classification", "regression"] | None,
    opt("How models predict the target; left out: the schema's, or by its values."),
]
SchemaFile = Annotated[Path, opt("The table's schema.", "--schema")]
ExecutorOption = Annotated[
    str | None, opt("A scheduler, as tcp://host:8786, whose workers do it; left out: this machine.", "--executor")
]
DeltaOption = Annotated[str | None, opt('A number, or "auto": min(1e-6, n_units^-1.2).')]
ParameterOption = Annotated[list[str] | None, opt("A parameter; may be repeated.", "--set", metavar="KEY=VALUE")]
OutFile = Annotated[Path, opt("The file to write.", "--out")]
OutFolder = Annotated[Path, opt("The folder to make; it must be new.", "--out")]
ClampOption = Annotated[bool, opt("Clamp values outside the schema in place of refusing the table.", "--clamp")]
YesOption = Annotated[bool, opt("Ask nothing: spend a budget even on what is expected to FAIL.", "--yes")]
SeedOption = Annotated[int, opt("Of every draw but private noise.", "--seed", min=0, max=MAX_SEED)]
MeasureOption = Annotated[list[str] | None, opt("Only this measure; may be repeated.", "--measure")]
TimeLimitOption = Annotated[float | None, opt("Seconds for each measure.", "--time-limit-s", min=0.001)]
TargetOption = Annotated[str | None, opt("Column that models predict; none: the schema's.", "--target")]
TargetsOption = Annotated[
    str, opt("Rows of either side that attacks are tried on at most; all: every one.", "--targets")
]
ShowRowsOption = Annotated[bool, opt("Let the internal report show a few real rows.")]


def options_of(clamp: bool, measure: list[str] | None, rows: Mapping[str, Any], **settings: Any) -> "EvaluationOptions":
    """What two commands say of an evaluation; of rows, a number or a text that stands for all of them."""
    from evaluate.options import EvaluationOptions

    counts = {name: int(n) if str(n).isdecimal() else n for name, n in rows.items()}
    return EvaluationOptions.of(None, {**settings, **counts, "measures": measure or None, "outside": outside_of(clamp)})


def outside_of(clamp: bool) -> Literal["clamp", "refuse"]:
    return "clamp" if clamp else "refuse"


def console_of(ctx: typer.Context) -> Console:
    console: Console = ctx.obj
    return console


def scalar(text: str) -> Any:
    """The value of a `key=value` option, read as TOML where it is that, else as text.

    >>> scalar("3"), scalar("true"), scalar("auto")
    (3, True, 'auto')
    """
    from synth.validation import NotPlain, plain_toml

    try:
        return plain_toml(f"value = {text}")["value"]
    except NotPlain as fault:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise typer.BadParameter(f"the value {shown!r} cannot be used: {fault}; write another") from None
    except tomllib.TOMLDecodeError:
        return text


def parameters_of(options: list[str] | None, epsilon: float | None, delta: str | None) -> dict[str, Any]:
    """The parameters of a generator: those of `--set`, and its budget."""
    values: dict[str, Any] = {}
    for option in options or ():
        key, equals, value = option.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{option!r} is not of the form key=value; write one such as n_bins=64")
        if key in values:
            raise typer.BadParameter(f"{key!r} is set twice; keep one")
        values[key] = scalar(value)
    budget = {"epsilon": epsilon, "delta": None if delta is None else scalar(delta)}
    for name, amount in budget.items():
        if amount is not None and name in values:
            raise typer.BadParameter(f"{name!r} is set twice, by --{name} and by --set; keep one")
    return {**values, **{name: amount for name, amount in budget.items() if amount is not None}}


def reasons(generators: "Mapping[str, Generator]", schema: "Schema") -> list[str]:
    from synth.generators.auto import Auto

    return [
        f"{label or chosen.name}: {chosen.chosen(schema).name}: {chosen.reason(schema)}"
        for label, chosen in generators.items()
        if isinstance(chosen, Auto)
    ]


Key = Annotated[Path | None, opt("Private key that signs it.", envvar="UNDERSTUDY_SIGN_KEY")]
SignKey = Annotated[
    Path | None, opt("Private key that signs the manifest.", "--sign-key", envvar="UNDERSTUDY_SIGN_KEY")
]


def signer_of(key: Path | None, console: Console) -> "Signer | None":
    """The signer, checked before any work; `None` where no key is named."""
    if key is None:
        return None
    from understudy.bundle.signing import exposed, load_signer

    signer = load_signer(key)
    if (warning := exposed(key)) is not None:
        console.warn(warning)
    return signer
