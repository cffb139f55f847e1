"""The one place that prints: results on standard output, everything else on standard error.

Nothing below this module prints, and nothing here is given a cell value of a real table.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import rich.console
    import rich.progress

Tell = Callable[[str, float | None], None]
"""A `synth.generators.base.Progress`; spelled here so that help needs no libraries."""


@dataclass(frozen=True)
class Console:
    """How much is said, and to whom. A line stays one line: what is not printable in a text is escaped.

    Attributes:
        quiet: nothing but errors (and the JSON, where it is asked for).
        json: one JSON object on standard output; what people read goes to standard error.
        debug: a traceback for internal errors; it may hold values of the table.
    """

    quiet: bool = False
    json: bool = False
    debug: bool = False

    def say(self, text: str) -> None:
        """A line of the result."""
        if not self.quiet:
            _plain(sys.stderr if self.json else sys.stdout, text)

    def note(self, text: str) -> None:
        """A line beside the result."""
        if not self.quiet:
            _plain(sys.stderr, text)

    def warn(self, text: str) -> None:
        """One sentence that somebody should know; nothing stops for it."""
        self.note(f"Warning: {text}.")

    def error(self, text: str, code: int) -> int:
        """The one sentence of an error; the exit code is returned."""
        _plain(sys.stderr, f"Error: {text}" if text.endswith("?") else f"Error: {text.rstrip('.')}.")
        if self.json:
            self.result({"error": text, "exit_code": code})
        return code

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str | list[str]]]) -> None:
        """A table of texts; a list is a cell of several lines."""
        if self.quiet:
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        printer = _rich(sys.stderr if self.json else sys.stdout)
        cells = [[_cell(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) + 2 for column in zip(headings, *cells, strict=True)]
        if not printer.is_terminal:  # in a file no line is too long, and nothing may be cut off
            printer.width = max(printer.width, sum(widths) + len(widths))  # with what stands between the columns
        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
        for place, heading in enumerate(headings):
            fits = sum(widths[:-1]) < printer.width and place + 1 < len(headings)
            table.add_column(heading, no_wrap=fits, overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell, style=_STYLES.get(cell.partition(" ")[0], "")) for cell in row))
        printer.print(table)

    def result(self, content: Mapping[str, Any]) -> None:
        """The result for machines; printed only where JSON is asked for, and once."""
        if self.json:
            _plain(sys.stdout, _escaped(json.dumps(content, ensure_ascii=False, allow_nan=False)))

    @contextmanager
    def stage(self, label: str) -> Iterator[Tell]:
        """A stage under way: a bar with the time left on a terminal, a line at its start elsewhere."""
        if self.quiet or self.json or not sys.stderr.isatty():
            self.note(f"{label} ...")
            yield lambda _label, _share: None
            return
        started = time.monotonic()
        with _bars() as bars:
            yield _teller(bars, label)
        self.note(f"{label}: {time.monotonic() - started:.1f} s")


_STYLES = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow"}


def printable(text: str) -> str:
    """A text on one line that moves no cursor and hides nothing, whatever names of columns and tables are in it.

    >>> len(printable("a" + chr(27))), len(printable("a" + chr(10)))
    (5, 3)
    """
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _cell(lines: str | list[str]) -> str:
    return printable(lines) if isinstance(lines, str) else "\n".join(map(printable, lines))


def _plain(stream: TextIO, text: str) -> None:
    stream.write(f"{printable(text)}\n")
    stream.flush()


def _escaped(text: str) -> str:
    """JSON that means the same, with what is not printable written as JSON escapes."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def _rich(stream: TextIO) -> "rich.console.Console":
    from rich.console import Console as RichConsole

    return RichConsole(file=stream, markup=False, highlight=False, emoji=False)


def _bars() -> "rich.progress.Progress":
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=_rich(sys.stderr), transient=True)


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
