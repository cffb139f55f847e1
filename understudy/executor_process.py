"""The life of a process that does pieces of work: it holds a lock, and ends with the process that started it.

It is run by its path, and gets its work through a connection. Standard input is a pipe that nobody writes to: its end
says that whoever started the process is gone, however that ended. The lock is held for as long as the process lives, so
that no later start touches its work while it may still draw. Heavy libraries are imported once the lock is held.
"""

import os
import pickle
import select
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

FIRST_TO_GO = "500"
"""Of a job for a system that runs out of memory (-1000 to 1000): the batch stays, and tells what happened."""


def main() -> None:
    """Do what comes through the connection that `sys.argv[1]` numbers."""
    number = int(sys.argv[1])
    os.set_inheritable(number, False)
    pipe = Connection(number)
    lifeline = os.dup(0)  # what the work starts inherits neither end
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        sys.path[:], lock, session, alone = pipe.recv()
        _live(pipe, lifeline, (lock, session), alone)


def _live(pipe: Connection, lifeline: int, files: tuple[str, str | None], alone: bool) -> None:
    from filelock import FileLock

    lock, session = files
    if alone:
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(FIRST_TO_GO, encoding="ascii")
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with FileLock(lock):
        # The lock first: a later start that did not see it comes after this look.
        if select.select([lifeline], [], [], 0)[0] or (session is not None and not Path(session).exists()):
            return
        threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
        carry_out = pickle.loads(pipe.recv()).begin()  # noqa: S301 - of the process that started this one
        while True:
            pipe.send(carry_out(pipe.recv()))
            if alone:
                return


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)  # what is on the disk is whole at any moment


if __name__ == "__main__":
    main()
