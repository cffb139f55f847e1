"""Pages as a reader follows them: their blocks, in an empty folder."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
