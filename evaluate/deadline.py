"""A time limit on a block of code."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

AGAIN_S = 0.5
"""The alarm repeats: one that rings inside a destructor or a callback is lost."""


class OutOfTimeError(BaseException):
    """The time is up. Not an `Exception`, so that no library in between takes it for an error of its own."""


class _Rung(KeyboardInterrupt):
    """What the alarm raises in the block: to libraries a Ctrl-C, at which a driver ends its query on the server."""


@dataclass
class _Bell:
    """Whether the alarm rang, and whether it may still."""

    rang: bool = False
    over: bool = False

    def ring(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if self.over or _dealt_with(sys.exc_info()[1]):
            return
        self.rang = True
        raise _Rung


@contextmanager
def deadline(limit_s: float | None) -> Iterator[None]:
    """Run a block for so long at most.

    It takes the alarm clock of the process, so it works in the main thread only; elsewhere, and where the system has no
    such clock, the block runs to its end. An alarm that was set before is set again afterwards.

    Once the alarm has rung, whatever the block ends in is what that made of it: a driver's error for a query that was
    cut short, or half a result. Before, a Ctrl-C is the user's own.

    Args:
        limit_s: wall seconds, above 0; none for no limit.

    Raises:
        OutOfTimeError: the block had not ended by then, and was left where it was.
    """
    alarm = getattr(signal, "SIGALRM", None)
    if limit_s is None or alarm is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    began, bell = time.monotonic(), _Bell()
    earlier = signal.signal(alarm, bell.ring)
    left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
    try:
        try:
            yield
        finally:
            bell.over = True
    except BaseException:
        if not bell.rang:
            raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(alarm, earlier)
        if left_s > 0.0:
            signal.setitimer(signal.ITIMER_REAL, max(left_s - (time.monotonic() - began), 0.001), interval_s)
    if bell.rang:
        raise OutOfTimeError


def _dealt_with(error: BaseException | None) -> bool:
    """Whether an alarm that rang before is being handled, as by a driver that waits for its query to be cancelled."""
    while error is not None and not isinstance(error, _Rung):
        error = error.__context__
    return error is not None
