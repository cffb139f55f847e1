"""A time limit on a block of code."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 0.5
"""The alarm repeats: one that rings inside a destructor or a callback is lost."""


class OutOfTimeError(BaseException):
    """The time is up. Not an `Exception`, so that no library in between takes it for an error of its own."""


@contextmanager
def deadline(limit_s: float | None) -> Iterator[None]:
    """Run a block for so long at most.

    It takes the alarm clock of the process, so it works in the main thread only; elsewhere, and where the system has no
    such clock, the block runs to its end. An alarm that was set before is set again afterwards.

    Args:
        limit_s: wall seconds, above 0; none for no limit.

    Raises:
        OutOfTimeError: the block had not ended by then, and was left where it was.
    """
    alarm = getattr(signal, "SIGALRM", None)
    if limit_s is None or alarm is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    began = time.monotonic()
    earlier = signal.signal(alarm, _ring)
    left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(alarm, earlier)
        if left_s > 0.0:
            signal.setitimer(signal.ITIMER_REAL, max(left_s - (time.monotonic() - began), 0.001), interval_s)


def _ring(number: int, frame: FrameType | None) -> None:
    raise OutOfTimeError
