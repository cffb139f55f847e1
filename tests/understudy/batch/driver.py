"""Batches whose draws are logged, and whose jobs die at planned moments.

A script, since what is tested is the death of processes: it loads everything once and forks for each.
"""

import importlib.util
import json
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from understudy.cli import main
from understudy.executors import child
from understudy.executors import processes as workers


def beside(name: str) -> ModuleType:
    """The driver of single runs, which is no module of a package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent.parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Forked:
    """A job's process by its number alone."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def forked(single: ModuleType, folder: Path, plan: dict[str, Any]) -> Any:
    """What takes the place of starting a process anew."""

    def started(
        channel: int, lifeline: int, log: Path, threads: dict[str, str], home: Path, apart: bool
    ) -> Forked:  # fmt: skip
        pid = os.fork()
        if pid:
            return Forked(pid)
        code = 4
        try:
            os.setsid()
            os.dup2(lifeline, 0)
            text = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(text, 1)
            os.dup2(text, 2)
            os.closerange(3, channel)  # the lifeline's other end and the locks are the batch's
            os.closerange(channel + 1, 256)
            os.environ.update(threads)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            moments = Moments(single, folder, log.stem, plan)
            single.install(moments)
            sys.argv = ["child", str(channel)]
            child.main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os._exit(code)

    return started


def Moments(single: ModuleType, folder: Path, name: str, plan: dict[str, Any]) -> Any:
    """Moments of one job; at the planned one it, its batch, or both are killed."""

    class Planned(single.Moments):  # type: ignore[misc,name-defined]
        def pass_by(self, moment: str) -> None:
            if plan.get("job") != name or plan.get("moment") not in (moment, None):
                return
            if self._n == plan["nth"]:
                if "batch" in plan["kill"]:
                    os.kill(os.getppid(), signal.SIGKILL)
                if "job" in plan["kill"]:
                    os.kill(os.getpid(), signal.SIGKILL)
            self._n += 1

    return Planned(folder, None)


def serve() -> None:
    """Batches as standard input asks for them, each forked; the answer is its exit status."""
    import sqlalchemy.dialects.sqlite  # noqa: F401

    import evaluate  # noqa: F401  - loaded once, before the forks
    import reports  # noqa: F401
    import understudy.run.run  # noqa: F401

    single = beside("driver")
    single.remember_schedules()
    for line in sys.stdin:
        asked = json.loads(line)
        folder = Path(asked["folder"])
        for path in sorted(folder.glob("*.toml")):
            if path.name != "schema.toml":
                warm_up(path)
        pid = os.fork()
        if pid == 0:
            os.chdir(folder)
            with (folder / "said.txt").open("a") as text:
                os.dup2(text.fileno(), 1)
                os.dup2(text.fileno(), 2)
            workers.started = forked(single, folder, asked.get("plan") or {})
            sys.argv = ["understudy", *asked["arguments"]]
            code = 4
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
            finally:
                os._exit(code)
        sys.stdout.write(f"{Forked(pid).wait()}\n")
        sys.stdout.flush()


WARM: set[tuple[str, ...]] = set()


def warm_up(path: Path) -> None:
    """Calibrating takes most of a short run; a fork's findings die with it."""
    from synth.errors import BadInput
    from understudy.run.plan import make_plan

    content = (path.read_text(), (path.parent / "schema.toml").read_text())
    if content not in WARM:
        WARM.add(content)
        try:
            make_plan(path, path.parent / "not there")
        except BadInput:
            return


if __name__ == "__main__":
    serve()
