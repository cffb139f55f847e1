"""The command line. Libraries are imported inside commands, so that help answers at once.

Exit codes: 0 done or PASS, 1 FAIL, 2 bad input, 3 INCONCLUSIVE, 4 internal error, 130 interrupted.
"""

import logging
import os
import signal
import sys
import warnings
from types import FrameType
from typing import Annotated

import typer

from synth import extras
from synth.errors import TableNote
from understudy.cli import (
    audits,
    batches,
    bundles,
    checks,
    evidence,
    jobs,
    ledgers,
    models,
    quickstart,
    schemas,
    vendors,
)
from understudy.cli.root import Root
from understudy.console import show_table_note

ROOT_HELP = """A real table goes in; a synthetic table comes out, with the evidence for deciding on its release.

Anywhere on the line: --quiet says nothing but errors, --json prints one JSON object on standard output (all else goes
to standard error), --debug shows the traceback of an internal error, which may hold values of the table.

Exit codes: 0 done or PASS, 1 FAIL, 2 bad input, 3 INCONCLUSIVE, 4 internal error."""

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
for part in (quickstart, jobs, batches, schemas, checks, models, evidence, vendors, ledgers, audits, bundles):
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
