"""The tutorials as a reader follows them: every block of a page in order, in an empty folder."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.understudy.pages import ROOT, blocks, client, sandbox, shell

__all__ = ["client", "sandbox"]  # fixtures

TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))


def is_like(shown: str, told: str) -> bool:
    """True where a page shows an output: white space counts once, and `...` stands for anything."""
    pieces = (re.escape(" ".join(piece.split())) for piece in shown.split("..."))
    return re.fullmatch(".*".join(pieces), " ".join(told.split())) is not None


def python(text: str, names: dict[str, Any]) -> str:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(text, "<tutorial>", "exec"), names)
    return told.getvalue()


@pytest.mark.tutorial
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_block_of_a_tutorial_does_what_the_page_says(page: Path, sandbox: Path) -> None:
    names: dict[str, Any] = {"__name__": "tutorial"}
    done = 0
    for block in blocks(page):
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
            continue
        if block.language not in ("sh", "python"):
            continue
        told = shell(block.text) if block.language == "sh" else python(block.text, names)
        done += 1
        if block.output is not None and not is_like(block.output, told):
            pytest.fail(f"{page.name} shows\n{block.output}\nfor\n{block.text}\nwhich says\n{told}")
    assert done >= 3


def test_an_output_is_compared_but_for_dots_and_white_space() -> None:
    assert is_like("a  b\n...\nc ...\n", " a b\nc d")
    assert not is_like("a b\n...\nc", "a b\nc d")
    assert not is_like("0.9... of 3", "0.8 of 3")


def test_the_pages_are_found() -> None:
    """Guards the test above: a manual without tutorials would pass."""
    assert len(TUTORIALS) >= 5
