"""The command line. Libraries are imported inside commands, so that help answers at once.

Exit codes: 0 done or PASS, 1 FAIL, 2 bad input, 3 INCONCLUSIVE, 4 internal error, 130 interrupted.
"""

import importlib.util
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
import typer.core
from typer.core import TyperGroup

from synth import extras
from synth.errors import BadInput, MissingExtra, TableNote
from understudy.cli import bundles, evidence, jobs, ledgers, models, schemas
from understudy.console import (
    BAD_INPUT,
    CLOSED_PIPE,
    DONE,
    FAILED,
    INTERNAL_ERROR,
    INTERRUPTED,
    TERMINATED,
    Console,
    show_table_note,
)

typer.core.HAS_RICH = False  # help is plain text, in which typer before 0.21 escapes brackets as if it were not
_FLAGS = {"--quiet": "quiet", "-q": "quiet", "--json": "json", "--debug": "debug"}
_UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""The class of all errors in the use of the command line, wherever this version of Typer keeps it."""

MARKER = '__distribution__ = "understudy-tables"'
"""A line of our `evaluate/__init__.py` that no other package of that name has."""
ROOT_HELP = """A real table goes in; a synthetic table comes out, with the evidence for deciding on its release.

Anywhere on the line: --quiet says nothing but errors, --json prints one JSON object on standard output (all else goes
to standard error), --debug shows the traceback of an internal error, which may hold values of the table.

Exit codes: 0 done or PASS, 1 FAIL, 2 bad input, 3 INCONCLUSIVE, 4 internal error."""


class Root(TyperGroup):
    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        flags, rest = hoisted(sys.argv[1:] if args is None else args)
        console = Console(**flags)
        try:
            code = super().main(rest, prog_name or "understudy", standalone_mode=False, obj=console, **extra)
        except _UsageError as error:
            code = self._misused(error, console)
        except typer.Abort:
            code = INTERRUPTED
        except OSError as error:  # of help and version, which the library of the command line prints
            console.lose("stdout", error)
            code = DONE
        except SystemExit as ended:
            if ended.code != FAILED:
                raise
            code = CLOSED_PIPE  # so that library ends on a closed pipe, and here 1 is a verdict
        try:
            code = console.ending(code if isinstance(code, int) else DONE)
        except BrokenPipeError:
            code = CLOSED_PIPE
        sys.exit(code)

    def invoke(self, ctx: Any) -> Any:
        console: Console = ctx.obj
        try:
            refuse_another_evaluate()
            return super().invoke(ctx)
        except (_UsageError, typer.Exit, typer.Abort):
            raise
        except (BadInput, MissingExtra) as error:
            return console.error(_told(str(error).rstrip("."), error), BAD_INPUT)
        except (KeyboardInterrupt, SystemExit) as error:
            code = getattr(error, "code", INTERRUPTED)
            if code == FAILED:
                raise
            # Never the exit code of a verdict, whatever a package asks for.
            unasked = ("internal error (SystemExit)", INTERNAL_ERROR)
            words, code = {INTERRUPTED: ("interrupted", code), TERMINATED: ("terminated", code)}.get(code, unasked)
            return console.error(_told(words, error), code)
        except BrokenPipeError:  # what reads our output has gone
            return CLOSED_PIPE
        except Exception as error:  # noqa: BLE001 - the outermost place: it must not be taken for a verdict
            return _broke(error, console)

    @staticmethod
    def _misused(error: Any, console: Console) -> int:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())
            return BAD_INPUT
        where = f" (see `{error.ctx.command_path} --help`)" if getattr(error, "ctx", None) is not None else ""
        from synth.validation import without_addresses

        message = without_addresses(error.format_message()).rstrip(".")
        return console.error(f"{message[:1].lower()}{message[1:]}{where}", BAD_INPUT)


def hoisted(args: Sequence[str]) -> tuple[dict[str, bool], list[str]]:
    """The options that stand anywhere, and the arguments without them.

    >>> hoisted(["gate", "e.json", "--json"])
    ({'json': True}, ['gate', 'e.json'])
    """
    end = list(args).index("--") if "--" in args else len(args)
    flags = {_FLAGS[word]: True for word in args[:end] if word in _FLAGS}
    return flags, [word for word in args[:end] if word not in _FLAGS] + list(args[end:])


def refuse_another_evaluate() -> None:
    """Refuse to work with a package `evaluate` that is not ours: Hugging Face's has the same import name."""
    spec = importlib.util.find_spec("evaluate")
    source = None if spec is None or spec.origin is None else Path(spec.origin)
    if source is None or not source.is_file() or MARKER not in source.read_text(encoding="utf-8", errors="replace"):
        raise MissingExtra(
            "the package `evaluate` that Python finds is not understudy's: another one, such as Hugging Face's, was "
            "installed over it; run `pip uninstall evaluate`, then install this project again from its checkout"
        )


def _told(what: str, error: BaseException, *more: str) -> str:
    """An error, with its notes on what the work has left."""
    return "; ".join((what, *getattr(error, "__notes__", ()), *more))


def _broke(error: Exception, console: Console) -> int:
    """An internal error: its kind, never its message, which may quote a value of the table."""
    if console.debug:
        console.trace("".join(traceback.format_exception(error)))
    if isinstance(error, OSError) and error.strerror is not None:
        name = f" {error.filename!r}" if error.filename is not None else ""
        refusal = f"the system refused{name}: {error.strerror}; choose another place or ask for access"
        return console.error(_told(refusal, error), BAD_INPUT)
    again = "run again with --debug for a traceback, which may hold values of the table"
    return console.error(_told(f"internal error ({type(error).__name__})", error, again), INTERNAL_ERROR)


app = typer.Typer(
    name="understudy",
    cls=Root,
    help=ROOT_HELP,
    epilog="Example: understudy try patients.csv --target readmitted",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for part in (jobs, schemas, models, evidence, ledgers, bundles):
    part.add_to(app)
for add_to in extras.load("command").values():
    add_to(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from synth.extras import VERSION

        typer.echo(f"understudy {VERSION}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Holds the options of the command itself."""


def _terminate(number: int, frame: FrameType | None) -> None:
    """A polite end cleans up like Ctrl-C does."""
    sys.exit(128 + number)


def hold_descriptors() -> None:
    """Keep the place of a standard stream that was closed before this process began.

    The next file that is opened would take its number, and what other code writes to that number would go into the
    file. Nothing can be written to what is opened in its place, and whoever tries is told.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free
            setattr(sys, name, os.fdopen(handle, mode, encoding="utf-8", errors="backslashreplace", closefd=False))


def main() -> None:
    hold_descriptors()
    signal.signal(signal.SIGTERM, _terminate)
    # Threads that wait by spinning make torch many times slower on a machine that has other work too.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if "--debug" not in sys.argv:
        # Warnings and logs of libraries may quote values of the table.
        warnings.simplefilter("ignore")
        if not {"--quiet", "-q"} & set(sys.argv):
            warnings.simplefilter("once", TableNote)
            warnings.showwarning = show_table_note
        logging.getLogger().addHandler(logging.NullHandler())
    app()
