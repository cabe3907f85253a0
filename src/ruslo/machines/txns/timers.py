"""All deadlines of a shard in one heap.

Every transaction moves the deadline of its id, thousands of times for every one that runs out. So a timer
that moves away only notes its new deadline; the heap finds out when the old one comes up. Until then
``deadline_ms`` may be too early, never too late: whoever comes for it finds nothing due, and asks again.
"""

from __future__ import annotations

import enum
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple


class TimerKind(enum.IntEnum):
    ABORT = 0
    """An open transaction's time is up."""
    RETRY = 1
    """Markers or completions that did not get through are tried again (no id)."""
    EXPIRY = 2
    """Ids that nobody has used for long are forgotten (no id)."""
    HELD = 3
    """Requests have waited long enough for the end of their client's last transaction."""


class TimerKey(NamedTuple):
    kind: TimerKind
    transactional_id: str = ""


class Timers:
    __slots__ = ("_deadlines", "_heap", "_order", "_queued")

    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, int] = {}
        self._queued: dict[TimerKey, int] = {}
        """Where a timer's entry in the heap is: at its deadline or before. Other entries of it are void."""
        self._heap: list[tuple[int, int, TimerKey]] = []
        self._order = count()

    def set(self, key: TimerKey, deadline_ms: int) -> None:
        """Start the timer, or move it."""
        self._deadlines[key] = deadline_ms
        queued_ms = self._queued.get(key)
        if queued_ms is None or deadline_ms < queued_ms:
            self._queue(key, deadline_ms)

    def set_once(self, key: TimerKey, deadline_ms: int) -> None:
        """Start the timer, unless it runs already."""
        if key not in self._deadlines:
            self.set(key, deadline_ms)

    def clear(self) -> None:
        self._deadlines.clear()
        self._queued.clear()
        self._heap.clear()

    def deadline_ms(self) -> int | None:
        """When to call ``pop_due``."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> TimerKey | None:
        """A timer whose deadline has come; it is no longer set."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            at_ms, _, key = heappop(heap)
            if self._queued.get(key) != at_ms:
                continue
            deadline_ms = self._deadlines[key]
            if deadline_ms > now_ms:
                self._queue(key, deadline_ms)
                continue
            del self._deadlines[key], self._queued[key]
            return key
        return None

    def _queue(self, key: TimerKey, at_ms: int) -> None:
        self._queued[key] = at_ms
        heappush(self._heap, (at_ms, next(self._order), key))
