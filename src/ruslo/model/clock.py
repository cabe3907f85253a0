"""The port through which all code reads the time, so that tests and the simulator can control it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Return the wall clock, in milliseconds since the Unix epoch. It may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Return a time that never goes back; only differences between two readings mean something."""
        ...

    def monotonic_ns(self) -> int:
        """Return the same in nanoseconds, to measure how long something takes."""
        ...


class SystemClock:
    monotonic_ns = staticmethod(time.monotonic_ns)
    """The function itself: the scheduler and the dispatcher read it very often."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
