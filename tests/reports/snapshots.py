"""Rendered output as text that is kept beside the tests: `SNAPSHOTS=write pytest tests/reports` writes it anew."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path

FOLDER = Path(__file__).with_name("snapshots")
BLOCKS = re.compile("p|li|tr|h[1-4]|d[tdl]|caption|summary|figcaption|section|details|figure")


class _Lines(HTMLParser):
    """The words of a page, one block a line, without pictures, style and script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self._inside = "", 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside += tag in ("svg", "style", "script")
        self.text += "\n" if BLOCKS.fullmatch(tag) else " | " if tag in ("td", "th") else ""

    def handle_endtag(self, tag: str) -> None:
        self._inside -= tag in ("svg", "style", "script")
        self.text += "\n" if BLOCKS.fullmatch(tag) else ""

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.text += re.sub(r"\s+", " ", data)


def words_of(page: str) -> str:
    """The text that a page shows, line by line."""
    lines = (re.sub(r" {2,}", " ", line).strip(" |") for line in _Lines(page).text.splitlines())
    return "\n".join(line for line in lines if line) + "\n"


def check_snapshot(name: str, text: str) -> None:
    path = FOLDER / name
    if os.environ.get("SNAPSHOTS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{name} reads otherwise; look at it, then write it anew"
