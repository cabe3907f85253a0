"""The memory that large requests may take while they arrive: ``queued.max.request.bytes``.

A connection takes memory for a frame of more than ``LARGE_FRAME_BYTES`` once that much of it has arrived, and
gives it back when the request has been handled. As in Kafka a grant may exceed the memory that is left, so
that a frame as large as the whole budget is served. A connection without memory does not read; connections
get memory in the order of their requests for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

LARGE_FRAME_BYTES = 1024 * 1024
"""Smaller frames are not counted: every connection may have a buffer of this size."""


class RequestMemory:
    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.taken_bytes = 0
        self._waiting: deque[tuple[int, Callable[[], bool]]] = deque()

    @property
    def is_short(self) -> bool:
        """Whether connections wait for memory."""
        return bool(self._waiting)

    def take(self, size: int, when_granted: Callable[[], bool]) -> bool:
        """Take memory now, or wait: ``when_granted`` is called then and returns whether it is wanted."""
        if not self._waiting and self.taken_bytes < self.max_bytes:
            self.taken_bytes += size
            return True
        self._waiting.append((size, when_granted))
        return False

    def give_back(self, size: int) -> None:
        self.taken_bytes -= size
        while self._waiting and self.taken_bytes < self.max_bytes:
            wanted, when_granted = self._waiting.popleft()
            self.taken_bytes += wanted
            if not when_granted():
                self.taken_bytes -= wanted
