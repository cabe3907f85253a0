"""All deadlines of a shard in one heap.

Sessions are renewed with every heartbeat and commit, thousands of times for every one that runs out. So a
timer that moves away only notes its new deadline; the heap finds out when the old one comes up.
"""

from __future__ import annotations

import enum
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple


class TimerKind(enum.IntEnum):
    SESSION = 0
    """A member's heartbeats."""
    JOIN = 1
    """A classic group's rebalance: the members have joined by then, or are dropped."""
    INITIAL_DELAY = 2
    """An empty classic group waits for more members."""
    SYNC = 3
    """A classic group's members have fetched their assignment by then, or are dropped."""
    PENDING = 4
    """A member id was given out and has not come back yet."""
    ADOPT = 5
    """A classic group has come out of a consumer group: its sessions and a rebalance begin."""
    SWEEP = 6
    """Expired offsets and groups (no group id)."""
    TOPICS_DELETED = 7
    """Offsets of deleted topics are still to be removed (no group id)."""
    REBALANCE = 8
    """A consumer group's member has revoked what it must by then, or is dropped (KIP-848)."""
    REGEX = 9
    """A consumer group's patterns are matched again."""
    ASSIGNMENT = 10
    """A consumer group's next target may be computed."""


class TimerKey(NamedTuple):
    group_id: str
    member_id: str | None
    kind: TimerKind


_COMPACT_FROM = 1_024


class Timers:
    __slots__ = ("_deadlines", "_heap", "_order")

    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, int] = {}
        self._heap: list[tuple[int, int, TimerKey]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, group_id: str, member_id: str | None, kind: TimerKind, deadline_ms: int) -> None:
        """Start the timer, or move it."""
        key = TimerKey(group_id, member_id, kind)
        known = self._deadlines.get(key)
        self._deadlines[key] = deadline_ms
        if known is None or deadline_ms < known:
            heappush(self._heap, (deadline_ms, next(self._order), key))
            if len(self._heap) > _COMPACT_FROM and len(self._heap) > 2 * len(self._deadlines):
                self._compact()

    def cancel(self, group_id: str, member_id: str | None, kind: TimerKind) -> None:
        self._deadlines.pop(TimerKey(group_id, member_id, kind), None)

    def get(self, group_id: str, member_id: str | None, kind: TimerKind) -> int | None:
        """When it will fire; None if it is not set."""
        return self._deadlines.get(TimerKey(group_id, member_id, kind))

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
        """Bring entries that were cancelled or have moved away to where they belong."""
        heap, deadlines = self._heap, self._deadlines
        while heap:
            at_ms, _, key = heap[0]
            current = deadlines.get(key)
            if current == at_ms:
                return
            heappop(heap)
            if current is not None and current > at_ms:
                heappush(heap, (current, next(self._order), key))

    def _compact(self) -> None:
        self._heap = [(at_ms, next(self._order), key) for key, at_ms in self._deadlines.items()]
        heapify(self._heap)
