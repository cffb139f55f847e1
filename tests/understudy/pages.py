"""Pages as a reader follows them: their blocks, in an empty folder."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.understudy.command_server import CLIENT

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
    result = FENCE.findall(page.read_text(encoding="utf-8"))
    for (language, title, text), (after, _, shown) in zip(result, [*result[1:], ("", "", "")], strict=True):
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


@pytest.fixture(scope="session")
def client() -> Iterator[str]:
    """The text of a program that is the command."""
    with TemporaryDirectory(prefix="u") as folder:  # a short name: that of a socket may have 108 bytes
        path = f"{folder}/s"
        command = [sys.executable, Path(__file__).with_name("command_server.py"), path]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("UNDERSTUDY_")}
        environment = {**kept, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as server:
            assert server.stdout is not None and server.stdout.readline() == b"ready\n"
            yield CLIENT.format(python=sys.executable, path=path)
            server.terminate()


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str) -> Path:
    """An empty folder, but for the patients' script and the command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    shutil.copy(ROOT / "docs/tutorials/patients.py", tmp_path)
    (tmp_path / ".bin").mkdir()
    command = tmp_path / ".bin/understudy"
    command.write_text(client)
    command.chmod(0o755)
    return tmp_path
