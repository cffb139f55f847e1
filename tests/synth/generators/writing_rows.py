"""Processes that write synthetic rows and are killed on the way.

A script, since what is tested is the death of a process: it loads the model once and forks for each attempt. Read from
standard input, a line an attempt: the output folder, and when to die, in seconds after the start or as the number of a
call that touches the disk. Answered: the exit code, -9 where it was killed.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from synth.generators.models.chunked_output import write_rows
from synth.generators.registry import load_model

ROWS, ROWS_A_FILE, SEED = 900, 100, 5
TOUCHES = ("fsync", "replace", "rename", "unlink", "mkdir")


def dying(call: Callable[..., Any], numbers: "count[int]", die_at: int) -> Callable[..., Any]:
    """A call that is the end of its process when its number comes up."""

    def called(*arguments: Any, **options: Any) -> Any:
        if next(numbers) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)

    return called


def attempt(model: Any, out: Path, die_at: int | None) -> None:
    numbers = count()
    for name in TOUCHES:
        if die_at is not None:
            setattr(os, name, dying(getattr(os, name), numbers, die_at))
    write_rows(model, out, ROWS, seed=SEED, rows_a_file=ROWS_A_FILE)


def main() -> None:
    model = load_model(sys.argv[1])
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            attempt(model, Path(asked["out"]), asked.get("die_at"))
            os._exit(0)
        if asked.get("after_s") is not None:
            time.sleep(asked["after_s"])
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
