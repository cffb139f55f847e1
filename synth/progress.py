"""What a notebook and a terminal show: progress of work with a bar, objects in brief, and small tables."""

import reprlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from itertools import islice
from typing import Any

Progress = Callable[[str, float | None], None]
"""Called with what is being done and the share done in [0, 1], or `None` where the share is unknown."""

EVERY_S = 0.2  # seconds between changes of a bar while it says the same; a new label is shown at once


def quiet(label: str, share: float | None) -> None:
    """A `Progress` that shows nothing."""


@contextmanager
def shown(progress: Progress | None) -> Iterator[Progress]:
    """The progress to tell while a block lasts: where none is named, a bar in a notebook, which is gone at its end."""
    display = _display() if progress is None else None
    if display is None:
        yield quiet if progress is None else progress
        return
    bar = _Bar(display)
    try:
        yield bar.tell
    finally:
        bar.remove()


def show(thing: object) -> None:
    """Show an object as a notebook does, and elsewhere, or a text, on standard error."""
    display = _display()
    if display is None or isinstance(thing, str):
        sys.stderr.write(f"{thing}\n")
    else:
        display(thing)


def _display() -> Any:
    """IPython's function to show something that changes later; `None` where no notebook runs this."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return ipython.display.display if hasattr(shell, "kernel") else None


class _Bar:
    """One bar in the output of a cell; needs no widgets."""

    def __init__(self, display: Any) -> None:
        self._display, self._handle = display, None
        self._label, self._due = "", 0.0

    def tell(self, label: str, share: float | None) -> None:
        now = time.monotonic()
        if label == self._label and now < self._due:
            return
        self._label, self._due = label, now + EVERY_S
        value = "" if share is None else f' value="{min(max(share, 0.0), 1.0):.3f}"'
        bar = f'<progress max="1"{value} style="width: 16rem; vertical-align: middle"></progress>'
        self._show(label, f"<div>{bar} {escape(label)}</div>")

    def remove(self) -> None:
        if self._handle is not None:
            self._show("", "")

    def _show(self, text: str, html: str) -> None:
        bundle = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = self._display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


MOST_ROWS = 200  # rows of a table that is shown; the rest is counted
WIDTH = 80  # characters of a line in a terminal

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = 6
_SHORT.maxstring = _SHORT.maxother = 120


def brief_repr(thing: object) -> str:
    """The `__repr__` of a model or a dataclass with long content: without what is empty, and with long lists cut.

    A field of `repr=False`, such as a key, is not shown.
    """
    kind: Any = type(thing)
    declared = kind.model_fields if hasattr(kind, "model_fields") else kind.__dataclass_fields__
    values = {name: getattr(thing, name) for name, field in declared.items() if field.repr}
    fields = (f"{name}={_SHORT.repr(value)}" for name, value in values.items() if not _is_empty(value))
    return f"{kind.__name__}({', '.join(fields)})"


def _is_empty(value: object) -> bool:
    return value is None or value is False or (isinstance(value, str | tuple | list | dict) and not value)


def text_table(rows: Iterable[Sequence[str]]) -> str:
    """A table as indented lines of at most `WIDTH` characters; where they are longer, the widest column is cut."""
    shown, n_more = _first(rows)
    widths = [max(map(len, cells)) for cells in zip(*shown, strict=True)]
    excess = sum(widths) + 2 * len(widths) - WIDTH
    if excess > 0:
        widths[widths.index(max(widths))] = max(max(widths) - excess, 1)
    lines = (
        "".join(f"  {_cut(cell, width):{width}}" for cell, width in zip(cells, widths, strict=True)) for cells in shown
    )
    more = [f"  and {n_more:,} more"] if n_more else []
    return "\n".join([*(line.rstrip() for line in lines), *more])


def _cut(text: str, longest: int) -> str:
    """A text of at most so many characters, none of which moves a cursor or turns a line around."""
    text = "".join(c if c.isprintable() else "\ufffd" for c in text[: longest + 1])
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _first(rows: Iterable[Sequence[str]]) -> tuple[list[Sequence[str]], int]:
    """The rows that are shown, and how many are not."""
    remaining = iter(rows)
    shown = list(islice(remaining, MOST_ROWS))
    return shown, sum(1 for _ in remaining)


def html_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a caption; the first cell of a row is its heading."""
    shown, n_more = _first(rows)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in shown
    )
    if n_more:
        body += f'<tr><td colspan="{len(header)}">and {n_more:,} more</td></tr>'
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
