"""A limit of processor time for a piece of work, where the system has one to give (a main thread on POSIX).

Processor time, since a verdict should not depend on what else a machine does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["OutOfTime", "limited"]


class OutOfTime(BaseException):
    """The work took too long. No Exception, so that nothing on the way takes it for a failure of its own."""


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Raises OutOfTime inside after that much processor time; no limit but in the main thread of POSIX."""
    if seconds is None or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
