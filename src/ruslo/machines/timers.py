"""All deadlines of a machine in one heap.

Heartbeats, commits and transactions postpone a deadline thousands of times for each one that expires.
Postponing a timer therefore only stores the new deadline; its heap entry moves when it reaches the top.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

COMPACTION_MIN_ENTRIES = 1_024
"""A heap that is larger than this and more than half stale is rebuilt."""


class Timers(Generic[KeyT]):
    __slots__ = ("_deadlines", "_heap", "_order")

    def __init__(self) -> None:
        self._deadlines: dict[KeyT, int] = {}
        self._heap: list[tuple[int, int, KeyT]] = []
        """Every timer has an entry at its deadline or before; the top entry is always at a deadline."""
        self._order = count()

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: KeyT, deadline_ms: int) -> None:
        """Start the timer, or move it."""
        known_ms = self._deadlines.get(key)
        self._deadlines[key] = deadline_ms
        heap = self._heap
        if known_ms is None or deadline_ms < known_ms:
            heappush(heap, (deadline_ms, next(self._order), key))
            if len(heap) > COMPACTION_MIN_ENTRIES and len(heap) > 2 * len(self._deadlines):
                self._compact()
        self._refresh_top()

    def set_once(self, key: KeyT, deadline_ms: int) -> None:
        """Start the timer unless it is running."""
        if key not in self._deadlines:
            self.set(key, deadline_ms)

    def cancel(self, key: KeyT) -> None:
        if self._deadlines.pop(key, None) is not None:
            self._refresh_top()

    def get(self, key: KeyT) -> int | None:
        """The timer's deadline; None if it is not set."""
        return self._deadlines.get(key)

    def clear(self) -> None:
        self._deadlines.clear()
        self._heap.clear()

    def deadline_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> KeyT | None:
        """Remove and return the timer with the earliest deadline, if that has been reached."""
        heap = self._heap
        if not heap or heap[0][0] > now_ms:
            return None
        key = heappop(heap)[2]
        del self._deadlines[key]
        self._refresh_top()
        return key

    def _refresh_top(self) -> None:
        """Remove or move entries of cancelled and postponed timers until the top entry is valid."""
        heap, deadlines = self._heap, self._deadlines
        while heap:
            at_ms, _, key = heap[0]
            deadline_ms = deadlines.get(key)
            if deadline_ms == at_ms:
                return
            if deadline_ms is not None and deadline_ms > at_ms:
                heapreplace(heap, (deadline_ms, next(self._order), key))
            else:
                heappop(heap)

    def _compact(self) -> None:
        self._heap = [(at_ms, next(self._order), key) for key, at_ms in self._deadlines.items()]
        heapify(self._heap)
