"""The tutorials as a reader follows them: every block of a page in order, in an empty folder."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
FENCE = re.compile(r"^```(\w+)(?: title=\"([\w.-]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, with the output that the page shows for it."""

    language: str
    title: str
    text: str
    output: str | None


def blocks(page: Path) -> Iterator[Block]:
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    for (language, title, text), (after, _, shown) in zip(found, [*found[1:], ("", "", "")], strict=True):
        if language != "text":
            yield Block(language, title, text, shown if after == "text" else None)


def is_like(shown: str, told: str) -> bool:
    """True where a page shows an output: white space counts once, and `...` stands for anything."""
    pieces = (re.escape(" ".join(piece.split())) for piece in shown.split("..."))
    return re.fullmatch(".*".join(pieces), " ".join(told.split())) is not None


def shell(text: str) -> str:
    """The standard output of some commands; a command that fails ends them."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("UNDERSTUDY_")},
        "PATH": f"{Path.cwd() / '.bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(Path.cwd() / ".config"), "COLUMNS": "120",
    }  # fmt: skip
    ran = subprocess.run(["bash", "-e"], input=text, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, f"{text}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def python(text: str, names: dict[str, Any]) -> str:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(text, "<tutorial>", "exec"), names)
    return told.getvalue()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, but for the patients' script and the command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    shutil.copy(ROOT / "docs/tutorials/patients.py", tmp_path)
    (tmp_path / ".bin").mkdir()
    command = tmp_path / ".bin/understudy"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m understudy "$@"\n')
    command.chmod(0o755)
    return tmp_path


@pytest.mark.tutorial
def test_every_block_of_the_readme_runs_in_order_as_it_is_written(place: Path) -> None:
    """But for `make`; a verdict, which a small table decides as it likes, is no error."""
    shell("python patients.py 900")
    shell("head -451 patients.csv > train.csv && (head -1 patients.csv && tail -450 patients.csv) > holdout.csv")
    shell("python -c \"import pandas as pd; t = pd.read_csv('holdout.csv').iloc[::-1]; t.to_parquet('beta.parquet')\"")
    shell("(head -1 train.csv && tail -400 train.csv) > acme.csv")
    for block in blocks(ROOT / "README.md"):
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "sh" and "make demo" not in block.text:
            for line in block.text.splitlines():
                shell(f"{line.partition('#')[0]} || {{ code=$?; [ $code = 1 ] || [ $code = 3 ]; }}")
    assert Path("result/to-hand-on/auto.csv").exists()


@pytest.mark.tutorial
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_block_of_a_tutorial_does_what_the_page_says(page: Path, place: Path) -> None:
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
