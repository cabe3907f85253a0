"""Measures the event loop: how late its timers are, and how much of the time it works.

One thread serves all requests, so a callback that takes long delays every one of them. A timer that is due
every 50 ms measures by how much it is late: a request would have waited as long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import thread_time_ns

from ruslo.broker.counters.durations import Durations
from ruslo.model.clock import Clock

TICK_S = 0.05
_WINDOW_NS = 10_000_000_000
_WINDOWS = 6


class LoopWatch:
    """Keeps the last minute, in windows of ten seconds."""

    def __init__(self, clock: Clock) -> None:
        # The clock of the event loop stands still within an iteration.
        self._now_ns = clock.monotonic_ns
        self.stalls = Durations()
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns = 0
        self._longest_ns = 0
        self._past: deque[tuple[int, int, int]] = deque(maxlen=_WINDOWS)
        """For each window: its end, the CPU time of the thread then, and the longest stall."""

    def start(self) -> None:
        self._past.append((self._now_ns(), thread_time_ns(), 0))
        self._tick_later()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def longest_stall_ns(self) -> int:
        return max(self._longest_ns, *(longest for _, _, longest in self._past), 0)

    @property
    def busy_ns(self) -> int:
        """CPU time of the event loop's thread; only that thread may read it."""
        return thread_time_ns()

    @property
    def idle_share(self) -> float:
        """The share of the last minute in which the event loop had nothing to do: 0.0 to 1.0."""
        began_ns, busy_ns, _ = self._past[0]
        elapsed_ns = self._now_ns() - began_ns
        if elapsed_ns <= 0:
            return 1.0
        return min(max(1.0 - (thread_time_ns() - busy_ns) / elapsed_ns, 0.0), 1.0)

    def _tick_later(self) -> None:
        self._due_ns = self._now_ns() + int(TICK_S * 1e9)
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now_ns = self._now_ns()
        late_ns = max(now_ns - self._due_ns, 0)
        self.stalls.observe(late_ns)
        self._longest_ns = max(self._longest_ns, late_ns)
        if now_ns - self._past[-1][0] >= _WINDOW_NS:
            self._past.append((now_ns, thread_time_ns(), self._longest_ns))
            self._longest_ns = 0
        self._tick_later()
