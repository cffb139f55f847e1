"""Processes that run command lines, one after the other, and kill them at planned moments; what was drawn and paid."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synth.dp.accounting import rdp_curve
from synth.dp.events import Event, GaussianEvent, SelectionEvent
from synth.dp.ledger import open_ledger
from synth.dp.renyi_curve import ORDERS, RdpCurve

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


def prepared(workspace: Any, name: str, *, total: float | None = 10.0, **changes: Any) -> Path:
    """A folder with a table, a schema, a job and, unless there is no total, a ledger."""
    folder: Path = workspace.folder / name
    folder.mkdir()
    inner = type(workspace)(folder)
    shutil.copy(workspace.folder / "table.csv", folder / "table.csv")
    inner.write_schema(dataset="patients")
    ledger = {} if total is None else {"ledger": {"url": "ledger.db"}}
    inner.write_job(**{"evaluation": {"measures": ["validity"]}, **ledger, **changes})
    if total is not None:
        open_ledger(folder / "ledger.db").open("patients", unit="row", epsilon=total, n_units=900)
    return folder


def moments(folder: Path) -> list[str]:
    return (folder / "moments.log").read_text().splitlines()


def draws(folder: Path) -> list[Event]:
    """Everything that was drawn, whoever died after it; one row is one unit, which moves a score or a count by one."""
    path = folder / "draws.log"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [
        GaussianEvent("a draw", sigma=scale) if name == "gaussian" else SelectionEvent("a choice", epsilon=2 / scale)
        for name, scale in lines
    ]


def charged(folder: Path) -> RdpCurve:
    (holding,) = open_ledger(folder / "ledger.db").holdings()
    return holding.curve


def assert_paid(folder: Path) -> None:
    """At every order, the ledger holds at least what all draws together cost."""
    paid, cost = charged(folder).divergences, rdp_curve(draws(folder)).divergences
    short = [order for order, p, c in zip(ORDERS, paid, cost, strict=True) if p < c * (1 - 1e-9)]
    assert not short, f"{len(draws(folder))} draws are not paid for"


def one_sentence(folder: Path) -> str:
    """What a refused attempt said."""
    (line,) = (folder / "stderr.txt").read_text().splitlines()
    assert line.startswith("Error: ") and line.endswith(".")
    return line
