"""A child process of a channel, which ends with the process that started it.

Parent and child share a socket pair that no other process has. Its end tells each of them that the other is gone,
however that ended, so that neither is left behind.
"""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

PACKAGE_ROOT = Path(__file__).resolve().parents[3]
"""The folder that this package is imported from."""
JOINED, ENDED, LOST, REFUSED, ASKED = b"J", b"E", b"L", b"R", b"Q"
"""First bytes of what a SuperNode tells its site: it joined; the run is over; the server is gone; the server refused
it; a request."""
REPLY, FAILED = b"A", b"F"
"""First bytes of what a site tells its SuperNode: a reply; the lack of one."""
GRACE_S = 5.0
"""Seconds that a child has to end by itself before it is killed."""


@dataclass(frozen=True)
class Child:
    """A started child."""

    process: "subprocess.Popen[bytes]"
    pipe: Connection
    log: Path

    def close(self) -> None:
        """Tell the child to end by closing the pipe, and wait until it has."""
        with suppress(OSError):
            self.pipe.close()
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(module: str, folder: Path, name: str) -> Child:
    """A child that runs a module of this package, with its end of the pipe numbered by its first argument."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    ours, theirs = Pipe()
    try:
        with log.open("wb") as file:
            process = subprocess.Popen(  # noqa: S603 - a module of ours, and no shell
                [sys.executable, "-P", "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=_environment(folder),
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is the parent's business
            )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return Child(process, ours, log)


def _environment(folder: Path) -> dict[str, str]:
    """The environment of a child: Flower reports to nobody and writes nothing outside the folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLWR_")}
    return kept | {
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


def parent_connection(number: str) -> Connection:
    """A child's end of the pipe, from its first argument; what the child starts does not inherit it."""
    os.set_inheritable(int(number), False)
    return Connection(int(number))


def wait_for(pipe: Connection, timeout_s: float) -> bytes | None:
    """The next message of a pipe; `None` where its other end is gone or the time is up."""
    try:
        return pipe.recv_bytes() if pipe.poll(timeout_s) else None
    except (EOFError, OSError):
        return None
