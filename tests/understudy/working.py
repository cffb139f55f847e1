"""Work for executors that needs no table, in a module that processes can import."""

import os
import time
from collections.abc import Callable


class Scripted:
    """Work whose pieces say by their names what is to happen."""

    def begin(self) -> Callable[[str], str]:
        def carry_out(name: str) -> str:
            what, _, value = name.partition(":")
            return getattr(self, what)(value) or ""

        return carry_out

    def pid(self, _: str) -> str:
        return str(os.getpid())

    def threads(self, _: str) -> str:
        return f"{os.environ['OMP_NUM_THREADS']} {os.environ['MKL_NUM_THREADS']}"

    def die(self, value: str) -> None:
        os.kill(os.getpid(), int(value))

    def leave(self, value: str) -> None:
        os._exit(int(value))

    def sleep(self, value: str) -> None:
        time.sleep(float(value))
