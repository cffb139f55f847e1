"""The life of a job's process: it runs one command and ends with its batch.

Standard input is a pipe that nobody writes to: its end says that the batch is over, however that ended. The process
holds a lock for as long as it lives, so that no later start touches a job's work while this one may still draw.
"""

import os
import select
import sys
import threading
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

FIRST_TO_GO = "500"
"""Of a job for a system that runs out of memory (-1000 to 1000): the batch stays, and tells what happened."""


def main() -> None:
    """Run the command in `sys.argv[2:]` under the lock that `sys.argv[1]` names."""
    lock, *command = sys.argv[1:]
    lifeline = os.dup(0)  # what the command starts inherits neither end
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_GO, encoding="ascii")
    with FileLock(lock):
        # The lock first: a later start that did not see it comes after this look.
        if select.select([lifeline], [], [], 0)[0]:
            return
        threading.Thread(target=_end_with_batch, args=(lifeline,), daemon=True).start()
        sys.argv = [sys.argv[0], *command]
        from understudy.cli import main as carry_out

        carry_out()


def _end_with_batch(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)  # what is on the disk is whole at any moment


if __name__ == "__main__":
    main()
