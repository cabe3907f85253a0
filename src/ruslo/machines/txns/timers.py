"""All deadlines of a shard in one heap.

Every transaction moves the deadline of its id, thousands of times for every one that runs out. So a timer
that moves away only notes its new deadline; the heap finds out when the old one comes up.
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


class TimerKey(NamedTuple):
    kind: TimerKind
    transactional_id: str = ""


class Timers:
    __slots__ = ("_deadlines", "_heap", "_order")

    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, int] = {}
        self._heap: list[tuple[int, int, TimerKey]] = []
        self._order = count()

    def set(self, key: TimerKey, deadline_ms: int) -> None:
        """Start the timer, or move it."""
        known = self._deadlines.get(key)
        self._deadlines[key] = deadline_ms
        if known is None or deadline_ms < known:
            heappush(self._heap, (deadline_ms, next(self._order), key))

    def set_once(self, key: TimerKey, deadline_ms: int) -> None:
        """Start the timer, unless it runs already."""
        if key not in self._deadlines:
            self.set(key, deadline_ms)

    def clear(self) -> None:
        self._deadlines.clear()
        self._heap.clear()

    def deadline_ms(self) -> int | None:
        self._settle_top()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> TimerKey | None:
        """The timer that is due longest; it is no longer set."""
        self._settle_top()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        key = heappop(self._heap)[2]
        del self._deadlines[key]
        return key

    def _settle_top(self) -> None:
        """Bring entries that have moved to where they belong."""
        heap, deadlines = self._heap, self._deadlines
        while heap:
            at_ms, _, key = heap[0]
            current = deadlines.get(key)
            if current == at_ms:
                return
            heappop(heap)
            if current is not None and current > at_ms:
                heappush(heap, (current, next(self._order), key))
