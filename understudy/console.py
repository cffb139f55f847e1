"""The console, the one place that prints: results on standard output, everything else on standard error.

Nothing below this module prints, and nothing here is given a cell value of a real table. A full disk or a closed
descriptor ends no work. It is remembered, and the command then ends in 2, whatever its verdict. The exit codes of all
commands stand here, too.
"""

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    import rich.console
    import rich.progress

DONE, FAILED, BAD_INPUT, INCONCLUSIVE, INTERNAL_ERROR = range(5)
INTERRUPTED, CLOSED_PIPE, TERMINATED = 130, 141, 143

VERDICTS = {"PASS": DONE, "FAIL": FAILED, "INCONCLUSIVE": INCONCLUSIVE}
"""The exit code of each verdict."""


Tell = Callable[[str, float | None], None]
"""A `synth.progress.Progress`; spelled here so that help needs no libraries."""


_Stream = Literal["stdout", "stderr"]
_STREAMS: Mapping[_Stream, str] = {"stdout": "standard output", "stderr": "standard error"}
_ANSWERS = (DONE, FAILED, INCONCLUSIVE)
"""Exit codes of a command that did what it was asked to."""
_STYLES = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow"}


@dataclass(frozen=True)
class Console:
    """Output by verbosity and stream. A line stays one line: characters that are not printable are escaped."""

    quiet: bool = False
    json: bool = False
    debug: bool = False
    unsaid: "dict[_Stream, str]" = field(default_factory=dict, init=False, repr=False, compare=False)

    def say(self, *texts: str) -> None:
        for text in () if self.quiet else texts:
            self._line("stderr" if self.json else "stdout", text)

    def note(self, *texts: str) -> None:
        for text in () if self.quiet else texts:
            self._line("stderr", text)

    def warn(self, *sentences: str) -> None:
        """What somebody should know; nothing stops for it."""
        self.note(*(f"Warning: {sentence.rstrip('.')}." for sentence in sentences))

    def error(self, text: str, code: int) -> int:
        """The one sentence of an error; the exit code is returned."""
        try:
            self._line("stderr", f"Error: {text}" if text.endswith("?") else f"Error: {text.rstrip('.')}.")
            if self.json:
                self._line("stdout", _json({"error": text, "exit_code": code}))
        except BrokenPipeError:
            pass  # nobody reads on, and the exit code says it
        return code

    def trace(self, text: str) -> None:
        self._write("stderr", text)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str | list[str]]]) -> None:
        """A table of texts; a list is a cell of several lines."""
        if self.quiet:
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        name: _Stream = "stderr" if self.json else "stdout"
        page = io.StringIO()  # rich ends the process itself where it finds a closed pipe, with the exit code of FAIL
        printer = _rich(page, force_terminal=getattr(sys, name).isatty())
        lines = [[[cell] if isinstance(cell, str) else cell for cell in row] for row in rows]
        cells = [["\n".join(map(printable, cell)) for cell in row] for row in lines]
        widths = [max(map(len, column)) + 2 for column in zip(headings, *cells, strict=True)]
        if not printer.is_terminal:  # in a file no line is too long, and nothing may be cut off
            printer.width = max(printer.width, sum(widths) + len(widths))  # with what stands between the columns
        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
        for position, heading in enumerate(headings):
            fits = sum(widths[:-1]) < printer.width and position + 1 < len(headings)
            table.add_column(heading, no_wrap=fits, overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell, style=_STYLES.get(cell.partition(" ")[0], "")) for cell in row))
        printer.print(table)
        self._write(name, page.getvalue())

    def result(self, content: Mapping[str, Any]) -> None:
        """The result for machines; printed only where JSON is asked for, and once."""
        if not self.json:
            return
        if self.unsaid and content.get("exit_code", DONE) in _ANSWERS:
            content = {**content, "exit_code": BAD_INPUT, "error": self._loss}
        self._line("stdout", _json(content))

    def ending(self, code: int) -> int:
        """The exit code with which to leave: a verdict counts only where all that was to be said of it could be."""
        for name in _STREAMS:
            self._write(name, "")
        if not self.unsaid or code not in _ANSWERS:
            return code
        if "stderr" not in self.unsaid or not (self.json or self.quiet):
            other: _Stream = "stdout" if "stderr" in self.unsaid else "stderr"
            self._line(other, f"Error: {self._loss}.")
        return BAD_INPUT

    @property
    def _loss(self) -> str:
        lost = " and ".join(f"{_STREAMS[name]} cannot be written ({why})" for name, why in self.unsaid.items())
        return f"{lost}, so that what was to be said there is lost; name a place that takes it, or pass --quiet"

    def _line(self, name: "_Stream", text: str) -> None:
        self._write(name, f"{printable(text)}\n")

    def _write(self, name: "_Stream", text: str) -> None:
        """Write a text at once; what cannot be written is remembered, and never tried again."""
        stream: TextIO = getattr(sys, name)
        if name in self.unsaid:
            return
        try:
            if text:  # a full disk refuses to take nothing, too
                stream.write(text)
            stream.flush()
        except BrokenPipeError:
            _drop(stream)
            raise
        except OSError as error:
            self.lose(name, error)

    def lose(self, name: "_Stream", error: OSError) -> None:
        self.unsaid[name] = error.strerror or type(error).__name__
        _drop(getattr(sys, name))

    @contextmanager
    def stage(self, label: str) -> Iterator[Tell]:
        """A stage under way: a bar with the time left on a terminal, a line at its start elsewhere."""
        if self.quiet or self.json or not sys.stderr.isatty():
            self.note(f"{label} ...")
            yield lambda _label, _share: None
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        started = time.monotonic()
        description = TextColumn("{task.description}", markup=False)
        columns = (description, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=_rich(sys.stderr), transient=True) as bars:
            yield _teller(bars, label)
        self.note(f"{label}: {time.monotonic() - started:.1f} s")


def show_table_note(message: Warning | str, *_: Any, **__: Any) -> None:
    """A `TableNote` as a line beside the result, in the place of Python's own form of warnings."""
    Console().note(f"Note: {message}.")


def printable(text: str) -> str:
    """A text on one line that moves no cursor and hides nothing, whatever names of columns and tables are in it.

    >>> len(printable("a" + chr(27))), len(printable("a" + chr(10)))
    (5, 3)
    """
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def _drop(stream: TextIO) -> None:
    """Let what is still buffered for a stream go nowhere; at its end Python would try again, and fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _json(content: Mapping[str, Any]) -> str:
    """JSON on one line, with what is not printable written as JSON escapes."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in text)


def _rich(stream: TextIO, *, force_terminal: bool | None = None) -> "rich.console.Console":
    from rich.console import Console as RichConsole

    return RichConsole(file=stream, markup=False, highlight=False, emoji=False, force_terminal=force_terminal)


def _teller(bars: "rich.progress.Progress", stage: str) -> Tell:
    """Moves one bar; work that starts over starts it anew, so that the time left is that work's own."""
    task = bars.add_task(stage, total=None)
    reached = 0.0

    def tell(label: str, share: float | None) -> None:
        nonlocal reached
        done = share or 0.0
        if done < reached:
            bars.reset(task)
        reached = done
        shown = printable(f"{stage}: {label}")
        bars.update(task, description=shown, total=None if share is None else 1.0, completed=done)

    return tell


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them.

    >>> duration(4.4), duration(150), duration(9000)
    ('4 s', '2 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.2g} h"
