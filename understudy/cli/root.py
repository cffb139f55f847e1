"""The frame of every command: options that stand anywhere, exit codes, and errors as one sentence."""

import importlib.util
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
import typer.core
from typer.core import TyperGroup

from synth.errors import BadInput, MissingExtra
from understudy.console import BAD_INPUT, CLOSED_PIPE, DONE, FAILED, INTERNAL_ERROR, INTERRUPTED, TERMINATED, Console

typer.core.HAS_RICH = False  # help is plain text, in which typer before 0.21 escapes brackets as if it were not
_FLAGS = {"--quiet": "quiet", "-q": "quiet", "--json": "json", "--debug": "debug"}
_UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""The class of all errors in the use of the command line, wherever this version of Typer keeps it."""

MARKER = '__distribution__ = "understudy-tables"'
"""A line of our `evaluate/__init__.py` that no other package of that name has."""


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
