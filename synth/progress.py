"""Progress of work: a label and the share that is done, and the bar that a notebook shows of it."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
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
        """Show what is being done."""
        now = time.monotonic()
        if label == self._label and now < self._due:
            return
        self._label, self._due = label, now + EVERY_S
        value = "" if share is None else f' value="{min(max(share, 0.0), 1.0):.3f}"'
        bar = f'<progress max="1"{value} style="width: 16rem; vertical-align: middle"></progress>'
        self._show(label, f"<div>{bar} {escape(label)}</div>")

    def remove(self) -> None:
        """Leave nothing that is seen."""
        if self._handle is not None:
            self._show("", "")

    def _show(self, text: str, html: str) -> None:
        bundle = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = self._display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
