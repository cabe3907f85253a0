"""Virtual time: an hour passes as fast as its events can be handled."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random

EPOCH_MS = 1_700_000_000_000
"""The default wall clock time at monotonic zero."""


class Timer:
    """A scheduled call that ``cancel`` prevents."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> bool:
        """Make the call; False if it was cancelled."""
        callback, self._callback = self._callback, None
        if callback is None:
            return False
        callback()
        return True


class SimClock:
    """A ``model.clock.Clock`` that moves only when it is advanced, and the random source of a run."""

    def __init__(self, seed: int = 0, *, epoch_ms: int = EPOCH_MS) -> None:
        self.random = Random(seed)
        self._now_ms = 0
        self._epoch_ms = epoch_ms
        self._due: list[tuple[int, int, Timer]] = []
        self._order = count()

    def now_ms(self) -> int:
        return self._epoch_ms + self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def monotonic_ns(self) -> int:
        return self._now_ms * 1_000_000

    def jump(self, duration_ms: int) -> None:
        """Move the wall clock alone, as an operator or NTP may; ``duration_ms`` may be negative."""
        self._epoch_ms += duration_ms

    def call_at(self, at_ms: int, callback: Callable[[], object]) -> Timer:
        """Schedule a call on the monotonic clock; calls for the same moment are made in order."""
        timer = Timer(callback)
        heappush(self._due, (max(at_ms, self._now_ms), next(self._order), timer))
        return timer

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> Timer:
        return self.call_at(self._now_ms + delay_ms, callback)

    def step(self, until_ms: int | None = None) -> bool:
        """Advance to the next call due by ``until_ms`` and make it; False if there is none."""
        while self._due and (until_ms is None or self._due[0][0] <= until_ms):
            at_ms, _, timer = heappop(self._due)
            self._now_ms = at_ms
            if timer.fire():
                return True
        return False

    def run_for(self, duration_ms: int) -> None:
        """Advance the time and make all calls that become due."""
        end_ms = self._now_ms + duration_ms
        while self.step(end_ms):
            pass
        self._now_ms = end_ms
