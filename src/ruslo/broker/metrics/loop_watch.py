"""How the event loop is doing: how late it is, and how much of the time it works.

One thread serves everybody, so whoever keeps it, keeps all. A timer that should come every 50 ms measures by
how much it comes late: that is what a request would have waited, too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic_ns, thread_time_ns

from ruslo.broker.counters.durations import Durations

TICK_S = 0.05
_WINDOW_NS = 10_000_000_000
_WINDOWS = 6


class LoopWatch:
    """Looks back over the last minute, in windows of ten seconds."""

    def __init__(self) -> None:
        self.stalls = Durations()
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns = 0
        self._longest_ns = 0
        self._past: deque[tuple[int, int, int]] = deque(maxlen=_WINDOWS)
        """When each window ended, the thread's processor time then, and the longest stall in it."""

    def start(self) -> None:
        self._past.append((monotonic_ns(), thread_time_ns(), 0))
        self._tick_later()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def longest_stall_ns(self) -> int:
        return max(self._longest_ns, *(longest for _, _, longest in self._past), 0)

    @property
    def busy_ns(self) -> int:
        """Processor time of the loop's thread, which must be the one that asks."""
        return thread_time_ns()

    @property
    def idle_share(self) -> float:
        """Of the last minute; 1.0 when nothing was to be done."""
        began_ns, busy_ns, _ = self._past[0]
        elapsed_ns = monotonic_ns() - began_ns
        if elapsed_ns <= 0:
            return 1.0
        return min(max(1.0 - (thread_time_ns() - busy_ns) / elapsed_ns, 0.0), 1.0)

    def _tick_later(self) -> None:
        # Not the loop's own clock, which stands still within a turn.
        self._due_ns = monotonic_ns() + int(TICK_S * 1e9)
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now_ns = monotonic_ns()
        late_ns = max(now_ns - self._due_ns, 0)
        self.stalls.observe(late_ns)
        self._longest_ns = max(self._longest_ns, late_ns)
        if now_ns - self._past[-1][0] >= _WINDOW_NS:
            self._past.append((now_ns, thread_time_ns(), self._longest_ns))
            self._longest_ns = 0
        self._tick_later()
