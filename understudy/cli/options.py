"""Arguments and options that several commands share, those of signing among them.

`offer_of` and `bundle_signer` make ready for the bundle of a table from elsewhere.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from understudy.console import Console
from understudy.job.seeds import MAX_SEED

if TYPE_CHECKING:
    from evaluate.options import EvaluationOptions
    from evaluate.result import Evaluation
    from synth.parsing import GivenFile
    from understudy.bundle.external import ExternalTable
    from understudy.bundle.keys import Signer


Table = Annotated[
    str,
    typer.Argument(
        help="A file (.csv, .tsv, .jsonl, .parquet, .feather, .xlsx), a folder or a pattern of files, or an address "
        "like postgresql://host/database#table.",
        show_default=False,
    ),
]
TaskOption = Annotated[
    Literal["classification", "regression"] | None,
    typer.Option(help="How models predict the target; left out: the schema's, or by its kind and number of values."),
]
SchemaFile = Annotated[Path, typer.Option("--schema", help="The table's schema.", show_default=False)]
ExecutorOption = Annotated[
    str | None,
    typer.Option(
        "--executor",
        help="A scheduler, as tcp://host:8786, whose workers do it; left out: processes of this machine.",
        show_default=False,
    ),
]
OutFile = Annotated[Path, typer.Option("--out", help="The file to write.", show_default=False)]
OutFolder = Annotated[Path, typer.Option("--out", help="The folder to make; it must be new.", show_default=False)]
ClampOption = Annotated[
    bool, typer.Option("--clamp", help="Clamp values outside the schema in place of refusing the table.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED, help="Of every draw but private noise.")]
MeasureOption = Annotated[list[str] | None, typer.Option("--measure", help="Only this measure; may be repeated.")]
TimeLimitOption = Annotated[float | None, typer.Option("--time-limit-s", min=0.001, help="Seconds for each measure.")]
TargetOption = Annotated[str | None, typer.Option("--target", help="Column that models predict; none: the schema's.")]
TargetsOption = Annotated[
    str, typer.Option("--targets", help="Rows of either side that attacks are tried on at most; all: every one.")
]


def options_of(clamp: bool, measure: list[str] | None, rows: Mapping[str, Any], **said: Any) -> "EvaluationOptions":
    """What two commands say of an evaluation; of rows, a number or a text that stands for all of them."""
    from evaluate.options import EvaluationOptions

    counts = {name: int(n) if str(n).isdecimal() else n for name, n in rows.items()}
    return EvaluationOptions.of(None, {**said, **counts, "measures": measure or None, "outside": outside_of(clamp)})


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
    from synth.parsing import NotPlain, plain_toml

    try:
        return plain_toml(f"value = {text}")["value"]
    except NotPlain as fault:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise typer.BadParameter(f"the value {shown!r} cannot be used: {fault}; write another") from None
    except tomllib.TOMLDecodeError:
        return text


def pairs(options: list[str]) -> dict[str, Any]:
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
    given = {"epsilon": epsilon, "delta": None if delta is None else scalar(delta)}
    claim, found = {key: value for key, value in given.items() if value is not None}, pairs(options)
    for key in claim:
        if key in found:
            raise typer.BadParameter(f"{key!r} is set twice, by --{key} and by --set; keep one")
    return {**found, **claim}


def call_of(command: str, **asked: Any) -> dict[str, Any]:
    """The arguments and inputs of a command, which tell its output from that of another call."""
    from synth.distribution import VERSION

    return {"command": command, "version": VERSION, **asked}


Key = Annotated[
    Path | None,
    typer.Option(envvar="UNDERSTUDY_SIGN_KEY", help="Private key that signs it.", show_default=False),
]
SignKey = Annotated[
    Path | None,
    typer.Option(
        "--sign-key", envvar="UNDERSTUDY_SIGN_KEY", help="Private key that signs the manifest.", show_default=False
    ),
]


def signer_of(key: Path | None, console: "Console") -> "Signer | None":
    """The signer, checked before any work; `None` where no key is named."""
    if key is None:
        return None
    from understudy.bundle.keys import exposed, load_signer

    signer = load_signer(key)
    if (warning := exposed(key)) is not None:
        console.warn(warning)
    return signer


def bundle_signer(
    bundle: Path | None,
    synthetic: Path | None,
    inputs: Sequence[Path | None],
    key: Path | None,
    console: "Console",
) -> "Signer | None":
    """The signer of the bundle of an offered table, once everything that it takes is named."""
    from synth.errors import JobError
    from synth.output import check_new_folder

    if (bundle is None) != (synthetic is None):
        raise JobError("a bundle is made of the evaluated table; name both --bundle and --synthetic")
    if bundle is None:
        if any(path is not None for path in inputs):
            raise JobError("a schema and a job go into a bundle, and none is to be made; name --bundle and --synthetic")
        return None
    check_new_folder(bundle)
    return signer_of(key, console)


def offer_of(
    evaluation: "Evaluation",
    synthetic: Path,
    candidate: str | None,
    inputs: Mapping[str, Path | None],
    judged_by: "Mapping[str, GivenFile]",
) -> "ExternalTable":
    """An offered table for a bundle, once it is certain that it is the evaluated one."""
    from synth.parsing import read_given
    from understudy.bundle.external import offered
    from understudy.bundle.files import BundleError

    named = {name: read_given(path, name, BundleError) for name, path in inputs.items() if path is not None}
    return offered(evaluation, synthetic, candidate, named, judged_by)
