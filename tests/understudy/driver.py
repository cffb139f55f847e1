"""Runs of the command line that are killed at planned moments, each in a process of its own.

A script, since what is tested is the death of a process: it loads everything once and forks for each attempt. Read
from standard input: a list of attempts, each with its folder, arguments and the moment to die at. A moment is the
entry to or the return from something that touches the disk, the ledger or the noise; they are logged by name. Every
draw is logged too, with what it would cost.
"""

import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import evaluate  # noqa: F401  - loaded once, before the forks
import reports  # noqa: F401
from synth.dp.ledger import Ledger
from synth.dp.mechanisms import SystemNoise
from synth.errors import BadInput
from synth.generators.base import PrivateGenerator
from understudy.cli import main

SCHEDULES: dict[str, Any] = {}
WARM: set[str] = set()


class Moments:
    """Counts moments, logs them, and dies at the planned one: by number, by name, or the n-th of a name, "name#n"."""

    def __init__(self, folder: Path, die_at: int | str | None) -> None:
        self._folder, self._die_at, self._n, self._named = folder, die_at, 0, Counter[str]()

    def pass_by(self, name: str) -> None:
        self.log("moments.log", name)
        if self._die_at in (self._n, name, f"{name}#{self._named[name]}"):
            os.kill(os.getpid(), signal.SIGKILL)
        self._n, self._named[name] = self._n + 1, self._named[name] + 1

    def log(self, file: str, line: str) -> None:
        handle = os.open(self._folder / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{line}\n".encode())
        os.close(handle)

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            self.pass_by(f"{name}:before")
            answer = call(*arguments, **options)
            self.pass_by(f"{name}:after")
            return answer

        return wrapped

    def drawing(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(noise: Any, values: Any, scale: float) -> Any:
            self.pass_by(f"{name}:before")
            answer = call(noise, values, scale)
            self.log("draws.log", json.dumps([name, float(scale)]))
            self.pass_by(f"{name}:after")
            return answer

        return wrapped


def install(moments: Moments) -> None:
    for name in ("reserve", "use", "charge", "commit"):
        setattr(Ledger, name, moments.around(name, getattr(Ledger, name)))
    for name in ("gaussian", "noisy_max"):
        setattr(SystemNoise, name, moments.drawing(name, getattr(SystemNoise, name)))
    os.fsync = moments.around("fsync", os.fsync)
    remove = shutil.rmtree
    shutil.rmtree = lambda path, **options: moments.around(f"rmtree {Path(path).name}", remove)(path, **options)
    Path.replace = moments.around("replace", Path.replace)


def remember_schedules() -> None:
    """Calibrating takes most of a short run, and is the same in each."""
    original = PrivateGenerator.schedule

    def schedule(self: PrivateGenerator, schema: Any) -> Any:
        key = f"{type(self).__name__} {self.model_dump_json()} {schema.model_dump_json()}"
        if key not in SCHEDULES:
            SCHEDULES[key] = original(self, schema)
        return SCHEDULES[key]

    PrivateGenerator.schedule = schedule


def attempt(folder: Path, arguments: list[str], die_at: int | str | None) -> int:
    """The exit code of one process, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        with (folder / "stderr.txt").open("a") as errors, (folder / "stdout.txt").open("a") as text:
            os.dup2(errors.fileno(), 2)
            os.dup2(text.fileno(), 1)
        (folder / "moments.log").unlink(missing_ok=True)
        install(Moments(folder, die_at))
        sys.argv = ["understudy", *arguments]
        code = 4
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def serve() -> None:
    remember_schedules()
    for line in sys.stdin:
        asked = json.loads(line)
        warm_up(Path(asked["folder"]))
        code = attempt(Path(asked["folder"]), asked["arguments"], asked["die_at"])
        sys.stdout.write(f"{json.dumps(code)}\n")
        sys.stdout.flush()


def warm_up(folder: Path) -> None:
    """A fork's findings die with it."""
    from understudy.run.plan import make_plan

    content = (folder / "job.toml").read_text()
    if content in WARM:
        return
    WARM.add(content)
    with suppress(BadInput):  # whatever the job is, its schedules are remembered by then
        _ = make_plan(folder / "job.toml", folder / "not there").warnings


if __name__ == "__main__":
    serve()
