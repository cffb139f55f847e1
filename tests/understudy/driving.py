"""Processes that run command lines, one after the other, and kill them at planned moments."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RUN = ["run", "job.toml", "--out", "out", "--quiet"]
SCRIPT = Path(__file__).parent / "driver.py"


@dataclass(frozen=True)
class Driver:
    """The process that runs the command line and kills it."""

    process: "subprocess.Popen[str]"

    def attempt(self, folder: Path, *, die_at: int | str | None = None, arguments: list[str] = RUN) -> int:
        """The exit code of one attempt; -9 where it died as planned."""
        asked = {"folder": str(folder), "arguments": arguments, "die_at": die_at}
        code: int = json.loads(answer(self.process, asked))
        return code


def answer(process: "subprocess.Popen[str]", asked: object) -> str:
    """The line that a process answers to what it is asked."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(asked) + "\n")
    process.stdin.flush()
    return process.stdout.readline()


@contextmanager
def serving(folder: Path, script: Path, *arguments: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A script at work, with a key of its own in the folder and nothing of the caller's settings; it is ended."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("UNDERSTUDY")}
    process = subprocess.Popen(
        [sys.executable, script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**kept, "UNDERSTUDY_KEY_FILE": str(folder / "fingerprint.key"), **environment},
    )  # fmt: skip
    yield process
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait(timeout=60)
    process.stdout.close()
